"""The schemas of Kafka Connect that a message carries. Source: Debezium protocol, schemas, column types, names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, TableSchema, sanitize
from tidecast.protocols._allowed import join_options
from tidecast.protocols._json_text import Json
from tidecast.protocols.debezium._defaults import in_milliseconds, schema_default
from tidecast.protocols.debezium._options import DebeziumOptions

JsonObject = dict[str, Json]

_PLAIN_FLOAT = (0, 12)
"""The length of a FLOAT without (M,D): unknown, or TiDB's own."""


@dataclass(frozen=True)
class Form:
    """The form of a type in Kafka Connect: its type, Debezium's name for what it means, and that name's parameters."""

    type: str
    name: str | None = None
    parameters: dict[str, str] = field(default_factory=dict, hash=False)
    version: int | None = 1


def _integer(data_type: DataType) -> Form:
    return Form(_INTEGERS[data_type.mysql_type][data_type.unsigned])


def _bit(data_type: DataType) -> Form:
    if data_type.length <= 1:
        return Form("boolean")
    return Form("bytes", "io.debezium.data.Bits", {"length": str(data_type.length)})


def _datetime(data_type: DataType) -> Form:
    return Form("int64", f"io.debezium.time.{'Timestamp' if in_milliseconds(data_type) else 'MicroTimestamp'}")


_INTEGERS = {
    "tinyint": ("int16", "int16"),
    "smallint": ("int16", "int32"),
    "mediumint": ("int32", "int32"),
    "int": ("int32", "int64"),
    "bigint": ("int64", "int64"),
}
_FORMS: dict[Kind, Callable[[DataType], Form]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: lambda t: Form("float" if t.length in _PLAIN_FLOAT and not t.decimal else "double"),
    Kind.DOUBLE: lambda t: Form("double"),
    Kind.DECIMAL: lambda t: Form("double"),
    Kind.BIT: _bit,
    Kind.ENUM: lambda t: Form("string", "io.debezium.data.Enum", {"allowed": join_options(t.elements)}),
    Kind.SET: lambda t: Form("string", "io.debezium.data.EnumSet", {"allowed": ",".join(t.elements)}),
    Kind.JSON: lambda t: Form("string", "io.debezium.data.Json"),
    Kind.VECTOR: lambda t: Form("string", "io.debezium.data.TiDBVectorFloat32", version=None),
    Kind.DATE: lambda t: Form("int32", "io.debezium.time.Date"),
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: lambda t: Form("string", "io.debezium.time.ZonedTimestamp"),
    Kind.TIME: lambda t: Form("int64", "io.debezium.time.MicroTime"),
    Kind.YEAR: lambda t: Form("int32", "io.debezium.time.Year"),
}
_BINARY_NAMES = {"char": "binary", "varchar": "varbinary", "var_string": "varbinary"}


def form(data_type: DataType) -> Form:
    """Return the form of a MySQL type."""
    make = _FORMS.get(data_type.kind)
    return make(data_type) if make else Form("string")


def tidb_type(data_type: DataType) -> str:
    """Return a type's name as the extension has it."""
    name = data_type.mysql_type
    if data_type.kind is Kind.BINARY:
        name = _BINARY_NAMES.get(name, name).replace("text", "blob")
    says_sign = data_type.kind in (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE)
    return f"{name} unsigned" if data_type.unsigned and says_sign else name


def key_schema(schema: TableSchema, options: DebeziumOptions) -> JsonObject:
    """Return the schema of a row's key: the columns of the table's handle key."""
    return {
        "type": "struct",
        "name": f"{_prefix(schema, options)}.Key",
        "optional": False,
        "fields": [column_schema(c, options.enable_tidb_extension) for c in key_columns(schema)],
    }


def key_columns(schema: TableSchema) -> list[TableColumn]:
    """Return the columns of keys, in table order."""
    return [c for c in schema.columns if c.name in schema.handle_key]


def value_columns(schema: TableSchema, columns: frozenset[str] | None) -> list[TableColumn]:
    """Return the columns of values, in table order. `columns` are those that a selector lets through, None for all."""
    return [c for c in schema.columns if columns is None or c.name in columns]


def value_schema(schema: TableSchema, options: DebeziumOptions, columns: frozenset[str] | None) -> JsonObject:
    """Return the schema of a row's value. `columns` are those that a selector lets through, None for all.

    A virtual column, which never has a value, is in it twice.
    """
    virtual = [c for c in schema.columns if c.virtual]
    shown = (*value_columns(schema, columns), *virtual)
    fields = [column_schema(c, options.enable_tidb_extension) for c in shown]
    name = f"{_prefix(schema, options)}.Value"
    row: JsonObject = {"type": "struct", "optional": True, "name": name}
    return {
        "type": "struct",
        "optional": False,
        "name": f"{_prefix(schema, options)}.Envelope",
        "version": 1,
        "fields": [*(row | {"field": side, "fields": fields} for side in ("before", "after")), *_envelope()],
    }


def watermark_key_schema(options: DebeziumOptions) -> JsonObject:
    """Return the schema of a watermark's key, which has no fields."""
    return {"type": "struct", "name": f"{sanitize(options.cluster_id)}.watermark.Key", "optional": False, "fields": []}


