"""Messages to events: from a source's URI, or from a DataFrame."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast.api._events import Events
from tidecast.api._source import TopicSource, registry_at, zone_of
from tidecast.model import RECORD, SchemaHistory
from tidecast.protocols import check_readable, known_names
from tidecast.sources import decode_records, read_topic, unpacked
from tidecast.topics import Records

_OPTIONAL = ("headers",)
_KAFKA = "a Kafka source gives key, value, topic, partition, offset, timestamp; pass its DataFrame on as it is"
_ADD = {
    "topic": "F.lit('orders')",
    "partition": "F.lit(0)",
    "offset": "a bigint that grows with the order of the messages",
    "timestamp": "F.current_timestamp()",
}
"""What may stand in for a column where the messages do not come from Kafka."""


def read(spark: SparkSession, source: str, *, schema_registry: str | None = None, tz: str | None = None) -> Events:
    """Return the events of a source, up to its present end.

    `source` is a URI, or a path, with `?protocol=`; `schema_registry` the URL of the registry that Avro needs; `tz` the
    time zone of TIMESTAMP text, by default the system's. Raises ConfigError, Unreachable and RegistryError.
    """
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz)
    return Events.of(read_topic(spark, checked.uri, registry=checked.registry, zone=checked.zone))


def decode(
    df: DataFrame,
    *,
    protocol: str,
    schema_registry: str | None = None,
    tz: str | None = None,
    history: SchemaHistory | None = None,
    large_message_handle_compression: str = "none",
    claim_check_storage_uri: str | None = None,
) -> Events:
    """Return the events of the messages in a DataFrame, as `spark.read.format("kafka")` or `foreachBatch` gives them.

    In: `key`, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp and, where there,
    `headers` array<struct<key string, value binary>>; other columns are left out. `protocol` is `avro`, `canal-json`,
    `debezium` or `simple`, `schema_registry` the URL of the registry that Avro needs, `tz` the time zone of TIMESTAMP
    text, by default the system's. Simple, and Debezium without schemas in its messages, tell a table's schema once:
    give the `history` of the events before to the next batch, or its rows are dead letters (`unknown-table`). For large
    or compressed messages, `large_message_handle_compression` (`none`, `snappy`, `lz4`) and `claim_check_storage_uri`
    are those of the changefeed that sent them.

    Spark reads the messages once, to find out which schemas they have, and keeps them: leave with
    `with tidecast.decode(…) as events:`, or call `events.release()`. Messages that cannot be read raise nothing; see
    `Events.dead_letters`. Raises ConfigError for a column that is missing or of another type, a streaming DataFrame, or
    a wrong protocol, registry or time zone; Unreachable and RegistryError.
    """
    name, zone, registry = _protocol(protocol), zone_of(tz), registry_at(schema_registry)
    packing = {"large-message-handle-compression": large_message_handle_compression}
    if claim_check_storage_uri:
        packing["claim-check-storage-uri"] = claim_check_storage_uri
    records = unpacked(Records(_records(df)), name, packing)
    return Events.of(decode_records(records, name, registry=registry, zone=zone, history=history))


def _protocol(name: str) -> str:
    try:
        return check_readable(name)
    except ConfigError as error:
        hint = f"protocol is one of {', '.join(known_names(readable=True))}"
        raise ConfigError(error.message, code=error.code, hint=hint) from None


def _records(df: DataFrame) -> DataFrame:
    """Return the columns of `RECORD` of a DataFrame that has them as Kafka's source gives them."""
    if df.isStreaming:
        raise ConfigError(
            "decode() takes no streaming DataFrame",
            hint="decode each batch: df.writeStream.foreachBatch(lambda batch, _: tidecast.decode(batch, …)).start()",
        )
    there = Counter(field.name.lower() for field in df.schema.fields)
    types = {field.name.lower(): field.dataType for field in df.schema.fields}
    for field in RECORD.fields:
        if there[field.name] > 1:
            raise ConfigError(f"the DataFrame has {there[field.name]} columns of the name {field.name}", hint=_KAFKA)
        if field.name in types:
            _check_type(field, types[field.name])
        elif field.name not in _OPTIONAL:
            instead = f"; elsewhere, add it: {_ADD[field.name]}" if field.name in _ADD else ""
            raise ConfigError(f"the DataFrame has no column {field.name}", hint=_KAFKA + instead)
    return df.select(
        *(
            (F.col(field.name) if field.name in types else F.lit(None).cast(field.dataType)).alias(field.name)
            for field in RECORD.fields
        )
    )


def _check_type(field: T.StructField, there: T.DataType) -> None:
    expected = field.dataType.simpleString()
    if there.simpleString() == expected:
        return
    hint = (
        "leave out CAST(… AS STRING), which destroys messages"
        if expected == "binary" and isinstance(there, T.StringType)
        else f"df.withColumn('{field.name}', F.col('{field.name}').cast('{expected}')), or pass Kafka's on as it is"
    )
    raise ConfigError(f"column {field.name} is {there.simpleString()}, not {expected}", hint=hint)
