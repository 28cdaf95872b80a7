"""JSON text as TiCDC's Canal-JSON encoder writes it, of names as of values. Source: Canal-JSON protocol, members."""

from __future__ import annotations

from tidecast._go import MARKUP
from tidecast.protocols._json_text import ESCAPES, JsonText, quoting

QUOTING = quoting(ESCAPES | MARKUP)
"""How texts become strings."""
dumps = JsonText(QUOTING.quote, "").dumps
"""Writes compact JSON; there are no numbers with an exponent."""
