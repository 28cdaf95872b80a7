"""How values of MySQL types are written in answers, and when two are the same."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from tidecast.conformance._golden import Column

TIME_ZONE = "Asia/Shanghai"
"""That of the server which wrote the golden messages, and so of the TIMESTAMP text in them."""


def base_type(mysql_type: str) -> str:
    """Return a type's name without lengths, such as `bigint unsigned` of `bigint(20) unsigned zerofill`."""
    name = re.match(r"\w+", mysql_type)
    return (name[0] if name else "") + (" unsigned" if " unsigned" in mysql_type else "")


_FEATURES = {
    "integers": "tinyint smallint mediumint int bigint",
    "decimal": "decimal",
    "float and double": "float double",
    "bit": "bit",
    "text": "char varchar tinytext text mediumtext longtext",
    "binary": "binary varbinary tinyblob blob mediumblob longblob",
    "enum and set": "enum set",
    "json": "json",
    "date and datetime": "date datetime",
    "timestamp": "timestamp",
    "time": "time",
    "year": "year",
    "vector": "vector",
}
_FEATURE = {name: feature for feature, names in _FEATURES.items() for name in names.split()}


def feature_of(column: Column, value: str | None) -> str:
    """Return the feature that a value of a column is about."""
    base = base_type(column.type)
    if value is None:
        return "NULL"
    if base == "bigint unsigned":
        return base
    if base in ("date", "datetime", "timestamp") and "-00" in value:
        return "zero dates"
    return _FEATURE[base.removesuffix(" unsigned")]


def answer_form(column: Column, value: Any) -> str | None:
    """Return a value of the source as an answer has it: MySQL's text, bytes in hexadecimal, TIMESTAMP in UTC."""
    if value is None:
        return None
    base = base_type(column.type)
    if base in ("enum", "set"):
        return str(value["s"])
    if isinstance(value, dict):
        data = base64.b64decode(value["b"])
        return str(int.from_bytes(data, "big")) if base == "bit" else data.hex()
    if base == "timestamp" and not value.startswith("0000"):
        moment = datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(TIME_ZONE)).astimezone(UTC)
        digits = len(value.partition(".")[2])
        return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{moment.microsecond:06}"[: digits + 1] if digits else "")
    return str(value)


def _time(text: str) -> object:
    whole, point, fraction = text.replace("T", " ").removesuffix("Z").partition(".")
    return whole + (point + fraction.rstrip("0")).rstrip(".")


def _json(text: str) -> object:
    return _frozen(json.loads(text, parse_int=Decimal, parse_float=Decimal))


def _frozen(value: Any) -> object:
    """Return what JSON says in a form that compares as JSON does: a truth value is no number, members have no order."""
    if isinstance(value, dict):
        return frozenset((name, _frozen(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return type(value).__name__, value


_SAME: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit", "year"), Decimal),
    "float": lambda text: struct.pack(">f", float(text)),
    "double": lambda text: struct.pack(">d", float(text)),
    "json": _json,
    **dict.fromkeys(("datetime", "timestamp", "time"), _time),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), bytes.fromhex),
}
"""What of a value counts; of others every character does."""


def same_form(value: object, mysql_type: str) -> object:
    """Return a value in the form in which two that mean the same are equal: `1.50` and `1.5` as DECIMAL."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    try:
        return _SAME.get(base_type(mysql_type).removesuffix(" unsigned"), str)(text)
    except (ValueError, InvalidOperation, OverflowError):
        return "unreadable", text
