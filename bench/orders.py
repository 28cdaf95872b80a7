"""The table of twelve columns that all benchmarks read and write."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast.checksum import row_checksum
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Index, Op, TableSchema, row_type

COMMIT_TS = 447984074911121426
STATES = ("new", "paid", "shipped", "done")
SCHEMA = TableSchema(
    "shop",
    "orders",
    1,
    1,
    tuple(
        TableColumn(name, data_type, nullable=name not in ("id", "sku", "flag"), id=n + 1)
        for n, (name, data_type) in enumerate(
            {
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
            }.items()
        )
    ),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)


def inserted_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return `count` inserted rows as the changes of a table; every twentieth value is NULL where it may be."""

    def number(salt: int, below: int) -> Column:
        return F.pmod(F.xxhash64("n", F.lit(salt)), F.lit(below))

    def time_text(salt: int) -> Column:
        return F.date_format(F.timestamp_seconds(number(salt, 2_000_000_000)), "yyyy-MM-dd HH:mm:ss")

    large = F.col("n") % 8 == 0
    values = {
        "id": F.col("n") + 1,
        "qty": number(1, 2_000_000) - 1_000_000,
        "serial": F.when(large, number(2, 1 << 62).cast("decimal(20,0)") * 4).otherwise(number(2, 10**12)),
        "sku": F.concat(F.lit("SKU-"), number(3, 10**9)),
        "title": F.concat(F.lit("A product called "), number(4, 10**6)),
        "note": F.concat(F.lit("注意 "), F.repeat(F.lit("lorem "), number(5, 10).cast("int"))),
        "price": (number(6, 2 * 10**10) - 10**10).cast("decimal(12,0)") / 100,
        "weight": number(7, 10**9) / 1000,
        "created": time_text(8),
        "updated": time_text(9),
        "state": F.element_at(F.array(*map(F.lit, STATES)), (number(10, len(STATES)) + 1).cast("int")),
        "flag": number(11, 256) - 128,
    }
    data = F.struct(
        *(
            F.when(number(100 + n, 20) > 0, values[c.name]) if c.nullable else values[c.name]
            for n, c in enumerate(SCHEMA.columns)
        )
    )
    rows = (
        spark.range(count)
        .coalesce(1)
        .withColumnRenamed("id", "n")
        .select("n", data.cast(row_type(SCHEMA)).alias("data"))
    )
    checksum = F.struct(
        F.lit(2).alias("version"),
        F.lit(False).alias("corrupted"),
        row_checksum(SCHEMA, F.col("data")).alias("current"),
        F.lit(0).cast("bigint").alias("previous"),
    )
    nothing = F.lit(None).cast(row_type(SCHEMA))
    return rows.select(
        "n",
        F.lit(Op.CREATE).alias("op"),
        F.lit(COMMIT_TS).alias("commit_ts"),
        nothing.alias("old"),
        "data",
        checksum.alias("checksum"),
    )
