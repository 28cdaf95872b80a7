"""CSV of TiCDC's storage sink. Source: Storage sink, CSV files."""

from tidecast.protocols.csv._protocol import PROTOCOL

__all__ = ["PROTOCOL"]
