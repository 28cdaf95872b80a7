"""Messages that are too large, and compression of values. Source: Simple protocol, size limits, large messages.

Spark has no expression that compresses, so values pass as Arrow batches through the codecs of C libraries. Only
changefeeds that ask for compression, or for the claim check, and have messages that are too large, pay for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator

import lz4.frame
import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError

OVERHEAD = 36
"""What TiCDC adds to key and value for a message's own bytes."""

_CLAIM_FILE = ".json"


def _lz4(data: bytes) -> bytes:
    # The frame of TiCDC: independent blocks of 4 MiB, even where less would do, with a checksum of the content.
    size = lz4.frame.BLOCKSIZE_MAX4MB
    with lz4.frame.LZ4FrameCompressor(block_size=size, block_linked=False, content_checksum=True) as frame:
        return bytes(frame.begin() + frame.compress(data) + frame.flush())


def _snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"lz4": _lz4, "snappy": _snappy}


def compress(data: bytes, compression: str) -> bytes:
    """Return a value as `large-message-handle-compression` has it: `none`, `snappy` (raw blocks) or `lz4` (a frame)."""
    return _COMPRESS[compression](data) if compression in _COMPRESS else data


def compressed(frame: DataFrame, columns: Iterable[str], compression: str) -> DataFrame:
    """Return a frame whose binary columns are compressed; nulls stay null."""
    if compression == "none":
        return frame
    names = tuple(columns)

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            for name in names:
                position = batch.schema.get_field_index(name)
                values = (compress(v, compression) if v is not None else None for v in batch[name].to_pylist())
                batch = batch.set_column(position, name, pa.array(values, pa.binary()))
            yield batch

    return frame.mapInArrow(batches, frame.schema)


def message_size(key: Column, value: Column) -> Column:
    """Return the length of a message as TiCDC counts it, for the comparison with max-message-bytes."""
    return F.coalesce(F.octet_length(key), F.lit(0)) + F.coalesce(F.octet_length(value), F.lit(0)) + OVERHEAD


def claim_location(storage: str, value: Column) -> Column:
    """Return where the whole of a message lies: a file named by its content, which a repeated run finds again."""
    digest = F.sha2(value, 256)
    parts = ((1, 8), (9, 4), (14, 3), (18, 3), (21, 12))
    a, b, c, d, e = (F.substring(digest, start, length) for start, length in parts)
    uuid = F.concat(a, F.lit("-"), b, F.lit("-4"), c, F.lit("-a"), d, F.lit("-"), e)
    return F.concat(F.lit(storage.rstrip("/") + "/"), uuid, F.lit(_CLAIM_FILE))


def store_claims(frame: DataFrame, storage: str, *, raw: bool) -> int:
    """Write whole messages to the claim check's storage; return how many.

    In: `location` string and `whole` binary, none of them null. Raises ConfigError for a storage that cannot be
    written to. Files are written where the rows are, through Arrow's file systems (`file`, `s3`, `gs`, `hdfs`).
    """
    check_storage(storage)

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, folder = pafs.FileSystem.from_uri(storage)
        for batch in source:
            for location, whole in zip(batch["location"].to_pylist(), batch["whole"].to_pylist(), strict=True):
                if not raw:
                    whole = json.dumps(
                        {"key": None, "value": base64.b64encode(whole).decode()}, separators=(",", ":")
                    ).encode()
                with system.open_output_stream(f"{folder}/{location.rpartition('/')[2]}") as file:
                    file.write(whole)
            yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows], pa.int64())], names=["files"])

    done = frame.select("location", "whole").mapInArrow(batches, T.StructType([T.StructField("files", T.LongType())]))
    return int(done.agg(F.coalesce(F.sum("files"), F.lit(0))).collect()[0][0])


def check_storage(storage: str) -> None:
    """Raise ConfigError where a claim check's storage cannot be used."""
    try:
        system, folder = pafs.FileSystem.from_uri(storage)
        system.create_dir(folder, recursive=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigError(
            f"the claim-check storage cannot be used: {str(error).splitlines()[0]}",
            code="CDC:ErrInvalidReplicaConfig",
            hint="claim-check-storage-uri takes file:///folder, s3://bucket/folder, gs:// or hdfs://",
        ) from None
