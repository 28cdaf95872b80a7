"""The rows of one table version, from messages that have been parsed. Source: Canal-JSON protocol, rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.expressions import from_text, is_parsed, shift_zone
from tidecast.model import CHECKSUM, RECORD, DataType, Kind, Op, Reason, TableSchema, row_type
from tidecast.spark import bad_names, block_collapse_project, sql_text

_OF_ROWS = (*RECORD.fieldNames(), "op", "commit_ts")
_SIDES = {"old": (Op.UPDATE, Op.DELETE), "data": (Op.CREATE, Op.UPDATE)}
"""The operations that have each of the two rows."""
_PLAIN = r"^-?[0-9]+(\.[0-9]{1,%d})?\z"
_WHOLE = r"^-?[0-9]+\z"
_LONGEST_SCALE = 30
_NO_BYTE = r"[^\x00-\xff]"


def rows_of(messages: DataFrame, schema: TableSchema, ops: Collection[str], zone: str) -> DataFrame:
    """Return the rows of one table version, see `tidecast.model.TableChanges`; `ops` are the operations among them."""
    sides = [side for side, mine in _SIDES.items() if {*mine} & {*ops}]
    columns = [c.name for c in schema.columns]
    one = messages.select(*_OF_ROWS, F.explode("rows").alias("one")).select(*_OF_ROWS, "one.row", "one.old")
    shown = block_collapse_project(one, "op").select(
        *_OF_ROWS,
        _column_problem(columns).alias("column_problem"),
        *(_texts(side, columns).alias(f"{side}_texts") for side in sides),
    )
    shown = block_collapse_project(shown, "op")

    def text(side: str, n: int) -> Column:
        return F.get(F.col(f"{side}_texts"), n)

    typed = shown.select(
        *_OF_ROWS,
        "column_problem",
        *(f"{side}_texts" for side in sides),
        *(
            _value(c.data_type, text(side, n), zone).alias(f"{side}_{n}")
            for side in sides
            for n, c in enumerate(schema.columns)
        ),
    )
    bad = bad_names(
        (f"{side} {c.name}", F.col(f"{side}_{n}").isNull() & text(side, n).isNotNull())
        for side in sides
        for n, c in enumerate(schema.columns)
        if _may_fail(c.data_type)
    )
    has = {side: F.col("op").isin(*mine) for side, mine in _SIDES.items()}

    def image(side: str) -> Column:
        if side not in sides:
            return F.lit(None).cast(row_type(schema))
        row = F.struct(*(F.col(f"{side}_{n}").alias(name) for n, name in enumerate(columns)))
        return F.when(has[side], row)

    problem, wrong = F.col("column_problem"), F.col("bad")
    checked = block_collapse_project(typed, "op").withColumn("bad", bad)
    return block_collapse_project(
        checked.select(
            *_OF_ROWS,
            F.lit(None).cast("bigint").alias("table_id"),
            *(image(side).alias(side) for side in _SIDES),
            F.lit(None).cast(CHECKSUM).alias("checksum"),
            F.when(problem.isNotNull() | (wrong != ""), Reason.BAD_VALUE).alias("reason"),
            F.when(problem.isNotNull(), problem)
            .when(wrong != "", F.concat(F.lit("not of its column's type: "), wrong))
            .alias("detail"),
        ),
        "op",
    )


def _names(columns: Sequence[str]) -> Column:
    return F.expr(f"array({', '.join(map(sql_text, columns))})")


def _column_problem(columns: Sequence[str]) -> Column:
    """Return what is wrong with the names of the columns in a row and in the row before it, null where nothing is."""
    names, keys, old = _names(columns), F.map_keys("row"), F.map_keys("old")

    def of(members: Column, why: str) -> Column:
        return F.concat(F.lit(f"{why}: "), F.concat_ws(", ", members))

    return (
        F.when(F.col("row").isNull() | ((F.col("op") == Op.UPDATE) & F.col("old").isNull()), "the row is missing")
        .when(
            keys != names,
            F.when(F.size(F.array_except(keys, names)) > 0, of(F.array_except(keys, names), "columns without a type"))
            .when(F.size(F.array_except(names, keys)) > 0, of(F.array_except(names, keys), "columns are missing"))
            .when(F.size(keys) != len(columns), "a column comes twice"),
        )
        .when(
            old != names,
            F.when(
                F.size(F.array_except(old, names)) > 0, of(F.array_except(old, names), "columns without a type")
            ).when(F.size(F.array_distinct(old)) != F.size(old), "a column comes twice"),
        )
    )


def _texts(side: str, columns: Sequence[str]) -> Column:
    """Return the texts of a side's columns in their order; the old row has those of the new one that it leaves out."""
    row, old, names, op = F.col("row"), F.col("old"), _names(columns), F.col("op")
    new = F.when(F.map_keys(row) == names, F.map_values(row)).otherwise(
        F.transform(names, lambda name: F.try_element_at(row, name))
    )
    if side == "data":
        return F.when(op != Op.DELETE, new)
    filled = F.transform(
        names,
        lambda name: F.when(F.map_contains_key(old, name), F.try_element_at(old, name)).otherwise(
            F.try_element_at(row, name)
        ),
    )
    before = F.when(F.map_keys(old) == names, F.map_values(old)).otherwise(filled)
    return F.when(op == Op.DELETE, new).when(op == Op.UPDATE, before)


def _value(data_type: DataType, text: Column, zone: str) -> Column:
    """Return a value of the model from its text; null where it is not of its type."""
    match data_type.kind:
        case Kind.BINARY:
            return F.when(~text.rlike(_NO_BYTE), F.encode(text, "ISO-8859-1"))
        case Kind.TIMESTAMP:
            return shift_zone(text, zone, "UTC")
        case Kind.DECIMAL:
            scale = data_type.decimal if data_type.length else _LONGEST_SCALE
            plain = text.rlike(_PLAIN % scale if scale else _WHOLE)
            return F.when(plain, from_text(data_type, text))
    return from_text(data_type, text)


def _may_fail(data_type: DataType) -> bool:
    return is_parsed(data_type) or data_type.kind is Kind.BINARY
