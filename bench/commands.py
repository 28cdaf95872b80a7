"""Whole commands, from one topic in files to another or to a Delta table, beside Spark jobs written by hand.

A peer reads the same messages with one `from_avro` or one `from_json`, and writes as much: nothing, a Delta table of
the newest row of each key, or a topic of what `to_json` makes of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from bench.debezium import PAYLOAD
from bench.orders import SCHEMA
from bench.race import Contestant, chosen, consume, parser, race, report, tell
from bench.runs import SINKS, Runs, anew, workspace
from bench.simple import MESSAGE
from bench.topics import FIRST, HEADER, OPTIONS, write_topics
from tidecast.model import RECORD
from tidecast.protocols.avro import value_schema
from tidecast.spark import MAX_LENGTH


@dataclass
class _ByHand:
    """Spark jobs on a topic: `message` is read of a value, which has the row at `row` and its commit-ts at `ts`."""

    reader: str
    topic: Callable[[], Path]
    message: Column
    row: str
    ts: str

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the messages with their offsets."""
        records = spark.read.schema(RECORD).parquet(str(self.topic()))
        return records.select("offset", self.message.alias("message"))

    def contestants(self, spark: SparkSession, base: Path) -> list[Contestant]:
        """Return those who read alone, write a Delta table, and write a topic."""

        def to_delta(folder: Path) -> None:
            newest = F.max_by(self.row, F.struct(self.ts, "offset")).alias("row")
            rows = self.read(spark).groupBy(f"{self.row}.id").agg(newest).select("row.*")
            rows.write.format("delta").save(str(folder))

        def to_json(folder: Path) -> None:
            self.read(spark).select(F.to_json("message").alias("value")).write.parquet(str(folder))

        return [
            Contestant(self.alone, lambda: consume(self.read(spark).select("message.*"))),
            Contestant(self.delta, anew(base, f"{self.row}-by-hand", to_delta)),
            Contestant(self.parquet, anew(base, f"{self.row}-as-json", to_json)),
        ]

    @property
    def alone(self) -> str:
        """The name of who reads alone."""
        return f"Spark: {self.reader}"

    @property
    def delta(self) -> str:
        """The name of who writes the newest row of each key to a Delta table."""
        return f"Spark: {self.reader}, newest, Delta"

    @property
    def parquet(self) -> str:
        """The name of who writes JSON to Parquet."""
        return f"Spark: {self.reader}, to_json, Parquet"


def contestants(spark: SparkSession, base: Path) -> list[Contestant]:
    """Return the commands and their peers, ready to run on the topics of a folder."""
    runs, text = Runs(spark, base), F.col("value").cast("string")
    values, schema = F.substring("value", HEADER + 1, MAX_LENGTH), value_schema(SCHEMA, OPTIONS)
    by_avro = _ByHand(
        "from_avro",
        lambda: base / "topics" / FIRST,
        from_avro(values, schema, {"mode": "PERMISSIVE"}),
        "message",
        "message._tidb_commit_ts",
    )
    by_simple = _ByHand(
        "from_json of Simple",
        lambda: runs.folder("simple") / f"shop_{FIRST}",
        F.from_json(text, MESSAGE),
        "message.data",
        "message.commitTs",
    )
    by_debezium = _ByHand(
        "from_json of Debezium",
        lambda: runs.folder("debezium") / f"shop_{FIRST}",
        F.from_json(text, PAYLOAD),
        "message.payload.after",
        "message.payload.source.commit_ts",
    )
    return [
        Contestant("verify", runs.verify(), {by_avro.alone: 0.8}),
        Contestant("replicate", runs.replicate(), {by_avro.delta: 1.0}),
        Contestant("replicate again", runs.again(checkpoint=False)),
        *(Contestant(f"convert to {name}", runs.convert(name), {by_avro.parquet: 0.5}) for name in SINKS),
        *by_avro.contestants(spark, base),
        Contestant("verify simple", runs.verify("simple"), {by_simple.alone: 0.5}),
        Contestant("replicate simple", runs.replicate("simple"), {by_simple.delta: 0.5}),
        Contestant("convert simple to debezium", runs.convert("debezium", "simple"), {by_simple.parquet: 0.5}),
        *by_simple.contestants(spark, base),
        Contestant("verify debezium", runs.verify("debezium"), {by_debezium.alone: 0.5}),
        Contestant("replicate debezium", runs.replicate("debezium"), {by_debezium.delta: 0.5}),
        *by_debezium.contestants(spark, base)[:2],
    ]


def main() -> None:
    """Be the program."""
    options = parser(__doc__, rows=300_000, rounds=3).parse_args()
    with workspace() as (spark, base):
        racing = chosen(contestants(spark, base), options.only)
        write_topics(spark, options.rows, base)
        race(racing, options.rounds)
    tell(report(racing), options)


if __name__ == "__main__":
    main()
