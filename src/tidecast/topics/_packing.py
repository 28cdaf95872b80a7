"""Packed values: compressed ones, and ones that lie in a storage outside of Kafka (the claim check).

Spark has no expression that compresses or that fetches a file, so such values pass as Arrow batches through the codecs
of C libraries and Arrow's file systems. Only topics that are packed pay for it. Source: TiCDC's large messages.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import lz4.frame
import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast._uri import redact_uri

Compression = Literal["none", "snappy", "lz4"]

_CLAIM_FILE = ".json"
_LARGEST = 1 << 30
_REMOTE = re.compile(r"(s3|gs|gcs|hdfs|viewfs|abfss?)://")
_UNUSABLE = "CDC:ErrInvalidReplicaConfig"


def _lz4(data: bytes) -> bytes:
    # The frame of TiCDC: independent blocks of 4 MiB, even where less would do, with a checksum of the content.
    size = lz4.frame.BLOCKSIZE_MAX4MB
    with lz4.frame.LZ4FrameCompressor(block_size=size, block_linked=False, content_checksum=True) as frame:
        return bytes(frame.begin() + frame.compress(data) + frame.flush())


def _snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


def _un_lz4(data: bytes) -> bytes | None:
    try:
        return bytes(lz4.frame.decompress(data))
    except RuntimeError:
        return None


def _un_snappy(data: bytes) -> bytes | None:
    """Raw blocks begin with the length of what is in them, seven bits a byte, the lowest first."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    try:
        return bytes(pa.decompress(data, size, codec="snappy", asbytes=True)) if size <= _LARGEST else None
    except (OSError, pa.ArrowException):
        return None


_PACK: dict[str, Callable[[bytes], bytes]] = {"lz4": _lz4, "snappy": _snappy}
_UNPACK: dict[str, Callable[[bytes], bytes | None]] = {"lz4": _un_lz4, "snappy": _un_snappy}


def compress(data: bytes, compression: str) -> bytes:
    """Return a value as `large-message-handle-compression` has it: `none`, `snappy` (raw blocks) or `lz4` (a frame)."""
    return _PACK[compression](data) if compression != "none" else data


def compressed(frame: DataFrame, columns: Iterable[str], compression: str) -> DataFrame:
    """Return a frame whose binary columns are compressed; nulls stay null."""
    return _mapped(frame, columns, _PACK[compression]) if compression != "none" else frame


def decompressed(frame: DataFrame, columns: Iterable[str], compression: str) -> DataFrame:
    """Return a frame whose binary columns are what they were before; what is not compressed like that stays."""
    return _mapped(frame, columns, _UNPACK[compression]) if compression != "none" else frame


def _mapped(frame: DataFrame, columns: Iterable[str], change: Callable[[bytes], bytes | None]) -> DataFrame:
    names = tuple(columns)

    def changed(value: bytes | None) -> bytes | None:
        if value is None:
            return None
        result = change(value)
        return value if result is None else result

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            for name in names:
                position = batch.schema.get_field_index(name)
                values = pa.array(map(changed, batch[name].to_pylist()), pa.binary())
                batch = batch.set_column(position, name, values)
            yield batch

    return frame.mapInArrow(batches, frame.schema)


def claim_location(storage: str, value: Column) -> Column:
    """Return where the whole of a message lies: a file named by its content, which a repeated run finds again."""
    digest = F.sha2(value, 256)
    a, b, c, d, e = (F.substring(digest, at, length) for at, length in ((1, 8), (9, 4), (14, 3), (18, 3), (21, 12)))
    uuid = F.concat(a, F.lit("-"), b, F.lit("-4"), c, F.lit("-a"), d, F.lit("-"), e)
    return F.concat(F.lit(storage.rstrip("/") + "/"), uuid, F.lit(_CLAIM_FILE))


def check_storage(storage: str) -> None:
    """Raise ConfigError where a claim check's storage cannot be used."""
    try:
        system, folder = pafs.FileSystem.from_uri(storage)
        system.create_dir(folder, recursive=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        words = str(error).splitlines()[0].replace(storage, redact_uri(storage))
        raise ConfigError(
            f"the claim-check storage cannot be used: {words}",
            code=_UNUSABLE,
            hint="claim-check-storage-uri takes file:///folder, s3://bucket/folder, gs:// or hdfs://",
        ) from None


def claim_folder(storage: str) -> Path | None:
    """Return the local folder of a claim check's storage, None for any other storage and for what is none."""
    if _REMOTE.match(storage):  # to open some of these takes the network
        return None
    try:
        return Path(pafs.FileSystem.from_uri(storage)[1])
    except (OSError, ValueError, pa.ArrowException):
        return None


def store_claims(frame: DataFrame, storage: str, *, raw: bool) -> int:
    """Write whole messages to the claim check's storage; return how many.

    In: `location` string and `whole` binary, none of them null. `raw`: `claim-check-raw-value`. Files are written
    where the rows are, through Arrow's file systems.
    """

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, folder = pafs.FileSystem.from_uri(storage)
        for batch in source:
            for location, whole in zip(batch["location"].to_pylist(), batch["whole"].to_pylist(), strict=True):
                with system.open_output_stream(f"{folder}/{_file_of(location)}") as file:
                    file.write(whole if raw else _wrapped(whole))
            yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows], pa.int64())], names=["files"])

    done = frame.select("location", "whole").mapInArrow(batches, T.StructType([T.StructField("files", T.LongType())]))
    return int(done.agg(F.coalesce(F.sum("files"), F.lit(0))).collect()[0][0])


def fetched_claims(frame: DataFrame, storage: str, compression: str = "none") -> DataFrame:
    """Return messages with their whole values, from the claim check's storage.

    In: `location` string, not null, and `value` binary among other columns. Out: the same without `location`; a
    value whose file is not there, or is broken, stays as it is. Only the last part of a location counts, not the place
    that a message names: a message may not have this process read what it likes.
    """
    columns = [f for f in frame.schema.fields if f.name != "location"]
    unpack = _UNPACK.get(compression, bytes)

    def whole(system: pafs.FileSystem, path: str, value: bytes) -> bytes:
        try:
            with system.open_input_stream(path) as file:
                return unpack(_unwrapped(file.read())) or value
        except (OSError, ValueError):
            return value

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, folder = pafs.FileSystem.from_uri(storage)
        for batch in source:
            pairs = zip(batch["location"].to_pylist(), batch["value"].to_pylist(), strict=True)
            values = [whole(system, f"{folder}/{_file_of(location)}", value) for location, value in pairs]
            batch = batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
            yield batch.select([f.name for f in columns])

    return frame.mapInArrow(batches, T.StructType(columns))


def _file_of(location: str) -> str:
    return location.rpartition("/")[2]


def _wrapped(whole: bytes) -> bytes:
    return json.dumps({"key": None, "value": base64.b64encode(whole).decode()}, separators=(",", ":")).encode()


def _unwrapped(data: bytes) -> bytes:
    """Return the value in a claim check's file: wrapped in JSON, or raw. Raises ValueError for a broken wrapping."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if isinstance(said, dict) and set(said) == {"key", "value"}:
        if not isinstance(said["value"], str):
            raise ValueError("no value")
        return base64.b64decode(said["value"])
    return data
