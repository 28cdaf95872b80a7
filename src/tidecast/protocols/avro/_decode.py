"""Avro messages to events. Source: Avro protocol, wire format, consumers compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import MAX_LENGTH, bit_width, shift_zone, unsigned_number
from tidecast.model import CHECKSUM as CHECKSUM_TYPE
from tidecast.model import (
    RECORD,
    DataType,
    Ddl,
    Events,
    InvalidSchema,
    Kind,
    Op,
    Reason,
    TableChanges,
    checked,
    is_tso,
    row_type,
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
from tidecast.spark import bad_names, block_collapse_project, evaluated_once, parallel_map, union, with_looked_up

_UINT64 = 1 << 64
_ROW, _CONTROL, _MALFORMED = "row", "control", "malformed"
_OPS = (Op.CREATE, Op.UPDATE, Op.DELETE)
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?\z"


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
    key, value, malformed = _head("key"), _head("value"), _malformed()["reason"].isNotNull()
    control = F.col("key").isNull() & (
        (_first("value") == F.lit(DDL))
        | ((_first("value") == F.lit(WATERMARK)) & (F.octet_length("value") == WATERMARK_LENGTH))
    )
    control = F.coalesce(control, F.lit(False))
    kind = F.when(control, _CONTROL).when(malformed, _MALFORMED).otherwise(_ROW)
    grouped = records.groupBy(kind.alias("kind"), *(F.when(kind == _ROW, h).alias(n) for n, h in _heads().items()))
    heads = grouped.agg(F.count("*").alias("rows"), F.min("offset").alias("first")).orderBy("first").collect()
    kinds = {row["kind"] for row in heads}
    rows = records.where(~control) if _CONTROL in kinds else records
    schemas = _Schemas(schema_of)
    found: list[tuple[_Group, Column]] = []
    refused: list[tuple[_Group, str, str]] = []
    checksums = False
    for row in heads:
        if row["kind"] != _ROW:
            continue
        group = _Group(_bytes(row["key"]), _bytes(row["value"]), row["rows"], row["first"])
        mine = key.eqNullSafe(F.lit(group.key)) & value.eqNullSafe(F.lit(group.value))
        wrong = schemas.wrong(group)
        if wrong:
            refused.append((group, *wrong))
            continue
        found.append((group, mine))
        checksums |= group.value is not None and schemas[group.value].checksums

    def changes(one: tuple[_Group, Column]) -> TableChanges:
        group, mine = one
        return _changes(rows.where(mine) if len(heads) > 1 else rows, group, schemas, zone)

    tables = parallel_map(changes, found)
    watermark, ddl, broken = _control(records.where(control)) if _CONTROL in kinds else (None, (), False)
    rejected = [_malformed_rows(rows)] if _MALFORMED in kinds else []
    if refused:
        rejected.append(_refused_rows(rows, refused))
    if broken:
        wrong_change = control & (_first("value") == F.lit(DDL)) & _schema_change()["commitTs"].isNull()
        cause = _cause(Reason.BAD_MESSAGE, F.lit("not a schema change"))
        rejected.append(_with_cause(records.where(wrong_change), cause))
    return Events(
        tables=tuple(tables),
        rejected=union(rejected) if rejected else _malformed_rows(rows.where(F.lit(False))),
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
        schema_id = int.from_bytes(head[1:], "big")
        text = self._schema_of(schema_id)
        if text is None:
            return Reason.UNKNOWN_SCHEMA_ID, f"the registry knows no schema id {schema_id}"
        writer = read_schema(text)
        if writer is None:
            return Reason.FOREIGN_SCHEMA, f"schema id {schema_id} is not one of TiCDC's"
        try:
            checked(writer.table_schema(schema_id, ()))
        except InvalidSchema as invalid:
            return Reason.FOREIGN_SCHEMA, str(invalid)
        return writer

    def wrong(self, group: _Group) -> tuple[str, str] | None:
        """Return why the messages of a group cannot be read, None where they can."""
        for head in (group.key, group.value):
            known = self._look_up(head) if head is not None else None
            if isinstance(known, tuple):
                return known
        if group.key and group.value:
            keys, columns = self[group.key].columns, {c.name for c in self[group.value].columns}
            if not columns.issuperset(c.name for c in keys):
                return Reason.FOREIGN_SCHEMA, "the key's columns are not among the value's"
        return None


def _bytes(value: bytearray | None) -> bytes | None:
    return bytes(value) if value is not None else None


def _head(name: str) -> Column:
    """Return a message's framing, null for a null or empty one: TiCDC's producer may send either."""
    column = F.col(name)
    return F.when(F.octet_length(column) > 0, F.substring(column, 1, HEADER_LENGTH))


def _heads() -> dict[str, Column]:
    return {name: _head(name) for name in ("key", "value")}


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
        (~is_whole(m)).alias("broken"),
        "m",
        *values,
    )
    row = F.struct(*(F.col(value).alias(name) for value, name in names.items()))
    nothing = F.lit(None).cast(row_type(schema))
    wrong = [
        (f.column.name, F.col(f"v{n}").isNull() & field_of(m, n, f.type).isNotNull())
        for n, f in enumerate(writer.fields)
        if f.column and _fallible(f)
    ]
    # Null where there is no extension.
    wrong += [(OP, ~F.col("op").isin(*_OPS)), (COMMIT_TS, ~is_tso(F.col("commit_ts")))]
    broken, bad = F.col("broken"), F.col("bad")
    frame = (
        block_collapse_project(flat, "broken")
        .withColumn("bad", bad_names(wrong))
        .select(
            *RECORD.fieldNames(),
            "op",
            "commit_ts",
            F.lit(None).cast("bigint").alias("table_id"),
            (nothing if group.value else row).alias("old"),
            (row if group.value else nothing).alias("data"),
            "checksum",
            F.when(broken, Reason.UNDECODABLE).when(bad != "", Reason.BAD_VALUE).alias("reason"),
            F.when(broken, f"not a record of schema id {schema.version}")
            .when(bad != "", F.concat(F.lit("not of its column's type: "), bad))
            .alias("detail"),
        )
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


def _fallible(field: Field) -> bool:
    """Tell whether a field of the right form may hold what is no value of its column."""
    return avro_type(field.type) == "string"


def _as_is(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return F.try_validate_utf8(value) if avro_type(field.type) == "string" else value


def _integer(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return value
    if avro_type(field.type) == "string":
        return unsigned_number(value)
    number = value.try_cast("decimal(20,0)")
    return F.when(value < 0, (number + F.lit(Decimal(_UINT64))).cast("decimal(20,0)")).otherwise(number)


def _decimal(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    block, _ = branches(field.type)
    if avro_type(field.type) == "string":
        return F.when(value.rlike(_NUMBER), value)
    return value if is_narrow_decimal(block) else _wide.text_of(value, data_type.decimal)


def _bit(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    """Old releases trim leading zero bytes; the model has all bytes of the column's length."""
    length = bit_width(data_type)
    return F.when(F.octet_length(value) < length, F.lpad(value, length, F.lit(b"\x00"))).otherwise(value)


