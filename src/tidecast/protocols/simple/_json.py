"""Simple messages as JSON, to the byte as Go writes it.

Source: Simple protocol, JSON text; Other documents, Go's encoding/json.
"""

from __future__ import annotations

from typing import Any

from tidecast._go import to_json

_LOST_ESCAPED = "\\ufffd"
_HALVES = dict.fromkeys(range(0xD800, 0xE000), _LOST_ESCAPED)  # halves of a pair, which are no text


def message(members: dict[str, Any]) -> bytes:
    """Return an object as the text that Go's encoding/json gives it, members in their order."""
    return _go(members).encode()


def _go(value: Any) -> str:
    return to_json(value).translate(_HALVES)
