"""Simple messages to events. Source: Simple protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from tidecast.model import (
    RECORD,
    Bootstrap,
    Ddl,
    Events,
    Op,
    Reason,
    SchemaHistory,
    SchemaKey,
    TableChanges,
    TableSchema,
    checked,
    is_tso,
    row_type,
)
from tidecast.protocols._rejected import cause_columns, given_causes, rejected, with_causes
from tidecast.protocols.simple import _read_avro, _read_json
from tidecast.protocols.simple import _schema as table_schemas
from tidecast.protocols.simple._avro import MARK, read_message
from tidecast.protocols.simple._message import BOOTSTRAP, DDL_TYPES, ROW_OPS, WATERMARK, RowReader
from tidecast.spark import bad_names, block_collapse_project, parallel_map, reused, sql_column, sql_text

_SIDES = {"old": ("UPDATE", "DELETE"), "data": ("INSERT", "UPDATE")}
"""The types of messages that have each of the two rows; where another type shows one, it is not read."""
_KEPT = {
    "type": "type",
    "database": "database",
    "table": "table",
    "tableID": "table_id",
    "schemaVersion": "schema_version",
    "commitTs": "commit_ts",
    "buildTs": "build_ts",
    "checksum": "checksum",
}
"""What is kept of a message, by its name there."""
_READERS: dict[bool, RowReader] = {True: _read_avro, False: _read_json}
"""What reads the rows of messages in Avro, and of those in JSON."""
_OF_ROWS = (*RECORD.fieldNames(), "op", "commit_ts", "table_id", "checksum")
"""What rows have beside their values."""


def decode(
    records: DataFrame, *, ordered: bool = False, zone: str = "UTC", history: SchemaHistory | None = None
) -> Events:
    """Return the events of Simple messages; each tells by its first byte whether it is JSON or Avro.

    In: the columns of `RECORD`, and where messages were unpacked `reason` and `detail`: why one could not be.
    `ordered`: see `Events`. `zone`: that of TIMESTAMP values which name none, as old messages have them. Every schema
    that the batch shows, by a schema change or a bootstrap, serves all its rows, whichever came first; so does
    `history`, what earlier batches of the same source have shown. A schema change or a bootstrap that came on several
    partitions counts once. The messages are read once and kept by Spark.
    """
    # Cut off from its plan: it would be planned anew for every table, and two threads that do so at once may collide,
    # as what Spark makes of `from_avro`'s options is not safe for them.
    parsed = _parse(records).localCheckpoint()
    position = "offset" if ordered else "commit_ts"
    groups = _collect_stats(parsed, position)
    types = {t for group in groups for t in group["types"]}
    schemas = _Schemas(SchemaHistory() if history is None else history)
    if types & {*DDL_TYPES, BOOTSTRAP}:
        schemas.read(_control(parsed, ordered, BOOTSTRAP in types), ordered)
    with_rows = [group for group in groups if group["rows"]]
    unknown = [key for key in map(_key, with_rows) if key not in schemas.history]

    def changes(group: Row) -> TableChanges:
        schema, mine = schemas.of(_key(group)), _is_of(_key(group)) & (F.col("avro") == group["avro"])
        sides = [side for side, types in _SIDES.items() if {*types} & {*group["types"]}]
        frame = _rows(parsed.where(_is_row() & mine), schema, group["avro"], sides, zone)
        updates = "UPDATE" in group["types"]
        return TableChanges(
            schema, frame, group["rows"], group["rows_from"], group["upserts_from"], shows_before=updates
        )

    tables = parallel_map(changes, (group for group in with_rows if _key(group) in schemas.history))
    tables.sort(key=lambda t: (t.rows_from is None, t.rows_from))
    return Events(
        tables=tuple(tables),
        rejected=_rejected(parsed, unknown, schemas.broken),
        ddl=tuple(schemas.ddl),
        bootstraps=tuple(schemas.bootstraps),
        watermarks=_watermarks(parsed) if WATERMARK in types else None,
        watermark=max((g["watermark"] for g in groups if g["watermark"] is not None), default=None),
        ordered=ordered,
        position=position,
        has_commit_ts=True,
        checksums=any(group["checksums"] for group in groups),
        history=schemas.history,
    )


@reused()
def _is_row() -> Column:
    return F.col("reason").isNull() & F.col("op").isNotNull()


def _key(group: Row) -> SchemaKey:
    return group["database"], group["table"], group["schema_version"]


def _is_of(key: SchemaKey) -> Column:
    database, table, version = key
    return (F.col("database") == database) & (F.col("table") == table) & (F.col("schema_version") == version)


def _parse(records: DataFrame) -> DataFrame:
    """Return the records with what their messages say beside rows and schemas, and why one cannot be used.

    `body` is the message of a schema change or a bootstrap, such that what came twice is twice the same.
    """
    heads, members = _head_columns(given_causes(records))
    return records.select(*heads).select(*members)


@reused()
def _head_columns(given: tuple[str, ...]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns of the two steps of `_parse`; of `CAUSE` the records have those that are `given`."""
    value, avro = F.col("value"), F.col("avro")
    heads = (
        *map(F.col, RECORD.fieldNames()),
        _read_avro.is_avro(value).alias("avro"),
        *cause_columns(given),
        F.when(_read_avro.is_avro(value), _read_avro.head(value)).alias("avro_head"),
        F.when(~_read_avro.is_avro(value), _read_json.head(value)).alias("json_head"),
    )
    in_avro, in_json = _read_avro.fields(F.col("avro_head"), value), _read_json.fields(F.col("json_head"), value)
    members = {name: F.when(avro, column).otherwise(in_json[name]) for name, column in in_avro.items()}
    # A name that is no UTF-8 would be another one on the driver, which then finds no rows of it.
    named = (F.coalesce(F.is_valid_utf8(members[name]), F.lit(False)) for name in ("database", "table"))
    known = reduce(and_, named, members["schemaVersion"].isNotNull())
    reason = (
        F.when(F.col("reason").isNotNull(), F.col("reason"))
        .when(~members["readable"], F.when(avro, Reason.UNDECODABLE).otherwise(Reason.BAD_JSON))
        .when(members["type"].isNull() | members["version"].isNull(), Reason.BAD_MESSAGE)
        .when(members["type"] == BOOTSTRAP, F.lit(None).cast("string"))
        .when(members["commitTs"].isNull(), Reason.BAD_MESSAGE)
        .when(~is_tso(members["commitTs"]), Reason.BAD_VALUE)
        .when(members["type"].isin(*DDL_TYPES, WATERMARK), F.lit(None).cast("string"))
        .when(~members["type"].isin(*ROW_OPS) | ~known, Reason.BAD_MESSAGE)
        .when(members["handleKeyOnly"] | members["claimCheckLocation"].isNotNull(), Reason.INCOMPLETE)
    )
    without_build_ts = F.when(avro, _read_avro.without_build_ts(value, members["buildTs"])).otherwise(
        _read_json.without_build_ts(value, members["buildTs"])
    )
    op = F.element_at(F.create_map(*(F.lit(x) for pair in ROW_OPS.items() for x in pair)), members["type"])
    return heads, (
        *map(F.col, RECORD.fieldNames()),
        avro,
        reason.alias("reason"),
        F.when(reason == Reason.BAD_VALUE, F.format_string("commitTs %d is no time", members["commitTs"]))
        .otherwise(F.col("detail"))
        .alias("detail"),
        op.alias("op"),
        *(members[name].alias(column) for name, column in _KEPT.items()),
        F.when(members["type"] == BOOTSTRAP, without_build_ts)
        .when(members["type"].isin(*DDL_TYPES), value)
        .alias("body"),
    )


