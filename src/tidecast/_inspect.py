"""Messages explained for a person."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast.checksum import explain, verdict
from tidecast.model import RECORD, Events, Kind, Op, Reason, TableChanges, to_datetime
from tidecast.protocols import guess_protocol, protocol_named
from tidecast.spark import union

_OPS = {Op.CREATE: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
_MUTE = (Reason.BAD_JSON, Reason.BAD_MESSAGE, Reason.BAD_MAGIC)
"""Why a message cannot even tell what it is."""


@dataclass(frozen=True)
class ColumnShown:
    """A column of a row: its type, its value before and after as text, and the bytes that the checksum takes."""

    name: str
    type: str
    old: str | None
    new: str | None
    checked: str | None


@dataclass
class Inspected:
    """One message, explained. `problem` tells why it cannot be read."""

    topic: str | None
    partition: int | None
    offset: int | None
    protocol: str
    type: str = ""
    table: str = ""
    commit_ts: int | None = None
    time: str | None = None
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    sql: str | None = None
    columns: list[ColumnShown] = field(default_factory=list)
    verdict: str | None = None
    expected: int | None = None
    actual: int | None = None
    corrupted: bool | None = None
    problem: str | None = None


def inspect_events(records: DataFrame, events: Events, protocol: str, limit: int) -> list[Inspected]:
    """Explain the first `limit` messages of a source, whose events are `events`."""
    order = ["offset"] if events.ordered else ["timestamp", "topic", "partition", "offset"]
    chosen = records.orderBy(*order).limit(limit).collect()
    offsets = sorted({row["offset"] for row in chosen})
    rows = {_place(r): r for r in _explained(events, offsets)}
    dead_letters = events.dead_letters().where(F.col("offset").isin(offsets)).collect()
    problems = {_place(r): f"{r['reason']}: {r['detail']}" if r["detail"] else r["reason"] for r in dead_letters}
    return [_message(row, protocol, rows.get(_place(row)), problems.get(_place(row))) for row in chosen]


def parse_message(*, hex: str | None, base64_text: str | None) -> tuple[bytes, str]:  # noqa: A002
    """Return one message given as text, and the protocol that it looks like. Raises ConfigError for another text."""
    try:
        value = bytes.fromhex(hex) if hex is not None else base64.b64decode(base64_text or "", validate=True)
    except (ValueError, binascii.Error):
        kind = "hexadecimal" if hex is not None else "base64"
        raise ConfigError(f"the message is not {kind}") from None
    return value, guess_protocol(value).name


def single_message(spark: SparkSession, value: bytes) -> DataFrame:
    """Return one message as the first record of no topic."""
    given = {"offset": 0, "value": bytearray(value)}
    record = (F.lit(given.get(f.name)).cast(f.dataType).alias(f.name) for f in RECORD.fields)
    return spark.range(1).select(*record)


def _place(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["offset"]


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


def _message(record: Row, protocol: str, row: Row | None, problem: str | None) -> Inspected:
    shown = Inspected(record["topic"], record["partition"], record["offset"], protocol, problem=problem)
    key, value = (bytes(record[n]) if record[n] is not None else None for n in ("key", "value"))
    own = protocol_named(protocol).describe(key, value)
    shown.key_schema_id, shown.value_schema_id = own.key_schema_id, own.value_schema_id
    if row is not None:
        verification = row["verification"]
        shown.type, shown.table, shown.commit_ts = _OPS[Op(row["op"])], row["table"], row["commit_ts"]
        shown.columns = [ColumnShown(**c.asDict()) for c in row["columns"]]
        shown.verdict, shown.corrupted = verification["verdict"], verification["corrupted"]
        shown.expected, shown.actual = verification["expected"], verification["actual"]
    elif value and not (problem or "").startswith(_MUTE):
        shown.type, shown.table, shown.commit_ts, shown.sql = own.type, own.table, own.commit_ts, own.sql
        shown.columns = [ColumnShown(name, kind, None, None, None) for name, kind in own.columns]
    if shown.commit_ts:
        shown.time = to_datetime(shown.commit_ts).isoformat(timespec="milliseconds")
    return shown
