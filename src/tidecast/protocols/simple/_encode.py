"""Events of the model as Simple messages. Source: Simple protocol."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions import bit_number, enum_number, set_mask
from tidecast.model import DataType, Ddl, Kind, Op, TableSchema
from tidecast.protocols.simple import _avro, _json
from tidecast.protocols.simple import _schema as table_schemas
from tidecast.protocols.simple._message import BOOTSTRAP, DDL_TYPES, VERSION, RowMessage
from tidecast.protocols.simple._options import SimpleOptions
from tidecast.spark import reused

_ROWS = {"json": _json.row_message, "avro": _avro.row_message}
_WATERMARKS = {"json": _json.watermark_message, "avro": _avro.watermark_message}
_CREATE, _OTHER = "CREATE", "QUERY"
_UINT64_MAX = (1 << 64) - 1


def encode_value(
    schema: TableSchema,
    options: SimpleOptions,
    *,
    columns: frozenset[str] | None = None,
    handle_key_only: bool = False,
    claim_check: Column | None = None,
    build_ts: Column | None = None,
) -> Column:
    """Return the message of a row: binary.

    Reads the columns `op`, `old`, `data`, `commit_ts`, `table_id` and `checksum` of a table's changes (see
    `tidecast.model.TableChanges`). `columns` names those that the message may show, None for all. `handle_key_only`
    leaves only the handle key; a table without one shows all its columns, since its rows would say nothing.
    `claim_check` (string) is where the whole message lies; `build_ts` (bigint) the milliseconds since the epoch, by
    default now. Source: Simple protocol, messages, row values, large messages.
    """
    shown = [c for c in schema.columns if not c.virtual and (columns is None or c.name in columns)]
    keys = [c for c in shown if c.name in schema.handle_key]
    reduced = handle_key_only and bool(keys)
    op = F.col("op")
    message = RowMessage(
        database=schema.database,
        table=schema.table,
        schema_version=schema.version,
        columns=sorted(keys if reduced else shown, key=lambda c: c.name.encode()),
        handle_key_only=reduced,
        type=F.when(op == Op.CREATE, "INSERT").when(op == Op.UPDATE, "UPDATE").otherwise("DELETE"),
        table_id=F.coalesce(F.col("table_id"), F.lit(schema.table_id).cast("bigint")),
        commit_ts=F.coalesce(F.col("commit_ts"), F.lit(0).cast("bigint")),
        build_ts=F.unix_millis(F.current_timestamp()) if build_ts is None else build_ts,
        claim_check=claim_check,
        checksum=_checksum(F.col("checksum")),
        sides={
            "data": (op != Op.DELETE) & F.col("data").isNotNull(),
            "old": (op != Op.CREATE) & F.col("old").isNotNull(),
        },
    )
    return _ROWS[options.encoding_format](message, options.zone)


def encode_watermark(commit_ts: Column, options: SimpleOptions, build_ts: Column) -> Column:
    """Return the message of a watermark, binary, from its TSO and the milliseconds since the epoch (bigint both)."""
    return _WATERMARKS[options.encoding_format](commit_ts, build_ts)


def encode_ddl(ddl: Ddl, options: SimpleOptions, build_ts: int) -> bytes:
    """Return the message of a schema change; `build_ts` are milliseconds since the epoch.

    The table before the change goes with it where `ddl` tells it, though never for `CREATE`. A type that the protocol
    does not know becomes `QUERY`. Source: Simple protocol, DDL.
    """
    kind = ddl.type if ddl.type in DDL_TYPES else _OTHER
    before = None if kind == _CREATE else ddl.before
    head = {"version": VERSION, "type": kind, "sql": ddl.sql, "commitTs": ddl.commit_ts, "buildTs": build_ts}
    schemas = {"tableSchema": ddl.schema, "preTableSchema": before}
    if options.encoding_format == "avro":
        return _avro.message(_avro.DDL, head | {n: s and table_schemas.to_avro(s) for n, s in schemas.items()})
    members: dict[str, Any] = head | {n: table_schemas.to_json(s) for n, s in schemas.items() if s}
    return _json.message({name: value for name, value in members.items() if value != ""})


def encode_bootstrap(schema: TableSchema, options: SimpleOptions, build_ts: int) -> bytes:
    """Return the message that repeats a table's schema; `build_ts` are milliseconds since the epoch."""
    if options.encoding_format == "avro":
        members = {"version": VERSION, "buildTs": build_ts, "tableSchema": table_schemas.to_avro(schema)}
        return _avro.message(_avro.BOOTSTRAP, members)
    head = {"version": VERSION, "type": BOOTSTRAP, "commitTs": 0, "buildTs": build_ts}
    return _json.message(head | {"tableSchema": table_schemas.to_json(schema)})


@reused()
def unencodable(schema: TableSchema) -> Column:
    """Return why a row has no form in Simple, as text naming the column; null for a row that has one.

    None has a number that is not finite, a BIGINT UNSIGNED or BIT of more than 64 bits, and an element that an ENUM
    or a SET does not have.
    """
    reasons = []
    for column in schema.columns:
        test = None if column.virtual else _TESTS.get(column.data_type.kind)
        if test:
            old, data = (test(column.data_type, F.col(side)[column.name]) for side in ("old", "data"))
            text = F.lit(f"column {column.name} holds nothing that Simple can say")
            reasons.append(F.when(F.coalesce(old, F.lit(False)) | F.coalesce(data, F.lit(False)), text))
    return F.coalesce(*reasons) if reasons else F.lit(None).cast("string")


def _checksum(checksum: Column) -> Column:
    """Return a checksum that says something: both numbers 0 mean that the source had none."""
    known = {
        "version": F.coalesce(checksum["version"], F.lit(0)),
        "corrupted": F.coalesce(checksum["corrupted"], F.lit(False)),
        "current": F.coalesce(checksum["current"], F.lit(0).cast("bigint")),
        "previous": F.coalesce(checksum["previous"], F.lit(0).cast("bigint")),
    }
    whole = F.struct(*(column.alias(name) for name, column in known.items()))
    return F.when((known["current"] != 0) | (known["previous"] != 0), whole)


def _not_finite(data_type: DataType, value: Column) -> Column:
    return (value - value) != 0


def _too_large(data_type: DataType, value: Column) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return F.lit(False)
    return (value < 0) | (value > F.lit(Decimal(_UINT64_MAX)))


def _no_element(data_type: DataType, value: Column) -> Column:
    return (value != "") & (enum_number(data_type, value) == 0)


def _no_elements(data_type: DataType, value: Column) -> Column:
    return (value != "") & (F.size(F.split(value, ",")) != F.bit_count(set_mask(data_type, value)))


def _too_long(data_type: DataType, value: Column) -> Column:
    return bit_number(value).isNull() & value.isNotNull()


_TESTS: dict[Kind, Callable[[DataType, Column], Column]] = {
    Kind.FLOAT: _not_finite,
    Kind.DOUBLE: _not_finite,
    Kind.INTEGER: _too_large,
    Kind.ENUM: _no_element,
    Kind.SET: _no_elements,
    Kind.BIT: _too_long,
}
