"""TiCDC's Debezium protocol: bytes to events, events to bytes."""

from tidecast.protocols.debezium._decode import decode
from tidecast.protocols.debezium._encode import encode_key, encode_value, encode_watermark, unencodable
from tidecast.protocols.debezium._encode_ddl import DdlHistory, encode_ddl
from tidecast.protocols.debezium._lossy import lossy_columns
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._protocol import PROTOCOL

__all__ = [
    "PROTOCOL",
    "DdlHistory",
    "DebeziumOptions",
    "decode",
    "encode_ddl",
    "encode_key",
    "encode_value",
    "encode_watermark",
    "lossy_columns",
    "unencodable",
]
