"""Schemas in messages as tables of the model. Source: Debezium protocol, column types, tableChanges, the real consumer.

A row's schema tells forms, and with the extension TiDB's types; a schema change tells more. In
neither may be the length of a VARCHAR, the digits of a DECIMAL, the sign of a number without the extension.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

from tidecast.model import (
    Column,
    DataType,
    Definition,
    Index,
    InvalidSchema,
    Kind,
    Statement,
    TableSchema,
    bit_width,
    type_name,
    usual_length,
)
from tidecast.protocols._allowed import split_options
from tidecast.protocols.debezium._ddl_literals import datetime_text, time_text
from tidecast.protocols.debezium._defaults import EPOCH_TEXT, in_milliseconds, zone_of
from tidecast.protocols.debezium._encode_ddl import WIDTHS
from tidecast.protocols.debezium._known import Chosen, chosen
from tidecast.protocols.debezium._schema import Form, column_schema, form

NOW = "CURRENT_TIMESTAMP"
_EPOCH_DEFAULT = "1970-01-01 00:00:00"
_EPOCH = dt.datetime(1970, 1, 1)
DECIMAL = "org.apache.kafka.connect.data.Decimal"
CONNECT_DATE = "org.apache.kafka.connect.data.Date"
CONNECT_TIME = "org.apache.kafka.connect.data.Time"
"""Milliseconds, unlike Debezium's own."""
CONNECT_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_UTF8 = ("utf8mb4", "utf8mb4_bin")
_COLLATIONS = {"binary": "binary", "gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci"}

_TYPES = {
    ("boolean", None): "bit",
    ("int8", None): "tinyint",
    ("int16", None): "smallint",
    ("int32", None): "int",
    ("int64", None): "bigint",
    ("float", None): "float",
    ("double", None): "double",
    ("string", None): "varchar",
    ("bytes", None): "varbinary",
    ("bytes", "io.debezium.data.Bits"): "bit",
    ("bytes", DECIMAL): "decimal",
    ("string", "io.debezium.data.Enum"): "enum",
    ("string", "io.debezium.data.EnumSet"): "set",
    ("string", "io.debezium.data.Json"): "json",
    ("string", "io.debezium.data.TiDBVectorFloat32"): "vector",
    ("int32", "io.debezium.time.Date"): "date",
    ("int64", "io.debezium.time.Timestamp"): "datetime",
    ("int64", "io.debezium.time.MicroTimestamp"): "datetime",
    ("int32", CONNECT_DATE): "date",
    ("int64", CONNECT_TIMESTAMP): "datetime",
    ("int32", CONNECT_TIME): "time",
    ("string", "io.debezium.time.ZonedTimestamp"): "timestamp",
    ("int64", "io.debezium.time.MicroTime"): "time",
    ("int32", "io.debezium.time.Year"): "year",
}
"""The MySQL type that holds all values of a form, where the extension does not tell the real one."""

_INT64_MAX = float(2**63 - 1)
_EXACT = Context(prec=100)
_MICRO = "io.debezium.time.MicroTimestamp"
ANY = "any"
"""The type of a form in which a number may be text, or not."""
_UNKNOWN_DIGITS = -1
"""The length of a FLOAT(M,D) whose M is not known."""
_BLANKS = " \t\r\n"
_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_LOST = "\ufffd"
"""What Go shows of a byte that is no UTF-8."""


@dataclass(frozen=True)
class Field:
    """A column of the model and the form of its values in a message.

    `digits` tells that the column's fractional seconds are known, and not a guess from the form.
    """

    column: Column
    form: Form
    digits: bool = False


def fields_of(schema: TableSchema, types: Mapping[str, str] | None = None) -> tuple[Field, ...]:
    """Return the fields of a table that TiCDC writes. `types` are Connect's by column; None where nothing tells."""
    told = types or {}

    def shape(column: Column) -> Form:
        return Form(told.get(column.name, ANY)) if may_be_text(column.data_type) else form(column.data_type)

    return tuple(Field(c, shape(c), digits=True) for c in schema.columns)


class MoreAfterEnd(Exception):
    """A message does not end with the bracket after its schema."""


