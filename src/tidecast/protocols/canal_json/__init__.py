"""TiCDC's Canal-JSON protocol: bytes to events."""

from tidecast.protocols.canal_json._protocol import PROTOCOL

__all__ = ["PROTOCOL"]
