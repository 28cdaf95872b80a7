"""TiCDC's Avro protocol: bytes to events, events to bytes, and the schemas between them."""

from tidecast.protocols._registered import schema_key
from tidecast.protocols.avro._codec import lossy_columns
from tidecast.protocols.avro._column import decode_column, read_table_schema
from tidecast.protocols.avro._control import encode_ddl, encode_watermark
from tidecast.protocols.avro._encoder import AvroEncoder
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._protocol import PROTOCOL
from tidecast.protocols.avro._schema import key_schema, value_schema

__all__ = [
    "PROTOCOL",
    "AvroEncoder",
    "AvroOptions",
    "decode_column",
    "encode_ddl",
    "encode_watermark",
    "key_schema",
    "lossy_columns",
    "read_table_schema",
    "schema_key",
    "value_schema",
]