def _collect_stats(parsed: DataFrame, position: str) -> list[Row]:
    """Count the rows of each table version; what is no row counts in groups of its own."""
    grouped = parsed.where(F.col("reason").isNull()).groupBy("avro", "database", "table", "schema_version")
    return grouped.agg(*_counts(position)).collect()


@reused()
def _counts(position: str) -> tuple[Column, ...]:
    row, upsert = F.col("op").isNotNull(), F.col("op") != Op.DELETE
    return (
        F.collect_set("type").alias("types"),
        F.count_if(row).alias("rows"),
        F.min(F.when(row, F.col(position))).alias("rows_from"),
        F.min(F.when(upsert, F.col(position))).alias("upserts_from"),
        F.max(F.when(F.col("type") == WATERMARK, F.col("commit_ts"))).alias("watermark"),
        F.max(row & F.col("checksum").isNotNull()).alias("checksums"),
    )


def _control(parsed: DataFrame, ordered: bool, bootstrapped: bool) -> list[Row]:
    """Return each schema change and each bootstrap once: few, even though every partition has them all.

    Out: `type`, `body`, `commit_ts`, `offset` (the first), and `moments`, an array of struct `build_ts`, `position`:
    one for each time that it was sent, to however many partitions.
    """
    messages = parsed.where(F.col("reason").isNull())
    position = F.col("offset" if ordered else "commit_ts")
    if bootstrapped and not ordered:
        before = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
        highest = F.coalesce(F.max("commit_ts").over(before), F.lit(0).cast("bigint"))
        position = F.when(F.col("type") == BOOTSTRAP, highest).otherwise(position)
    messages = messages.select("offset", "type", "commit_ts", "build_ts", "body", position.alias("position"))
    moment = F.struct("build_ts", "position").alias("moment")
    return (
        messages.where(F.col("body").isNotNull())
        .groupBy("type", "body", "commit_ts", "build_ts")
        .agg(F.min("position").alias("position"), F.min("offset").alias("offset"))
        .groupBy("type", "body", "commit_ts")
        .agg(F.min("offset").alias("offset"), F.sort_array(F.collect_list(moment)).alias("moments"))
        .collect()
    )


