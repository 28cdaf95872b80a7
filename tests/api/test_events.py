"""A DataFrame of Kafka's columns to events, tables, topics: the way that a PySpark program takes."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader
from golden_data import lines, registry_folder
from growing_topic import ID, ddl, row, table
from plans import explained
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidecast
from tidecast import ConfigError, Events, TableChanges
from tidecast.model import Column, DataType, TableSchema, compose, spark_type
from tidecast.spark import evaluated_once, small_table

ZONE = "Asia/Shanghai"
KINDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
}
"""What Kafka's source gives when it is asked for no headers."""

LAST_OF_INT = 84
"""The schema id up to which column `z` of `t_evo` is an INT; from then on it is another column, a TEXT."""

Line = dict[str, Any]


def kafka_frame(spark: SparkSession, messages: list[Line]) -> DataFrame:
    """Return golden messages as Kafka's source gives them, their place in the list being the offset."""

    def binary(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    rows: list[tuple[object, ...]] = [
        (binary(m["key"]), binary(m["value"]), m["topic"], int(m["partition"]), n, 1_700_000_000_000_000 + n, 0)
        for n, m in enumerate(messages)
    ]
    return small_table(spark, rows, KINDS)


@pytest.fixture(scope="module")
def evolved(golden: Callable[[str], Path]) -> list[Line]:
    """The messages of a table that nine schema changes altered."""
    return [line for line in lines(golden("avro-checksum.jsonl.gz")) if line["table"] == "t_evo"]


@pytest.fixture(scope="module")
def registry_url(golden: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A registry with the golden schemas."""
    return registry_folder(golden("avro-checksum.schemas.jsonl.gz"), tmp_path_factory.mktemp("registry"))


def schema_id(message: Line) -> int:
    """Return the id in a message's value, or in the key where it has none."""
    return int.from_bytes(base64.b64decode(message["value"] or message["key"])[1:5], "big")


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many jobs of Spark some work started."""
    spark.sparkContext.setJobGroup("counted", "")
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("counted"))
    try:
        work()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup("counted")) - before


def test_a_table_has_the_rows_of_all_its_versions(
    spark: SparkSession, golden: Callable[[str], Path], evolved: list[Line], registry_url: str
) -> None:
    """Each row as fastavro reads its message; columns that its version lacks are null. No job before `collect`."""
    schemas = {s["id"]: s["schema"] for s in lines(golden("avro-checksum.schemas.jsonl.gz"))}
    messages = [m for m in evolved if schema_id(m) <= LAST_OF_INT]
    value = base64.b64encode(base64.b64decode(messages[0]["value"])[:-1]).decode()
    df = kafka_frame(spark, [*messages, {**messages[0], "value": value}])  # the last one cannot be read
    with tidecast.decode(df, protocol="avro", schema_registry=registry_url, tz=ZONE) as events:
        made: list[DataFrame] = []
        assert jobs_of(spark, lambda: made.append(events.table("orc.t_evo"))) == 0
        (frame,) = made
        found: dict[int, Any] = {}
        assert jobs_of(spark, lambda: found.update({r["_offset"]: r for r in frame.collect()})) > 0
        (summary,) = events.changes()
    assert (summary.name, summary.rows, summary.ops) == ("orc.t_evo", len(messages) + 1, ("upsert", "delete"))
    assert {*summary.versions} == {schema_id(m) for m in messages}
    assert str(summary).startswith(f"orc.t_evo: {len(messages) + 1} row changes (upsert, delete), versions ")

    names = [name for name, _ in frame.dtypes]
    assert names[-7:] == ["_op", "_commit_ts", "_verdict", "_topic", "_partition", "_offset", "_timestamp"]
    assert {*names[:-7]} == {"id", "a", "a_new", "b", "c", "d", "e", "f", "ts", "bt", "z"}
    assert dict(frame.dtypes)["b"] == "bigint"  # which was an int first
    assert found.keys() == {*range(len(messages))}
    for n, message in enumerate(messages):
        body = io.BytesIO(base64.b64decode(message["value"] or message["key"])[5:])
        expected: Any = schemaless_reader(body, parse_schema(json.loads(schemas[schema_id(message)])), None)
        given = found[n].asDict()
        for name in ("id", "a", "a_new", "b", "c", "d", "e", "z"):
            assert given[name] == expected.get(name), (n, name)
        assert given["f"] == (None if expected.get("f") is None else int(expected["f"]))
        deleted = message["value"] is None
        assert given["_op"] == ("d" if deleted else expected["_tidb_op"])
        assert given["_commit_ts"] == (None if deleted else expected["_tidb_commit_ts"])
        assert given["_verdict"] == ("delete" if deleted else message["expect"])
        assert (given["_topic"], given["_partition"]) == (message["topic"], int(message["partition"]))
        assert given["_timestamp"].timestamp() == pytest.approx(1_700_000_000 + n / 1_000_000, abs=1e-7)


def test_versions_whose_types_do_not_unite_are_refused(
    spark: SparkSession, evolved: list[Line], registry_url: str
) -> None:
    df = kafka_frame(spark, evolved)
    with (
        tidecast.decode(df, protocol="avro", schema_registry=registry_url, tz=ZONE) as events,
        pytest.raises(ConfigError, match=r"column z of orc.t_evo is int in version 84 and text in version 87: no type"),
    ):
        events.table("orc.t_evo")


def changes(
    spark: SparkSession, database: str, name: str, version: int, keyspace: str | None = None, **types: str
) -> TableChanges:
    """Return the changes of a table version with columns of these types, whose frame is never asked for a row."""
    columns = tuple(Column(column, typed(text)) for column, text in types.items())
    frame = spark.range(0).select(
        *(F.lit(None).cast("bigint").alias(c) for c in ("topic", "partition", "offset", "timestamp", "commit_ts")),
        *(F.lit(None).cast("string").alias(c) for c in ("op", "reason")),
        *(F.lit(None).cast("struct<current:bigint,previous:bigint,corrupted:boolean>").alias(c) for c in ("checksum",)),
        *(
            F.struct(*(F.lit(None).cast(spark_type(c.data_type)).alias(c.name) for c in columns)).alias(side)
            for side in ("old", "data")
        ),
    )
    return TableChanges(TableSchema(database, name, 1, version, columns), frame, 1, 1, 1, keyspace)


def typed(text: str) -> DataType:
    """Return a MySQL type such as `decimal(10,2)` or `bigint unsigned`."""
    name, _, rest = text.partition("(")
    name, _, sign = name.partition(" ")
    length, _, scale = rest.rstrip(")").partition(",")
    charset = "utf8mb4" if name in ("varchar", "text", "enum") else "binary"
    return DataType(name, charset, charset, int(length or 0), int(scale or 0), unsigned=sign == "unsigned")


def events_of(*tables: TableChanges) -> Events:
    return Events(tables, tables[0].frame)


def test_a_table_is_joined_by_a_column_whose_way_was_long(spark: SparkSession) -> None:
    """Spark must not put all of it together to one expression, which is too deep for its stack here."""
    made = changes(spark, "d", "t", 1, v="text")
    frame, turned = made.frame, "reverse(" * 200 + "data.v" + ")" * 200
    for _ in range(12):
        frame = frame.withColumn("data", evaluated_once(F.expr(f"named_struct('v', {turned})")))
    others = small_table(spark, [("odd",)], {"v": pa.string()})
    assert events_of(replace(made, source=frame)).table("d.t").join(others, "v").count() == 0


def test_a_row_is_checked_once_however_often_its_verdict_is_read(spark: SparkSession) -> None:
    made = changes(spark, "d", "t", 1, id="int", v="text")
    read = (F.from_json(F.col("id").cast("string"), f"x {kind}")["x"].alias(name) for name, kind in made.frame.dtypes)
    events = events_of(replace(made, source=spark.range(1).select(*read)))
    for rows, verdict in ((tidecast.verify(events), "verdict"), (events.table("d.t"), "_verdict")):
        wrong = rows.where(f"{verdict} = 'mismatch' OR {verdict} = 'none'").select(verdict)
        assert explained(wrong).count("MapInArrow") == 1


@pytest.mark.parametrize(
    ("one", "two", "united"),
    [
        ("int", "bigint", "bigint"),
        ("int unsigned", "int", "bigint"),
        ("bigint unsigned", "bigint", "decimal(20,0)"),
        ("decimal(10,2)", "decimal(6,4)", "decimal(12,4)"),
        ("int", "decimal(6,2)", "decimal(12,2)"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("varchar(9)", "enum", "string"),
        ("datetime", "datetime(6)", "string"),
        ("decimal(38,0)", "decimal(38,1)", None),
        ("decimal(65,30)", "decimal(9,2)", None),
        ("bigint", "double", None),
        ("int", "float", None),
        ("int", "varchar(20)", None),
        ("datetime", "timestamp", None),
        ("date", "text", None),
        ("bit(8)", "blob", None),
    ],
)
def test_a_column_has_the_type_that_holds_all_versions(
    spark: SparkSession, one: str, two: str, united: str | None
) -> None:
    for first, last in ((one, two), (two, one)):
        events = events_of(changes(spark, "d", "t", 1, v=first), changes(spark, "d", "t", 2, V=last))
        if united is None:
            with pytest.raises(ConfigError, match=r"column v of d.t is .* in version 1 and .* in version 2: no type"):
                events.table("d.t")
        else:
            assert events.table("d.t").dtypes[0] == ("V", united)


def test_tables_that_are_not_one_are_refused(spark: SparkSession) -> None:
    events = events_of(
        changes(spark, "shop", "orders", 1, id="int"),
        changes(spark, "shop", "order_items", 1, id="int"),
        changes(spark, "a.b", "c", 1, id="int"),
        changes(spark, "a", "b.c", 1, id="int"),
        changes(spark, "k", "t", 1, keyspace="one", id="int"),
        changes(spark, "k", "t", 2, keyspace="two", id="int"),
        changes(spark, "own", "t", 1, _OP="int"),
    )
    for name, message in {
        "shop.ordrs": r"no row changes of shop.ordrs \(did you mean shop.orders",
        "zzz": r"no row changes of zzz \(there are a.b.c, k.t, own.t, shop.order_items, shop.orders: events.changes",
        "a.b.c": r"a.b.c is the name of two tables: \('a.b', 'c'\) and \('a', 'b.c'\) \(take their versions one by one",
        "k.t": "k.t is the name of two tables: one and two",
        "own.t": r"column _OP of own.t has the name of a column that table\(\) adds",
    }.items():
        with pytest.raises(ConfigError, match=message):
            events.table(name)
    with pytest.raises(ConfigError, match="there are none of any table"):
        replace(events, tables=()).table("shop.orders")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: df.drop("offset"), r"no column offset \(a Kafka source gives key.*; elsewhere, add it: a bigint"),
        (lambda df: df.drop("value"), r"no column value \(a Kafka source gives key, value"),
        (lambda df: df.withColumn("value", F.col("value").cast("string")), r"value is string, not binary \(leave out"),
        (lambda df: df.withColumn("partition", F.lit("0")), r"partition is string, not int \(df.withColumn"),
        (
            lambda df: df.withColumn("headers", F.lit("h")),
            "headers is string, not array<struct<key:string,value:binary>>",
        ),
        (lambda df: df.select("*", F.col("key").alias("KEY")), "2 columns of the name key"),
        (lambda df: df.sparkSession.readStream.format("rate").load(), "takes no streaming DataFrame"),
    ],
    ids=["offset", "value", "text", "partition", "headers", "twice", "streaming"],
)
def test_a_dataframe_without_kafkas_columns_is_refused(
    spark: SparkSession, change: Callable[[DataFrame], DataFrame], message: str
) -> None:
    df = kafka_frame(spark, [])
    with pytest.raises(ConfigError, match=message):
        tidecast.decode(change(df), protocol="simple")


def test_options_of_decode_are_checked(spark: SparkSession) -> None:
    df = kafka_frame(spark, [])
    with pytest.raises(ConfigError, match=r"unknown 'cvs' message protocol for a source \(protocol is one of avro, "):
        tidecast.decode(df, protocol="cvs")
    with pytest.raises(ConfigError, match='requires parameter "schema-registry"'):
        tidecast.decode(df, protocol="avro")
    with pytest.raises(ConfigError, match="unknown large-message-handle-compression 'zip'"):
        tidecast.decode(df, protocol="simple", large_message_handle_compression="zip")
    with pytest.raises(ConfigError, match="unknown time zone 'Mars'"):
        tidecast.decode(df, protocol="simple", tz="Mars")


def test_spark_checks_a_time_zone_without_a_job(spark: SparkSession) -> None:
    """What Python does not know may be one that Java does: `ACT` is one, `XYZ` is none."""
    df = kafka_frame(spark, [])
    spark.sparkContext.setJobGroup("zone", "zone")
    try:
        with pytest.raises(ConfigError, match="unknown time zone 'XYZ'"):
            tidecast.decode(df, protocol="simple", tz="XYZ")
        assert not spark.sparkContext.statusTracker().getJobIdsForGroup("zone")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda events: tidecast.replicate(events, "./x", checkpoint="./c"), "checkpoint"),
        (lambda events: tidecast.replicate(events, "./x", schema_registry="file:///r"), "schema_registry"),
        (lambda events: tidecast.replicate(events, "./x", tz="UTC"), "tz"),
        (lambda events: tidecast.replicate(events, "./x", spark=events.rejected.sparkSession), "spark"),
        (
            lambda events: tidecast.convert(events, "file:///x?protocol=simple", source_schema_registry="r"),
            "source_sch",
        ),
        (
            lambda events: tidecast.plan(events, "file:///x?protocol=simple", source_schema_registry="r"),
            "source_schema",
        ),
        (lambda events: tidecast.verify(events, mismatches="./m"), "mismatches"),
    ],
)
def test_what_belongs_to_a_uri_is_refused_beside_events(
    spark: SparkSession, call: Callable[[Events], object], option: str
) -> None:
    with pytest.raises(ConfigError, match=f"{option}.* has no meaning for events, which have been read already"):
        call(events_of(changes(spark, "d", "t", 1, id="int")))


def test_each_batch_of_a_stream_is_decoded_published_and_applied(spark: SparkSession, tmp_path: Path) -> None:
    """Two batches of compressed Simple messages as `foreachBatch` gives them; the first alone has the schema."""
    batches = [
        [ddl("CREATE TABLE t", compose(1), table(compose(1), ID)), row(compose(2), compose(1), id=1)],
        [row(compose(3), compose(1), id=2), row(compose(4), compose(1), kind="DELETE", id=1)],
    ]
    (tmp_path / "kafka").mkdir()
    for n, batch in enumerate(batches):
        records = [
            (None, lz4.frame.compress(json.dumps(m).encode()), "t", 0, 2 * n + i, 1_700_000_000_000_000, 0)
            for i, m in enumerate(batch)
        ]
        small_table(spark, records, KINDS).coalesce(1).write.parquet(f"file://{tmp_path}/kafka/{n}")
    history = tidecast.SchemaHistory()
    sink, to = f"file://{tmp_path}/again/t?protocol=simple", str(tmp_path / "to")
    seen: list[list[str]] = []

    def work(df: DataFrame, _: int) -> None:
        with tidecast.decode(df, protocol="simple", history=history, large_message_handle_compression="lz4") as events:
            seen.append([r["_op"] for r in events.table("d.t").orderBy("_offset").collect()])
            assert tidecast.convert(events, sink).total == len(seen[-1])
            assert not tidecast.replicate(events, to).dead_letters

    stream = spark.readStream.schema(small_table(spark, [], KINDS).schema).option("maxFilesPerTrigger", 1)
    query = (
        stream.parquet(f"file://{tmp_path}/kafka/*")
        .writeStream.foreachBatch(work)
        .option("checkpointLocation", f"file://{tmp_path}/state")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert seen == [["c"], ["c", "d"]]
    assert [r["id"] for r in spark.read.format("delta").load(f"{to}/d/t").collect()] == [2]
    with tidecast.read(spark, sink) as events:
        assert sum(changes.rows for changes in events.tables) == 3
