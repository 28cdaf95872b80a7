"""Lines of CSV to rows on Arrow columns. Source: Storage sink, CSV files."""

from __future__ import annotations

from binascii import a2b_hex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._csv_format import CsvFormat
from tidecast.model import DataType, Kind, Op, Reason, TableSchema
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion, with_names
from tidecast.protocols._schema_file import Tables
from tidecast.protocols.csv._fields import UNMARKED, fields_of
from tidecast.values import (
    BYTES,
    bytes_of_base64,
    bytes_read,
    enum_number,
    from_text,
    null_where,
    nulls,
    refused,
    row_type,
    set_mask,
    shift_zone,
    text_of_bytes,
    valid,
    whole,
)

_QUOTED = (Kind.TEXT, Kind.BINARY, Kind.ENUM, Kind.SET, Kind.JSON)
"""What stands in quotation marks and could be any text, also that which is NULL by a setting that nobody told."""
_UNMARKED_TEXT = "has a text without quotation marks, which is not the null of [sink.csv]"
_OPS = {b"I": Op.CREATE, b"U": Op.UPDATE, b"D": Op.DELETE}


@dataclass(frozen=True)
class CsvDecoder(Decoder):
    """Reads lines of CSV files, whose keys begin with those of their table versions. `zone` is that of TIMESTAMP."""

    tables: Tables
    form: CsvFormat = field(default_factory=CsvFormat)
    zone: str = "UTC"

    def of(self, version: TableVersion) -> CsvDecoder:
        """See `Decoder.of`."""
        key = version.name.encode()
        return replace(self, tables={key: self.tables[key]})

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what lines say."""
        keys = messages.column("key").cast(BYTES).dictionary_encode()
        known = [_version_of(key, self.tables) for key in keys.dictionary.to_pylist()]
        numbers = np.asarray(pc.fill_null(keys.indices, len(known)))
        of_line = np.array([*known, b""], object)[numbers]
        lines = messages.column("value").cast(BYTES)
        rows: list[Rows] = []
        rejected: list[Rejected] = []
        for key in dict.fromkeys([*known, b""]):
            at = np.flatnonzero(of_line == key)
            if not at.size:
                continue
            if not key:
                rejected.append(Rejected.of(at, Reason.UNKNOWN_TABLE, "no schema file tells its table version"))
                continue
            mine = lines if len(at) == len(lines) else lines.take(pa.array(at))
            made, bad = self._rows(key, at, mine, values=values)
            rows += [made] if len(made.at) else []
            rejected += bad
        return Decoded(rows, rejected)

    def _rows(self, key: bytes, at: np.ndarray, lines: pa.Array, *, values: bool) -> tuple[Rows, list[Rejected]]:
        """Return the rows of a table version, and those lines that are none of it."""
        schema, meta = self.tables[key], self.form.meta
        expected = len(meta) + len(schema.columns)
        texts = [n for n, c in enumerate(schema.columns, len(meta)) if c.data_type.kind in _QUOTED]
        fields, counts = fields_of(lines, self.form, expected, texts)
        told = dict(zip(meta, fields, strict=False))
        rejected: list[Rejected] = []
        good = counts == expected
        if not good.all():
            what = f"where {expected} are expected: {', '.join(meta)}, and {len(schema.columns)} columns"
            other = {0: "cannot be split into fields", UNMARKED: _UNMARKED_TEXT}
            shown = (other.get(n, f"has {n} fields, {what}") for n in counts[~good].tolist())
            details = pa.array((f"the line {text}" for text in shown), TAG)
            rejected.append(Rejected.of(at[~good], Reason.BAD_MESSAGE, details))
        for wrong, detail in self._wrong(schema, told):
            new = good & wrong
            if new.any():
                rejected.append(Rejected.of(at[new], Reason.BAD_MESSAGE, detail))
                good &= ~new
        if not good.all():
            kept = pa.array(np.flatnonzero(good))
            fields, at = [column.take(kept) for column in fields], at[good]
            told = dict(zip(meta, fields, strict=False))
        ops = [_OPS[op] for op in told["operation"].to_pylist()]
        commit_ts = whole(text_of_bytes(told["commit-ts"]), pa.int64()) if "commit-ts" in told else None
        version = TableVersion(key.decode(), schema, shows_before=False, key_begins=key)
        made = Rows.of_places(version, at, pa.array(map(str, ops), TAG), commit_ts)
        return (self._with_values(made, fields[len(meta) :]) if values else made), rejected

    def _wrong(self, schema: TableSchema, told: Mapping[str, pa.Array]) -> Iterator[tuple[np.ndarray, str]]:
        """Yield the faults that lines may have before their values: which have it, and its text."""
        operation = pc.is_in(told["operation"], pa.array([*_OPS], BYTES))
        yield ~np.asarray(operation), "its operation is none of I, U, D"
        for name, value in (("table", schema.table), ("schema", schema.database)):
            same = pc.fill_null(pc.equal(told[name], pa.scalar(value.encode(), BYTES)), False)
            yield ~np.asarray(same), f"its {name} is not {value}, as the schema file says"
        if "commit-ts" in told:
            read = whole(text_of_bytes(told["commit-ts"]), pa.int64())
            yield np.asarray(pc.fill_null(pc.less(read, 0), True)), "its commit-ts is no TSO"
        if "is-update" in told:
            truth = pc.is_in(told["is-update"], pa.array([b"true", b"false"], BYTES))
            yield ~np.asarray(truth), "its is-update is neither true nor false"

    def _with_values(self, rows: Rows, fields: list[pa.Array]) -> Rows:
        """Return rows with the values of their columns."""
        schema = rows.version.schema
        columns: list[pa.Array] = []
        bad: list[tuple[str, np.ndarray]] = []
        for column, raw in zip(schema.columns, fields, strict=True):
            if not self.form.quote and not column.nullable:  # without quotation marks NULL and its text look alike
                raw = raw.fill_null(self.form.null.encode())
            value = self._value(column.data_type, raw)
            if (lost := refused(raw, value)) is not None:
                bad.append((column.name, lost))
            columns.append(value)
        deleted = np.asarray(pc.equal(rows.op, Op.DELETE.value))
        reason, detail = with_names(np.zeros(len(deleted), bool), "", bad)
        return replace(
            rows,
            old=_side(schema, columns, deleted),
            data=_side(schema, columns, ~deleted),
            reason=reason,
            detail=detail,
        )

    def _value(self, data_type: DataType, raw: pa.Array) -> pa.Array:
        """Return values of the model from their fields; null for one that is not of its type."""
        text = text_of_bytes(raw)
        if data_type.kind is Kind.TIMESTAMP:
            return shift_zone(text, self.zone, "UTC")
        if data_type.kind is Kind.BINARY:
            return bytes_of_base64(text) if self.form.binary_encoding_method == "base64" else bytes_read(text, a2b_hex)
        listed = _LISTED.get(data_type.kind)
        return null_where(text, ~valid(listed(data_type, text))) if listed else from_text(data_type, text)


def _side(schema: TableSchema, columns: Sequence[pa.Array], there: np.ndarray) -> pa.StructArray:
    """Return the rows before or after changes, null where there is none."""
    if not there.any():
        return nulls(len(there), row_type(schema))
    if not there.all():
        columns = [null_where(column, ~there) for column in columns]
    return pa.StructArray.from_arrays(columns, fields=[*row_type(schema)], mask=pa.array(~there))


_LISTED: Mapping[Kind, Callable[[DataType, pa.Array], pa.Array]] = {Kind.ENUM: enum_number, Kind.SET: set_mask}
"""What gives a null for a text that is none of the column's elements."""


def _version_of(path: bytes, tables: Tables) -> bytes:
    """Return the key of the table version that a data file is of; nothing for a file of none that is known."""
    end = path.rfind(b"/")
    while end > 0:
        if path[: end + 1] in tables:
            return path[: end + 1]
        end = path.rfind(b"/", 0, end)
    return b""