class _Schemas:
    """What the schema changes and bootstraps of a batch say, read on the driver."""

    def __init__(self, history: SchemaHistory) -> None:
        self.history = history
        self.ddl: list[Ddl] = []
        self.bootstraps: list[Bootstrap] = []
        self.broken: list[bytes] = []
        self._changes: set[Ddl] = set()
        self._first: dict[SchemaKey, TableSchema] = {}

    def of(self, key: SchemaKey) -> TableSchema:
        """Return the schema of rows: what it was when the batch began, as TRUNCATE gives a version another table id."""
        return self._first.get(key) or self.history[key]

    def _add(self, schema: TableSchema, change: Ddl | None = None) -> None:
        if schema.key in self.history:
            self._first.setdefault(schema.key, self.history[schema.key])
        self.history.add(schema, change)

    def read(self, control: list[Row], ordered: bool) -> None:
        """Take the messages that `_control` returned."""
        decoded = []
        for row in control:
            try:
                text, after, before = _read(bytes(row["body"]))
                if row["type"] != BOOTSTRAP and not text:  # a damaged row may look like this
                    raise ValueError("a schema change without sql")
            except (KeyError, TypeError, ValueError, RecursionError):
                self.broken.append(bytes(row["body"]))
                continue
            ts = row["commit_ts"] or (after.version if after else 0)
            decoded.append(((row["offset"] if ordered else ts, row["offset"]), row, text, after, before))
        # The schema change of a version tells more of it than a bootstrap, whose place among those of other partitions
        # is not known.
        keys_by_ddl = {after.key for _, row, _, after, _ in decoded if after and row["type"] != BOOTSTRAP}
        for _, row, text, after, before in sorted(decoded, key=lambda one: one[0]):
            positions = [moment["position"] for moment in row["moments"]]
            change = None
            if row["type"] != BOOTSTRAP:
                change = Ddl(row["type"], text, row["commit_ts"], after, before)
                if change in self._changes:  # sent again after a restart
                    continue
                self._changes.add(change)
                self.ddl.append(replace(change, position=min(positions)))
            elif after:
                self.bootstraps += [Bootstrap(after, position) for position in positions]
            # What has no columns, as a sequence, has no rows either.
            if before and before.columns and before.key not in keys_by_ddl:
                self._add(before)
            if after and after.columns and (change or after.key not in keys_by_ddl):
                self._add(after, change)


