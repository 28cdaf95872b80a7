"""A condition in MySQL's words on the columns of a row, as one that Spark computes.

It is computed as TiDB computes it, in whose words MySQL's differ from it nowhere, or refused: what is supported stands
in tables of operators and functions, each with the sorts of values that it takes. Source: Changefeed configuration,
value expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import sqlglot
from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from tidecast._errors import ConfigError
from tidecast.expressions import bit_number, enum_number, set_number, shift_zone
from tidecast.model import Column as TableColumn
from tidecast.model import Kind, TableSchema
from tidecast.routing._operators import Dialect, Translator
from tidecast.routing._values import MAX_DIGITS, Sort, Unsupported, Value, exact, integer, truth

_SEEN = "seen by a filter: "
_INVALID = "CDC:ErrInvalidFilterExpression"
_NO_VALUES = (exp.Query, exp.Star, exp.Parameter, exp.SessionParameter, exp.Placeholder)
"""What has no value in the row itself: queries, every column at once, variables."""

_LONGEST = 20_000


@dataclass(frozen=True)
class Condition:
    """A condition as SQL of Spark, never null, on columns that are named so only here: `values`."""

    sql: str
    values: dict[str, Column] = field(default_factory=dict)


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
    """What an expression sees of a column: the form of its value, by which Spark's SQL names it."""

    column: TableColumn
    form: Callable[[TableColumn, Column], Column]


class _Row:
    """The columns of a table as values, of which it keeps those that were asked for."""

    def __init__(self, schema: TableSchema, text: str) -> None:
        self._schema, self._text = schema, text
        self._columns = {c.name.lower(): c for c in schema.columns if not c.virtual}
        self.seen: dict[_Seen, str] = {}

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
        return _SORTS[column.data_type.kind](column, lambda form: self._name(_Seen(column, form)))

    def _name(self, seen: _Seen) -> str:
        return f"`{self.seen.setdefault(seen, f'{_SEEN}{len(self.seen)}')}`"


def check_condition(text: str, schema: TableSchema) -> tuple[str, dict[_Seen, str]]:
    """Return a condition on a table's columns as SQL of Spark, and the names in it of what it sees of them.

    Raises ConfigError where it is none or is not supported (`CDC:ErrInvalidFilterExpression`) or names a column that
    there is not (`CDC:ErrExpressionColumnNotFound`).
    """
    row = _Row(schema, text)
    try:
        value = Translator(row.value).value(parse_condition(text))
        if value.sort is Sort.EXACT and value.integer:  # MySQL's result is to be 1
            value = truth(f"{value.sql} = 1")
        elif value.sort not in (Sort.TRUTH, Sort.NULL):
            raise Unsupported(f"it gives {value.sort.value}, not a condition: compare it with something")
    except Unsupported as error:
        raise _invalid(text, schema, str(error)) from None
    except RecursionError:
        raise _invalid(text, schema, "it is nested too deep") from None
    return value.sql, row.seen


def read_condition(text: str, schema: TableSchema, row: str, zone: str) -> Condition:
    """Return a condition on the row of a table that column `row` holds.

    `zone` is the time zone in which it sees TIMESTAMP values. It holds where MySQL's result is 1. Raises as
    `check_condition` does.
    """
    sql, seen = check_condition(text, schema)
    values = {}
    for (column, form), name in seen.items():
        value = F.col(row)[column.name]
        if column.data_type.kind is Kind.TIMESTAMP:
            value = shift_zone(value, "UTC", zone)
        values[name] = form(column, value)
    return Condition(f"coalesce({sql}, false)", values)


def _invalid(text: str, schema: TableSchema, why: str) -> ConfigError:
    return ConfigError(
        f"invalid filter expression '{text}': {why}",
        code=_INVALID,
        where=f"table {schema.name}",
        hint="the document Changefeed configuration lists what value expressions may have",
    )


_Naming = Callable[[Callable[[TableColumn, Column], Column]], str]


def _plain(column: TableColumn, value: Column) -> Column:
    return value


def _bits(column: TableColumn, value: Column) -> Column:
    return bit_number(value)


def _element(column: TableColumn, value: Column) -> Column:
    return enum_number(column.data_type, value)


def _mask(column: TableColumn, value: Column) -> Column:
    return set_number(column.data_type, value)


_BYTES_OF = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}


def _integer(column: TableColumn, name: _Naming) -> Value:
    size, unsigned = 8 * _BYTES_OF[column.data_type.mysql_type], column.data_type.unsigned
    low, high = (0, (1 << size) - 1) if unsigned else (-(1 << size - 1), (1 << size - 1) - 1)
    return replace(integer(name(_plain), low, high, unsigned=unsigned), textless=column.data_type.zerofill)


def _year(column: TableColumn, name: _Naming) -> Value:
    return replace(integer(name(_plain), 0, 9999, unsigned=True), year=True, textless=True)


def _decimal(column: TableColumn, name: _Naming) -> Value:
    digits, scale = column.data_type.length, column.data_type.decimal
    if 0 < digits <= MAX_DIGITS:
        return exact(name(_plain), 1 - 10**digits, 10**digits - 1, scale)
    fits = 0 < digits <= MAX_DIGITS + scale
    return Value(name(_plain), Sort.LONG if fits else Sort.OTHER)


def _real(column: TableColumn, name: _Naming) -> Value:
    return Value(f"CAST({name(_plain)} AS DOUBLE)", Sort.REAL)


def _bit(column: TableColumn, name: _Naming) -> Value:
    return integer(name(_bits), 0, (1 << (column.data_type.length or 64)) - 1, unsigned=True)


def _text(column: TableColumn, name: _Naming) -> Value:
    kind = column.data_type
    return Value(name(_plain), Sort.TEXT, collate=kind.collate, charset=kind.charset)


def _choice(column: TableColumn, name: _Naming) -> Value:
    kind = column.data_type
    if kind.kind is Kind.ENUM:
        number = integer(name(_element), 0, len(kind.elements), unsigned=True)
    else:
        number = integer(name(_mask), 0, (1 << len(kind.elements)) - 1, unsigned=True)
    return Value(name(_plain), Sort.CHOICE, collate=kind.collate, charset=kind.charset, number=number)


def _of_sort(sort: Sort) -> Callable[[TableColumn, _Naming], Value]:
    return lambda column, name: Value(name(_plain), sort, column=sort in (Sort.MOMENT, Sort.CLOCK))


_SORTS: dict[Kind, Callable[[TableColumn, _Naming], Value]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _year,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
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
