"""Records of a storage sink's folder: `metadata` and schema files beside rows. Source: Storage sink, layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Ddl, InvalidSchema, Reason, TableSchema
from tidecast.protocols._decoded import Controls, Decoded, Decoder, Reader, Rejected, Rows, TableVersion
from tidecast.protocols._description import Description
from tidecast.protocols._schema_file import Tables, change_of, read_schema_file, schema_files
from tidecast.values import BYTES

_METADATA = b"metadata"
_SCHEMA_FILE = re.compile(rb"(?:.*/)?meta/schema_[0-9]+_[0-9]+\.json", re.S)
_LINE = (1 << 25) - 1
"""What an offset has of the line in a file."""
_ROWS, _CONTROL, _WATERMARK = range(3)


@dataclass(frozen=True)
class SinkDecoder(Decoder):
    """Reads records whose key is the path of their file; those of data files by `rows`."""

    rows: Decoder

    def of(self, version: TableVersion) -> SinkDecoder:
        """See `Decoder.of`."""
        return replace(self, rows=self.rows.of(version))

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what files say."""
        keys = messages.column("key").cast(BYTES).dictionary_encode()
        kinds = np.array([*map(_kind, keys.dictionary.to_pylist()), _ROWS])
        kind = kinds[np.asarray(pc.fill_null(keys.indices, len(keys.dictionary)))]
        if not kind.any():
            return _with_places(self.rows.decode(messages, values=values), messages)
        at = np.flatnonzero(kind == _ROWS)
        mine = messages.take(pa.array(at))
        told = _with_places(self.rows.decode(mine, values=values), mine)
        marks = np.flatnonzero(kind == _WATERMARK)
        texts = messages.column("value").take(pa.array(marks)).to_pylist()
        return Decoded(
            [replace(rows, at=at[rows.at]) for rows in told.rows],
            [replace(part, at=at[part.at]) for part in told.rejected],
            np.flatnonzero(kind == _CONTROL),
            (marks, np.array([orjson.loads(text)["checkpoint-ts"] for text in texts], np.int64)),
        )


def _kind(key: bytes) -> int:
    return _WATERMARK if key == _METADATA else _CONTROL if _SCHEMA_FILE.fullmatch(key) else _ROWS


def describe_file(key: bytes | None, value: bytes | None) -> Description | None:
    """Return what a schema file or `metadata` says, None for the line of a data file; `key` is the file's path."""
    kind = _kind(key or b"")
    if kind == _ROWS:
        return None
    try:
        if kind == _WATERMARK:
            return Description("WATERMARK", commit_ts=int(orjson.loads(value or b"")["checkpoint-ts"]))
        file = read_schema_file(value or b"")
    except (InvalidSchema, ValueError, TypeError, LookupError):
        return Description()
    columns = [(c.name, str(c.data_type)) for c in file.schema.columns] if file.schema else []
    name = ".".join(filter(None, (file.database, file.table)))
    change = change_of(file, 0)
    return Description(change.type if change else "SCHEMA", name, file.version, file.sql or None, columns)


def _with_places(decoded: Decoded, messages: pa.RecordBatch) -> Decoded:
    """Return what lines say; those that cannot be read with their file and line in the detail."""
    if "offset" not in messages.schema.names:
        return decoded
    keys, offsets = messages.column("key"), messages.column("offset")

    def placed(at: np.ndarray, detail: pa.Array, bad: np.ndarray) -> pa.Array:
        texts = detail.to_pylist()
        for n in np.flatnonzero(bad):
            place = int(at[n])
            file, line = (keys[place].as_py() or b"").decode(errors="replace"), offsets[place].as_py() & _LINE
            texts[n] = f"{file}, line {line}: {texts[n]}" if texts[n] else f"{file}, line {line}"
        return pa.array(texts, detail.type)

    def of_rows(rows: Rows) -> Rows:
        bad = np.asarray(pc.is_valid(rows.reason))
        return replace(rows, detail=placed(rows.at, rows.detail, bad)) if bad.any() else rows

    def of_rejected(part: Rejected) -> Rejected:
        return replace(part, detail=placed(part.at, part.detail, np.ones(len(part.at), bool)))

    return replace(decoded, rows=[*map(of_rows, decoded.rows)], rejected=[*map(of_rejected, decoded.rejected)])


class SinkReader(Reader):
    """The driver's part: it reads schema files, which tell tables and statements. `make` gives the decoder of rows.

    `select` leaves of a table what rows have of it.
    """

    def __init__(
        self,
        make: Callable[[Tables], Decoder],
        select: Callable[[TableSchema], TableSchema] = lambda schema: schema,
    ) -> None:
        self._make, self._select = make, select
        self._tables: Mapping[bytes, TableSchema] = {}

    @property
    def decoder(self) -> SinkDecoder:
        """See `Reader.decoder`."""
        return SinkDecoder(self._make(self._tables))

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema files. In: `offset`, too, 0 for a file whose statement was taken in an earlier batch."""
        at = np.flatnonzero([_kind(key or b"") == _CONTROL for key in messages.column("key").to_pylist()])
        told = schema_files(messages.take(pa.array(at)))
        self._tables = {key: self._select(schema) for key, schema in told.tables.items()}
        broken = [Rejected.of(at[np.array([place])], Reason.SCHEMA_CHANGE, detail) for place, detail in told.broken]
        return Controls([(int(at[place]), self._selected(change)) for place, change in told.changes], rejected=broken)

    def _selected(self, change: Ddl) -> Ddl:
        schema, before = (version and self._select(version) for version in (change.schema, change.before))
        return replace(change, schema=schema, before=before)
