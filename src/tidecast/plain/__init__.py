"""Values of MySQL types in Python, for one message, which need not wait for Spark to start.

Each function is the twin of a Spark expression, and takes only what is surely sound: for the rest it raises TakesSpark.
"""

from tidecast.plain._from_text import (
    Value,
    checked_decimal,
    checked_integer,
    from_text,
    is_narrow,
    is_uint64,
)
from tidecast.plain._json import member, object_of
from tidecast.plain._reals import float_from, float_of, real_of, real_text, shortest_text
from tidecast.plain._row import PlainMessage, PlainRow, Problem, check_commit_ts
from tidecast.plain._takes_spark import TakesSpark, need, takes_spark
from tidecast.plain._value_text import value_text
from tidecast.plain._zones import in_utc, zone_named

__all__ = [
    "PlainMessage",
    "PlainRow",
    "Problem",
    "TakesSpark",
    "Value",
    "check_commit_ts",
    "checked_decimal",
    "checked_integer",
    "float_from",
    "float_of",
    "from_text",
    "in_utc",
    "is_narrow",
    "is_uint64",
    "member",
    "need",
    "object_of",
    "real_of",
    "real_text",
    "shortest_text",
    "takes_spark",
    "value_text",
    "zone_named",
]