def _timestamp(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return shift_zone(F.try_validate_utf8(value), zone, "UTC")


def _float(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return value.cast("float") if avro_type(field.type) == "double" else value


_READERS: dict[Kind, Callable[[Field, DataType, Column, str], Column]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.TIMESTAMP: _timestamp,
}


def _malformed() -> Column:
    """Return why a message's framing shows no schema id: struct of `reason` and `detail`, both null where it does."""
    problem = F.when(
        F.coalesce(*_heads().values()).isNull(), _cause(Reason.BAD_MESSAGE, F.lit("neither key nor value"))
    )
    for head in _heads().values():
        too_short = F.lit("shorter than the five bytes of the schema id")
        magic = F.concat(F.lit("begins with "), F.lower(F.hex(F.substring(head, 1, 1))), F.lit(", not with 00"))
        problem = problem.when(F.octet_length(head) < HEADER_LENGTH, _cause(Reason.TRUNCATED, too_short))
        problem = problem.when(~head.startswith(F.lit(MAGIC)), _cause(Reason.BAD_MAGIC, magic))
    return problem


def _cause(reason: Reason, detail: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def _malformed_rows(rows: DataFrame) -> DataFrame:
    cause = _malformed()
    return _with_cause(rows.where(cause["reason"].isNotNull()), cause)


def _with_cause(rows: DataFrame, cause: Column) -> DataFrame:
    return rows.select(*RECORD.fieldNames(), cause["reason"].alias("reason"), cause["detail"].alias("detail"))


def _refused_rows(rows: DataFrame, refused: list[tuple[_Group, str, str]]) -> DataFrame:
    """Return the messages of the groups that cannot be read, of which a topic may have thousands."""
    kinds = {"key_head": pa.binary(), "value_head": pa.binary(), "reason": pa.string(), "detail": pa.string()}
    causes = [(group.key, group.value, str(reason), detail) for group, reason, detail in refused]
    keys = {f"{name}_head": head for name, head in _heads().items()}
    found = with_looked_up(rows, keys, causes, kinds)
    return found.where(F.col("reason").isNotNull()).select(*RECORD.fieldNames(), "reason", "detail")


def _schema_change() -> Column:
    return F.from_json(F.substring("value", 2, MAX_LENGTH).cast("string"), _DDL_MESSAGE)


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