def read_block(text: bytes, known: Sequence[TableSchema], begun: int) -> tuple[Chosen, tuple[Field, ...]] | None:
    """Return the fields that a row's schema tells, and the table that it is of, if one of `known` would give it.

    `begun` of these begin before the row, see `chosen`. None where the schema is none of Debezium's, or has a type that
    cannot be read. `text` is without its first bracket, and has the message's last one. Raises MoreAfterEnd where
    something else follows it.
    """
    try:
        left = "{" + text.decode()
        block, end = json.JSONDecoder(parse_float=Decimal).raw_decode(left)
        if left[end:].rstrip(_BLANKS) != "}":
            raise MoreAfterEnd
        sides = {f.get("field"): f for f in block["fields"]}
        columns: list[dict[str, Any]] = (sides.get("after") or sides["before"])["fields"]
        names = [*dict.fromkeys(c["field"] for c in columns)]
        found = chosen(known, begun, names, lambda schema: _gives(schema, columns))
        if found.schema is not None:
            return found, fields_of(found.schema, {c["field"]: c["type"] for c in columns})
        fields: dict[str, Field] = {}
        for column in columns:
            field = column_field(column)
            twice = column["field"] in fields
            fields[column["field"]] = replace(field, column=replace(field.column, virtual=twice))
        return found, tuple(fields.values())
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None


def _gives(schema: TableSchema, columns: Sequence[dict[str, Any]]) -> bool:
    mine = {c.name: c for c in schema.columns}
    return all(c["field"] in mine and _is_of(mine[c["field"]], c) for c in columns)


def _is_of(column: Column, field: dict[str, Any]) -> bool:
    """Tell whether a field's schema is a column's in one of the modes that there are. Numbers compare as doubles."""
    data_type, default = column.data_type, field.get("default")
    shown = column_schema(column, "tidb_type" in field)
    binary = data_type.kind is Kind.BINARY and field["type"] == "bytes"
    if binary or (field["type"] == "string" and may_be_text(data_type)):
        shown |= {"type": field["type"]}
    if shown | {"default": None} != field | {"default": None}:
        return False
    if default is not None and data_type.kind in _NUMBERS:
        try:
            default = float(_number(data_type, default))
        except (ValueError, ArithmeticError):  # which no number's is
            return False
    return binary or bool(shown.get("default") == default)


def may_be_text(data_type: DataType) -> bool:
    """Tell whether newer TiCDC may write a type's numbers as text."""
    return data_type.kind is Kind.DECIMAL or (data_type.mysql_type == "bigint" and data_type.unsigned)


def column_field(field: dict[str, Any]) -> Field:
    """Return the field of a column from its schema. Raises what `read_block` takes for a schema that is none."""
    shape = Form(field["type"], field.get("name"), field.get("parameters") or {}, field.get("version"))
    data_type = _data_type(shape, field.get("tidb_type"))
    default = field.get("default")
    if data_type.mysql_type == "bigint" and default is not None and float(default) > _INT64_MAX:
        data_type = replace(data_type, unsigned=True)
    known = True
    if default is not None:
        default = default * 1000 if shape.name == CONNECT_TIME else default
        read = _OF_BYTES.get(data_type.kind) if shape.type == "bytes" else None
        read = read or _DEFAULTS.get(data_type.kind)
        default = read(data_type, default) if read else str(default)
        known = default is not None
    return Field(Column(field["field"], data_type, field.get("optional", False), default, default_known=known), shape)


def _data_type(shape: Form, tidb_type: str | None) -> DataType:
    name, _, sign = (tidb_type or _TYPES[shape.type, shape.name]).partition(" ")
    data_type = DataType(name, unsigned=sign == "unsigned")
    match data_type.kind:
        case Kind.BINARY if not name.endswith(("binary", "blob")):
            return replace(data_type, charset=_UTF8[0], collate=_UTF8[1])
        case Kind.BIT:
            return replace(data_type, length=int(shape.parameters.get("length", 1)), unsigned=True)
        case Kind.FLOAT if shape.type == "double":
            return replace(data_type, length=_UNKNOWN_DIGITS)
        case Kind.DECIMAL if shape.name == DECIMAL:
            told = (shape.parameters.get(name) for name in ("connect.decimal.precision", "precision"))
            precision = next((int(digits) for digits in told if digits is not None), 0)
            return replace(data_type, length=precision, decimal=int(shape.parameters["scale"]))
        case Kind.ENUM | Kind.SET as kind:
            allowed = shape.parameters["allowed"]
            elements = split_options(allowed) if kind is Kind.ENUM else tuple(allowed.split(",") if allowed else ())
            return replace(data_type, charset=_UTF8[0], collate=_UTF8[1], elements=elements)
        case Kind.DATETIME:
            data_type = replace(data_type, decimal=6 if shape.name == _MICRO else 3)
            return replace(data_type, length=usual_length(data_type))
    return data_type


