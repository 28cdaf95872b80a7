"""Whole commands, from one topic in files to another or to a Delta table, beside Spark jobs written by hand."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

import tidecast
from bench.orders import COMMIT_TS, SCHEMA, inserted_rows
from bench.race import Contestant, consume, race, report, show
from tidecast.expressions import MAX_LENGTH
from tidecast.model import RECORD
from tidecast.protocols import avro
from tidecast.protocols.avro import AvroOptions
from tidecast.registry import open_registry
from tidecast.runtime import spark_session

OPTIONS = AvroOptions(enable_tidb_extension=True, checksum=True)
HEADER = 5
FILES = 3
TSO_STEP = 1 << 18
BARE, BY_HAND, TO_PARQUET = "Spark: from_avro", "Spark: from_avro, newest, Delta", "Spark: from_avro, to_json, Parquet"


def write_topic(spark: SparkSession, rows: int, folder: Path, registry: Path, name: str = SCHEMA.table) -> str:
    """Write rows of a table as a topic of Avro messages; return the text of their schema."""
    opened, schema = open_registry(registry.as_uri()), replace(SCHEMA, table=name)
    text = avro.value_schema(schema, OPTIONS)
    key_id = opened.register(f"{name}-key", avro.key_schema(schema, OPTIONS))
    value_id = opened.register(f"{name}-value", text)
    changes = inserted_rows(spark, rows).withColumn("commit_ts", F.lit(COMMIT_TS) + F.col("n") * TSO_STEP)
    columns = {
        "topic": F.lit(name),
        "partition": F.lit(0),
        "offset": F.col("n"),
        "timestamp": F.current_timestamp(),
        "key": avro.encode_key(schema, key_id, OPTIONS),
        "value": avro.encode_value(schema, value_id, OPTIONS),
    }
    records = changes.select(*(columns.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD))
    records.repartitionByRange(FILES, "offset").sortWithinPartitions("offset").write.parquet(str(folder / name))
    return text


def contestants(spark: SparkSession, rows: int, base: Path) -> list[Contestant]:
    """Return the commands and their peers, ready to run."""
    registry = base / "registry"
    text = write_topic(spark, rows, base, registry)
    source, schemas = f"file://{base}/orders?protocol=avro", registry.as_uri()
    tables, hand, parquet = (base / name for name in ("tables", "hand", "parquet"))

    def read() -> DataFrame:
        row = from_avro(F.substring("value", HEADER + 1, MAX_LENGTH), text, {"mode": "PERMISSIVE"})
        return spark.read.schema(RECORD).parquet(str(base / "orders")).select("offset", row.alias("row"))

    def anew(folder: Path, work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            work()

        return run

    def by_hand() -> None:
        order = F.struct("row._tidb_commit_ts", "offset")
        newest = read().groupBy("row.id").agg(F.max_by("row", order).alias("row")).select("row.*")
        newest.write.format("delta").save(str(hand))

    def to_parquet() -> None:
        read().select(F.to_json("row").alias("value")).write.parquet(str(parquet))

    def replicate() -> object:
        return tidecast.replicate(source, str(tables), schema_registry=schemas, tz="UTC", spark=spark)

    def convert(name: str, options: str) -> Contestant:
        folder = base / name
        target = f"{folder.as_uri()}/registry" if "avro&" in options else None

        def work() -> object:
            sink = f"file://{folder}/orders?{options}"
            return tidecast.convert(
                source, sink, source_schema_registry=schemas, schema_registry=target, tz="UTC", spark=spark
            )

        return Contestant(f"convert to {name}", anew(folder, work), {TO_PARQUET: 0.5})

    return [
        Contestant(
            "verify",
            lambda: tidecast.verify(source, schema_registry=schemas, tz="UTC", spark=spark),
            {BARE: 0.8},
        ),
        Contestant(BARE, lambda: consume(read().select("row.*"))),
        Contestant("replicate", anew(tables, replicate), {BY_HAND: 1.0}),
        Contestant("replicate, nothing new", replicate),
        Contestant(BY_HAND, anew(hand, by_hand)),
        convert("debezium", "protocol=debezium"),
        convert("simple", "protocol=simple"),
        convert("simple-avro", "encoding-format=avro&protocol=simple"),
        convert("avro", "protocol=avro&enable-tidb-extension=true"),
        Contestant(TO_PARQUET, anew(parquet, to_parquet)),
    ]


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="those whose name has this in it, and their peers")
    options = parser.parse_args()
    spark = spark_session("bench")
    base = Path(tempfile.mkdtemp(prefix="tidecast-bench-"))
    try:
        everybody = contestants(spark, options.rows, base)
        chosen = [one for one in everybody if options.only in one.name]
        peers = {name for one in chosen for name in one.beside}
        racing = [one for one in everybody if one in chosen or one.name in peers]
        race(racing, options.rounds)
        show(report(racing, options.rows))
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
