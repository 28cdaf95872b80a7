"""TiCDC's Simple protocol: bytes to events."""

from tidecast.protocols.simple._decode import decode
from tidecast.protocols.simple._schema import table_schema

__all__ = ["decode", "table_schema"]
