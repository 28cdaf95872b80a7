"""A condition in MySQL's words on the columns of a row, as one that Spark computes.

MySQL compares by what stands on the other side: text with a number as numbers, times by the moment and not by their
text, ENUM and SET with a number by their own. Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import sqlglot
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from tidecast._errors import ConfigError
from tidecast.expressions import bit_number, enum_number, set_number, shift_zone
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, TableSchema

_SEEN = "seen by a filter: "
_INVALID = "CDC:ErrInvalidFilterExpression"
_NO_VALUES = (exp.Query, exp.Star, exp.Parameter, exp.SessionParameter, exp.Placeholder)
"""What has no value in the row itself: queries, every column at once, variables."""

_REASONS = {
    "DATATYPE_MISMATCH": "the types of its operands do not go together",
    "UNRESOLVED_ROUTINE": "it calls a function that is not known",
    "WRONG_NUM_ARGS": "it calls a function with too few or too many arguments",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In)
_MOMENTS = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_LONGEST = 20_000
_CLOCK = re.compile(r"(-?)([0-9]+):([0-9]+)(?::([0-9]+(?:\.[0-9]*)?))?")
_DIGITS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2}))?")


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
        statements = sqlglot.parse(f"SELECT {text}", read="mysql")
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


def columns_of(tree: exp.Expression, schema: TableSchema, text: str) -> list[tuple[exp.Column, TableColumn]]:
    """Return the columns that a condition names, each with the table's own.

    Raises ConfigError where the table has not one (`CDC:ErrExpressionColumnNotFound`).
    """
    columns = {c.name.lower(): c for c in schema.columns if not c.virtual}
    found = [(node, columns.get(node.name.lower())) for node in tree.find_all(exp.Column)]
    for node, column in found:
        if column is None:
            raise ConfigError(
                f"invalid filter expression(s). Cannot find column '{node.name}' from table '{schema.name}' in: {text}",
                code="CDC:ErrExpressionColumnNotFound",
                hint=f"it has {', '.join(c.name for c in columns.values())}",
            )
    return [(node, column) for node, column in found if column is not None]


def read_condition(text: str, schema: TableSchema, row: str, zone: str) -> Condition:
    """Return a condition on the row of a table that column `row` holds.

    `zone` is the time zone in which it sees TIMESTAMP values. It holds where MySQL's result is 1. Raises ConfigError
    where it is none (`CDC:ErrInvalidFilterExpression`) or names a column that there is not
    (`CDC:ErrExpressionColumnNotFound`).
    """
    tree = parse_condition(text)
    values: dict[str, Column] = {}
    names: dict[tuple[str, str], str] = {}
    for node, column in columns_of(tree, schema, text):
        if isinstance(node.parent, exp.Not | exp.And | exp.Or):  # a number is true unless it is 0
            node = node.replace(exp.NEQ(this=node.copy(), expression=exp.Literal.number(0))).this
        others = list(_others(node))
        form = _form(column.data_type, others)
        value = F.col(row)[column.name]
        if column.data_type.kind is Kind.TIMESTAMP:
            value = shift_zone(value, "UTC", zone)
        name = names.setdefault((column.name, form.__name__), f"{_SEEN}{len(names)}")
        values[name] = form(column, value)
        for other in others:
            _adapt(other, column.data_type.kind)
        node.replace(exp.column(name, quoted=True))
    return Condition(f"coalesce(try_cast({_without_variables(tree)} AS BIGINT) = 1, false)", values)


def _without_variables(tree: exp.Expression) -> str:
    """Return SQL in which Spark sees no variable: a literal with `${` becomes two, which Spark takes for one."""
    return tree.sql(dialect="spark").replace("${", "$' '{")


def unusable(text: str, error: AnalysisException | ParseException, schema: TableSchema) -> ConfigError:
    """Return the error of an expression that Spark cannot compute, for the reason that its error tells."""
    condition = (error.getCondition() or "").partition(".")[0]
    return ConfigError(
        f"invalid filter expression '{text}': {_REASONS.get(condition, 'it cannot be computed for a row')}",
        code=_INVALID,
        where=f"table {schema.name}",
        hint="it takes operators and functions that MySQL and Spark both have",
    )


def _others(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yield what an operand of a comparison is compared with; nothing for any other."""
    if isinstance(node.parent, _COMPARISONS):
        yield from (other for other in node.parent.iter_expressions() if other is not node)


def _is_number(node: exp.Expression) -> bool:
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal) and not node.is_string


def _form(data_type: DataType, others: list[exp.Expression]) -> Callable[[TableColumn, Column], Column]:
    kind = data_type.kind
    if others and kind in _MOMENTS:
        return _moment
    if others and kind is Kind.TIME:
        return _seconds
    if kind in _ALWAYS or any(map(_is_number, others)):
        return _NUMBERS.get(kind, _value)
    return _value


def _adapt(other: exp.Expression, kind: Kind) -> None:
    """Give a literal the form of the column of a time that it is compared with."""
    if not isinstance(other, exp.Literal):
        return
    if kind in _MOMENTS:
        digits = _DIGITS.fullmatch(other.name)
        day = "-".join(digits.groups()[:3]) if digits else other.name
        clock = ":".join(digits.groups()[3:]) if digits and digits[4] else ""
        moment = exp.Literal.string(f"{day} {clock}".strip())
        other.replace(exp.TryCast(this=moment, to=exp.DataType.build("TIMESTAMP_NTZ", dialect="spark")))
    elif kind is Kind.TIME and (parts := _CLOCK.fullmatch(other.name)):
        sign, hours, minutes, seconds = parts.groups()
        other.replace(exp.Literal.number(f"{sign}{int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0):.6f}"))


def _value(column: TableColumn, value: Column) -> Column:
    return value


def _moment(column: TableColumn, value: Column) -> Column:
    return value.try_cast("timestamp_ntz")


def _seconds(column: TableColumn, value: Column) -> Column:
    hours, minutes, seconds = (
        F.split_part(F.ltrim(value, F.lit("-")), F.lit(":"), F.lit(n)).try_cast("decimal(9,6)") for n in (1, 2, 3)
    )
    whole = hours * 3600 + minutes * 60 + seconds
    return F.when(value.startswith("-"), -whole).otherwise(whole).cast("decimal(18,6)")


def _number(column: TableColumn, value: Column) -> Column:
    """The number that a text begins with, and 0 for one that begins with none."""
    found = F.regexp_extract(value, _NUMBER, 0).try_cast("double")
    return F.when(value.isNotNull(), F.coalesce(found, F.lit(0.0)))


def _decimal(column: TableColumn, value: Column) -> Column:
    return value.try_cast("double") if column.data_type.length > _EXACT else value


def _bits(column: TableColumn, value: Column) -> Column:
    return bit_number(value).cast("decimal(20,0)" if column.data_type.length == _LONG else "bigint")


def _element(column: TableColumn, value: Column) -> Column:
    return enum_number(column.data_type, value)


def _mask(column: TableColumn, value: Column) -> Column:
    return set_number(column.data_type, value).cast("decimal(20,0)")


_EXACT, _LONG = 38, 64
_ALWAYS = (Kind.BIT, Kind.DECIMAL)
_NUMBERS: dict[Kind, Callable[[TableColumn, Column], Column]] = {
    Kind.BIT: _bits,
    Kind.DECIMAL: _decimal,
    Kind.ENUM: _element,
    Kind.SET: _mask,
    Kind.TEXT: _number,
}
