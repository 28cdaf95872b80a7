"""Avro messages to events. Source: Avro protocol, wire format, consumers compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import LONG_TEXTS, MAX_LENGTH
from tidecast.model import (
    RECORD,
    Ddl,
    Events,
    InvalidSchema,
    Op,
    Reason,
    TableChanges,
    TableSchema,
    checked,
    ddl_type,
    is_tso,
    read_statement,
    row_type,
)
from tidecast.protocols._rejected import rejected, with_causes
from tidecast.protocols.avro._control import DDL, WATERMARK, WATERMARK_LENGTH
from tidecast.protocols.avro._read_schema import WriterSchema, read_schema
from tidecast.protocols.avro._read_values import OPS, checksum_of, extension, is_fallible, or_null, value_of
from tidecast.protocols.avro._schema import COMMIT_TS, OP
from tidecast.protocols.avro._wire import field_of, is_whole, read
from tidecast.registry import Framing, Registry, SchemaId, framing_of
from tidecast.spark import bad_names, block_collapse_project, evaluated_once, parallel_map, reused, union

_ROW, _SCHEMA_CHANGE, _WATERMARK, _MALFORMED = "row", "schema change", "watermark", "malformed"


_DDL_MESSAGE = T.StructType(
    [
        T.StructField("query", T.StringType()),
        T.StructField("type", T.IntegerType()),
        T.StructField("schema", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("commitTs", T.LongType()),
    ]
)


@dataclass(frozen=True)
class _Group:
    """The messages of one pair of key and value schema; no value schema for deletes, no key schema without a key.

    Those that are no rows are groups of their `kind`, without schemas.
    """

    kind: str
    key: bytes | None
    value: bytes | None
    topics: tuple[str | None, ...]
    rows: int
    first: int | None
    watermark: int | None

    @classmethod
    def of(cls, parts: Sequence[Row]) -> _Group:
        """Return the group that some rows are, each its messages in one topic."""
        firsts, watermarks = ([part[name] for part in parts if part[name] is not None] for name in _LIMITS)
        return cls(
            parts[0]["kind"],
            _bytes(parts[0]["key"]),
            _bytes(parts[0]["value"]),
            tuple(part["topic"] for part in parts),
            sum(part["rows"] for part in parts),
            min(firsts, default=None),
            max(watermarks, default=None),
        )

    def mine(self, framing: Framing) -> Column:
        """Return whether a message belongs here; by its topic, too, so that Spark passes over files of others."""
        key, value = _heads(framing).values()
        same = key.eqNullSafe(F.lit(self.key)) & value.eqNullSafe(F.lit(self.value))
        few = len(self.topics) <= _FEW and None not in self.topics
        return F.col("topic").isin(*self.topics) & same if few else same


_LIMITS = ("first", "watermark")
_FEW = 4
"""Of how many groups each may read the source anew, and by how many topics one is told."""


def decode(
    records: DataFrame,
    registry: Registry,
    *,
    ordered: bool = False,
    zone: str = "UTC",
    kept: bool = True,
) -> Events:
    """Return the events of Avro messages that are framed as the registry of their schemas has it.

    In: the columns of `RECORD`.
    `zone` is the time zone of TIMESTAMP text, that of TiCDC's server. `ordered`: see `Events`.
    A row's operation is the extension's, else `c`, to be taken as an upsert; `commit_ts` is null without the
    extension and for every delete. Spark keeps the messages, see `Events.release`; unless they are `kept`, only where
    more than a few groups of them would be read one by one, and then until Java lets go of them.
    """
    if not kept:
        return _events(records, registry, ordered=ordered, zone=zone, kept=False)
    records = records.persist()
    try:
        return _events(records, registry, ordered=ordered, zone=zone, kept=True)
    except BaseException:  # a registry that does not answer is asked again, with the messages read anew
        records.unpersist()
        raise


def _events(records: DataFrame, registry: Registry, *, ordered: bool, zone: str, kept: bool) -> Events:
    framing = registry.framing
    groups = _groups(records, framing)
    kinds = {group.kind for group in groups}
    if not kept and len(groups) > _FEW:
        # Cut off from its plan, as Spark would run a job for each table to ask a cache whether it is full.
        records = records.localCheckpoint(eager=False)
    is_change, is_watermark = _control_kinds()
    rows = records.where(~(is_change | is_watermark)) if kinds & {_SCHEMA_CHANGE, _WATERMARK} else records
    schemas = Schemas(registry)
    found: list[_Group] = []
    refused: list[tuple[_Group, str, str]] = []
    checksums = False
    for group in groups:
        if group.kind != _ROW:
            continue
        wrong = schemas.wrong(group.key, group.value)
        if wrong:
            refused.append((group, *wrong))
            continue
        found.append(group)
        checksums |= group.value is not None and schemas[group.value].writer.checksums

    def changes(group: _Group) -> TableChanges:
        return _changes(rows.where(group.mine(framing)) if len(groups) > 1 else rows, group, schemas, zone)

    tables = parallel_map(changes, found)
    ddl, broken = _schema_changes(records.where(is_change)) if _SCHEMA_CHANGE in kinds else ((), False)
    unusable = [_malformed_rows(rows, framing)] if _MALFORMED in kinds else []
    if refused:
        unusable.append(_refused_rows(rows, refused, framing))
    if broken:
        wrong_change = is_change & _schema_change()["commitTs"].isNull()
        cause = _cause(Reason.BAD_MESSAGE, F.lit("not a schema change"))
        unusable.append(_with_cause(records.where(wrong_change), cause))
    return Events(
        tables=tuple(tables),
        rejected=union(unusable) if unusable else _malformed_rows(rows.where(F.lit(False)), framing),
        ddl=ddl,
        watermark=max((group.watermark for group in groups if group.watermark is not None), default=None),
        ordered=ordered,
        position="offset" if ordered else None,
        checksums=checksums,
        cached=(records,) if kept else (),
    )


@reused()
def _control_kinds() -> tuple[Column, Column]:
    """Return whether a message is a schema change, and whether it is a watermark."""
    without_key, first = F.col("key").isNull(), _first("value")
    is_long = F.octet_length("value") == WATERMARK_LENGTH
    return (
        F.coalesce(without_key & (first == F.lit(DDL)), F.lit(False)),
        F.coalesce(without_key & (first == F.lit(WATERMARK)) & is_long, F.lit(False)),
    )


def _groups(records: DataFrame, framing: Framing) -> list[_Group]:
    """Return the groups of some messages in the order of their first ones."""
    by, found_in_each = _grouping(framing)
    parts: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in records.groupBy("topic", *by).agg(*found_in_each).collect():
        parts[row["kind"], _bytes(row["key"]), _bytes(row["value"])].append(row)
    groups = map(_Group.of, parts.values())
    return sorted(groups, key=lambda group: (group.first is not None, group.first or 0))


@reused()
def _grouping(framing: Framing) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return what tells the groups of messages, and what is to be known of each."""
    is_change, is_watermark = _control_kinds()
    malformed = _malformed(framing)["reason"].isNotNull()
    kind = F.when(is_change, _SCHEMA_CHANGE).when(is_watermark, _WATERMARK).when(malformed, _MALFORMED).otherwise(_ROW)
    return (
        (kind.alias("kind"), *(F.when(kind == _ROW, head).alias(name) for name, head in _heads(framing).items())),
        (
            F.count("*").alias("rows"),
            F.min("offset").alias("first"),
            F.max(F.when(is_watermark, _watermark())).alias("watermark"),
        ),
    )


