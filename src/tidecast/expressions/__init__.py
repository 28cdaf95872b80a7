"""Values of MySQL types as Spark expressions: numbers, text and time zones."""

from tidecast.expressions._from_text import from_text, is_parsed
from tidecast.expressions._numbers import (
    as_listed,
    bit_bytes,
    bit_number,
    enum_element,
    enum_number,
    set_elements,
    set_mask,
    set_number,
    signed,
    unsigned_number,
)
from tidecast.expressions._real_text import shortest_text
from tidecast.expressions._text import LONG_TEXTS, MAX_LENGTH, decimal_text
from tidecast.expressions._zones import shift_zone

__all__ = [
    "LONG_TEXTS",
    "MAX_LENGTH",
    "as_listed",
    "bit_bytes",
    "bit_number",
    "decimal_text",
    "enum_element",
    "enum_number",
    "from_text",
    "is_parsed",
    "set_elements",
    "set_mask",
    "set_number",
    "shift_zone",
    "shortest_text",
    "signed",
    "unsigned_number",
]
