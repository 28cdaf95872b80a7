"""Values of MySQL kinds as Arrow columns: typed, as text, and as the bytes of messages. Knows no Spark."""

from tidecast.values._arrow import (
    BYTES,
    TEXT,
    beginnings,
    by_distinct,
    content_of,
    field,
    fixed_bytes,
    gather,
    joined,
    null_where,
    nulls,
    numbers,
    refused,
    spread,
    text_of_bytes,
    to_numpy,
    valid,
)
from tidecast.values._avro import avro_bytes
from tidecast.values._decimals import decimal_bytes, decimal_of_bytes, decimal_text
from tidecast.values._digits import DIGITS
from tidecast.values._from_text import bytes_of_base64, bytes_read, from_text, plain_number, real, whole
from tidecast.values._json import PLAIN, Quoting, base64_text, json_object, json_string, json_value
from tidecast.values._kinds import arrow_type, row_type
from tidecast.values._moments import (
    calendar_value,
    clock_micros,
    clock_text,
    date_text,
    days_of,
    micros_of,
    moment_text,
)
from tidecast.values._numbers import (
    bit_bytes,
    bit_number,
    enum_element,
    enum_number,
    set_elements,
    set_mask,
)
from tidecast.values._reals import shortest_text
from tidecast.values._spark_types import for_spark, from_spark
from tidecast.values._zones import is_zone, shift_zone

__all__ = [
    "BYTES",
    "DIGITS",
    "PLAIN",
    "TEXT",
    "Quoting",
    "arrow_type",
    "avro_bytes",
    "base64_text",
    "beginnings",
    "bit_bytes",
    "bit_number",
    "by_distinct",
    "bytes_of_base64",
    "bytes_read",
    "calendar_value",
    "clock_micros",
    "clock_text",
    "content_of",
    "date_text",
    "days_of",
    "decimal_bytes",
    "decimal_of_bytes",
    "decimal_text",
    "enum_element",
    "enum_number",
    "field",
    "fixed_bytes",
    "for_spark",
    "from_spark",
    "from_text",
    "gather",
    "is_zone",
    "joined",
    "json_object",
    "json_string",
    "json_value",
    "micros_of",
    "moment_text",
    "null_where",
    "nulls",
    "numbers",
    "plain_number",
    "real",
    "refused",
    "row_type",
    "set_elements",
    "set_mask",
    "shift_zone",
    "shortest_text",
    "spread",
    "text_of_bytes",
    "to_numpy",
    "valid",
    "whole",
]
