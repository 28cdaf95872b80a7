"""A condition in MySQL's words on the columns of a row.

It is computed where TiDB and MySQL compute the same, and else refused. Tables of operators and functions have what is
supported, each with the sorts of values that it takes. Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tidecast._errors import ConfigError
from tidecast.model import Column, DataType, Kind, TableSchema
from tidecast.routing._operators import Dialect, Translator
from tidecast.routing._values import Read, Sort, Unsupported, Value, exact, integer, truth
from tidecast.values import bit_number, enum_number, field, set_mask, shift_zone

_INVALID = "CDC:ErrInvalidFilterExpression"
_NO_VALUES = (exp.Query, exp.Star, exp.Parameter, exp.SessionParameter, exp.Placeholder)
"""What has no value in the row itself: queries, every column at once, variables."""

_LONGEST = 20_000


def parse_condition(text: str) -> exp.Expression:
    """Return the tree of a condition. Raises ConfigError where it is none (`CDC:ErrInvalidFilterExpression`)."""
    if len(text) > _LONGEST:  # a stranger's may be of any length, and is read slowly
        raise ConfigError(f"a filter expression has more than {_LONGEST} characters", code=_INVALID)
    near = None
    try:
        statements = sqlglot.parse(f"SELECT {text}", read=Dialect)
    except sqlglot.ParseError as error:
        near = error.errors[0].get("highlight") if error.errors else None
    except (sqlglot.errors.SqlglotError, RecursionError):
        pass
    else:
        query = statements[0] if len(statements) == 1 else None
        parts = {name: part for name, part in query.args.items() if part} if isinstance(query, exp.Select) else {}
        found = parts.pop("expressions", [])
        if len(found) == 1 and not parts and not isinstance(found[0], exp.Alias) and not found[0].find(*_NO_VALUES):
            return exp.Paren(this=found[0])
    raise ConfigError(
        f"invalid filter expressions. There is a syntax error in: '{text}'" + (f", near '{near}'" if near else ""),
        code=_INVALID,
        hint="write one condition on a table's columns, as it stands after WHERE",
    )


class _Seen(NamedTuple):
    """A column as an expression sees it: the form of its values."""

    column: Column
    form: Form


class _Row:
    """The columns of a table as values, of which it keeps those that were asked for."""

    def __init__(self, schema: TableSchema, text: str) -> None:
        self._schema, self._text = schema, text
        self._columns = {c.name.lower(): c for c in schema.columns if not c.virtual}
        self.seen: dict[_Seen, int] = {}

    def value(self, node: exp.Column) -> Value:
        """Return the value of a column that is named. Raises ConfigError where the table has not one."""
        here = {"table": self._schema.table, "db": self._schema.database, "catalog": ""}
        elsewhere = any(node.text(part).lower() not in ("", name.lower()) for part, name in here.items())
        column = None if elsewhere else self._columns.get(node.name.lower())
        if column is None:
            named = ".".join(part.name for part in node.parts)
            raise ConfigError(
                f"invalid filter expression(s). Cannot find column '{named}' from table '{self._schema.name}' "
                f"in: {self._text}",
                code="CDC:ErrExpressionColumnNotFound",
                hint=f"it has {', '.join(self._columns)}",
            )
        return _SORTS[column.data_type.kind](column, lambda form: self._read(_Seen(column, form)))

    def _read(self, seen: _Seen) -> Read:
        return itemgetter(self.seen.setdefault(seen, len(self.seen)))


@dataclass(frozen=True)
class Condition:
    """A condition on the rows of one table: a function of what it sees of them."""

    read: Read
    seen: tuple[_Seen, ...]

    def holds(self, rows: pa.StructArray, zone: str) -> np.ndarray:
        """Return of which rows of the table (see `tidecast.values.row_type`) MySQL's result is 1.

        `zone` is the time zone in which it sees TIMESTAMP values. Raises ValueError where a number has no place in its
        type: see `OUT_OF_RANGE`.
        """
        columns = []
        for column, form in self.seen:
            values = field(rows, column.name)
            if column.data_type.kind is Kind.TIMESTAMP:
                values = shift_zone(values, "UTC", zone)
            columns.append(form(column, values))
        if not columns:
            return np.full(len(rows), self.read(()) is True)
        return np.fromiter((self.read(row) is True for row in zip(*columns, strict=True)), bool, len(rows))


@lru_cache(1024)
def condition_of(text: str, schema: TableSchema) -> Condition:
    """Return a condition on a table's columns.

    Raises ConfigError where it is none or is not supported (`CDC:ErrInvalidFilterExpression`) or names a column that
    there is not (`CDC:ErrExpressionColumnNotFound`).
    """
    row = _Row(schema, text)
    try:
        value = Translator(row.value).value(parse_condition(text))
        if value.hybrid:  # TiCDC takes its bytes for no number, and so for false
            raise Unsupported("it gives a BIT, not a condition: compare it with something")
        if value.sort is Sort.EXACT and value.integer:  # MySQL's result is to be 1
            of = value.read
            value = truth(lambda seen: of(seen) == 1)
        elif value.sort not in (Sort.TRUTH, Sort.NULL):
            raise Unsupported(f"it gives {value.sort.value}, not a condition: compare it with something")
    except Unsupported as error:
        raise _invalid(text, schema, str(error)) from None
    except RecursionError:
        raise _invalid(text, schema, "it is nested too deep") from None
    return Condition(value.read, tuple(row.seen))


def _invalid(text: str, schema: TableSchema, why: str) -> ConfigError:
    return ConfigError(
        f"invalid filter expression '{text}': {why}",
        code=_INVALID,
        where=f"table {schema.name}",
        hint="the document Changefeed configuration lists what value expressions may have",
    )


Form = Callable[[Column, pa.Array], list[Any]]
"""What of a column's values an expression sees."""
_Reading = Callable[[Form], Read]