@dataclass(frozen=True)
class Schema:
    """What a message's framing names: a schema, its id, and the number that orders the versions of its table."""

    writer: WriterSchema
    schema_id: SchemaId
    version: int


class Schemas:
    """The registered schemas that a batch speaks of, by their framing, each asked for once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[bytes, Schema | tuple[str, str]] = {}

    def __getitem__(self, head: bytes) -> Schema:
        known = self._look_up(head)
        assert isinstance(known, Schema)
        return known

    def _look_up(self, head: bytes) -> Schema | tuple[str, str]:
        if head not in self._known:
            self._known[head] = self._read(head)
        return self._known[head]

    def _read(self, head: bytes) -> Schema | tuple[str, str]:
        schema_id = self._registry.framing.schema_id(head)
        assert schema_id is not None
        registered = self._registry.schema(schema_id)
        if registered is None:
            return Reason.UNKNOWN_SCHEMA_ID, f"the registry knows no schema id {schema_id}"
        writer = read_schema(registered.text)
        if writer is None:
            return Reason.FOREIGN_SCHEMA, f"schema id {schema_id} is not one of TiCDC's"
        try:
            checked(writer.table_schema(registered.version, ()))
        except InvalidSchema as invalid:
            return Reason.FOREIGN_SCHEMA, str(invalid)
        return Schema(writer, schema_id, registered.version)

    def wrong(self, key: bytes | None, value: bytes | None) -> tuple[str, str] | None:
        """Return why messages whose key and value begin so cannot be read, None where they can."""
        for head in (key, value):
            known = self._look_up(head) if head is not None else None
            if isinstance(known, tuple):
                return known
        if key and value:
            keys, columns = self[key].writer.columns, {c.name for c in self[value].writer.columns}
            if not columns.issuperset(c.name for c in keys):
                return Reason.FOREIGN_SCHEMA, "the key's columns are not among the value's"
        return None


def _bytes(value: bytearray | None) -> bytes | None:
    return bytes(value) if value is not None else None


def _head(name: str, framing: Framing) -> Column:
    """Return a message's framing, null for a null or empty one: TiCDC's producer may send either."""
    column = F.col(name)
    return F.when(F.octet_length(column) > 0, F.substring(column, 1, framing.length))


@reused()
def _heads(framing: Framing) -> dict[str, Column]:
    return {name: _head(name, framing) for name in ("key", "value")}


def _first(name: str) -> Column:
    return F.substring(F.col(name), 1, 1)


def _changes(rows: DataFrame, group: _Group, schemas: Schemas, zone: str) -> TableChanges:
    keys = tuple(c.name for c in schemas[group.key].writer.columns) if group.key else ()
    head = group.value or group.key
    assert head is not None
    found, is_delete = schemas[head], not group.value
    writer, schema = found.writer, found.writer.table_schema(found.version, keys)
    message, flat, bad, change = _columns(writer, schema, found.schema_id, zone, is_delete=is_delete)
    decoded = block_collapse_project(rows.select(*_record_columns(), message).select(*flat), "broken")
    frame = decoded.withColumn("bad", bad).select(*change)
    return TableChanges(
        schema,
        frame,
        group.rows,
        group.first,
        None if is_delete else group.first,
        writer.keyspace,
        shows_before=False,
        of_key=is_delete,
    )


@reused()
def _record_columns() -> tuple[Column, ...]:
    return tuple(map(F.col, RECORD.fieldNames()))


@reused()
def _columns(
    writer: WriterSchema, schema: TableSchema, schema_id: SchemaId, zone: str, *, is_delete: bool
) -> tuple[Column, tuple[Column, ...], Column, tuple[Column, ...]]:
    """Return the columns of each step of reading: the record `m`, its values, the names of bad ones, the change."""
    message = F.col("key" if is_delete else "value")
    record = evaluated_once(read([f.type for f in writer.fields], message, framing_of(schema_id)))
    m = F.col("m")
    op = extension(writer, m, OP)
    names = {f"v{n}": f.column.name for n, f in enumerate(writer.fields) if f.column}
    values = (value_of(f, field_of(m, n, f.type), zone).alias(f"v{n}") for n, f in enumerate(writer.fields) if f.column)
    flat = (
        *_record_columns(),
        (F.lit(Op.DELETE) if is_delete else op if op is not None else F.lit(Op.CREATE)).alias("op"),
        or_null(extension(writer, m, COMMIT_TS), "bigint").alias("commit_ts"),
        checksum_of(writer, m).alias("checksum"),
        (~is_whole(m)).alias("broken"),
        m,
        *values,
    )
    row = F.struct(*(F.col(value).alias(name) for value, name in names.items()))
    nothing = F.lit(None).cast(row_type(schema))
    wrong = [
        (f.column.name, F.col(f"v{n}").isNull() & field_of(m, n, f.type).isNotNull())
        for n, f in enumerate(writer.fields)
        if f.column and is_fallible(f)
    ]
    # Null where there is no extension.
    wrong += [(OP, ~F.col("op").isin(*OPS)), (COMMIT_TS, ~is_tso(F.col("commit_ts")))]
    broken, bad = F.col("broken"), F.col("bad")
    change = (
        *_record_columns(),
        F.col("op"),
        F.col("commit_ts"),
        F.lit(None).cast("bigint").alias("table_id"),
        (row if is_delete else nothing).alias("old"),
        (nothing if is_delete else row).alias("data"),
        F.col("checksum"),
        F.when(broken, Reason.UNDECODABLE).when(bad != "", Reason.BAD_VALUE).alias("reason"),
        F.when(broken, f"not a record of schema id {schema_id}")
        .when(bad != "", F.concat(F.lit("not of its column's type: "), bad))
        .alias("detail"),
    )
    return record.alias("m"), flat, bad_names(wrong), change


def too_short(framing: Framing) -> str:
    """Return what is wrong with a message that ends before its own beginning does."""
    return f"shorter than the {framing.length} bytes that tell the schema id"


@reused()
def _malformed(framing: Framing) -> Column:
    """Return why a message's framing shows no schema id: struct of `reason` and `detail`, both null where it does."""
    problem = F.when(
        F.coalesce(*_heads(framing).values()).isNull(), _cause(Reason.BAD_MESSAGE, F.lit("neither key nor value"))
    )
    size = len(framing.magic)
    for head in _heads(framing).values():
        begins = F.lower(F.hex(F.substring(head, 1, size)))
        magic = F.concat(F.lit("begins with "), begins, F.lit(f", not with {framing.magic.hex()}"))
        wrong = (F.octet_length(head) >= size) & ~head.startswith(F.lit(framing.magic))
        problem = problem.when(wrong, _cause(Reason.BAD_MAGIC, magic))
        truncated = _cause(Reason.TRUNCATED, F.lit(too_short(framing)))
        problem = problem.when(F.octet_length(head) < framing.length, truncated)
    return problem


