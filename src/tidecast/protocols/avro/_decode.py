"""Avro messages to events. Source: Avro protocol, wire format; the real consumer's decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import CHECKSUM as CHECKSUM_TYPE
from tidecast.model import (
    RECORD,
    REST,
    DataType,
    Ddl,
    Events,
    Kind,
    Op,
    Reason,
    TableChanges,
    bit_width,
    evaluated_once,
    row_type,
    settled,
    shift_zone,
    side_by_side,
    unsigned_number,
)
from tidecast.protocols.avro import _wide
from tidecast.protocols.avro._control import DDL, WATERMARK, WATERMARK_LENGTH
from tidecast.protocols.avro._read_schema import Field, WriterSchema, read_schema
from tidecast.protocols.avro._schema import CHECKSUM, CHECKSUM_VERSION, COMMIT_TS, CORRUPTED, OP
from tidecast.protocols.avro._wire import (
    HEADER_LENGTH,
    MAGIC,
    avro_type,
    branches,
    field_of,
    is_narrow_decimal,
    is_whole,
    read,
)

_UINT64 = 1 << 64


_DDL_MESSAGE = T.StructType(
    [
        T.StructField("query", T.StringType()),
        T.StructField("type", T.IntegerType()),
        T.StructField("commitTs", T.LongType()),
    ]
)


@dataclass(frozen=True)
class _Group:
    """The messages of one pair of key and value schema; no value schema for deletes, no key schema without a key."""

    key: bytes | None
    value: bytes | None
    rows: int
    first: int


def decode(
    records: DataFrame,
    schema_of: Callable[[int], str | None],
    *,
    ordered: bool = False,
    zone: str = "UTC",
) -> Events:
    """Return the events of Avro messages in Confluent's framing.

    In: the columns of `RECORD`. `schema_of` gives the text of a registered schema, None for an unknown id.
    `zone` is the time zone of TIMESTAMP text, that of TiCDC's server. `ordered`: see `Events`.
    A row's operation is the extension's, else `c`, to be taken as an upsert; `commit_ts` is null without the
    extension and for every delete. The messages are read once and kept by Spark: see `Events.release`.
    """
    records = records.persist()
    key, value = _head("key"), _head("value")
    control = F.col("key").isNull() & (
        (_first("value") == F.lit(DDL))
        | ((_first("value") == F.lit(WATERMARK)) & (F.octet_length("value") == WATERMARK_LENGTH))
    )
    control = F.coalesce(control, F.lit(False))
    grouped = records.groupBy(key.alias("key"), F.when(~control, value).alias("value"), control.alias("control"))
    heads = grouped.agg(F.count("*").alias("rows"), F.min("offset").alias("first")).orderBy("first").collect()
    rows, controlled = records, any(row["control"] for row in heads)
    if controlled:
        rows = records.where(~control)
        heads = [row for row in heads if not row["control"]]
    schemas = _Schemas(schema_of)
    found: list[tuple[_Group, Column]] = []
    causes: list[tuple[Column, str, str]] = []
    checksums = False
    for row in heads:
        group = _Group(_bytes(row["key"]), _bytes(row["value"]), row["rows"], row["first"])
        mine = key.eqNullSafe(F.lit(group.key)) & value.eqNullSafe(F.lit(group.value))
        wrong = schemas.wrong(group)
        if wrong:
            causes.append((mine, *wrong))
            continue
        found.append((group, mine))
        checksums |= group.value is not None and schemas[group.value].checksums

    def changes(one: tuple[_Group, Column]) -> TableChanges:
        group, mine = one
        return _changes(rows.where(mine) if len(heads) > 1 else rows, group, schemas, zone)

    tables = side_by_side(changes, found)
    watermark, ddl, broken = _control(records.where(control)) if controlled else (None, (), False)
    if broken:
        wrong_change = control & (_first("value") == F.lit(DDL)) & _schema_change()["commitTs"].isNull()
        rows, causes = records, [*causes, (wrong_change, Reason.BAD_MESSAGE, "not a schema change")]
    return Events(
        tables=tuple(tables),
        rejected=_rejected(rows, causes),
        ddl=ddl,
        watermark=watermark,
        ordered=ordered,
        position="offset" if ordered else None,
        checksums=checksums,
        kept=(records,),
    )


class _Schemas:
    """The registered schemas that a batch speaks of, each asked for once."""

    def __init__(self, schema_of: Callable[[int], str | None]) -> None:
        self._schema_of = schema_of
        self._known: dict[bytes, WriterSchema | tuple[str, str]] = {}

    def __getitem__(self, head: bytes) -> WriterSchema:
        known = self._look_up(head)
        assert isinstance(known, WriterSchema)
        return known

    def _look_up(self, head: bytes) -> WriterSchema | tuple[str, str]:
        if head not in self._known:
            self._known[head] = self._read(head)
        return self._known[head]

    def _read(self, head: bytes) -> WriterSchema | tuple[str, str]:
        if len(head) < HEADER_LENGTH:
            return Reason.TRUNCATED, "shorter than the five bytes of the schema id"
        if head[:1] != MAGIC:
            return Reason.BAD_MAGIC, f"begins with {head[:1].hex()}, not with 00"
        schema_id = int.from_bytes(head[1:], "big")
        text = self._schema_of(schema_id)
        if text is None:
            return Reason.UNKNOWN_SCHEMA_ID, f"the registry knows no schema id {schema_id}"
        writer = read_schema(text)
        if writer is None:
            return Reason.FOREIGN_SCHEMA, f"schema id {schema_id} is not one of TiCDC's"
        alike = _alike(c.name for c in writer.columns)
        if alike:  # which Spark cannot tell apart
            return Reason.FOREIGN_SCHEMA, f"columns {alike[0]} and {alike[1]} differ only in case"
        return writer

    def wrong(self, group: _Group) -> tuple[str, str] | None:
        """Return why the messages of a group cannot be read, None where they can."""
        if group.key is None and group.value is None:
            return Reason.BAD_MESSAGE, "neither key nor value"
        for head in (group.key, group.value):
            known = self._look_up(head) if head is not None else None
            if isinstance(known, tuple):
                return known
        if group.key and group.value:
            keys, columns = self[group.key].columns, {c.name for c in self[group.value].columns}
            if not columns.issuperset(c.name for c in keys):
                return Reason.FOREIGN_SCHEMA, "the key's columns are not among the value's"
        return None


def _alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that differ at most in case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return seen[name.lower()], name
        seen[name.lower()] = name
    return None


def _bytes(value: bytearray | None) -> bytes | None:
    return bytes(value) if value is not None else None


def _head(name: str) -> Column:
    """Return a message's framing, null for a null or empty one: TiCDC's producer may send either."""
    column = F.col(name)
    return F.when(F.octet_length(column) > 0, F.substring(column, 1, HEADER_LENGTH))


def _first(name: str) -> Column:
    return F.substring(F.col(name), 1, 1)


def _changes(rows: DataFrame, group: _Group, schemas: _Schemas, zone: str) -> TableChanges:
    keys = tuple(c.name for c in schemas[group.key].columns) if group.key else ()
    head = group.value or group.key
    assert head is not None
    writer = schemas[head]
    schema = writer.table_schema(int.from_bytes(head[1:], "big"), keys)
    message = F.col("value") if group.value else F.col("key")
    record = evaluated_once(read([f.type for f in writer.fields], message))
    decoded = rows.select(*RECORD.fieldNames(), record.alias("m"))
    m = F.col("m")
    op = _extension(writer, m, OP)
    names = {f"v{n}": f.column.name for n, f in enumerate(writer.fields) if f.column}
    values = (_value(f, field_of(m, n, f.type), zone).alias(f"v{n}") for n, f in enumerate(writer.fields) if f.column)
    flat = decoded.select(
        *RECORD.fieldNames(),
        (F.lit(Op.DELETE) if not group.value else op if op is not None else F.lit(Op.CREATE)).alias("op"),
        _or_null(_extension(writer, m, COMMIT_TS), "bigint").alias("commit_ts"),
        _checksum(writer, m).alias("checksum"),
        F.when(~is_whole(m), F.lit(Reason.UNDECODABLE)).alias("reason"),
        F.when(~is_whole(m), F.lit(f"not a record of schema id {schema.version}")).alias("detail"),
        *values,
    )
    row = F.struct(*(F.col(value).alias(name) for value, name in names.items()))
    nothing = F.lit(None).cast(row_type(schema))
    frame = settled(flat, "reason").select(
        *RECORD.fieldNames(),
        "op",
        "commit_ts",
        F.lit(None).cast("bigint").alias("table_id"),
        (nothing if group.value else row).alias("old"),
        (row if group.value else nothing).alias("data"),
        "checksum",
        "reason",
        "detail",
    )
    upserts_from = group.first if group.value else None
    return TableChanges(schema, frame, group.rows, group.first, upserts_from, writer.keyspace)


def _extension(writer: WriterSchema, m: Column, name: str) -> Column | None:
    position = writer.position(name)
    return None if position is None else field_of(m, position, writer.fields[position].type)


def _or_null(column: Column | None, spark_type: str) -> Column:
    return F.lit(None).cast(spark_type) if column is None else column.cast(spark_type)


def _checksum(writer: WriterSchema, m: Column) -> Column:
    text = _extension(writer, m, CHECKSUM)
    if text is None:
        return F.lit(None).cast(CHECKSUM_TYPE)
    said = F.struct(
        _or_null(_extension(writer, m, CHECKSUM_VERSION), "int").alias("version"),
        _or_null(_extension(writer, m, CORRUPTED), "boolean").alias("corrupted"),
        F.coalesce(text.try_cast("bigint"), F.lit(-1).cast("bigint")).alias("current"),
        F.lit(0).cast("bigint").alias("previous"),
    )
    return F.when(text != "", said)


def _value(field: Field, value: Column, zone: str) -> Column:
    """Return a field's value as the model holds it."""
    assert field.column is not None
    return _READERS.get(field.column.data_type.kind, _as_is)(field, field.column.data_type, value, zone)


