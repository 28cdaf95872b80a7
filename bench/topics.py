"""Topics of Avro in files, which whole commands read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bench.orders import COMMIT_TS, SCHEMA, inserted_rows, table
from tidecast.model import RECORD, TableSchema
from tidecast.protocols import Encoder, RoutedTable, Rows, avro
from tidecast.protocols.avro import AvroEncoder, AvroOptions
from tidecast.registry import SchemaId, header, open_registry
from tidecast.spark import MAX_LENGTH, mapped

OPTIONS = AvroOptions(enable_tidb_extension=True, checksum=True)
FIRST = SCHEMA.table
HEADER = 5
"""Bytes of a message that name its schema."""

_NO_SCHEMA = 0
_FILES = 3
_TSO_STEP = 1 << 18


def write_topics(
    spark: SparkSession,
    rows: int,
    base: Path,
    *,
    tables: int = 1,
    columns: int = len(SCHEMA.columns),
    versions: int = 1,
) -> None:
    """Write so many rows of each table to `base`/topics, and the tables' schemas to `base`/registry.

    The first topic is `FIRST`. Each version of a table has as many rows as any other, and files of its own. All tables
    have the same rows, so that these are encoded once.
    """
    registry, rough = open_registry((base / "registry").as_uri()), base / "encoded"
    for version in range(1, versions + 1):
        first, end = (rows * n // versions for n in (version - 1, version))
        _encoded(spark, columns, version, first, end).write.parquet(str(rough / str(version)))
        encoded = spark.read.parquet(str(rough / str(version)))
        for n in range(tables):
            name = f"{FIRST}{n or ''}"
            schema = table(columns, name=name, version=version)
            key_id = registry.register(f"{name}-key", avro.key_schema(schema, OPTIONS))
            value_id = registry.register(f"{name}-value", avro.value_schema(schema, OPTIONS))
            records = as_records(
                encoded,
                topic=F.lit(name),
                partition=F.lit(0),
                offset=F.col("offset"),
                timestamp=F.current_timestamp(),
                key=F.concat(F.lit(header(key_id)), F.substring("key", HEADER + 1, MAX_LENGTH)),
                value=F.concat(F.lit(header(value_id)), F.substring("value", HEADER + 1, MAX_LENGTH)),
            )
            ordered = records.repartitionByRange(_FILES, "offset").sortWithinPartitions("offset")
            ordered.write.mode("append").parquet(str(base / "topics" / name))
    shutil.rmtree(rough)


def as_records(frame: DataFrame, **known: Column) -> DataFrame:
    """Return a topic's records, whose columns are null but for those that are given."""
    return frame.select(*(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD))


def add_file(records: DataFrame, topic: Path, name: str) -> Path:
    """Write records to a topic as one file; return it. Readers see all of it or nothing."""
    rough = topic.parent / f".{topic.name}"
    records.coalesce(1).write.mode("overwrite").parquet(str(rough))
    topic.mkdir(parents=True, exist_ok=True)
    return next(rough.glob("*.parquet")).rename(topic / f"{name}.parquet")


def with_messages(changes: DataFrame, schema: TableSchema, encoder: Encoder) -> DataFrame:
    """Return the numbers of rows, `n`, with the keys and values that an encoder makes of them."""
    table = RoutedTable(schema, schema, "topic")
    out = T.StructType([T.StructField("n", T.LongType()), *(f for f in RECORD if f.name in ("key", "value"))])

    def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = Rows.of_changes(schema, batch)
        made = {"n": batch.column("n"), "key": encoder.key(table, rows), "value": encoder.value(table, rows)}
        yield pa.RecordBatch.from_pydict(made)

    return mapped(changes, encode, out)


def avro_encoder(schema: TableSchema, key_id: SchemaId, value_id: SchemaId, options: AvroOptions) -> AvroEncoder:
    """Return what writes Avro with these ids of its schemas."""
    table = RoutedTable(schema, schema, "topic")
    return AvroEncoder(options, {avro.schema_key(table, "key"): key_id, avro.schema_key(table, "value"): value_id})


def _encoded(spark: SparkSession, columns: int, version: int, first: int, end: int) -> DataFrame:
    """Return offsets, keys and values of rows, whose schema has no number yet."""
    schema = table(columns, version=version)
    changes = inserted_rows(spark, end - first, schema, first)
    changes = changes.withColumn("commit_ts", F.lit(COMMIT_TS) + F.col("n") * _TSO_STEP)
    made = with_messages(changes, schema, avro_encoder(schema, _NO_SCHEMA, _NO_SCHEMA, OPTIONS))
    return made.select(F.col("n").alias("offset"), "key", "value")