def _cause(reason: Reason, detail: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def _malformed_rows(rows: DataFrame, framing: Framing) -> DataFrame:
    cause = _malformed(framing)
    return _with_cause(rows.where(cause["reason"].isNotNull()), cause)


def _with_cause(rows: DataFrame, cause: Column) -> DataFrame:
    return rows.select(*RECORD.fieldNames(), cause["reason"].alias("reason"), cause["detail"].alias("detail"))


def _refused_rows(rows: DataFrame, refused: list[tuple[_Group, str, str]], framing: Framing) -> DataFrame:
    """Return the messages of the groups that cannot be read, of which a topic may have thousands."""
    causes = [(group.key, group.value, str(reason), detail) for group, reason, detail in refused]
    heads = {f"{name}_head": (pa.binary(), head) for name, head in _heads(framing).items()}
    return rejected(with_causes(rows, heads, causes))


def _schema_change() -> Column:
    return F.from_json(F.substring("value", 2, MAX_LENGTH).cast("string"), _DDL_MESSAGE, LONG_TEXTS)


def _watermark() -> Column:
    return F.conv(F.hex(F.substring("value", 2, 8)), 16, 10).try_cast("bigint")


def _ddl(row: Row) -> Ddl:
    named = (row["schema"], row["table"]) if row["schema"] and row["table"] else None
    statement = read_statement(row["query"] or "")
    kind = ddl_type(statement) if statement else "QUERY"  # the message has TiDB's number of it
    return Ddl(kind, row["query"] or "", row["commitTs"], named=named)


def _schema_changes(messages: DataFrame) -> tuple[tuple[Ddl, ...], bool]:
    """Read the schema changes that `avro-enable-watermark` sends, on the driver.

    Returns them in their order, and whether there are any that cannot be read.
    """
    changes = messages.select(_schema_change().alias("ddl")).select("ddl.*").distinct()
    rows = changes.orderBy(F.col("commitTs").asc_nulls_last()).collect()
    good = [row for row in rows if row["commitTs"] is not None]
    return tuple(map(_ddl, good)), len(good) < len(rows)
