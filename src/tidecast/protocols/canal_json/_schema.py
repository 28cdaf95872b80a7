"""The table that a row's message shows: names, types, primary key. Source: Canal-JSON protocol, values and types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from tidecast.model import Column, DataType, Index, InvalidSchema, Kind, TableSchema, checked, type_name, usual_length
from tidecast.protocols._schema_file import text_if_unlisted
from tidecast.protocols.canal_json._column_types import mysql_type
from tidecast.values import TEXT, enum_number, set_mask

_NAME = r"(?:national )?[a-z_]+[1-8]?(?: varying| precision)?"
_TYPE = re.compile(
    rf"(?P<sign>unsigned )?(?P<name>{_NAME})(?:\((?P<arguments>.*)\))?(?P<signs>(?: unsigned| zerofill)*)", re.I | re.S
)
"""Old versions of TiCDC wrote UNSIGNED first; Canal keeps the name that a statement has."""
_ELEMENTS = re.compile(r"'(?:[^']|'')*'(?:,'(?:[^']|'')*')*", re.S)
_ELEMENT = re.compile(r"'((?:[^']|'')*)'", re.S)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NUMBERS = re.compile(r"[0-9]{1,10}(?:,[0-9]{1,10})?")

_UTF8 = ("utf8mb4", "utf8mb4_bin")
_MOST_BITS, _MOST_DIGITS = 64, 6
_SCALED = (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
_TIMED = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_NUMBERED = {
    Kind.ENUM: DataType("smallint", unsigned=True),
    Kind.SET: DataType("bigint", unsigned=True),
}
"""What an ENUM or a SET is without its elements' names: the number of its element, the mask of its elements."""


def table_schema(
    name: tuple[str, str], version: int, columns: Sequence[str], types: Mapping[str, str | None], keys: Sequence[str]
) -> TableSchema:
    """Return the table whose row shows these columns, in this order, with their types, and this primary key.

    Types come without their numbers and elements, unless `content-compatible` is on. A type then is one that holds
    every value which the column may have. A DECIMAL is text, a BIT has 64 bits, moments have six digits of seconds. An
    ENUM is its element's number, a SET its mask. Raises InvalidSchema where there can be no such table.
    """
    whole = any("(" in (text or "") for text in types.values())
    made = (Column(c, _data_type(c, types[c], whole), c not in keys, default_known=False) for c in columns)
    return checked(TableSchema(*name, 0, version, tuple(made), Index.of_key(keys)))


def as_shown(schema: TableSchema, *, whole: bool) -> TableSchema:
    """Return a table that something else tells as its rows would show it: with `whole` types, or with bare ones."""
    return replace(schema, columns=tuple(_as_shown(column, whole) for column in schema.columns))


def _as_shown(column: Column, whole: bool) -> Column:
    column = text_if_unlisted(column) if whole else column
    data_type = _data_type(column.name, mysql_type(column.data_type, whole=whole), whole)
    return replace(column, data_type=data_type, default=column.default if whole else _bare_default(column))


def _bare_default(column: Column) -> str | int | None:
    """Return what rows hold by a column's default, or by MySQL's own, in a form of which bare types know too little."""
    of, default = column.data_type, column.default
    if default is None and not column.nullable:
        default = "0" if of.kind is Kind.DECIMAL else of.elements[0] if of.kind is Kind.ENUM and of.elements else None
    if not isinstance(default, str):
        return default
    if of.kind is Kind.DECIMAL:
        return f"{Decimal(default):.{of.decimal}f}" if _NUMBER.fullmatch(default) else default
    listed = {Kind.ENUM: enum_number, Kind.SET: set_mask}.get(of.kind)
    number = listed(of, pa.array([default], TEXT))[0].as_py() if listed else None
    return default if number is None else str(number)


def _data_type(column: str, text: str | None, whole: bool) -> DataType:
    """Return the type that a text names. `whole` tells that a type without numbers has none."""
    found = _TYPE.fullmatch(text or "")
    name = type_name(found["name"]) if found else ""
    kind = DataType(name).kind
    if found is None or kind is Kind.UNKNOWN:
        raise InvalidSchema(f"column {column} is of type {text}, which TiDB does not have")
    arguments, signs = found["arguments"] or "", (found["sign"] or "") + found["signs"].lower()
    if kind in (Kind.ENUM, Kind.SET):
        if not arguments:
            return _NUMBERED[kind]
        if not _ELEMENTS.fullmatch(arguments):
            raise InvalidSchema(f"column {column} is of type {text}, whose elements cannot be told apart")
        elements = tuple(e.replace("''", "'") for e in _ELEMENT.findall(arguments))
        return DataType(name, *_UTF8, elements=elements)
    if arguments and not _NUMBERS.fullmatch(arguments):
        raise InvalidSchema(f"column {column} is of type {text}, which TiDB does not have")
    first, second = (int(n) for n in [*filter(None, arguments.split(",")), 0, 0][:2])
    unsigned = bool(signs)  # ZEROFILL is never without
    if kind in _SCALED:
        return DataType(name, length=first, decimal=second, unsigned=unsigned, zerofill="zerofill" in signs)
    if kind in _TIMED:
        timed = DataType(name, decimal=first if whole else _MOST_DIGITS)
        return replace(timed, length=usual_length(timed))
    if kind is Kind.BIT:
        return DataType(name, length=first or _MOST_BITS, unsigned=True)
    if kind is Kind.BINARY and not name.endswith(("binary", "blob")):
        return DataType(name, *_UTF8, length=first)
    return DataType(name, length=first, unsigned=unsigned, zerofill="zerofill" in signs)
