"""Canal-JSON in the register of protocols, and a message described for people. Source: Canal-JSON protocol, members."""

from __future__ import annotations

import json
from functools import partial

from tidecast.protocols._claim import locations_in_json
from tidecast.protocols._codec import Codec, CodecOptions
from tidecast.protocols._decoded import Reader
from tidecast.protocols._description import Description
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols._schema_file import Tables
from tidecast.protocols._sink_codec import SinkCodec
from tidecast.protocols._sink_files import SinkReader, describe_file
from tidecast.protocols.canal_json._codec import CanalCodec
from tidecast.protocols.canal_json._columns import CanalDecoder
from tidecast.protocols.canal_json._message import WATERMARK
from tidecast.protocols.canal_json._read import CanalReader
from tidecast.protocols.canal_json._schema import as_shown


def _of_files(zone: str, tables: Tables) -> CanalDecoder:
    """Return what reads the rows of files, whose folders tell when tables changed."""
    changed: dict[tuple[str, str], list[int]] = {}
    for schema in sorted(tables.values(), key=lambda schema: schema.version):
        changed.setdefault((schema.database, schema.table), []).append(schema.version)
    return CanalDecoder(zone, changed)


def _reader(options: DecodeOptions) -> Reader:
    """Return the reader of messages in topics, or of a storage sink's files, whose statements are no messages."""
    if not options.csv:
        return CanalReader(options)
    select, whole = options.select, options.csv.content_compatible
    return SinkReader(partial(_of_files, options.zone), lambda schema: as_shown(select(schema), whole=whole))


def _codec(options: CodecOptions, registry: object, state: bytes) -> Codec:
    codec = CanalCodec(options, registry, state)
    return SinkCodec(codec.encoder, options, state) if options.csv else codec


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what a message says: a row, a schema change, or a watermark."""
    if file := describe_file(key, value):
        return file
    try:
        message = json.loads(value or b"")
        tidb, types = message.get("_tidb") or {}, message.get("mysqlType") or {}
        return Description(
            "WATERMARK" if message["type"] == WATERMARK else str(message["type"]),
            ".".join(filter(None, (message.get("database"), message.get("table")))),
            tidb.get("watermarkTs") or tidb.get("commitTs"),
            message.get("sql") or None,
            [(name, types[name]) for name in message.get("sqlType") or types],
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Description()


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as those of TiCDC and of Canal do."""
    return value.startswith((b'{"id":0,"database"', b'{"data":'))


PROTOCOL = WireProtocol(
    "canal-json",
    "Canal-JSON",
    reader=_reader,
    codec=_codec,
    describe=describe,
    looks_like=looks_like,
    watermarks=True,
    compressed=("value",),
    large_messages=lambda options: options.enable_tidb_extension,
    claim_check_locations=partial(locations_in_json, inside="_tidb"),
    ddl_partitions=1,
    files="json",
)
