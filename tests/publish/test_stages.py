"""The stages of publishing, and what is told of them beforehand. No row is computed: only plans are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidecast.config import load_config
from tidecast.model import (
    CHECKSUM,
    RECORD,
    Column,
    DataType,
    Events,
    Index,
    TableChanges,
    TableSchema,
    row_type,
)
from tidecast.protocols import RoutedTable, codec_for
from tidecast.publish import plan
from tidecast.publish._batch import Batch, OutgoingTable, rules_of
from tidecast.publish._encode import FITTED, sent_messages
from tidecast.publish._fit import Fitting
from tidecast.publish._select import select_tables
from tidecast.registry import open_registry
from tidecast.topics import TopicInfo, open_topics

SCHEMA = TableSchema(
    "shop",
    "orders",
    1,
    1,
    (Column("id", DataType("int", length=11), nullable=False), Column("note", DataType("varchar", "utf8mb4"))),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)


def changes(spark: SparkSession, schema: TableSchema = SCHEMA) -> TableChanges:
    """No row of a table, with the columns that a decoder gives."""
    row, text = row_type(SCHEMA), T.StringType()
    columns = {"op": text, "commit_ts": T.LongType(), "table_id": T.LongType(), "old": row, "data": row}
    columns |= {"checksum": CHECKSUM, "reason": text, "detail": text}
    kind = T.StructType([*RECORD.fields, *(T.StructField(name, column) for name, column in columns.items())])
    return TableChanges(schema, spark.createDataFrame([], kind), 0, None, None)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("handle", ["none", "handle-key-only", "claim-check"])
def test_stages_have_the_columns_that_they_declare(handle: str, raw: bool, spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text(
        f"[sink.kafka-config]\noutput-raw-change-event = {str(raw).lower()}\n"
        f'[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = "{handle}"\n'
        f'claim-check-storage-uri = "file://{tmp_path}/claims"\n'
    )
    settings = load_config(f"file://{tmp_path}/topics?protocol=simple", str(config))
    codec = codec_for(settings.protocol, settings.codec_options("UTC", "default"), None)
    table = changes(spark)
    events = Events((table,), table.frame.select(*RECORD.fieldNames(), "reason", "detail"))
    batch = Batch.of(events, rules_of(events.ddl, settings, open_topics(settings.place), codec))
    fitting = Fitting.of(settings, TopicInfo("topic", 1))
    routed = RoutedTable(SCHEMA, SCHEMA, "topic")
    sent = sent_messages(batch, [OutgoingTable(table, routed, 1)], codec.encoder, fitting)
    assert sent is not None
    assert sent.schema.simpleString() == FITTED.simpleString()


RULES = """
[filter]
rules = ["*.*", "!shop.secret"]
[sink]
dispatchers = [{ matcher = ["*.*"], topic = "{schema}_{table}" }]
column-selectors = [{ matcher = ["shop.orders"], columns = ["*", "!note"] }]
"""


def test_a_plan_tells_which_tables_leave_and_how(spark: SparkSession, tmp_path: Path) -> None:
    """The same tables as leave then, to the same topics."""
    (tmp_path / "changefeed.toml").write_text(RULES)
    registry = f"file://{tmp_path}/schemas"
    settings = load_config(f"file://{tmp_path}/topics/all?protocol=avro", str(tmp_path / "changefeed.toml"), registry)
    tables = (SCHEMA, replace(SCHEMA, table="secret"), replace(SCHEMA, table="log", indexes=()))
    versions = tuple(changes(spark, schema) for schema in tables)
    events = Events(versions, versions[0].frame.select(*RECORD.fieldNames(), "reason", "detail"))
    sink = open_topics(settings.place)
    schemas = open_registry(registry)
    orders, secret, log = plan([t.schema for t in events.tables], events.ddl, settings, sink, schemas)
    codec = codec_for(settings.protocol, settings.codec_options("UTC", "default"), schemas)
    assert (orders.table, orders.topic, orders.handle_key, orders.partitions) == (
        "shop.orders",
        "shop_orders",
        ("id",),
        None,
    )
    assert [(s.subject, "note" in s.schema, s.refusal) for s in orders.schemas] == [
        ("shop_orders-key", False, None),
        ("shop_orders-value", False, None),
    ]
    assert (secret.table, secret.skipped) == ("shop.secret", "no filter rule lets it through")
    assert (log.table, log.skipped) == (
        "shop.log",
        "it has neither a primary key nor a unique key on NOT NULL columns",
    )
    assert not any(tmp_path.glob("topics/*")), "a plan makes nothing"
    assert not any(tmp_path.glob("schemas/*")), "a plan registers nothing"

    leaving, skipped = select_tables(Batch.of(events, rules_of(events.ddl, settings, sink, codec)), {})
    assert [(t.table.schema.name, t.table.topic) for t in leaving] == [("shop.orders", "shop_orders")]
    assert [*skipped] == ["shop.log"]