def _read(body: bytes) -> tuple[str, TableSchema | None, TableSchema | None]:
    """Return the SQL, the table, and the table before it, of a schema change or a bootstrap."""
    avro = body.startswith(MARK)
    message = read_message(body) if avro else json.loads(body)
    table = table_schemas.from_avro if avro else table_schemas.from_json
    after, before = (message.get(name) and checked(table(message[name])) for name in ("tableSchema", "preTableSchema"))
    text = message.get("sql") or ""
    if not isinstance(text, str):
        raise TypeError("sql is no text")
    return text, after, before


def _rows(parsed: DataFrame, schema: TableSchema, avro: bool, sides: Sequence[str], zone: str) -> DataFrame:
    """Return the rows of one table version, from messages of one encoding that show these sides."""
    body, message, typed, change = _row_columns(schema, avro, tuple(sides), zone)
    # A step of its own: the one that reads bodies copies the bytes of a value whenever it looks at them.
    cut = block_collapse_project(parsed.select(*body), "op")
    read = block_collapse_project(cut.select(*message), "op")
    return block_collapse_project(read.select(*typed), "whole").select(*change)


_Columns = tuple[Column, ...]


@reused()
def _row_columns(
    schema: TableSchema, avro: bool, sides: tuple[str, ...], zone: str
) -> tuple[_Columns, _Columns, _Columns, _Columns]:
    """Return the columns of the steps of `_rows`: the message's bytes, its parts, their values, and the change."""
    reader, of_rows = _READERS[avro], tuple(map(F.col, _OF_ROWS))
    row = reader.row(schema, sides, F.col("body"))
    rest = reader.rest(schema, sides, row, F.col("value"))
    body = (*of_rows, reader.body(schema, F.col("value")).alias("body"))
    message = (*of_rows, row.alias("message"), *(() if rest is None else (rest.alias("rest"),)))
    typed = (*of_rows, *_typed(schema, sides, reader, zone))
    has = {side: F.col(f"has_{side}") for side in sides}
    values = {side: F.col(side) for side in sides}
    if len(sides) > 1:
        values["old"] = _filled(schema)
    nothing = F.lit(None).cast(row_type(schema))
    needed = {"old": F.col("op") == Op.DELETE, "data": F.col("op") != Op.DELETE}
    absent = reduce(or_, (needed[side] & ~has[side] for side in sides))
    wrong = [F.when(has[side] & (F.col(f"wrong_{side}") != ""), F.col(f"wrong_{side}")) for side in sides]
    some = F.coalesce(*wrong).isNotNull()
    change = (
        *map(F.col, (*RECORD.fieldNames(), "op", "commit_ts", "table_id")),
        *(F.when(has[side], values[side]).alias(side) if side in sides else nothing.alias(side) for side in _SIDES),
        F.col("checksum"),
        F.when(~F.col("whole"), Reason.UNDECODABLE)
        .when(absent, Reason.BAD_MESSAGE)
        .when(some, Reason.BAD_VALUE)
        .alias("reason"),
        F.when(~F.col("whole"), "not a row's record")
        .when(absent, "the row is missing")
        .when(some, F.concat(F.lit("not of its column's type: "), F.concat_ws(", ", *wrong)))
        .alias("detail"),
    )
    return body, message, typed, change


