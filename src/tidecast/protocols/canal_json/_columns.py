"""Batches of Canal-JSON messages to rows on Arrow columns. Source: Canal-JSON protocol, rows, values and types."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from itertools import repeat

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, InvalidSchema, Kind, Op, Reason
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion, with_names
from tidecast.protocols.canal_json._parse import Said, Shape, Texts, parse, shows_twice, text_of
from tidecast.protocols.canal_json._schema import table_schema
from tidecast.values import TEXT, bytes_read, from_text, null_where, refused, row_type, shift_zone

_DECIMAL, _WHOLE = r"^-?[0-9]+(\.[0-9]{1,%d})?$", r"^-?[0-9]+$"
_LONGEST_SCALE = 30
_NOTHING: Texts = {}
"""The row of a side that has none."""


@dataclass(frozen=True)
class CanalDecoder(Decoder):
    """Reads Canal-JSON messages, which tell their tables themselves. `zone` is that of TIMESTAMP text.

    A message may hold several rows, which then have the same place. `changed` are the commit-ts of schema changes by
    database and table, ascending. Rows that look alike before and after one may have another column of the same name.
    """

    zone: str = "UTC"
    changed: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say."""
        said = [parse(value) for value in messages.column("value").to_pylist()]
        rejected = Rejected.each([(place, *one) for place, one in enumerate(said) if not isinstance(one, Said)])
        known = [(place, one) for place, one in enumerate(said) if isinstance(one, Said)]
        versions: dict[tuple[Shape, int | None], list[tuple[int, Said]]] = {}
        for place, one in known:
            if one.op is not None:
                versions.setdefault((one.shape, self._changed_before(one)), []).append((place, one))
        rows: list[Rows] = []
        for (shape, changed), mine in versions.items():
            version = _version(shape, changed, min(one.since for _, one in mine))
            if isinstance(version, TableVersion):
                rows.append(self._rows(version, mine, values=values))
            else:
                rejected.append(Rejected.of(np.array([place for place, _ in mine]), Reason.FOREIGN_SCHEMA, version))
        times = [(place, one.commit_ts) for place, one in known if one.op is None and one.sql is None]
        control = [place for place, one in known if one.sql is not None]
        return Decoded.one_by_one(rows, rejected, control, [(place, ts) for place, ts in times if ts is not None])

    def _changed_before(self, row: Said) -> int | None:
        """Return the commit-ts of the last schema change before a row, if both have one."""
        if row.commit_ts is None or not self.changed:
            return None
        changed = self.changed.get((row.shape.database, row.shape.table), ())
        before = bisect_right(changed, row.commit_ts)
        return changed[before - 1] if before else None

    def _rows(self, version: TableVersion, messages: Sequence[tuple[int, Said]], *, values: bool) -> Rows:
        several = [len(one.rows) for _, one in messages]
        at = np.repeat([place for place, _ in messages], several)
        said = [one for (_, one), count in zip(messages, several, strict=True) for _ in range(count)]
        ops = pa.array([one.op for one in said], TAG)
        places = Rows.of_places(version, at, ops, pa.array([one.commit_ts for one in said], pa.int64()))
        return self._with_values(places, [one for _, one in messages]) if values else places

    def _with_values(self, rows: Rows, messages: Sequence[Said]) -> Rows:
        schema = rows.version.schema
        names = [column.name for column in schema.columns]
        shown = [row for one in messages for row in one.rows]
        before = [old for one in messages for old in one.old or repeat(None, len(one.rows))]
        known = {*names}
        problems = [_problem(known, names, *both) for both in zip(shown, before, strict=True)]
        ops = rows.op.to_pylist()
        sides: dict[str, pa.StructArray] = {}
        bad: list[tuple[str, np.ndarray]] = []
        for side, taken in (("old", _old), ("data", _new)):
            texts = [
                _NOTHING if why or row is None else taken(op, row, old)
                for why, op, row, old in zip(problems, ops, shown, before, strict=True)
            ]
            there = np.array([row is not _NOTHING for row in texts], bool)
            if not there.any():
                continue
            columns = []
            for column, raw in zip(schema.columns, _texts(names, texts), strict=True):
                value = self._value(column.data_type, raw)
                if (lost := refused(raw, value)) is not None:
                    bad.append((f"{side} {column.name}", lost))
                columns.append(value)
            mask = None if there.all() else pa.array(~there)
            sides[side] = pa.StructArray.from_arrays(columns, fields=[*row_type(schema)], mask=mask)
        reason, detail = with_names(np.zeros(len(ops), bool), "", bad)
        why = pa.array(problems, TAG)
        return replace(
            rows,
            **sides,
            reason=pc.if_else(pc.is_valid(why), str(Reason.BAD_VALUE), reason),
            detail=pc.coalesce(why, detail),
        )

    def _value(self, data_type: DataType, text: pa.Array) -> pa.Array:
        """Return values of the model from their texts; null for one that is not of its type."""
        if data_type.kind is Kind.TIMESTAMP:
            return shift_zone(text, self.zone, "UTC")
        read = _READERS.get(data_type.kind)
        return read(data_type, text) if read else from_text(data_type, text)


