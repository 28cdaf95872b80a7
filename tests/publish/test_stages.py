"""The columns that pass from one stage of publishing to the next. No row is computed: only plans are made."""

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
from tidecast.publish._batch import Batch, OutgoingTable
from tidecast.publish._encode import ENCODED, FITTED, encode_rows
from tidecast.publish._fit import MessageSize
from tidecast.topics import TopicInfo, open_topics

SCHEMA = TableSchema(
    "shop",
    "orders",
    1,
    1,
    (Column("id", DataType("int", length=11), nullable=False), Column("note", DataType("varchar", "utf8mb4"))),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)


def changes(spark: SparkSession) -> TableChanges:
    """No row of the table, with the columns that a decoder gives."""
    row, text = row_type(SCHEMA), T.StringType()
    columns = {"op": text, "commit_ts": T.LongType(), "table_id": T.LongType(), "old": row, "data": row}
    columns |= {"checksum": CHECKSUM, "reason": text, "detail": text}
    kind = T.StructType([*RECORD.fields, *(T.StructField(name, column) for name, column in columns.items())])
    return TableChanges(SCHEMA, spark.createDataFrame([], kind), 0, None, None)


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
    batch = Batch.of(events, settings, open_topics(settings.place), codec)
    size = MessageSize(settings, TopicInfo("topic", 1))
    encoded = encode_rows(batch, 0, OutgoingTable(table, RoutedTable(SCHEMA, SCHEMA, "topic"), 1), size)
    assert encoded.schema.simpleString() == ENCODED.simpleString()
    assert size.fit(encoded).schema.simpleString() == FITTED.simpleString()