def _plain(column: Column, values: pa.Array) -> list[Any]:
    return [*values.to_pylist()]


def _decimals(column: Column, values: pa.Array) -> list[Any]:
    """Return decimals, of which the model has those of more than 38 digits as text."""
    found: list[Any] = values.to_pylist()
    return found if pa.types.is_decimal(values.type) else [None if v is None else _decimal_of(v) for v in found]


def _decimal_of(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _numbers(column: Column, values: pa.Array) -> list[Any]:
    """Return the numbers of a BIT, an ENUM or a SET."""
    return [*_NUMBERS[column.data_type.kind](column.data_type, values).to_pylist()]


_NUMBERS: dict[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.BIT: lambda data_type, values: bit_number(values),
    Kind.ENUM: enum_number,
    Kind.SET: set_mask,
}
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_BYTES_OF = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}


def _integer(column: Column, reading: _Reading) -> Value:
    size, unsigned = 8 * _BYTES_OF[column.data_type.mysql_type], column.data_type.unsigned
    low, high = (0, (1 << size) - 1) if unsigned else (-(1 << size - 1), (1 << size - 1) - 1)
    return replace(integer(reading(_plain), low, high, unsigned=unsigned), textless=column.data_type.zerofill)


def _year(column: Column, reading: _Reading) -> Value:
    return replace(integer(reading(_plain), 0, 9999, unsigned=True), year=True, textless=True)


def _decimal(column: Column, reading: _Reading) -> Value:
    digits, scale = column.data_type.length, column.data_type.decimal
    if digits <= 0:  # of an old message, which does not tell
        return Value(reading(_plain), Sort.OTHER)
    return exact(reading(_decimals), 1 - 10**digits, 10**digits - 1, scale)


def _bit(column: Column, reading: _Reading) -> Value:
    # As text TiDB takes its bytes, and not its digits.
    highest = (1 << (column.data_type.length or 64)) - 1
    return replace(integer(reading(_numbers), 0, highest, unsigned=True), hybrid=True, textless=True)


def _text(column: Column, reading: _Reading) -> Value:
    kind = column.data_type
    return Value(reading(_plain), Sort.TEXT, collate=kind.collate, charset=kind.charset)


def _choice(column: Column, reading: _Reading) -> Value:
    kind = column.data_type
    highest = len(kind.elements) if kind.kind is Kind.ENUM else (1 << len(kind.elements)) - 1
    number = integer(reading(_numbers), 0, highest, unsigned=True)
    return Value(reading(_plain), Sort.CHOICE, collate=kind.collate, charset=kind.charset, number=number)


def _of_sort(sort: Sort) -> Callable[[Column, _Reading], Value]:
    return lambda column, reading: Value(reading(_plain), sort, column=sort in (Sort.MOMENT, Sort.CLOCK))


_SORTS: dict[Kind, Callable[[Column, _Reading], Value]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _year,
    Kind.FLOAT: _of_sort(Sort.REAL),
    Kind.DOUBLE: _of_sort(Sort.REAL),
    Kind.DECIMAL: _decimal,
    Kind.TEXT: _text,
    Kind.BINARY: _of_sort(Sort.BYTES),
    Kind.BIT: _bit,
    Kind.ENUM: _choice,
    Kind.SET: _choice,
    Kind.JSON: _of_sort(Sort.OTHER),
    Kind.VECTOR: _of_sort(Sort.OTHER),
    Kind.DATE: _of_sort(Sort.MOMENT),
    Kind.DATETIME: _of_sort(Sort.MOMENT),
    Kind.TIMESTAMP: _of_sort(Sort.MOMENT),
    Kind.TIME: _of_sort(Sort.CLOCK),
    Kind.UNKNOWN: _of_sort(Sort.OTHER),
}
