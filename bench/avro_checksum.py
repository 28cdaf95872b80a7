"""Avro with row checksums: tidecast beside fastavro and beside Spark alone, on one core each.

A table of twelve columns, inserted rows, TiCDC's extension, DECIMAL and BIGINT UNSIGNED as strings. All contestants
take turns in one run, so that what else the machine does meets all of them; compare ratios, not seconds. What a batch
costs once, however many rows it has, stands by itself.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fastavro
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from rich.console import Console
from rich.table import Table

from tidecast.checksum import Judged, row_checksum, verdict
from tidecast.model import RECORD, DataType, Index, Op, TableChanges, TableSchema, row_type
from tidecast.model import Column as TableColumn
from tidecast.protocols import avro
from tidecast.runtime import spark_session

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
OPTIONS = avro.AvroOptions(
    enable_tidb_extension=True,
    decimal_handling_mode="string",
    bigint_unsigned_handling_mode="string",
    checksum=True,
)
SCHEMA_ID = 1
HEADER = 5
WHOLE = (1 << 31) - 1
COMMIT_TS = 447984074911121426


FASTAVRO_READ, FASTAVRO_WRITE = "fastavro: schemaless_reader", "fastavro: schemaless_writer"
SPARK_READ = "Spark: from_avro"


@dataclass
class Contestant:
    """A way to do the work. `beside` tells how many times as fast as others it is meant to be."""

    name: str
    run: Callable[[], object]
    beside: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one of its times."""
        return statistics.median(self.seconds)


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


def messages(changes: DataFrame) -> DataFrame:
    """Return changes as a topic's records."""
    columns = {
        "topic": F.lit("shop_orders"),
        "partition": F.lit(0),
        "offset": F.col("n"),
        "key": avro.encode_key(SCHEMA, SCHEMA_ID + 1, OPTIONS),
        "value": avro.encode_value(SCHEMA, SCHEMA_ID, OPTIONS),
    }
    return changes.select(*(columns.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD))


def consume(frame: DataFrame) -> None:
    """Compute every column of every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def contestants(records: DataFrame, changes: DataFrame) -> list[Contestant]:
    """Return the contestants, ready to run."""
    value_schema = avro.value_schema(SCHEMA, OPTIONS)
    schemas = {SCHEMA_ID: value_schema, SCHEMA_ID + 1: avro.key_schema(SCHEMA, OPTIONS)}
    parsed = fastavro.parse_schema(json.loads(value_schema))
    values = records.select("value").toArrow()["value"].to_pylist()
    told = [fastavro.schemaless_reader(io.BytesIO(v[HEADER:]), parsed) for v in values]

    def fastavro_read() -> None:
        for value in values:
            fastavro.schemaless_reader(io.BytesIO(value[HEADER:]), parsed)

    def fastavro_write() -> None:
        for row in told:
            out = io.BytesIO(values[0][:HEADER])
            out.seek(HEADER)
            fastavro.schemaless_writer(out, parsed, row)
            out.getvalue()

    row = from_avro(F.substring("value", HEADER + 1, WHOLE), value_schema, {"mode": "PERMISSIVE"})
    bare = records.select(row.alias("row")).select("row.*")

    def find_tables() -> TableChanges:
        (table,) = avro.decode(records, schemas.get, ordered=True, zone=OPTIONS.zone).tables
        return table

    table = find_tables()
    judged = table.frame.withColumn("judged", verdict(table.schema, F.col("data"), F.col("checksum")))
    wrong = judged.where(F.col("judged.verdict") != Judged.MATCH).count()
    assert wrong == 0, f"{wrong} rows do not match their own checksum"

    verdicts, rows = judged.select("topic", "partition", "offset", "reason", "judged"), judged.drop("key", "value")

    def plan() -> DataFrame:
        checksum = F.col("checksum").withField("current", row_checksum(SCHEMA, F.col("data")))
        return changes.withColumn("checksum", checksum).select(avro.encode_value(SCHEMA, SCHEMA_ID, OPTIONS))

    encoded = plan()

    return [
        Contestant("tidecast: decode, verify", lambda: consume(verdicts), {FASTAVRO_READ: 2.5, SPARK_READ: 0.6}),
        Contestant("tidecast: decode, verify, keep rows", lambda: consume(rows)),
        Contestant("tidecast: find tables, once a batch", find_tables),
        Contestant(FASTAVRO_READ, fastavro_read),
        Contestant(SPARK_READ, lambda: consume(bare)),
        Contestant("tidecast: plan encoding, once a batch", plan),
        Contestant("tidecast: checksum, encode", lambda: consume(encoded), {FASTAVRO_WRITE: 2.0}),
        Contestant(FASTAVRO_WRITE, fastavro_write),
    ]


def race(contestants: list[Contestant], rounds: int) -> None:
    """Let all run in turn, once to warm up and then for `rounds` rounds that count."""
    for turn in range(rounds + 1):
        for one in contestants:
            start = time.perf_counter()
            one.run()
            if turn:
                one.seconds.append(time.perf_counter() - start)


def report(contestants: list[Contestant], rows: int) -> list[dict[str, Any]]:
    """Return each contestant's median, rows a second, and how it did beside others."""
    by_name = {one.name: one for one in contestants}
    return [
        {
            "name": one.name,
            "seconds": round(one.median, 3),
            "rows_per_second": round(rows / one.median),
            "beside": [
                {
                    "name": other,
                    "times_as_fast": round(by_name[other].median / one.median, 2),
                    "target": target,
                    "met": by_name[other].median / one.median >= target,
                }
                for other, target in one.beside.items()
            ],
        }
        for one in contestants
    ]


def show(results: list[dict[str, Any]]) -> None:
    """Print the results for a person."""
    table = Table("", "median, s", "rows/s", "times as fast", "target", "")
    table.columns[0].no_wrap = True
    for one in results:
        table.add_row(one["name"], f"{one['seconds']:.3f}", f"{one['rows_per_second']:,}")
        for other in one["beside"]:
            table.add_row(
                f"  beside {other['name']}",
                "",
                "",
                f"{other['times_as_fast']:.2f}",
                f"{other['target']:.1f}",
                "met" if other["met"] else "missed",
            )
    Console().print(table)


def main() -> None:
    """Run the race."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ansi", action="store_true", help="with spark.sql.ansi.enabled")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    spark = spark_session("bench", cores=1, conf={"spark.sql.ansi.enabled": str(options.ansi).lower()})
    changes = inserted_rows(spark, options.rows).cache()
    records = messages(changes).cache()
    records.count()
    racing = contestants(records, changes)
    race(racing, options.rounds)
    results = report(racing, options.rows)
    spark.stop()
    if options.json:
        print(json.dumps({"rows": options.rows, "rounds": options.rounds, "ansi": options.ansi, "results": results}))
    else:
        show(results)


if __name__ == "__main__":
    main()
