"""TiCDC's Simple protocol: read, and events to bytes."""

from tidecast.protocols.simple._claim import claim_check_locations
from tidecast.protocols.simple._encode import encode_bootstrap, encode_ddl, encode_watermark
from tidecast.protocols.simple._encoder import SimpleEncoder
from tidecast.protocols.simple._options import SimpleOptions
from tidecast.protocols.simple._protocol import PROTOCOL
from tidecast.protocols.simple._schema import table_schema

__all__ = [
    "PROTOCOL",
    "SimpleEncoder",
    "SimpleOptions",
    "claim_check_locations",
    "encode_bootstrap",
    "encode_ddl",
    "encode_watermark",
    "table_schema",
]