def _as_is(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return value


def _integer(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return value
    if avro_type(field.type) == "string":
        return unsigned_number(value)
    number = value.try_cast("decimal(20,0)")
    return F.when(value < 0, (number + F.lit(Decimal(_UINT64))).cast("decimal(20,0)")).otherwise(number)


def _decimal(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    block, _ = branches(field.type)
    return (
        value
        if avro_type(field.type) == "string" or is_narrow_decimal(block)
        else _wide.text_of(value, data_type.decimal)
    )


def _bit(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    """Old releases trim leading zero bytes; the model has all bytes of the column's length."""
    length = bit_width(data_type)
    return F.when(F.octet_length(value) < length, F.lpad(value, length, F.lit(b"\x00"))).otherwise(value)


def _timestamp(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return shift_zone(value, zone, "UTC")


def _float(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return value.cast("float") if avro_type(field.type) == "double" else value


_READERS: dict[Kind, Callable[[Field, DataType, Column, str], Column]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.TIMESTAMP: _timestamp,
}


def _rejected(rows: DataFrame, causes: list[tuple[Column, str, str]]) -> DataFrame:
    reason, detail = F.lit(None).cast("string"), F.lit(None).cast("string")
    for mine, why, words in causes:
        reason, detail = F.when(mine, F.lit(why)).otherwise(reason), F.when(mine, F.lit(words)).otherwise(detail)
    hit = reduce(or_, (mine for mine, _, _ in causes), F.lit(False))
    return rows.where(hit).select(*RECORD.fieldNames(), reason.alias("reason"), detail.alias("detail"))


def _schema_change() -> Column:
    return F.from_json(F.substring("value", 2, REST).cast("string"), _DDL_MESSAGE)


def _control(messages: DataFrame) -> tuple[int | None, tuple[Ddl, ...], bool]:
    """Read the watermarks and schema changes that `avro-enable-watermark` sends, on the driver.

    Out: the highest watermark, the schema changes in order, and whether there are any that cannot be read.
    """
    physical = F.conv(F.hex(F.substring("value", 2, 8)), 16, 10).try_cast("bigint")
    watermark = messages.where(_first("value") == F.lit(WATERMARK)).agg(F.max(physical)).collect()[0][0]
    changes = (
        messages.where(_first("value") == F.lit(DDL)).select(_schema_change().alias("ddl")).select("ddl.*").distinct()
    )
    rows = changes.orderBy(F.col("commitTs").asc_nulls_last()).collect()
    good = [row for row in rows if row["commitTs"] is not None]
    ddl = tuple(Ddl(str(r["type"]), r["query"] or "", r["commitTs"]) for r in good)
    return watermark, ddl, len(good) < len(rows)
