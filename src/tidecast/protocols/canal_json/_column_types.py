"""The names and numbers of column types in messages. Source: Canal-JSON protocol, values and types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidecast.model import DataType, Kind, with_digits
from tidecast.values import TEXT, to_numpy

_INTEGERS = {"tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5}
_ABOVE = {"tinyint": (127, 5), "smallint": (32767, 4), "int": (2147483647, -5), "bigint": ((1 << 63) - 1, 3)}
"""The largest unsigned value that has the usual number of its type, and the number of larger ones."""
_STRINGS = {"char": 1, "varchar": 12, "var_string": 12}
_TEXT_NUMBER = 2005
_NUMBERS = {
    Kind.YEAR: 12,
    Kind.FLOAT: 7,
    Kind.DOUBLE: 8,
    Kind.DECIMAL: 3,
    Kind.BIT: -7,
    Kind.BINARY: 2004,
    Kind.DATE: 91,
    Kind.DATETIME: 93,
    Kind.TIMESTAMP: 93,
    Kind.TIME: 92,
    Kind.ENUM: 4,
    Kind.SET: -7,
    Kind.JSON: 12,
    Kind.VECTOR: 12,
}
_BYTES = {"char": "binary", "varchar": "varbinary", "var_string": "varbinary"}
_BYTES |= {f"{size}text": f"{size}blob" for size in ("tiny", "", "medium", "long")}
_USUAL_DIGITS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
"""Display widths, signed and unsigned."""
_YEAR_WIDTH = 4
_TIMED = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_ELEMENT = str.maketrans({"'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r"})
"""How TiDB shows what an element holds; a backslash stays as it is."""


def sql_type(data_type: DataType, value: pa.Array) -> pa.Array | str:
    """Return the number of `java.sql.Types` of a column's values as text, one for all where values do not matter."""
    name, kind = data_type.mysql_type, data_type.kind
    if kind is not Kind.INTEGER:
        return str(_STRINGS.get(name, _TEXT_NUMBER) if kind is Kind.TEXT else _NUMBERS[kind])
    usual = str(_INTEGERS[name])
    if not data_type.unsigned or name not in _ABOVE:
        return usual
    most, larger = _ABOVE[name]
    return pa.array(np.where(to_numpy(value) > most, str(larger), usual), TEXT)


def mysql_type(data_type: DataType, *, whole: bool) -> str:
    """Return a type's name, with its numbers and elements where it is to be `whole`."""
    name, kind = data_type.mysql_type, data_type.kind
    if kind is Kind.BINARY:
        name = _BYTES.get(name, name)
    text = name + (_arguments(data_type, name) if whole else "")
    if kind.numeric:
        text += " unsigned" if data_type.unsigned else ""
        text += " zerofill" if data_type.zerofill else ""
    return text


def _arguments(data_type: DataType, name: str) -> str:
    data_type = with_digits(data_type)
    kind, length, digits = data_type.kind, data_type.length, data_type.decimal
    match kind:
        case Kind.INTEGER:
            return f"({length or _USUAL_DIGITS[name][data_type.unsigned]})"
        case Kind.DECIMAL if length:
            return f"({length},{digits})"
        case Kind.FLOAT | Kind.DOUBLE if digits:
            return f"({length},{digits})"
        case Kind.ENUM | Kind.SET:
            return "(" + ",".join(f"'{e.translate(_ELEMENT)}'" for e in data_type.elements) + ")"
        case Kind.YEAR:
            return f"({length or _YEAR_WIDTH})"
        case Kind.BIT:
            return f"({length or 1})"
        case Kind.VECTOR if length > 0:
            return f"({length})"
    if kind in _TIMED and digits:
        return f"({digits})"
    return f"({length})" if name in ("char", "varchar", "binary", "varbinary") and length > 0 else ""
