"""JSON text as TiCDC's schemas are written, to the byte. Source: Avro protocol, schema serialisation."""

from __future__ import annotations

from tidecast._go import to_json
from tidecast.protocols._json_text import JsonText

dumps = JsonText(to_json, "+d").dumps
"""Writes compact JSON with the escapes and the number forms of TiCDC."""
