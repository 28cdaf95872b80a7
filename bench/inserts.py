"""Fresh rows from a real broker into a Delta table, beside reading the topic and writing Parquet.

The peer decodes nothing: it is what any program must do that keeps the messages. Ours decodes, checks each checksum,
keeps the newest row of each key, with checkpoint, ledger and proof. Both take turns, each time into a new folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import tidecast
from bench.runs import anew, workspace
from bench.suite import KafkaBroker
from bench.topics import FIRST, write_topics

_PARTITIONS = 4


def _publish(spark: SparkSession, base: Path, broker: KafkaBroker, rows: int) -> None:
    """Put so many inserts into a topic of the broker, each key into one partition, and their schemas into `base`."""
    write_topics(spark, rows, base)
    broker.create_topic(FIRST, _PARTITIONS)
    messages = spark.read.parquet(str(base / "topics" / FIRST)).select("key", "value")
    messages.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", FIRST).save()


def _contestants(spark: SparkSession, base: Path, broker: KafkaBroker) -> dict[str, Callable[[], object]]:
    def replicate(folder: Path) -> None:
        tidecast.replicate(
            f"kafka://{broker.bootstrap}/{FIRST}?protocol=avro",
            str(folder / "tables"),
            checkpoint=str(folder / "checkpoint"),
            schema_registry=(base / "registry").as_uri(),
            tz="UTC",
            spark=spark,
        )

    def keep(folder: Path) -> None:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": FIRST}
        spark.read.format("kafka").options(**options).load().write.parquet(str(folder))

    return {"replicate": anew(base, "replica", replicate), "topic to Parquet": anew(base, "parquet", keep)}


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    with workspace() as (spark, base), KafkaBroker() as broker:
        _publish(spark, base, broker, options.rows)
        runs = _contestants(spark, base, broker)
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(options.rounds + 1):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                if turn:  # the first one warms up
                    seconds[name].append(round(time.perf_counter() - start, 2))
    ours, peer = map(statistics.median, seconds.values())
    found = {"rows": options.rows, **seconds, "times as fast": round(peer / ours, 2)}
    print(json.dumps(found, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