def _number(data_type: DataType, default: Any) -> str:
    if data_type.kind is not Kind.INTEGER:
        return format(Decimal(default), "f")
    low, high = (0, 2**64 - 1) if data_type.unsigned else (-(2**63), 2**63 - 1)
    number = int(default)
    if number < low and data_type.unsigned:  # which newer TiCDC wraps
        number += 2**64
    return str(min(max(number, low), high))


def _bits(data_type: DataType, default: Any) -> int | None:
    """Read a BIT's default; older TiCDC shows TiDB's bytes as text, of which base64 would have more."""
    if isinstance(default, bool):
        return int(default)
    if _LOST in default:
        return None
    shown = default.encode()
    if len(shown) <= bit_width(data_type):
        return int.from_bytes(shown, "big")
    return int.from_bytes(base64.b64decode(shown), "little")


def _date(data_type: DataType, default: Any) -> str:
    return str(_EPOCH.date() + dt.timedelta(days=int(default)))


def _datetime(data_type: DataType, default: Any) -> str | None:
    """Read a DATETIME's default; older TiCDC shows it as text."""
    if isinstance(default, str):
        return default if datetime_text(default, data_type.decimal) else None
    if default == 0:
        return NOW
    unit = 1000 if in_milliseconds(data_type) else 1
    return str(_EPOCH + dt.timedelta(microseconds=int(default) * unit))


def _timestamp(data_type: DataType, default: Any) -> str:
    return NOW if default in (0, EPOCH_TEXT) else str(default).replace("T", " ").rstrip("Z")


def _time(data_type: DataType, default: Any) -> str:
    seconds, fraction = divmod(abs(int(default)), 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return ("-" if default < 0 else "") + text + (f".{fraction:06}" if fraction else "")


_DEFAULTS: dict[Kind, Callable[[DataType, Any], str | int | None]] = {
    **dict.fromkeys(_NUMBERS, _number),
    Kind.BIT: _bits,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}


def _decimal_bytes(data_type: DataType, default: str) -> str:
    unscaled = int.from_bytes(base64.b64decode(default), "big", signed=True)
    return format(Decimal(unscaled).scaleb(-data_type.decimal, _EXACT), "f")


def _binary(data_type: DataType, default: str) -> str | None:
    try:
        return base64.b64decode(default).decode()
    except UnicodeDecodeError:  # which the model cannot hold
        return None


_OF_BYTES: dict[Kind, Callable[[DataType, Any], str | int | None]] = {
    Kind.DECIMAL: _decimal_bytes,
    Kind.BINARY: _binary,
}
"""What reads defaults of columns whose values are bytes, where those are of another form than other columns'."""


def read_table(
    table: dict[str, Any], name: tuple[str, str], version: int, statement: Statement | None, zone: str
) -> TableSchema:
    """Return the table that a schema change shows. `zone` is that of TIMESTAMP defaults which its statement gives.

    It shows the primary key alone; what other key a table has, CREATE TABLE and the keys of rows' messages tell. Raises
    KeyError, TypeError or ValueError where it is not of that form, InvalidSchema for a type that MySQL lacks.
    """
    keys = table["primaryKeyColumnNames"] or ()
    definitions = statement.definitions if statement else {}
    columns = tuple(_changed_column(c, definitions.get(c["name"]), zone) for c in table["columns"])
    there = {c.name.lower(): c for c in columns}
    told = statement.unique.items() if statement else ()
    keyed = ((index, [*map(str.lower, names)]) for index, names in told)
    unique = ((index, [there[name] for name in names]) for index, names in keyed if there.keys() >= {*names})
    indexes = Index.of_key(keys) or tuple(
        Index(index, True, False, any(c.nullable for c in of), tuple(c.name for c in of)) for index, of in unique
    )
    schema = TableSchema(*name, 0, version, columns, indexes)
    return replace(schema, keys_known=bool(schema.handle_key))


def _changed_column(column: dict[str, Any], definition: Definition | None, zone: str) -> Column:
    """Return a column, and `definition` is what the statement says of it."""
    name, flags = type_name(column["typeName"]), column["typeName"].lower().split()
    length, scale = column["length"], column["scale"]
    # TiCDC tells the character set of all text; what Debezium's own connector leaves out is the server's.
    charset = column["charsetName"] or (_UTF8[0] if DataType(name, _UTF8[0]).kind is Kind.TEXT else "binary")
    if column["typeName"].lower() in _BOOLEANS:
        length = 1
    elements = tuple(e[1:-1] for e in column["enumValues"] or ())
    data_type = DataType(
        name,
        charset if name != _OF_VIEWS else "",
        _COLLATIONS.get(charset, f"{charset}_bin"),
        elements=elements,
        unsigned="unsigned" in flags or name in ("bit", "year"),
        zerofill="zerofill" in flags or name == "year",
    )
    if data_type.kind is Kind.UNKNOWN and name != _OF_VIEWS:
        raise InvalidSchema(f"column {column['name']} is of type {column['typeName']}, which cannot be read")
    if data_type.kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME):
        data_type = replace(data_type, decimal=length or 0)
    if usual := usual_length(data_type):
        data_type = replace(data_type, length=usual)
    else:
        decimal = scale or 0 if data_type.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE) else 0
        data_type = replace(data_type, length=_length(data_type) if length is None else length, decimal=decimal)
    default = column["defaultValueExpression"]
    return Column(
        column["name"],
        data_type,
        column["optional"],
        None if default is None else _stored(data_type, default, definition, zone),
    )


