"""Records in small files on this machine, read in the program's own process."""

from __future__ import annotations

import binascii
import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast.model import HEADERS

_KINDS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.large_binary(),
    "value": pa.large_binary(),
}
_MOST_BYTES = 256 << 20
"""How much a small file may hold when it is unpacked."""
_NONE = pa.schema(_KINDS).empty_table()


class RecordsHere(NamedTuple):
    """Records of files: the columns of `RECORD` but the headers, in Arrow's types, bytes with 64-bit offsets.

    `ordered` is that of `Records`.
    """

    messages: pa.RecordBatch
    ordered: bool

    @classmethod
    def of(cls, tables: Sequence[pa.Table], *, ordered: bool) -> RecordsHere:
        """Return the records of several files."""
        columns = pa.concat_tables([_NONE, *tables]).combine_chunks().columns
        return cls(pa.RecordBatch.from_arrays([c.combine_chunks() for c in columns], names=[*_KINDS]), ordered)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the records as a frame of the columns of `RECORD`."""
        told = pa.Table.from_batches([self.messages]).cast(_SPARKS)
        return spark.createDataFrame(told).select("*", F.lit(None).cast(HEADERS).alias("headers"))


_SPARKS = pa.schema(_KINDS | {"key": pa.binary(), "value": pa.binary()})
"""The types of columns as Spark takes them."""


def read_parquet(path: Path) -> pa.Table | None:
    """Return the records of a Parquet file, None where it is not as expected."""
    try:
        file = pq.ParquetFile(str(path))
        there = [name for name in _KINDS if name in file.schema_arrow.names]
        table = file.read(there)
        columns = {
            name: _instants(table.column(name), kind) if name in there else pa.nulls(table.num_rows, kind)
            for name, kind in _KINDS.items()
        }
    except (OSError, pa.ArrowException):
        return None
    return pa.table(columns)


def _instants(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and column.type.tz is None:  # Spark's INT96 is in UTC
        column = column.cast(pa.timestamp("us"), safe=False)
    return column.cast(kind, safe=False)


def read_lines(path: Path, topic: str, numbered: bool) -> pa.Table | None:
    """Return the records of a file of JSON Lines, None where a line is not as expected.

    A record that names no topic is of `topic`. Without `numbered` one that has no offset has the number of its line.
    """
    try:
        with path.open("rb") as file, gzip.open(file) if path.suffix == ".gz" else file as content:
            text = content.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        return None
    if len(text) > _MOST_BYTES or b"\r" in text:  # which ends a line, too
        return None
    try:
        records = [_record(orjson.loads(line)) for line in text.split(b"\n") if line.strip(b" ")]
    except ValueError:  # as are those of orjson and of base64
        return None
    columns: dict[str, list[Any]] = {name: [record[name] for record in records] for name in _KINDS}
    columns["topic"] = [topic if name is None else name for name in columns["topic"]]
    if not numbered:
        columns["offset"] = [n if offset is None else offset for n, offset in enumerate(columns["offset"])]
    try:
        return pa.table({name: pa.array(columns[name], kind) for name, kind in _KINDS.items()})
    except (pa.ArrowException, OverflowError):
        return None


_MEMBERS = {"topic": str, "partition": int, "offset": int, "timestamp": int, "key": str, "value": str}


def _record(line: object) -> Mapping[str, Any]:
    """Return the members of a record. Raises ValueError where it is no object, or a member is of another type."""
    if not isinstance(line, dict):
        raise ValueError("no object")
    record: dict[str, Any] = {name: line.get(name) for name in _MEMBERS}
    for name, kind in _MEMBERS.items():
        if record[name] is not None and type(record[name]) is not kind:
            raise ValueError(name)
    for name in ("key", "value"):
        if record[name] is not None:
            record[name] = binascii.a2b_base64(record[name], strict_mode=True)
    if line.get("headers"):  # which are not read here, and may be damaged
        raise ValueError("headers")
    if record["timestamp"] is not None:
        record["timestamp"] *= 1000  # from milliseconds
    return record
