"""Messages of a topic explained, and those that Python alone does not explain."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidecast._progress import Progress
from tidecast.api import TopicSource
from tidecast.checksum import explain, verdict
from tidecast.inspection._inspected import ColumnShown, Inspected, Place, RowShown, explained, problem_text
from tidecast.model import RECORD, Events, Kind, TableChanges
from tidecast.registry import Registry
from tidecast.runtime import spark_session
from tidecast.sources import decode_records, read_records, source_errors
from tidecast.spark import union
from tidecast.topics import Records


def inspect_topic(
    source: str,
    limit: int,
    *,
    schema_registry: str | None,
    tz: str | None,
    progress: Progress,
    spark: SparkSession | None,
) -> list[Inspected]:
    """Explain the first `limit` messages of a source; see `tidecast.inspect`."""
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    progress("reading", 0, 0)
    records, protocol = read_records(checked.session, checked.uri)
    return _inspect(checked.uri, records, protocol, limit, checked.registry, checked.zone, progress)


def inspect_message(
    value: bytes,
    protocol: str,
    *,
    registry: Registry | None,
    zone: str,
    progress: Progress,
    spark: SparkSession | None,
) -> list[Inspected]:
    """Explain one message."""
    records = Records(_single_message(spark or spark_session(), value), ordered=True)
    return _inspect("", records, protocol, 1, registry, zone, progress)


def _inspect(
    uri: str,
    records: Records,
    protocol: str,
    limit: int,
    registry: Registry | None,
    zone: str,
    progress: Progress,
) -> list[Inspected]:
    with source_errors(uri), decode_records(records, protocol, registry=registry, zone=zone) as events:
        progress("explaining", 0, 0)
        return _inspect_events(records.frame, events, protocol, limit)


def _inspect_events(records: DataFrame, events: Events, protocol: str, limit: int) -> list[Inspected]:
    """Explain the first `limit` messages of a source, whose events are `events`."""
    order = ["offset"] if events.ordered else ["timestamp", "topic", "partition", "offset"]
    chosen = records.orderBy(*order).limit(limit).collect()
    offsets = sorted({row["offset"] for row in chosen})
    rows = {_place(r): _row(r) for r in _explained(events, offsets)}
    dead_letters = events.dead_letters().where(F.col("offset").isin(offsets)).collect()
    problems = {_place(r): problem_text(r["reason"], r["detail"]) for r in dead_letters}
    return [
        explained(
            _place(row),
            _bytes(row["key"]),
            _bytes(row["value"]),
            protocol,
            rows.get(_place(row)),
            problems.get(_place(row)),
        )
        for row in chosen
    ]


def _single_message(spark: SparkSession, value: bytes) -> DataFrame:
    """Return one message as the first record of no topic."""
    given = {"offset": 0, "value": bytearray(value)}
    record = (F.lit(given.get(f.name)).cast(f.dataType).alias(f.name) for f in RECORD.fields)
    return spark.range(1).select(*record)


def _place(row: Row) -> Place:
    return Place(row["topic"], row["partition"], row["offset"])


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)


def _row(row: Row) -> RowShown:
    verification = row["verification"]
    return RowShown(
        row["op"],
        row["table"],
        row["commit_ts"],
        [ColumnShown(**c.asDict()) for c in row["columns"]],
        verification["verdict"],
        verification["expected"],
        verification["actual"],
        verification["corrupted"],
    )


def _explained(events: Events, offsets: Sequence[int]) -> list[Row]:
    parts = [_explain(t, offsets) for t in events.tables]
    return union(parts).collect() if parts else []


def _explain(changes: TableChanges, offsets: Sequence[int]) -> DataFrame:
    schema = changes.schema
    checked = dict(explain(schema, F.col("data")))
    shown = F.array(
        *(
            F.struct(
                F.lit(c.name).alias("name"),
                F.lit(str(c.data_type)).alias("type"),
                _text(c.data_type.kind, F.col("old")[c.name]).alias("old"),
                _text(c.data_type.kind, F.col("data")[c.name]).alias("new"),
                checked.get(c.name, F.lit(None).cast("string")).alias("checked"),
            )
            for c in schema.columns
        )
    )
    verification = verdict(schema, F.col("data"), F.col("checksum"))
    return changes.good.where(F.col("offset").isin(list(offsets))).select(
        "topic",
        "partition",
        "offset",
        F.lit(schema.name).alias("table"),
        "op",
        "commit_ts",
        shown.alias("columns"),
        verification.alias("verification"),
    )


def _text(kind: Kind, value: Column) -> Column:
    return F.concat(F.lit("0x"), F.hex(value)) if kind in (Kind.BINARY, Kind.BIT) else value.cast("string")