_OF_VIEWS = "unspecified"
_BOOLEANS = ("bool", "boolean")


def _length(data_type: DataType) -> int:
    if data_type.kind is Kind.INTEGER:
        return WIDTHS[data_type.mysql_type][data_type.unsigned]
    return _HIDDEN_LENGTHS.get(data_type.mysql_type, 0)


_HIDDEN_LENGTHS = {
    "float": 12,
    "double": 22,
    "year": 4,
    "vector": -1,
    **dict.fromkeys(("bit", "char", "binary"), 1),
    **dict.fromkeys(("varchar", "varbinary"), 5),
    **dict.fromkeys(("tinytext", "tinyblob"), 2**8 - 1),
    **dict.fromkeys(("text", "blob"), 2**16 - 1),
    **dict.fromkeys(("mediumtext", "mediumblob"), 2**24 - 1),
    **dict.fromkeys(("longtext", "longblob"), 2**32 - 1),
}
"""The lengths that a schema change does not show."""


def _stored(data_type: DataType, default: str, definition: Definition | None, zone: str) -> str | int | None:
    """Return a default as TiDB keeps it; a statement that defines a time may write it in other forms."""
    literal = definition.default if definition else None
    match data_type.kind:
        case Kind.BIT:
            # TiCDC spoils bytes from 0x80 on; what comes of them has too many digits.
            if not default.strip("01") and 0 < len(default) <= max(data_type.length, 8):
                return int(default, 2)
            return int(literal) if literal and literal.isdecimal() else None
        case Kind.TIME:
            return time_text(default, data_type.decimal) or default
        case Kind.DATETIME | Kind.TIMESTAMP as kind:
            if default == _EPOCH_DEFAULT:
                return NOW
            moment = datetime_text(default, data_type.decimal) or default
            written = definition is not None and definition.whole and literal is not None
            return _in_utc(moment, zone) if written and kind is Kind.TIMESTAMP else moment
    return default


def _in_utc(text: str, zone: str) -> str:
    """Return a wall clock's time in UTC; what is no moment, such as the zero date, stays."""
    seconds = len(_EPOCH_DEFAULT)
    try:
        wall = dt.datetime.fromisoformat(text[:seconds]).replace(tzinfo=zone_of(zone))
    except ValueError:
        return text
    return str(wall.astimezone(dt.UTC).replace(tzinfo=None)) + text[seconds:]
