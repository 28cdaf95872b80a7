"""Many small batches of updates onto one large table, beside a Delta MERGE written by hand for each.

Of the updates 80 % concern 20 % of the keys. Each contestant has a table of its own with all keys; in every round one
more batch comes to a topic of Avro in files, and each applies it. Checkpoint, ledger and compaction are on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

import tidecast
from bench.orders import COMMIT_TS, SCHEMA, inserted_rows
from bench.runs import workspace
from bench.topics import FIRST, HEADER, OPTIONS, add_file, as_records, avro_encoder, with_messages
from tidecast.functions import row_checksum
from tidecast.model import RECORD
from tidecast.protocols import avro
from tidecast.registry import open_registry
from tidecast.spark import MAX_LENGTH

_HOT, _HOT_SHARE, _CENT = 5, 80, 100
_TSO_STEP = 1 << 18
_BY_HAND, _WITH_VECTORS = "MERGE by hand", "MERGE by hand, deletion vectors"
_VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


class Upserts:
    """A topic that grows by batches, and those who apply it."""

    def __init__(self, spark: SparkSession, base: Path, keys: int) -> None:
        self._spark, self._base, self._keys, self._rows = spark, base, keys, 0
        registry = open_registry((base / "registry").as_uri())
        self._key_id = registry.register(f"{FIRST}-key", avro.key_schema(SCHEMA, OPTIONS))
        self._value_id = registry.register(f"{FIRST}-value", avro.value_schema(SCHEMA, OPTIONS))
        self.topic, self.newest = base / "topics" / FIRST, Path()

    def grow(self, rows: int, *, every_key: bool = False) -> None:
        """Add a file of so many rows to the topic: each key once, or keys by chance."""
        changes, n = inserted_rows(self._spark, rows, SCHEMA, self._rows), F.col("n")
        if not every_key:
            chance = F.pmod(F.xxhash64(n, F.lit(1)), F.lit(_CENT))
            hot, any_ = (F.pmod(F.xxhash64(n, F.lit(2)), F.lit(keys)) for keys in (self._keys // _HOT, self._keys))
            key = F.when(chance < _HOT_SHARE, hot * _HOT).otherwise(any_) + 1
            changes = changes.withColumn("data", F.col("data").withField("id", key))
        checksum = F.col("checksum").withField("current", row_checksum("data", SCHEMA))
        changes = changes.withColumns({"checksum": checksum, "commit_ts": F.lit(COMMIT_TS) + n * _TSO_STEP})
        messages = with_messages(changes, SCHEMA, avro_encoder(SCHEMA, self._key_id, self._value_id, OPTIONS))
        records = as_records(
            messages,
            topic=F.lit(FIRST),
            partition=F.lit(0),
            offset=n,
            timestamp=F.current_timestamp(),
            key=F.col("key"),
            value=F.col("value"),
        )
        self.newest = add_file(records, self.topic, f"part-{self._rows:012}")
        self._rows += rows

    def tidecast(self, folder: Path) -> Callable[[], object]:
        """Return what applies the newest batch by `replicate`, with all that it does."""
        return lambda: tidecast.replicate(
            f"file://{self.topic}?protocol=avro",
            str(folder),
            checkpoint=str(folder.with_suffix(".checkpoint")),
            schema_registry=(self._base / "registry").as_uri(),
            tz="UTC",
            spark=self._spark,
        )

    def by_hand(self, folder: Path) -> Callable[[], object]:
        """Return what applies it by the MERGE that everybody writes."""
        schema = avro.value_schema(SCHEMA, OPTIONS)
        message = from_avro(F.substring("value", HEADER + 1, MAX_LENGTH), schema, {"mode": "PERMISSIVE"})
        table = self.table(folder)

        def run() -> None:
            records = self._spark.read.schema(RECORD).parquet(str(self.newest))
            rows = records.select("offset", message.alias("message"))
            newest = F.max_by("message", F.struct("message._tidb_commit_ts", "offset")).alias("row")
            batch = rows.groupBy("message.id").agg(newest).select("row.*")
            if not table.exists():
                batch.write.format("delta").save(str(table))
                return
            batch.createOrReplaceTempView("batch")
            self._spark.sql(
                f"MERGE INTO delta.`{table}` AS t USING batch AS s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        return run

    def table(self, folder: Path) -> Path:
        """Return where a contestant's table lies."""
        return folder / SCHEMA.database / FIRST

    def read(self, folder: Path) -> DataFrame:
        """Return its rows."""
        return self._spark.table(f"delta.`{self.table(folder)}`")


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=int, default=2_000_000, help="rows that the table has")
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    with workspace() as (spark, base):
        found = _run(spark, base, options)
    print(json.dumps(found, indent=None if options.json else 2))


def _run(spark: SparkSession, base: Path, options: argparse.Namespace) -> dict[str, object]:
    upserts, folders = Upserts(spark, base, options.keys), {}
    runs: dict[str, Callable[[], object]] = {}
    for name in ("tidecast", _BY_HAND, _WITH_VECTORS):
        folders[name] = base / name.replace(" ", "-").replace(",", "")
        runs[name] = (upserts.tidecast if name == "tidecast" else upserts.by_hand)(folders[name])
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for batch in range(options.batches + 1):
        upserts.grow(options.rows if batch else options.keys, every_key=not batch)
        for name, run in runs.items():
            if name == _WITH_VECTORS:
                spark.conf.set(_VECTORS, "true")
            else:
                spark.conf.unset(_VECTORS)
            start = time.perf_counter()
            run()
            if batch:
                seconds[name].append(round(time.perf_counter() - start, 3))
    return {name: _summary(spark, upserts, folders[name], taken) for name, taken in seconds.items()}


def _summary(spark: SparkSession, upserts: Upserts, folder: Path, seconds: list[float]) -> dict[str, object]:
    """Return the seconds of batches, the first and last ten, and how long a scan takes before and after compaction."""
    rows, size = upserts.read(folder), 10
    scanned = _least(lambda: _hashed(rows))
    spark.sql(f"OPTIMIZE delta.`{upserts.table(folder)}`").collect()
    compacted = upserts.read(folder)
    return {
        "median": statistics.median(seconds),
        "first": statistics.median(seconds[:size]),
        "last": statistics.median(seconds[-size:]),
        "scan": round(scanned, 3),
        "scan of the compacted table": round(_least(lambda: _hashed(compacted)), 3),
        "rows": compacted.count(),
    }


def _hashed(rows: DataFrame) -> None:
    """Read every value; Delta cannot write a table with deletion vectors to Spark's sink for nothing."""
    rows.agg(F.sum(F.pmod(F.xxhash64("*"), F.lit(_CENT)))).collect()


def _least(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


if __name__ == "__main__":
    main()
