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

_DATA_FILES = f"orders/{SCHEMA.database}/{FIRST}/*/*/CDC*"
_CSV_LINE = (
    "op string, table string, schema string, commit_ts bigint, id bigint, qty int, serial decimal(20,0), sku string, "
    "title string, note string, price decimal(12,2), weight double, created timestamp_ntz, updated timestamp, "
    "state string, flag tinyint"
)
_CANAL_JSON = (
    f"data array<struct<{', '.join(f'{c.name}: string' for c in SCHEMA.columns)}>>, _tidb struct<commitTs: bigint>"
)
_TIME = "yyyy-MM-dd HH:mm:ss"
_CSV_OPTIONS = {"nullValue": r"\N", "escape": '"', "timestampFormat": _TIME, "timestampNTZFormat": _TIME}


@dataclass
class _ByHand:
    """Spark jobs on messages that are `read`: a message has the row at `row`, and what orders changes at `ts`."""

    reader: str
    read: Callable[[], DataFrame]
    row: str
    ts: str

    def contestants(self, base: Path) -> list[Contestant]:
        """Return those who read alone, write a Delta table, and write a topic."""

        def to_delta(folder: Path) -> None:
            newest = F.max_by(self.row, F.struct(self.ts, "offset")).alias("row")
            rows = self.read().groupBy(f"{self.row}.id").agg(newest).select("row.*")
            rows.write.format("delta").save(str(folder))

        def to_json(folder: Path) -> None:
            self.read().select(F.to_json("message").alias("value")).write.parquet(str(folder))

        return [
            Contestant(self.alone, lambda: consume(self.read().select("message.*"))),
            Contestant(self.delta, anew(base, f"{self.reader}-by-hand", to_delta)),
            Contestant(self.parquet, anew(base, f"{self.reader}-as-json", to_json)),
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


def _topic(spark: SparkSession, folder: Path, message: Column) -> DataFrame:
    """Return `offset`, and `message` as it is read of a topic's values."""
    return spark.read.schema(RECORD).parquet(str(folder)).select("offset", message.alias("message"))


def _csv(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the lines of a storage sink's CSV, whose order only their commit-ts tells."""
    rows = spark.read.schema(_CSV_LINE).options(**_CSV_OPTIONS).csv(str(folder / _DATA_FILES))
    row = F.struct(*(c.name for c in SCHEMA.columns)).alias("row")
    return rows.select(F.lit(0).alias("offset"), F.struct("commit_ts", row).alias("message"))


def _canal_json(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the lines of a storage sink's Canal-JSON, likewise."""
    lines = spark.read.text(str(folder / _DATA_FILES)).select(F.from_json("value", _CANAL_JSON).alias("line"))
    message = F.struct(F.col("line.data")[0].alias("row"), "line._tidb").alias("message")
    return lines.select(F.lit(0).alias("offset"), message)


def contestants(spark: SparkSession, base: Path) -> list[Contestant]:
    """Return the commands and their peers, ready to run on the topics of a folder."""
    runs, text = Runs(spark, base), F.col("value").cast("string")
    values, schema = F.substring("value", HEADER + 1, MAX_LENGTH), value_schema(SCHEMA, OPTIONS)
    avro, simple = from_avro(values, schema, {"mode": "PERMISSIVE"}), F.from_json(text, MESSAGE)
    debezium = F.from_json(text, PAYLOAD)
    by_avro = _ByHand(
        "from_avro", lambda: _topic(spark, base / "topics" / FIRST, avro), "message", "message._tidb_commit_ts"
    )
    by_simple = _ByHand(
        "from_json of Simple",
        lambda: _topic(spark, runs.folder("simple") / f"shop_{FIRST}", simple),
        "message.data",
        "message.commitTs",
    )
    by_debezium = _ByHand(
        "from_json of Debezium",
        lambda: _topic(spark, runs.folder("debezium") / f"shop_{FIRST}", debezium),
        "message.payload.after",
        "message.payload.source.commit_ts",
    )
    by_csv = _ByHand("csv", lambda: _csv(spark, runs.folder("csv")), "message.row", "message.commit_ts")
    by_canal = _ByHand(
        "from_json of Canal-JSON",
        lambda: _canal_json(spark, runs.folder("canal-json")),
        "message.row",
        "message._tidb.commitTs",
    )
    return [
        Contestant("verify", runs.verify(), {by_avro.alone: 0.8}),
        Contestant("replicate", runs.replicate(), {by_avro.delta: 1.0}),
        Contestant("replicate again", runs.again(checkpoint=False)),
        *(Contestant(f"convert to {name}", runs.convert(name), {by_avro.parquet: 0.5}) for name in SINKS),
        *by_avro.contestants(base),
        Contestant("verify simple", runs.verify("simple"), {by_simple.alone: 0.5}),
        Contestant("replicate simple", runs.replicate("simple"), {by_simple.delta: 0.5}),
        Contestant("convert simple to debezium", runs.convert("debezium", "simple"), {by_simple.parquet: 0.5}),
        *by_simple.contestants(base),
        Contestant("verify debezium", runs.verify("debezium"), {by_debezium.alone: 0.5}),
        Contestant("replicate debezium", runs.replicate("debezium"), {by_debezium.delta: 0.5}),
        *by_debezium.contestants(base)[:2],
        Contestant("replicate csv", runs.replicate("csv"), {by_csv.delta: 0.7}),
        *by_csv.contestants(base)[:2],
        Contestant("replicate canal-json", runs.replicate("canal-json"), {by_canal.delta: 0.7}),
        *by_canal.contestants(base)[:2],
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
