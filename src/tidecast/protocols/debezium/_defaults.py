"""Column defaults: their form in a schema, and the value that stands for a NULL.

Source: Debezium protocol, NULL values, column defaults.

TiCDC's encoder is not of one mind here; all its oddities can be seen in its messages.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, bit_width
from tidecast.protocols._json_text import Json
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.values import TEXT, arrow_type, shift_zone

EPOCH_TEXT = "1970-01-01T00:00:00Z"
EXACT_DIGITS = 15
"""Up to so many digits, a decimal number is the shortest text of the double next to it."""

_INT64_MAX = (1 << 63) - 1
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
FIRST_TIMESTAMP = "1970-01-01 00:00:01"
"""The first moment of TIMESTAMP. TiCDC compares it, which is meant in UTC, with the clock of the server's zone."""

_TIME = re.compile(r"(-?)(\d+):(\d+):(\d+)(?:\.(\d{1,6}))?$")


def zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by its name, or by its offset such as `+08:00`."""
    offset = dt.datetime.strptime(name, "%z").tzinfo if name[:1] in "+-" else None
    return offset or ZoneInfo(name)


def is_now(default: str) -> bool:
    """Tell whether a default is the time of the insert."""
    return default.upper() == "CURRENT_TIMESTAMP"


def full_year(text: str) -> str:
    """Return the text of a date with TiCDC's guess of the century for years below 100."""
    if text < "0070":
        return "20" + text[2:]
    return "19" + text[2:] if text < "0100" else text


def in_milliseconds(data_type: DataType) -> bool:
    """Tell whether DATETIME values are milliseconds, not microseconds, which lose nothing where digits are unknown."""
    return data_type.decimal <= 3 and bool(data_type.length or data_type.decimal)


def schema_default(column: TableColumn) -> Json:
    """Return the `default` of a column's field in a schema, None for none."""
    if column.default is None:
        return None
    default, shown = str(column.default), _IN_SCHEMA.get(column.data_type.kind)
    return shown(column, default) if shown else default


def _number(column: TableColumn, default: str) -> Json:
    try:
        return float(default)
    except ValueError:
        return None


def _bit(column: TableColumn, default: str) -> Json:
    if column.data_type.length <= 1:
        return int(default) != 0
    return base64.b64encode(int(default).to_bytes(bit_width(column.data_type), "little")).decode()


def _date(column: TableColumn, default: str) -> Json:
    try:
        return (dt.date.fromisoformat(full_year(default)[:10]) - _EPOCH.date()).days
    except ValueError:
        return None if column.nullable else 0


def _datetime(column: TableColumn, default: str) -> Json:
    if is_now(default):
        return 0
    try:
        microseconds = (dt.datetime.fromisoformat(full_year(default)) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None if column.nullable and default.startswith("0000-00-00") else 0
    return microseconds // 1000 if in_milliseconds(column.data_type) else microseconds


def _timestamp(column: TableColumn, default: str) -> Json:
    if is_now(default) or default < FIRST_TIMESTAMP:
        return None if column.nullable else EPOCH_TEXT
    try:
        dt.datetime.fromisoformat(default)
    except ValueError:
        return 0
    return default.replace(" ", "T") + "Z"


def _time(column: TableColumn, default: str) -> Json:
    match = _TIME.match(default)
    if match is None:
        return None
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    microseconds = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -microseconds if sign else microseconds


def _year(column: TableColumn, default: str) -> Json:
    try:
        year = int(default)
    except ValueError:
        return None
    if year < 70:
        return year + 2000
    return year + 1900 if year < 100 else year


_IN_SCHEMA: dict[Kind, Callable[[TableColumn, str], Json]] = {
    Kind.INTEGER: _number,
    Kind.FLOAT: _number,
    Kind.DOUBLE: _number,
    Kind.DECIMAL: _number,
    Kind.BIT: _bit,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    Kind.YEAR: _year,
}


def null_stand_in(column: TableColumn, options: DebeziumOptions) -> pa.Scalar | None:
    """Return the value of the model that is written where a row has NULL, None where null itself is.

    A column with a default shows it in the place of NULL. TiCDC takes TIMESTAMP defaults, which are in UTC, for local
    time; it writes 0 for TIME and for a BIGINT UNSIGNED beyond the signed range. It stops at a DATE: here that is
    written as every other type. Out: a scalar of `tidecast.values.arrow_type`, for DECIMAL the text of a number, which
    may have more digits than its column.
    """
    if column.default is None:
        return None
    default, kind = str(column.default), arrow_type(column.data_type)
    match column.data_type.kind:
        case Kind.INTEGER | Kind.YEAR:
            return pa.scalar(_integer(default), kind)
        case Kind.FLOAT | Kind.DOUBLE:
            return pa.scalar(_finite(default), kind)
        case Kind.DECIMAL:
            return pa.scalar(_decimal(default), TEXT)
        case Kind.BIT:
            return pa.scalar(int(default).to_bytes(bit_width(column.data_type), "big"), kind)
        case Kind.BINARY:
            return pa.scalar(default.encode(), kind)
        case Kind.TIME:
            return pa.scalar("00:00:00", kind)
        case Kind.DATETIME if is_now(default):
            return pa.scalar("1970-01-01 00:00:00", kind)
        case Kind.TIMESTAMP:
            no_moment = is_now(default) or default < FIRST_TIMESTAMP
            return None if no_moment else shift_zone(pa.array([default], kind), options.zone, "UTC")[0]
        case _:
            return pa.scalar(default, kind)


def _integer(default: str) -> int:
    try:
        number = int(default)
    except ValueError:
        return 0
    return number if number <= _INT64_MAX else 0


def _finite(default: str) -> float:
    try:
        number = float(default)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _decimal(default: str) -> str:
    """Return a number as it is written without an exponent; TiDB keeps a default's digits, and rounds it in rows."""
    try:
        return format(Decimal(default), "f")
    except InvalidOperation:
        return "0"
