"""Small batches of many tables, each a new Delta table, beside a loop over the tables written by hand."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from bench.orders import SCHEMA
from bench.race import Contestant, parser, race, report, tell
from bench.runs import Runs, anew, workspace
from bench.topics import HEADER, OPTIONS, write_topics
from tidecast.model import RECORD
from tidecast.protocols.avro import value_schema
from tidecast.spark import MAX_LENGTH

_BY_HAND = "a loop by hand"


def contestants(spark: SparkSession, base: Path) -> list[Contestant]:
    """Return `replicate`, and a loop that writes the newest row of each key, table by table."""
    topics, schema = sorted((base / "topics").iterdir()), value_schema(SCHEMA, OPTIONS)

    def by_hand(folder: Path) -> None:
        values = F.substring("value", HEADER + 1, MAX_LENGTH)
        for topic in topics:
            message = from_avro(values, schema, {"mode": "PERMISSIVE"}).alias("message")
            records = spark.read.schema(RECORD).parquet(str(topic)).select("offset", message)
            newest = F.max_by("message", F.struct("message._tidb_commit_ts", "offset")).alias("row")
            rows = records.groupBy("message.id").agg(newest).select("row.*")
            rows.write.format("delta").save(str(folder / topic.name))

    return [
        Contestant("replicate", Runs(spark, base).replicate(), {_BY_HAND: 0.77}),
        Contestant(_BY_HAND, anew(base, "by-hand", by_hand)),
    ]


def main() -> None:
    """Be the program."""
    options = parser(__doc__, rows=20, rounds=3)
    options.add_argument("--tables", type=int, default=50)
    chosen = options.parse_args()
    with workspace() as (spark, base):
        write_topics(spark, chosen.rows, base, tables=chosen.tables)
        racing = contestants(spark, base)
        race(racing, chosen.rounds)
    tell(report(racing), chosen)


if __name__ == "__main__":
    main()
