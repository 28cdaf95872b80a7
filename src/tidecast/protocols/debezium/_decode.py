"""Debezium messages to events. Source: Debezium protocol, messages, the real consumer.

A message holds its schema, which is longer than its row, and the same in thousands of messages. So the schema is cut
off as bytes; the driver reads each once, and Spark reads what is left with the types that the schema gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import LONG_TEXTS
from tidecast.model import (
    CHECKSUM,
    RECORD,
    Ddl,
    Events,
    Index,
    InvalidSchema,
    Op,
    Reason,
    SchemaHistory,
    Statement,
    TableChanges,
    TableSchema,
    checked,
    ddl_type,
    is_tso,
    read_statement,
    row_type,
)
from tidecast.protocols._json_object import END, is_closed
from tidecast.protocols._rejected import cause_columns, given_causes, rejected, with_causes
from tidecast.protocols.debezium import _decode_envelope as envelope
from tidecast.protocols.debezium._decode_schema import Field, MoreAfterEnd, fields_of, read_block, read_table
from tidecast.protocols.debezium._decode_values import damaged, json_type, readable, value
from tidecast.protocols.debezium._encode import WATERMARK
from tidecast.protocols.debezium._encode_source import CONNECTOR
from tidecast.protocols.debezium._unknown_fields import unknown_fields
from tidecast.spark import active_java, block_collapse_project, evaluated_once, parallel_map, reused

SNAPSHOT = "r"
"""The operation of a row that Debezium's own connector read before it began to follow changes."""

_OPS = (Op.CREATE, Op.UPDATE, Op.DELETE, SNAPSHOT)
_UNREADABLE = "unreadable"
_SIDES = ("before", "after")


