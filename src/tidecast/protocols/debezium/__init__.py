"""TiCDC's Debezium protocol: bytes to events, events to bytes."""

from tidecast.protocols.debezium._encode import encode_watermark
from tidecast.protocols.debezium._encode_ddl import DdlHistory, encode_ddl
from tidecast.protocols.debezium._encoder import DebeziumEncoder
from tidecast.protocols.debezium._lossy import lossy_columns
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._protocol import PROTOCOL

__all__ = [
    "PROTOCOL",
    "DdlHistory",
    "DebeziumEncoder",
    "DebeziumOptions",
    "encode_ddl",
    "encode_watermark",
    "lossy_columns",
]
