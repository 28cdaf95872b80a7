"""ADD, RENAME and DROP COLUMN on one large table: seconds of each, and the data files that it adds.

Each is one batch of `replicate` with checkpoint, ledger and proof: the schema change of a topic of Simple, and nothing
else. The table has all rows before.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidecast
from bench.orders import COMMIT_TS, SCHEMA, inserted_rows
from bench.runs import workspace
from bench.simple import BUILD_TS
from bench.topics import add_file, as_records, with_messages
from tidecast.model import CHECKSUM, Column, DataType, Ddl, TableSchema
from tidecast.protocols import simple
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions

_OPTIONS = SimpleOptions("avro")
_URI = "protocol=simple&encoding-format=avro"
_STEP = 1 << 40
_WARM = 1_000


def _versions() -> list[tuple[str, TableSchema]]:
    """Return the statements, each with the version that it makes."""
    columns, added = SCHEMA.columns, Column("place", DataType("varchar", "utf8mb4", length=20), nullable=True, id=99)
    more = (*columns, added)
    other = tuple(replace(c, name="label") if c.name == "title" else c for c in more)
    fewer = tuple(c for c in other if c.name != "note")
    made = [
        ("ADD COLUMN place varchar(20)", more),
        ("RENAME COLUMN title TO label", other),
        ("DROP COLUMN note", fewer),
    ]
    return [(what, replace(SCHEMA, columns=now, version=SCHEMA.version + n)) for n, (what, now) in enumerate(made, 1)]


class Shop:
    """A topic of Simple in files, and the table that it becomes."""

    def __init__(self, spark: SparkSession, base: Path) -> None:
        self._spark, self._base, self._messages = spark, base, 0
        self._topic = base / "topic" / SCHEMA.table
        self.table = base / "tables" / SCHEMA.database / SCHEMA.table

    def insert(self, rows: int) -> None:
        """Add the table's schema and so many rows to the topic."""
        self.tell(simple.encode_bootstrap(SCHEMA, _OPTIONS, BUILD_TS))
        nothing = {"table_id": F.lit(None).cast("bigint"), "checksum": F.lit(None).cast(CHECKSUM)}
        changes = inserted_rows(self._spark, rows).withColumns(nothing)
        made = with_messages(changes, SCHEMA, SimpleEncoder(_OPTIONS, BUILD_TS))
        self._add(made.select("value", (F.col("n") + self._messages).alias("offset")))
        self._messages += rows

    def tell(self, message: bytes) -> None:
        """Add one message to the topic."""
        self._add(self._spark.createDataFrame([(message, self._messages)], "value binary, offset bigint"))
        self._messages += 1

    def _add(self, messages: DataFrame) -> None:
        columns = {"partition": F.lit(0), "offset": F.col("offset"), "value": F.col("value")}
        records = as_records(messages, topic=F.lit(SCHEMA.table), **columns)
        add_file(records, self._topic, f"part-{self._messages:012}")

    def replicate(self) -> tidecast.Replicated:
        """Apply what is new in the topic."""
        return tidecast.replicate(
            f"file://{self._topic}?{_URI}",
            str(self._base / "tables"),
            checkpoint=str(self._base / "checkpoint"),
            ddl="try_evolve",
            tz="UTC",
            spark=self._spark,
        )

    def files(self) -> set[str]:
        """Return the table's data files."""
        return {str(file) for file in self.table.rglob("*.parquet") if "_delta_log" not in file.parts}


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    with workspace() as (spark, base):
        _run(spark, Shop(spark, base / "warm"), _WARM)
        found = _run(spark, Shop(spark, base / "large"), options.rows)
    print(json.dumps(found, indent=None if options.json else 2))


def _run(spark: SparkSession, shop: Shop, rows: int) -> dict[str, dict[str, float]]:
    shop.insert(rows)
    shop.replicate()
    found, before = {}, SCHEMA
    for n, (what, schema) in enumerate(_versions(), 1):
        sql = f"ALTER TABLE `{SCHEMA.database}`.`{SCHEMA.table}` {what}"
        shop.tell(simple.encode_ddl(Ddl("ALTER", sql, COMMIT_TS + n * _STEP, schema, before), _OPTIONS, BUILD_TS))
        there, start = shop.files(), time.perf_counter()
        shop.replicate()
        seconds = time.perf_counter() - start
        columns = spark.read.format("delta").load(str(shop.table)).columns
        assert {*columns} == {c.name for c in schema.columns}, f"{what}: {columns}"
        found[what] = {"seconds": round(seconds, 2), "data files added": len(shop.files() - there)}
        before = schema
    return found


if __name__ == "__main__":
    main()
