"""Batches of Canal-JSON messages to rows on Arrow columns. Source: Canal-JSON protocol, rows, values and types."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, InvalidSchema, Kind, Op, Reason
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion, with_names
from tidecast.protocols.canal_json._parse import Said, Texts, parse, shows_twice, text_of
from tidecast.protocols.canal_json._schema import table_schema
from tidecast.values import TEXT, bytes_read, from_text, null_where, refused, row_type, shift_zone

_DECIMAL, _WHOLE = r"^-?[0-9]+(\.[0-9]{1,%d})?$", r"^-?[0-9]+$"
_LONGEST_SCALE = 30


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
        versions: dict[tuple[tuple[object, ...], int | None], list[tuple[int, Said]]] = {}
        for place, one in known:
            if one.op is not None:
                versions.setdefault((one.version, self._changed_before(one)), []).append((place, one))
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
        changed = self.changed.get((row.database, row.table), ())
        before = bisect_right(changed, row.commit_ts) if row.commit_ts is not None else 0
        return changed[before - 1] if before else None

    def _rows(self, version: TableVersion, messages: Sequence[tuple[int, Said]], *, values: bool) -> Rows:
        several = [len(one.rows) for _, one in messages]
        at = np.repeat([place for place, _ in messages], several)
        said = [one for (_, one), count in zip(messages, several, strict=True) for _ in range(count)]
        ops = pa.array([str(one.op) for one in said], TAG)
        places = Rows.of_places(version, at, ops, pa.array([one.commit_ts for one in said], pa.int64()))
        return self._with_values(places, messages) if values else places

    def _with_values(self, rows: Rows, messages: Sequence[tuple[int, Said]]) -> Rows:
        schema = rows.version.schema
        names = [column.name for column in schema.columns]
        shown = [row for _, one in messages for row in one.rows]
        before = [old for _, one in messages for old in (one.old or [None] * len(one.rows))]
        ops = rows.op.to_pylist()
        problems = [_problem(names, *one) for one in zip(ops, shown, before, strict=True)]
        sides: dict[str, pa.StructArray] = {}
        bad: list[tuple[str, np.ndarray]] = []
        for side, taken in (("old", _old), ("data", _new)):
            texts = [
                None if why or row is None else taken(op, row, old)
                for why, op, row, old in zip(problems, ops, shown, before, strict=True)
            ]
            columns = []
            for column in schema.columns:
                raw = pa.array([None if row is None else text_of(row.get(column.name)) for row in texts], TEXT)
                value = self._value(column.data_type, raw)
                if (lost := refused(raw, value)) is not None:
                    bad.append((f"{side} {column.name}", lost))
                columns.append(value)
            there = pa.array([row is None for row in texts], pa.bool_())
            sides[side] = pa.StructArray.from_arrays(columns, fields=[*row_type(schema)], mask=there)
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


def _new(op: str, row: Texts, old: Texts | None) -> Texts | None:
    return None if op == Op.DELETE else row


def _old(op: str, row: Texts, old: Texts | None) -> Texts | None:
    """Return the row before a change. An update may leave out columns that it does not change, or the whole row."""
    if op == Op.DELETE:
        return row
    return {**row, **old} if op == Op.UPDATE and old is not None else None


def _problem(names: Sequence[str], op: str, row: Texts | None, old: Texts | None) -> str | None:
    """Return what is wrong with the columns of a row and of the row before it, None where nothing is."""
    if row is None:
        return "the row is missing"
    known = {*names}
    for shown, whole in ((row, True), (old or {}, False)):
        if strange := [name for name in shown if name not in known]:
            return f"columns without a type: {', '.join(strange)}"
        if whole and (missing := [name for name in names if name not in shown]):
            return f"columns are missing: {', '.join(missing)}"
        if shows_twice(shown):
            return "a column comes twice"
    return None


@lru_cache(4096)
def _version(shape: tuple[object, ...], changed: int | None, since: int) -> TableVersion | str:
    """Return the table version that messages show behind a schema change, or why there can be none like it."""
    database, table, keys, columns, types = shape
    assert isinstance(database, str)
    assert isinstance(table, str)
    try:
        schema = table_schema((database, table), since, columns, dict(types), keys)  # type: ignore[call-overload,arg-type]
    except InvalidSchema as error:
        return str(error)
    return TableVersion.in_json(orjson.dumps([*shape, changed]).decode(), schema)


def _binary(data_type: DataType, text: pa.Array) -> pa.Array:
    """Bytes are characters up to U+00FF."""
    return bytes_read(text, lambda characters: characters.encode("latin-1"))


def _decimal(data_type: DataType, text: pa.Array) -> pa.Array:
    scale = data_type.decimal if data_type.length else _LONGEST_SCALE
    plain = pc.match_substring_regex(text, _DECIMAL % scale if scale else _WHOLE)
    plain = pc.and_(plain, pc.invert(pc.match_substring(text, "\n")))
    return from_text(data_type, null_where(text, ~np.asarray(pc.fill_null(plain, True))))


_READERS: Mapping[Kind, Callable[[DataType, pa.Array], pa.Array]] = {Kind.BINARY: _binary, Kind.DECIMAL: _decimal}
