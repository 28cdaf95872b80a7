"""TiCDC's Canal-JSON protocol: bytes to events."""

from tidecast.protocols.canal_json._decode import decode
from tidecast.protocols.canal_json._protocol import PROTOCOL

__all__ = ["PROTOCOL", "decode"]
