"""Batches of Simple messages to rows on Arrow columns. Source: Simple protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Reason, SchemaKey, TableSchema
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion, with_names
from tidecast.protocols.simple._avro import DML, MARK, beginning
from tidecast.protocols.simple._avro_messages import AvroMessages
from tidecast.protocols.simple._heads import KINDS, Heads, Messages, Side, sort_out
from tidecast.protocols.simple._json_messages import JsonMessages
from tidecast.protocols.simple._message import ROW_OPS
from tidecast.values import BYTES, row_type, to_numpy, valid

_UPDATE, _DELETE = KINDS["UPDATE"], KINDS["DELETE"]
_OPS = pa.array([str(op) for op in ROW_OPS.values()], TAG)


@dataclass(frozen=True)
class SimpleDecoder(Decoder):
    """Reads Simple messages with the schemas that it was given; each tells by its first byte whether it is Avro.

    A row whose schema is not among them is rejected: control messages are read before any row. `zone` is that of
    TIMESTAMP values which name none.
    """

    schemas: Mapping[SchemaKey, TableSchema]
    zone: str = "UTC"

    def of(self, version: TableVersion) -> SimpleDecoder:
        """See `Decoder.of`."""
        key = version.schema.key
        return replace(self, schemas={key: self.schemas[key]})

    def only(self, names: frozenset[bytes]) -> SimpleDecoder:
        """Return a decoder that has nothing to read: no row is unknown. See `Decoder.only`."""
        return replace(self, schemas={})

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. Rows tell their checksum without `values`, too."""
        contents = messages.column("value").cast(BYTES)
        avro = np.asarray(pc.fill_null(pc.starts_with(contents, MARK), False))
        found = []
        for mine, read in ((~avro, JsonMessages), (avro, AvroMessages)):
            at = np.flatnonzero(mine)
            if at.size:
                found.append(self._decoded(read(contents, at), at, values=values))
        return _together(found)

    def _decoded(self, messages: Messages, at: np.ndarray, *, values: bool) -> Decoded:
        """Return what messages of one encoding say, `at` their places in the batch."""
        heads = messages.heads
        these = sort_out(heads, messages.unreadable)
        rows: list[Rows] = []
        rejected = [replace(part, at=at[part.at]) for part in these.rejected]
        for key, chosen in _groups(heads, these.rows):
            schema = self.schemas.get(key)
            if schema is None:
                detail = "no schema of {}.{} in version {}".format(*key)
                rejected.append(Rejected.of(at[chosen], Reason.UNKNOWN_TABLE, detail))
                continue
            version = _version(key, schema, avro=isinstance(messages, AvroMessages))
            places = _places(version, messages, chosen, at[chosen])
            rows.append(self._with_values(places, messages, chosen) if values else places)
        times = to_numpy(heads.commit_ts)[these.watermarks]
        return Decoded(rows, rejected, at[these.control], (at[these.watermarks], times))

    def _with_values(self, rows: Rows, messages: Messages, chosen: np.ndarray) -> Rows:
        """Return rows with what they hold, and why one cannot be read."""
        schema, kinds = rows.version.schema, messages.heads.kind[chosen]
        sides, broken = messages.sides(chosen, schema, self.zone)
        bad = [
            (f"{name} {column.name}", cells.wrong)
            for name in ("old", "data")
            if name in sides
            for column, cells in zip(schema.columns, sides[name].columns, strict=True)
            if cells.wrong is not None
        ]
        nobody = np.zeros(len(kinds), bool)
        has = {name: sides[name].there if name in sides else nobody for name in ("old", "data")}
        absent = ~np.where(kinds == _DELETE, has["old"], has["data"])
        reason, detail = with_names(broken, "not a row's record", bad, absent)
        images = {name: _image(schema, side, _filled(name, sides, kinds)) for name, side in sides.items()}
        return replace(rows, **images, reason=reason, detail=detail)


def _together(parts: Sequence[Decoded]) -> Decoded:
    """Return as one what the messages of each encoding say."""
    if len(parts) == 1:
        return parts[0]
    nowhere = np.zeros(0, np.int64)
    return Decoded(
        [rows for part in parts for rows in part.rows],
        [some for part in parts for some in part.rejected],
        np.sort(np.concatenate([nowhere, *(part.control for part in parts)])),
        (
            np.concatenate([nowhere, *(part.watermarks[0] for part in parts)]),
            np.concatenate([nowhere, *(part.watermarks[1] for part in parts)]),
        ),
    )


def _groups(heads: Heads, rows: np.ndarray) -> Iterator[tuple[SchemaKey, np.ndarray]]:
    """Yield the table versions of rows, in the order of their first ones, and the rows of each."""
    if not rows.size:
        return
    chosen = pa.array(rows)
    parts = (part.take(chosen).to_pylist() for part in (heads.database, heads.table, heads.schema_version))
    numbers: dict[SchemaKey, int] = {}
    group = np.array([numbers.setdefault(key, len(numbers)) for key in zip(*parts, strict=True)])
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    for key, part in zip(numbers, members, strict=True):
        yield key, rows[part]


def _version(key: SchemaKey, schema: TableSchema, *, avro: bool) -> TableVersion:
    database, table, version = key
    name = orjson.dumps(["avro" if avro else "json", database, table, str(version)]).decode()
    if avro:
        return TableVersion(name, schema, value_begins=beginning(DML), value_holds=(database.encode(), table.encode()))
    return TableVersion.in_json(name, schema, str(version).encode())


def _places(version: TableVersion, messages: Messages, chosen: np.ndarray, at: np.ndarray) -> Rows:
    """Return rows without what they hold."""
    heads, numbers = messages.heads, pa.array(chosen)
    return Rows.of_places(
        version,
        at,
        _OPS.take(pa.array(heads.kind[chosen])),
        heads.commit_ts.take(numbers),
        table_id=heads.table_id.take(numbers),
        checksum=messages.checksum.take(numbers),
    )


def _image(schema: TableSchema, side: Side, values: Sequence[pa.Array]) -> pa.StructArray:
    there = None if side.there.all() else pa.array(~side.there)
    return pa.StructArray.from_arrays(values, fields=[*row_type(schema)], mask=there)


def _filled(name: str, sides: Mapping[str, Side], kinds: np.ndarray) -> list[pa.Array]:
    """Return the columns of a side; a column that an update does not name in its old row keeps its value."""
    values = [cells.values for cells in sides[name].columns]
    if name != "old" or "data" not in sides:
        return values
    updates = (kinds == _UPDATE) & sides["old"].there & sides["data"].there
    for number, (old, data) in enumerate(zip(sides["old"].columns, sides["data"].columns, strict=True)):
        if old.named is not None:
            gap = updates & ~old.named & valid(data.values)
            if gap.any():
                values[number] = pc.if_else(pa.array(gap), data.values, old.values)
    return values