def _filled(schema: TableSchema) -> Column:
    """Return the old row with the values of the new one for columns that a message does not show as old."""

    def value(name: str) -> str:
        data, old = sql_column("data", name), sql_column("old", name)
        return f"{sql_text(name)}, IF(array_contains(missing, {sql_text(name)}), {data}, {old})"

    values = ", ".join(value(c.name) for c in schema.columns)
    return F.when(F.col("missing").isNull(), F.col("old")).otherwise(F.expr(f"named_struct({values})"))


def _typed(schema: TableSchema, sides: Sequence[str], reader: RowReader, zone: str) -> _Columns:
    """Return the values of rows' sides, and which of them are `missing` or wrong."""
    message, rest = F.col("message"), F.col("rest")
    values = {side: [reader.read_value(c, side, message, rest, zone) for c in schema.columns] for side in sides}
    mine = {side: F.col("op").isin([ROW_OPS[kind] for kind in _SIDES[side]]) for side in sides}

    def wrong(side: str) -> Column:
        # Every row computes this and the structs, so that Spark makes a value once for both.
        return bad_names(
            (f"{side} {c.name}", made.isNull() & message[side][c.name].isNotNull())
            for c, made in zip(schema.columns, values[side], strict=True)
            if reader.fallible(c.data_type)
        )

    return (
        *(F.struct(*_named(schema, values[side])).alias(side) for side in sides),
        *((mine[side] & message[side].isNotNull()).alias(f"has_{side}") for side in sides),
        *(wrong(side).alias(f"wrong_{side}") for side in sides),
        *([_missing(schema, reader, message).alias("missing")] if len(sides) > 1 else []),
        reader.whole(message).alias("whole"),
    )


def _missing(schema: TableSchema, reader: RowReader, message: Column) -> Column:
    """Return the columns that the old row of an UPDATE does not show, null where it surely shows all."""

    def gone(name: str) -> str:
        return f"{sql_column('message', 'old', name)} IS NULL AND {sql_column('message', 'data', name)} IS NOT NULL"

    gap = _first((gone(c.name), "true") for c in schema.columns)
    columns = F.expr(f"array({', '.join(sql_text(c.name) for c in schema.columns)})")
    unnamed = F.array_except(columns, reader.names(message, F.col("value")))
    return F.when((F.col("op") == Op.UPDATE) & (gap | reader.uneven(message)), unnamed)


def _named(schema: TableSchema, values: Iterable[Column]) -> Iterator[Column]:
    return (value.alias(c.name) for c, value in zip(schema.columns, values, strict=True))


def _first(cases: Iterable[tuple[str, str]]) -> Column:
    """Return the value of the first condition that holds, null without one, from SQL.

    A text for all columns of a table: Spark takes it in one call, and operators would be one each.
    """
    clauses = " ".join(f"WHEN {condition} THEN {value}" for condition, value in cases)
    return F.expr(f"CASE {clauses} END" if clauses else "CAST(NULL AS STRING)")


def _watermarks(parsed: DataFrame) -> DataFrame:
    mine = F.col("reason").isNull() & (F.col("type") == WATERMARK)
    return parsed.where(mine).select(*RECORD.fieldNames(), "commit_ts")


def _rejected(parsed: DataFrame, unknown: list[SchemaKey], broken: list[bytes]) -> DataFrame:
    if unknown:  # which may be thousands
        kinds = {"database": pa.string(), "table": pa.string(), "schema_version": pa.int64()}
        words = "no schema of {}.{} in version {}"
        causes = [(*key, str(Reason.UNKNOWN_TABLE), words.format(*key)) for key in unknown]
        keys = {name: (kind, F.when(_is_row(), F.col(name))) for name, kind in kinds.items()}
        parsed = with_causes(parsed, keys, causes)
    if broken:
        wrong = [(body, str(Reason.BAD_MESSAGE), None) for body in broken]
        parsed = with_causes(parsed, {"body": (pa.binary(), F.col("body"))}, wrong)
    return rejected(parsed)