def _nullable(**types: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def _message(**payload: T.DataType) -> T.StructType:
    return _nullable(payload=_nullable(**payload), **{_UNREADABLE: T.StringType()})


_SOURCE = _nullable(db=T.StringType(), table=T.StringType(), commit_ts=T.LongType(), connector=T.StringType())
_PAYLOAD = _message(source=_SOURCE, op=T.StringType(), ddl=T.StringType(), tableChanges=T.StringType())
_HEAD = T.StructType([*_PAYLOAD.fields, END])


def decode(
    records: DataFrame, *, ordered: bool = False, zone: str = "UTC", schemas: Iterable[TableSchema] = ()
) -> Events:
    """Return the events of Debezium messages, TiCDC's or those of Debezium's own connector for MySQL.

    In: the columns of `RECORD`, and where messages were unpacked `reason` and `detail`: why one could not be.
    `ordered`: see `Events`. `zone` is the time zone of TIMESTAMP defaults in statements,
    that of TiCDC's server. A row is read by the schema in its message; without one, by the last schema change of its
    table before it, or by one of `schemas`, which are such as a Simple topic has. What is before is told by commit-ts;
    where rows have none, by offset if they are `ordered`, and else the last version counts. Where one of those gives
    the very schema in the message, it serves too, since it tells more. Rows of a table that nothing tells are rejected
    with `Reason.UNKNOWN_TABLE`; rows with a column that their table lacks have `Reason.BAD_VALUE`. A table that only
    messages tell has the commit-ts of its first row as its version, and no column ids. Tombstones, which repeat a
    delete, are left out. The messages are read once and kept by Spark: see `Events.release`.
    """
    parsed = _parse(records).persist()
    position = "offset" if ordered else "commit_ts"
    known = _Known(schemas, ordered)
    ddl, broken = _schema_changes(parsed, known, position, zone)
    found: list[tuple[Row, _Group, _Reading]] = []
    refused: list[tuple[_Group, Reason, str]] = []
    lacks_commit_ts, highest = False, None
    indexed = parsed.withColumn("version_index", known.version_index())
    for row in _collect_stats(indexed, position):
        if row["database"] is None:
            highest = row["watermark"]
            continue
        group = _Group.of(row)
        try:
            read = _read(group, known)
        except MoreAfterEnd:
            refused.append((group, Reason.BAD_JSON, "more follows its end"))
            continue
        if isinstance(read, str):
            reason = Reason.FOREIGN_SCHEMA if group.schema else Reason.UNKNOWN_TABLE
            refused.append((group, reason, read))
        else:
            lacks_commit_ts |= row["lacks_commit_ts"]
            found.append((row, group, read))

    def changes(one: tuple[Row, _Group, _Reading]) -> TableChanges:
        row, group, read = one
        frame = _rows(parsed.where(group.mine(known)), *read, group)
        return TableChanges(read[0], frame, row["rows"], row["rows_from"], row["upserts_from"])

    tables = parallel_map(changes, found)
    tables.sort(key=lambda t: (t.rows_from is None, t.rows_from))
    return Events(
        tables=tuple(tables),
        rejected=_rejected(indexed, refused, broken),
        ddl=ddl,
        watermarks=None if highest is None else _watermarks(parsed),
        watermark=highest,
        ordered=ordered,
        position=None if lacks_commit_ts and not ordered else position,
        has_commit_ts=not lacks_commit_ts,
        cached=(parsed,),
    )


_Reading = tuple[TableSchema, tuple[Field, ...]]
"""A table version, and how the values of its rows are read."""

_BROKEN = "tableChanges is not of Debezium's form"


def _parse(records: DataFrame) -> DataFrame:
    """Return the records with what their messages say beside rows, and why one cannot be used."""
    usable, heads, members = _head_columns(given_causes(records))
    return records.where(usable).select(*heads).select(*members)


@reused()
def _head_columns(given: tuple[str, ...]) -> tuple[Column, tuple[Column, ...], tuple[Column, ...]]:
    """Return which records are messages, and the columns of the two steps of `_parse`.

    Of `CAUSE` the records have those that are `given`.
    """
    head = F.from_json(envelope.payload("value"), _HEAD, {"columnNameOfCorruptRecord": _UNREADABLE, **LONG_TEXTS})
    there = F.octet_length("value") > 0
    heads = (
        *map(F.col, RECORD.fieldNames()),
        *cause_columns(given),
        evaluated_once(head).alias("head"),
        F.when(envelope.schema("value").isNotNull(), F.xxhash64(envelope.schema("value"))).alias("shape"),
        envelope.members("key").alias("keys"),
    )
    head, payload, origin = F.col("head"), F.col("head.payload"), F.col("head.payload.source")
    row = payload["op"].isin(*_OPS)
    change = payload["op"].isNull() & payload["ddl"].isNotNull()
    broken_key = (F.octet_length("key") > 0) & F.col("keys").isNull()
    broken = head.isNull() | head[_UNREADABLE].isNotNull() | ~is_closed(head)
    broken |= ~F.is_valid_utf8(envelope.text("value"))
    # One that was damaged there, taken for another connector's, would leave its whole batch without commit-ts.
    undated = (origin["connector"] == CONNECTOR) & origin["commit_ts"].isNull()
    reason = (
        F.when(F.col("reason").isNotNull(), F.col("reason"))
        .when(broken | F.coalesce(broken_key, F.lit(False)), Reason.BAD_JSON)
        .when(
            payload["op"] == WATERMARK,
            F.when(origin["commit_ts"].isNull(), Reason.BAD_MESSAGE).when(
                ~is_tso(origin["commit_ts"]), Reason.BAD_VALUE
            ),
        )
        .when(~F.coalesce(row, F.lit(False)) & ~change, Reason.BAD_MESSAGE)
        .when(F.coalesce(undated, F.lit(False)), Reason.BAD_MESSAGE)
        .when(~is_tso(origin["commit_ts"]), Reason.BAD_VALUE)
        .when(origin["db"].isNull() | (row & origin["table"].isNull()), Reason.BAD_MESSAGE)
    )
    members = (
        *map(F.col, RECORD.fieldNames()),
        reason.alias("reason"),
        F.col("detail"),
        F.when(change, "ddl").otherwise(payload["op"]).alias("op"),
        origin["db"].alias("database"),
        origin["table"].alias("table"),
        origin["commit_ts"].alias("commit_ts"),
        payload["ddl"].alias("ddl"),
        payload["tableChanges"].alias("changes"),
        F.col("shape"),
        F.col("keys"),
    )
    return F.coalesce(there, F.lit(False)) | F.col("key").isNull(), heads, members


@reused()
def _is_row() -> Column:
    return F.col("reason").isNull() & F.col("op").isin(*_OPS)


@reused()
def _is_watermark() -> Column:
    return F.col("reason").isNull() & (F.col("op") == WATERMARK)


class _Known:
    """The table versions that are known beside the messages' own schemas, by name.

    Each counts from a TSO on, and for rows without a commit-ts from an offset on, if offsets have one order.
    """

    def __init__(self, schemas: Iterable[TableSchema], ordered: bool) -> None:
        self._versions: dict[tuple[str, str], list[tuple[int, int, TableSchema]]] = {}
        self._ordered = ordered
        for schema in schemas:
            self.add(schema, schema.version)

    def add(self, schema: TableSchema, since: int | None, offset: int = -1) -> None:
        """Take a table version; one whose TSO nobody tells comes after those that are known."""
        versions = self._versions.setdefault((schema.database, schema.table), [])
        last = versions[-1][0] if versions else 0
        versions.append((last if since is None else since, offset, schema))
        versions.sort(key=lambda version: version[0])

    def of(self, name: tuple[str, str]) -> list[TableSchema]:
        """Return the versions of a table, in their order."""
        return [schema for _, _, schema in self._versions.get(name, ())]

    def _begun(self, since: Column, offset: Column) -> Column:
        """Return whether a version that begins there has begun before a row."""
        by_offset = offset <= F.col("offset") if self._ordered else F.lit(True)
        return F.coalesce(since <= F.col("commit_ts"), by_offset)

    def version_index(self) -> Column:
        """Return how many versions of its table begin before a row: int, null for a row with its own schema."""
        since = [
            (F.lit(f"{database}\0{table}"), F.array(*(_start(since, offset) for since, offset, _ in versions)))
            for (database, table), versions in self._versions.items()
        ]
        if not since:
            return F.when(F.col("shape").isNull(), 0)
        starts = F.create_map(*(part for pair in since for part in pair))
        mine = F.try_element_at(starts, F.concat_ws("\0", "database", "table"))
        begun = F.size(F.filter(mine, lambda start: self._begun(start["since"], start["offset"])))
        return F.when(F.col("shape").isNull(), F.when(mine.isNull(), 0).otherwise(begun))

    def within(self, name: tuple[str, str], version_index: int) -> Column:
        """Return whether a row of a table is of the version with this `version_index()`."""
        begun = [self._begun(F.lit(since), F.lit(offset)) for since, offset, _ in self._versions.get(name, ())]
        after = begun[version_index - 1] if version_index else F.lit(True)
        return after & ~begun[version_index] if version_index < len(begun) else after


def _start(since: int, offset: int) -> Column:
    return F.struct(F.lit(since).cast("bigint").alias("since"), F.lit(offset).cast("bigint").alias("offset"))


def _schema_changes(
    parsed: DataFrame, known: _Known, position: str, zone: str
) -> tuple[tuple[Ddl, ...], list[tuple[str, str]]]:
    """Read the schema changes, which come once or once per partition, on the driver; learn the tables they show.

    Returns them, and the table changes that cannot be read, with the reason.
    """
    messages = parsed.where(F.col("reason").isNull() & (F.col("op") == "ddl"))
    # Debezium's own connector sends each once, without a commit-ts, and the same may happen again.
    sent = F.when(F.col("commit_ts").isNull(), F.struct("topic", "partition", "offset"))
    once = messages.groupBy("database", "table", "commit_ts", "ddl", "changes", sent.alias("sent"))
    rows = once.agg(F.min("offset").alias("offset")).collect()
    history, numbers = SchemaHistory(), _Numbers()
    found: list[Ddl] = []
    broken: list[tuple[str, str]] = []
    for row in sorted(
        rows, key=lambda r: (r["offset"],) if position == "offset" else (r["commit_ts"] or 0, r["offset"])
    ):
        statement = read_statement(row["ddl"])
        try:
            schema = _shown(row, statement, zone)
        except InvalidSchema as invalid:
            broken.append((row["changes"], str(invalid)))
            continue
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            broken.append((row["changes"], _BROKEN))
            continue
        kind = ddl_type(statement) if statement else "ALTER" if schema else "QUERY"
        change = Ddl(kind, row["ddl"], row["commit_ts"] or 0, schema)
        if schema:
            number = numbers.of(schema, statement)
            # The history tells virtual columns, and tells tables apart by numbers, which Debezium does not carry.
            whole = history.add(replace(schema, table_id=number), change)
            schema = replace(whole, table_id=0, columns=tuple(replace(c, id=None) for c in whole.columns))
            known.add(schema, row["commit_ts"], row["offset"])
        elif kind in ("ERASE", "TRUNCATE"):  # which show no table: it is as it was
            schema = next(reversed(known.of((row["database"] or "", row["table"] or ""))), None)
        named = None if schema else (row["database"] or "", row["table"] or "")
        found.append(
            replace(change, schema=schema, position=row[position], named=named if named and named[0] else None)
        )
    return tuple(found), broken


class _Numbers:
    """A number for each table, which it keeps when it is renamed."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, schema: TableSchema, statement: Statement | None) -> int:
        """Return the number of a table after a statement."""
        name = (schema.database, schema.table)
        was = statement.name if statement and statement.renamed else name
        before = (was[0] or schema.database, was[1])
        created = statement is not None and statement.verb == "CREATE" and statement.subject == "TABLE"
        number = None if created else self._numbers.pop(before, None)
        self._numbers[name] = number or len(self._numbers) + 1
        return self._numbers[name]


def _shown(row: Row, statement: Statement | None, zone: str) -> TableSchema | None:
    changes: list[dict[str, Any]] = json.loads(row["changes"] or "[]")
    table = changes[0]["table"] if changes else None
    if table is None:
        return None
    # The message names the other table of an exchange, and shows the one with partitions.
    named = statement and (statement.renamed or (statement.name if statement.exchanged else None))
    database, name = named or (None, row["table"] or "")
    return checked(read_table(table, (database or row["database"], name), row["commit_ts"] or 0, statement, zone))


@dataclass(frozen=True)
class _Group:
    """The rows that have the same schema, or were written under the same version of a table, and the same key."""

    database: str
    table: str
    keys: tuple[str, ...] | None
    shape: int | None
    version_index: int | None
    schema: bytes | None
    since: int
    head: int

    @classmethod
    def of(cls, row: Row) -> _Group:
        """Return the group of a row of `_collect_stats`."""
        keys = None if row["keys"] is None else tuple(row["keys"])
        schema = None if row["schema"] is None else bytes(row["schema"])
        return cls(
            row["database"],
            row["table"],
            keys,
            row["shape"],
            row["version_index"],
            schema,
            row["since"] or 0,
            row["head"],
        )

    def mine(self, known: _Known) -> Column:
        """Return whether a row is of this group."""
        keys = F.lit(None) if self.keys is None else F.array(*map(F.lit, self.keys)).cast("array<string>")
        test = _is_row() & (F.col("database") == self.database) & (F.col("table") == self.table)
        test &= F.col("keys").eqNullSafe(keys) & F.col("shape").eqNullSafe(F.lit(self.shape))
        return (
            test if self.version_index is None else test & known.within((self.database, self.table), self.version_index)
        )


def _collect_stats(parsed: DataFrame, position: str) -> list[Row]:
    """Count the rows of each group; watermarks count in a group of their own, which has no database."""
    counted, groups, counts = _grouping(position)
    return parsed.where(counted).groupBy(*groups).agg(*counts).collect()


@reused()
def _grouping(position: str) -> tuple[Column, tuple[Column, ...], tuple[Column, ...]]:
    """Return which messages are counted, by what, and what is to be known of each group."""
    ts = F.col("commit_ts")
    names = ("database", "table", "keys", "shape", "version_index")
    schema = F.when(_is_row() & F.col("shape").isNotNull(), envelope.schema("value")).alias("schema")
    upsert = F.col("op") != Op.DELETE
    upserts_from = (F.min(F.when(upsert, F.col(name))) for name in (position, "offset"))
    return (
        _is_row() | _is_watermark(),
        (*(F.when(_is_row(), F.col(name)).alias(name) for name in names), schema),
        (
            F.count("*").alias("rows"),
            # Null would say that there are none, and rows without a commit-ts have an offset.
            F.coalesce(F.min(position), F.min("offset")).alias("rows_from"),
            F.coalesce(*upserts_from).alias("upserts_from"),
            F.min(ts).alias("since"),
            F.max(ts.isNull()).alias("lacks_commit_ts"),
            F.max(F.when(_is_watermark(), ts)).alias("watermark"),
            F.first(envelope.head_length("value")).alias("head"),
        ),
    )


def _read(group: _Group, known: _Known) -> _Reading | str:
    """Return the table of a group and how its values are read, or why they cannot be."""
    name = (group.database, group.table)
    versions = known.of(name)
    if group.schema is None:
        if not group.version_index:
            return f"no schema of {group.database}.{group.table} before commit-ts {group.since}"
        schema: TableSchema | None = versions[group.version_index - 1]
        fields = fields_of(versions[group.version_index - 1])
    else:
        block = read_block(group.schema, versions)
        if block is None:
            return "the schema in the message is not one of Debezium's for a row"
        schema, fields = block
    if schema is None:
        schema = TableSchema(*name, 0, group.since, tuple(f.column for f in fields))
    try:
        checked(schema)
    except InvalidSchema as invalid:
        return str(invalid)
    unreadable = [f.column.name for f in fields if not readable(f)]
    if unreadable:
        return f"column {unreadable[0]} is a decimal of more digits than can be read"
    if set(group.keys or ()) == set(schema.handle_key):
        return schema, fields
    key = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=group.keys or ())
    return replace(schema, indexes=(key,) if group.keys else ()), fields


def _rows(rows: DataFrame, schema: TableSchema, fields: tuple[Field, ...], group: _Group) -> DataFrame:
    usual, made, read = _row_columns(schema, fields, group.head, group.schema)
    # A step of its own: the one that reads messages copies the bytes of a value whenever it looks at them.
    rows = block_collapse_project(rows.select(*usual), "op").withColumns(made)
    return block_collapse_project(block_collapse_project(rows, "op").select(*read), "op")


@reused(active_java)
def _row_columns(
    schema: TableSchema, fields: tuple[Field, ...], head: int, tail: bytes | None
) -> tuple[tuple[Column, ...], dict[str, Column], tuple[Column, ...]]:
    """Return the columns of the steps of `_rows`: the message, its parts, and the change that it tells.

    `head` is the length of what comes before the row in most messages, `tail` the schema that follows it.
    """
    # A virtual column has no value; TiCDC leaves it out.
    image = T.StructType([T.StructField(f.column.name, json_type(f)) for f in fields if not f.column.virtual])
    usual = (
        *map(F.col, (*RECORD.fieldNames(), "op", "commit_ts")),
        envelope.without_head("value", head, tail).alias("message"),
        envelope.has_head("value", head).alias("headed"),
    )
    kind = _message(before=image, after=image)
    parsed = F.from_json("message", kind, {"columnNameOfCorruptRecord": _UNREADABLE, **LONG_TEXTS})
    # Columns of their own: to read a field of a struct within a struct, Spark makes an object each time.
    made = {name: parsed["payload"][name] for name in _SIDES} | {_UNREADABLE: parsed[_UNREADABLE]}
    sides = {name: F.col(name) for name in _SIDES}
    old, new = sides.values()
    deleted = F.col("op") == Op.DELETE
    missing = F.when(deleted, old.isNull()).otherwise(new.isNull())
    detail = F.coalesce(
        F.when(F.col(_UNREADABLE).isNotNull(), F.lit("a value is not of its column's form")),
        F.when(missing, F.lit("the row is missing")),
        *_damages((old, new), fields),
        *([] if tail else [unknown_fields(F.col("message"), F.col("headed"), sides, fields)]),
    )
    read = (
        *map(F.col, RECORD.fieldNames()),
        F.when(F.col("op") == SNAPSHOT, Op.CREATE).otherwise(F.col("op")).alias("op"),
        F.col("commit_ts"),
        F.lit(None).cast("bigint").alias("table_id"),
        _image(F.col("op").isin(Op.UPDATE, Op.DELETE), old, fields).alias("old"),
        _image(~deleted, new, fields).alias("data"),
        F.lit(None).cast(CHECKSUM).alias("checksum"),
        F.when(detail.isNotNull(), F.when(missing, Reason.BAD_MESSAGE).otherwise(Reason.BAD_VALUE)).alias("reason"),
        detail.alias("detail"),
    )
    return usual, made, read


def _image(there: Column, side: Column, fields: tuple[Field, ...]) -> Column:
    types = row_type(TableSchema("", "", 0, 0, tuple(f.column for f in fields)))
    values = (F.lit(None) if f.column.virtual else value(f, side[f.column.name]) for f in fields)
    row = F.struct(*(v.cast(t.dataType).alias(t.name) for v, t in zip(values, types, strict=True)))
    return F.when(there & side.isNotNull(), row)


def _damages(sides: Iterable[Column], fields: tuple[Field, ...]) -> Iterator[Column]:
    """Yield an expression for each column that can hold a bad value: its error message, or null for a good value."""
    for side in sides:
        for field in fields:
            name = field.column.name
            wrong = None if field.column.virtual else damaged(field, side[name])
            if wrong is not None:
                yield F.when(wrong, F.lit(f"column {name} has a bad value"))


def _watermarks(parsed: DataFrame) -> DataFrame:
    return parsed.where(_is_watermark()).select(*RECORD.fieldNames(), "commit_ts")


def _rejected(parsed: DataFrame, refused: list[tuple[_Group, Reason, str]], broken: list[tuple[str, str]]) -> DataFrame:
    """Return the messages that cannot be used; the groups that are refused may be thousands."""
    undatable = F.when(F.col("reason") == Reason.BAD_VALUE, "commit_ts is no time").otherwise(F.col("detail"))
    messages = parsed.withColumn("detail", undatable)
    if refused:
        kinds = {"database": pa.string(), "table": pa.string(), "keys": pa.list_(pa.string())}
        kinds |= {"shape": pa.int64(), "version_index": pa.int32()}
        causes = [(*(getattr(group, name) for name in kinds), str(reason), why) for group, reason, why in refused]
        keys = {name: (kind, F.when(_is_row(), F.col(name))) for name, kind in kinds.items()}
        messages = with_causes(messages, keys, causes)
    if broken:
        wrong = [(changes, str(Reason.BAD_MESSAGE), why) for changes, why in broken]
        messages = with_causes(messages, {"changes": (pa.string(), F.col("changes"))}, wrong)
    return rejected(messages)
