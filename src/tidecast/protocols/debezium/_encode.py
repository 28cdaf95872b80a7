"""Rows and watermarks of the model as Debezium messages. Source: Debezium protocol, messages."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import Column as TableColumn
from tidecast.model import Op, TableSchema, physical_ms_of
from tidecast.protocols.debezium._encode_source import source
from tidecast.protocols.debezium._encode_values import value
from tidecast.protocols.debezium._json import dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import (
    JsonObject,
    key_schema,
    value_schema,
    watermark_key_schema,
    watermark_value_schema,
)
from tidecast.spark import active_java, reused

WATERMARK = "m"
_KEY = "key"


def encode_key(schema: TableSchema, options: DebeziumOptions, *, tail: bool = True) -> Column:
    """Return the message key of a row: binary, an empty object for a table without a handle key.

    Reads the columns `op`, `old` and `data` of a table's changes (see `tidecast.model.TableChanges`). Column selectors
    have no say in it. Without `tail`, `key_tail` must still be joined to it.
    """
    keys = set(schema.handle_key)
    payload = _row(tuple(c for c in schema.columns if c.name in keys), _KEY, options)
    return _message([payload], key_tail(schema, options) if tail else b"")


def key_tail(schema: TableSchema, options: DebeziumOptions) -> bytes:
    """Return how the message keys of a table end: with their schema, unless the options leave it out."""
    return _tail(key_schema(schema, options), options)


def encode_value(
    schema: TableSchema,
    options: DebeziumOptions,
    *,
    columns: frozenset[str] | None = None,
    build_ts: Column | None = None,
    tail: bool = True,
) -> Column:
    """Return the message value of a row: binary.

    Reads the columns `op`, `old`, `data` and `commit_ts` of a table's changes. `columns` are the names that a selector
    lets through, None for all. `build_ts` (bigint, milliseconds) is when the message is made, by default now. An update
    whose old row is not known is written as one without old values. Without `tail`, `value_tail` must still be joined
    to it.
    """
    shown = tuple(c for c in schema.columns if not c.virtual and (columns is None or c.name in columns))
    op, nothing = F.col("op"), F.lit("")
    with_old = F.col("old").isNotNull() & ((op != Op.CREATE) if options.output_old_value else (op == Op.DELETE))
    payload = [
        *_head(
            schema.database, schema.table, F.coalesce(F.col("commit_ts"), F.lit(0).cast("bigint")), build_ts, options
        ),
        op,
        F.when(op == Op.CREATE, '","before":null').when(op == Op.DELETE, '","after":null').otherwise('"'),
        F.when(with_old, F.concat(F.lit(',"before":'), _row(shown, "old", options))).otherwise(nothing),
        F.when(op != Op.DELETE, F.concat(F.lit(',"after":'), _row(shown, "data", options))).otherwise(nothing),
        F.lit("}"),
    ]
    return _message(payload, value_tail(schema, options, columns) if tail else b"")


def value_tail(schema: TableSchema, options: DebeziumOptions, columns: frozenset[str] | None = None) -> bytes:
    """Return how the message values of a table end: with their schema, most of a message of few columns."""
    return _tail(value_schema(schema, options, columns), options)


def encode_watermark(
    commit_ts: Column, options: DebeziumOptions, *, build_ts: Column | None = None
) -> tuple[Column, Column]:
    """Return key and value of a watermark message, both binary, from its TSO (bigint).

    `build_ts` as in `encode_value`. TiCDC sends watermarks only with `enable_tidb_extension`.
    """
    payload = [*_head("", "", commit_ts, build_ts, options), F.lit(f'{WATERMARK}"}}')]
    return (
        _message([F.lit("{}")], _tail(watermark_key_schema(options), options)),
        _message(payload, _tail(watermark_value_schema(options), options)),
    )


@reused()
def unencodable(schema: TableSchema, *, columns: frozenset[str] | None = None) -> Column:
    """Return why a row has no form in Debezium, as text naming the column; null for a row that has one.

    A NOT NULL column without a value has none: its schema says that there is one. `columns` as in `encode_value`.
    """
    keys = set(schema.handle_key)
    reasons = []
    for column in schema.columns:
        if column.nullable or column.virtual or not (columns is None or column.name in columns or column.name in keys):
            continue
        missing = [F.col(side).isNotNull() & F.col(side)[column.name].isNull() for side in ("old", "data")]
        reasons.append(F.when(missing[0] | missing[1], F.lit(f"column {column.name} is NOT NULL and has no value")))
    return F.coalesce(*reasons) if reasons else F.lit(None).cast("string")


@reused(active_java)
def _row(columns: tuple[TableColumn, ...], side: str, options: DebeziumOptions) -> Column:
    """Return the JSON object of a row; `side` is `old`, `data`, or `_KEY` for the one that has the key."""
    key = F.when(F.col("op") == Op.DELETE, F.col("old")).otherwise(F.col("data"))
    row = key if side == _KEY else F.col(side)
    pieces: list[Column] = []
    for n, column in enumerate(columns):
        pieces += [F.lit(f"{',' if n else '{'}{dumps(column.name)}:"), value(column, row[column.name], options)]
    return F.concat(*pieces, F.lit("}")) if pieces else F.lit("{}")


def _head(
    database: str, table: str, commit_ts: Column, build_ts: Column | None, options: DebeziumOptions
) -> list[Column]:
    """Return the pieces of a payload up to the operation."""
    before, middle, after = source(database, table, options)
    now = F.unix_millis(F.current_timestamp()) if build_ts is None else build_ts
    return [
        F.lit(f'{{"source":{before}'),
        physical_ms_of(commit_ts).cast("string"),
        F.lit(middle),
        commit_ts.cast("string"),
        F.lit(f'{after},"ts_ms":'),
        now.cast("string"),
        F.lit(',"transaction":null,"op":"'),
    ]


def _message(payload: list[Column], tail: bytes) -> Column:
    return F.concat(F.lit('{"payload":'), *payload, F.lit(tail.decode())).cast("binary")


def _tail(schema: JsonObject, options: DebeziumOptions) -> bytes:
    return b"}" if options.disable_schema else f',"schema":{dumps(schema)}}}'.encode()
