"""TiCDC's Canal-JSON protocol: bytes to events, and back."""

from tidecast.protocols.canal_json._encode import encode_ddl, encode_watermark
from tidecast.protocols.canal_json._encoder import CanalEncoder
from tidecast.protocols.canal_json._options import CanalOptions
from tidecast.protocols.canal_json._protocol import PROTOCOL

__all__ = ["PROTOCOL", "CanalEncoder", "CanalOptions", "encode_ddl", "encode_watermark"]