def watermark_value_schema(options: DebeziumOptions) -> JsonObject:
    """Return the schema of a watermark's value: that of a row without the row."""
    return {
        "type": "struct",
        "optional": False,
        "name": f"{sanitize(options.cluster_id)}.watermark.Envelope",
        "version": 1,
        "fields": _envelope(),
    }


def _prefix(schema: TableSchema, options: DebeziumOptions) -> str:
    table = re.sub(r"[^A-Za-z0-9_.]", "_", schema.table)  # where digits and dots stay
    return f"{sanitize(options.cluster_id)}.{sanitize(schema.database)}.{table}"


def _fields(connect_type: str, *names: str, optional: bool = False) -> list[Json]:
    return [_field(name, connect_type, optional) for name in names]


def _field(name: str, connect_type: str, optional: bool = False) -> JsonObject:
    return {"type": connect_type, "optional": optional, "field": name}


SOURCE_SCHEMA: JsonObject = {
    "type": "struct",
    "fields": [
        *_fields("string", "version", "connector", "name"),
        *_fields("int64", "ts_ms"),
        {
            "type": "string",
            "optional": True,
            "name": "io.debezium.data.Enum",
            "version": 1,
            "parameters": {"allowed": "true,last,false,incremental"},
            "default": "false",
            "field": "snapshot",
        },
        *_fields("string", "db"),
        *_fields("string", "sequence", "table", optional=True),
        *_fields("int64", "server_id"),
        *_fields("string", "gtid", optional=True),
        *_fields("string", "file"),
        *_fields("int64", "pos"),
        *_fields("int32", "row"),
        *_fields("int64", "thread", optional=True),
        *_fields("string", "query", optional=True),
    ],
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "field": "source",
}
"""The schema of `source`. It does not name TiCDC's own members, `commit_ts` and `cluster_id`, which are there."""


def _envelope() -> list[Json]:
    return [
        SOURCE_SCHEMA,
        _field("op", "string"),
        _field("ts_ms", "int64", optional=True),
        {
            "type": "struct",
            "fields": [*_fields("string", "id"), *_fields("int64", "total_order", "data_collection_order")],
            "optional": True,
            "name": "event.block",
            "version": 1,
            "field": "transaction",
        },
    ]


def _member(name: str, connect_type: str, optional: bool = True) -> JsonObject:
    return {"field": name, "optional": optional, "type": connect_type}


def _struct(name: str, fields: list[Json]) -> JsonObject:
    return {"name": name, "optional": False, "type": "struct", "version": 1, "fields": fields}


def _array(name: str, items: JsonObject, optional: bool = True) -> JsonObject:
    return _member(name, "array", optional) | {"items": items}


_TEXT: JsonObject = {"type": "string", "optional": False}
_CHANGED_COLUMN = _struct(
    "io.debezium.connector.schema.Column",
    [
        _member("name", "string", optional=False),
        _member("jdbcType", "int32", optional=False),
        _member("nativeType", "int32"),
        _member("typeName", "string", optional=False),
        _member("typeExpression", "string"),
        _member("charsetName", "string"),
        _member("length", "int32"),
        _member("scale", "int32"),
        _member("position", "int32", optional=False),
        _member("optional", "boolean"),
        _member("autoIncremented", "boolean"),
        _member("generated", "boolean"),
        _member("comment", "string"),
        _member("defaultValueExpression", "string"),
        _array("enumValues", _TEXT),
    ],
)
_CHANGED_TABLE: JsonObject = _member("table", "struct") | {
    "name": "io.debezium.connector.schema.Table",
    "version": 1,
    "fields": [
        _member("defaultCharsetName", "string"),
        _array("primaryKeyColumnNames", _TEXT),
        _array("columns", _CHANGED_COLUMN, optional=False),
        _member("comment", "string"),
    ],
}
_CHANGE = _struct(
    "io.debezium.connector.schema.Change",
    [_member("type", "string", optional=False), _member("id", "string", optional=False), _CHANGED_TABLE],
)

DDL_KEY_SCHEMA: JsonObject = {
    "type": "struct",
    "name": "io.debezium.connector.mysql.SchemaChangeKey",
    "optional": False,
    "version": 1,
    "fields": [_member("databaseName", "string", optional=False)],
}
DDL_VALUE_SCHEMA: JsonObject = {
    "optional": False,
    "type": "struct",
    "version": 1,
    "name": "io.debezium.connector.mysql.SchemaChangeValue",
    "fields": [
        SOURCE_SCHEMA,
        _member("ts_ms", "int64", optional=False),
        *(_member(name, "string") for name in ("databaseName", "schemaName", "ddl")),
        _array("tableChanges", _CHANGE, optional=False),
    ],
}


def column_schema(column: TableColumn, extended: bool) -> JsonObject:
    """Return the schema of a column's field; `extended` with its TiDB type."""
    shape = form(column.data_type)
    members: JsonObject = {
        "tidb_type": tidb_type(column.data_type) if extended else None,
        "type": shape.type,
        "optional": column.nullable,
        "name": shape.name,
        "version": shape.version if shape.name else None,
        "parameters": dict(shape.parameters) or None,
        "field": column.name,
        "default": schema_default(column),
    }
    return {name: value for name, value in members.items() if value is not None}
