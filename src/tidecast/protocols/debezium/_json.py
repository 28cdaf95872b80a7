"""JSON text as TiCDC's Debezium encoder writes it. Source: Debezium protocol, JSON text."""

from __future__ import annotations

from tidecast.protocols._json_text import ESCAPES, JsonText, quoting

QUOTING = quoting(ESCAPES)
"""How texts of rows become strings."""
EXPONENT = "+03d"
dumps = JsonText(QUOTING.quote, EXPONENT).dumps
