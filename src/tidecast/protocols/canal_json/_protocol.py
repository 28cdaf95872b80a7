"""Canal-JSON in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._codec import Codec, CodecOptions
from tidecast.protocols._decoded import Reader
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols._sink_codec import SinkCodec
from tidecast.protocols._sink_files import SinkReader
from tidecast.protocols.canal_json._codec import CanalCodec, wrong_options
from tidecast.protocols.canal_json._columns import CanalDecoder
from tidecast.protocols.canal_json._describe import describe, looks_like
from tidecast.protocols.canal_json._message import claim_check_location
from tidecast.protocols.canal_json._read import CanalReader


def _reader(options: DecodeOptions) -> Reader:
    """Return the reader of messages in topics, or of a storage sink's files, whose statements are no messages."""
    return SinkReader(lambda tables: CanalDecoder(options.zone)) if options.csv else CanalReader(options)


def _codec(options: CodecOptions, registry: object, state: bytes) -> Codec:
    codec = CanalCodec(options, registry, state)
    return SinkCodec(codec.encoder, options, state) if options.csv else codec


PROTOCOL = WireProtocol(
    "canal-json",
    "Canal-JSON",
    reader=_reader,
    codec=_codec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    compressed=("value",),
    large_messages=lambda options: options.enable_tidb_extension,
    claim_check_location=claim_check_location,
    ddl_partitions=1,
    files="json",
)
