"""The table that all benchmarks read and write: twelve columns, or more of the kind."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast.functions import row_checksum
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Index, Op, TableSchema, row_type

COMMIT_TS = 447984074911121426
STATES = ("new", "paid", "shipped", "done")
_COLUMNS = {
    "id": DataType("bigint"),
    "qty": DataType("int"),
    "serial": DataType("bigint", unsigned=True),
    "sku": DataType("varchar", "utf8mb4", length=32),
    "title": DataType("varchar", "utf8mb4", length=100),
    "note": DataType("varchar", "utf8mb4", length=255),
    "price": DataType("decimal", length=12, decimal=2),
    "weight": DataType("double"),
    "created": DataType("datetime"),
    "updated": DataType("timestamp"),
    "state": DataType("enum", "utf8mb4", elements=STATES),
    "flag": DataType("tinyint"),
}


class _Numbers:
    """Numbers that a row's number `n` determines, others for each salt."""

    def __init__(self, salt: int) -> None:
        self._salt = salt

    def below(self, limit: int, salt: int) -> Column:
        return F.pmod(F.xxhash64("n", F.lit(self._salt + salt)), F.lit(limit))

    def time(self, salt: int) -> Column:
        return F.date_format(F.timestamp_seconds(self.below(2_000_000_000, salt)), "yyyy-MM-dd HH:mm:ss")


_VALUES: dict[str, Callable[[_Numbers], Column]] = {
    "id": lambda number: F.col("n") + 1,
    "qty": lambda number: number.below(2_000_000, 1) - 1_000_000,
    "serial": lambda number: F.when(F.col("n") % 8 == 0, number.below(1 << 62, 2).cast("decimal(20,0)") * 4).otherwise(
        number.below(10**12, 2)
    ),
    "sku": lambda number: F.concat(F.lit("SKU-"), number.below(10**9, 3)),
    "title": lambda number: F.concat(F.lit("A product called "), number.below(10**6, 4)),
    "note": lambda number: F.concat(F.lit("注意 "), F.repeat(F.lit("lorem "), number.below(10, 5).cast("int"))),
    "price": lambda number: (number.below(2 * 10**10, 6) - 10**10).cast("decimal(12,0)") / 100,
    "weight": lambda number: number.below(10**9, 7) / 1000,
    "created": lambda number: number.time(8),
    "updated": lambda number: number.time(9),
    "state": lambda number: F.element_at(F.array(*map(F.lit, STATES)), (number.below(len(STATES), 10) + 1).cast("int")),
    "flag": lambda number: number.below(256, 11) - 128,
}
_REQUIRED = ("id", "sku", "flag")
_KEY = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))


def table(columns: int = len(_COLUMNS), *, name: str = "orders", version: int = 1) -> TableSchema:
    """Return a table of so many columns: the twelve again and again. Each version adds a whole number to the last."""
    rounds, rest = divmod(columns, len(_COLUMNS))
    types = {
        f"{column}_{turn}" if turn else column: data_type
        for turn in range(rounds + 1)
        for column, data_type in list(_COLUMNS.items())[: len(_COLUMNS) if turn < rounds else rest]
    }
    types |= {f"qty_of_{later}": _COLUMNS["qty"] for later in range(2, version + 1)}
    made = (
        TableColumn(column, data_type, nullable=column not in _REQUIRED, id=n + 1)
        for n, (column, data_type) in enumerate(types.items())
    )
    return TableSchema("shop", name, 1, version, tuple(made), (_KEY,))


SCHEMA = table()


def inserted_rows(spark: SparkSession, count: int, schema: TableSchema = SCHEMA, first: int = 0) -> DataFrame:
    """Return `count` inserted rows as the changes of a table; every twentieth value is NULL where it may be."""

    def value(at: int, column: TableColumn) -> Column:
        turn, salt = divmod(at, len(_COLUMNS))
        known = _VALUES[column.name.partition("_")[0]](_Numbers(1000 * turn))
        return F.when(_Numbers(1000 * turn).below(20, 100 + salt) > 0, known) if column.nullable else known

    data = F.struct(*(value(n, column) for n, column in enumerate(schema.columns)))
    rows = (
        spark.range(first, first + count)
        .coalesce(1)
        .withColumnRenamed("id", "n")
        .select("n", data.cast(row_type(schema)).alias("data"))
    )
    checksum = F.struct(
        F.lit(2).alias("version"),
        F.lit(False).alias("corrupted"),
        row_checksum("data", schema).alias("current"),
        F.lit(0).cast("bigint").alias("previous"),
    )
    nothing = F.lit(None).cast(row_type(schema))
    return rows.select(
        "n",
        F.lit(Op.CREATE).alias("op"),
        F.lit(COMMIT_TS).alias("commit_ts"),
        nothing.alias("old"),
        "data",
        checksum.alias("checksum"),
    )