def _texts(names: Sequence[str], rows: Sequence[Texts]) -> Sequence[pa.Array]:
    """Return the columns of rows as text, null where a row has none."""
    columns = pa.struct([(name, TEXT) for name in names])
    try:
        return pa.array(rows, columns).flatten()  # type: ignore[no-any-return]
    except pa.ArrowTypeError:  # some are no texts
        return _texts(names, [{name: text_of(value) for name, value in row.items()} for row in rows])


def _new(op: str, row: Texts, old: Texts | None) -> Texts:
    return _NOTHING if op == Op.DELETE else row


def _old(op: str, row: Texts, old: Texts | None) -> Texts:
    """Return the row before a change. An update may leave out columns that it does not change, or the whole row."""
    if op == Op.DELETE:
        return row
    return {**row, **old} if op == Op.UPDATE and old is not None else _NOTHING


def _problem(known: Set[str], names: Sequence[str], row: Texts | None, old: Texts | None) -> str | None:
    """Return what is wrong with the columns of a row and of the row before it, None where nothing is."""
    if row is None:
        return "the row is missing"
    for shown, whole in ((row, True), (old, False)):
        if shown is None:
            continue
        if not shown.keys() <= known:
            return f"columns without a type: {', '.join(name for name in shown if name not in known)}"
        if whole and len(shown) < len(known):
            return f"columns are missing: {', '.join(name for name in names if name not in shown)}"
        if shows_twice(shown):
            return "a column comes twice"
    return None


@lru_cache(4096)
def _version(shape: Shape, changed: int | None, since: int) -> TableVersion | str:
    """Return the table version that messages show behind a schema change, or why there can be none like it."""
    try:
        schema = table_schema((shape.database, shape.table), since, shape.columns, dict(shape.types), shape.keys)
    except InvalidSchema as error:
        return str(error)
    return TableVersion.in_json(orjson.dumps([*astuple(shape), changed]).decode(), schema)


def _binary(data_type: DataType, text: pa.Array) -> pa.Array:
    """Bytes are characters up to U+00FF."""
    return bytes_read(text, lambda characters: characters.encode("latin-1"))


def _decimal(data_type: DataType, text: pa.Array) -> pa.Array:
    scale = data_type.decimal if data_type.length else _LONGEST_SCALE
    plain = pc.match_substring_regex(text, _DECIMAL % scale if scale else _WHOLE)
    plain = pc.and_(plain, pc.invert(pc.match_substring(text, "\n")))
    return from_text(data_type, null_where(text, ~np.asarray(pc.fill_null(plain, True))))


def _year(data_type: DataType, text: pa.Array) -> pa.Array:
    """Years; Canal itself shows the year 0 with all its digits."""
    return from_text(data_type, pc.if_else(pc.equal(text, "0000"), "0", text))


_READERS: Mapping[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.BINARY: _binary,
    Kind.DECIMAL: _decimal,
    Kind.YEAR: _year,
}
