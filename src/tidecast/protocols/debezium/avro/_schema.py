"""The schemas that a table's messages have in the registry. Source: Debezium protocol, Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidecast._errors import EncodeError
from tidecast.model import Column, Kind, TableSchema, sanitize
from tidecast.protocols._registered import check_names
from tidecast.protocols.debezium._decode_schema import DECIMAL
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import SOURCE_SCHEMA, column_schema, key_columns, value_columns
from tidecast.protocols.debezium.avro._connect import avro_schema
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions

Json = dict[str, Any]


def key_schema(schema: TableSchema, options: DebeziumAvroOptions) -> str:
    """Return the schema of a table's keys: the columns of its handle key, none for a table without one."""
    return avro_schema(_struct(f"{_prefix(schema, options)}Key", _columns(schema, key_columns(schema), options)))


def value_schema(schema: TableSchema, options: DebeziumAvroOptions, columns: frozenset[str] | None) -> str:
    """Return the schema of a table's values. `columns` are those that a selector lets through, None for all.

    It has a virtual column once, unlike JSON's.
    """
    prefix = _prefix(schema, options)
    if prefix == _source_name(schema.database, options):
        raise EncodeError(
            "the table has the name of a record that is in every message",
            code="CDC:ErrAvroSchemaAPIError",
            where=schema.name,
            hint="filter it out, or take protocol=debezium",
        )
    row = _struct(prefix, _columns(schema, value_columns(schema, columns), options)) | {"optional": True}
    fields = [
        *(row | {"field": side} for side in ("before", "after")),
        source_schema(schema.database, options, of_rows=True),
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": False, "field": "ts_ms"},
    ]
    return avro_schema(_struct(f"{prefix}Envelope", fields) | {"version": 1})


def source_schema(database: str, options: DebeziumOptions, *, of_rows: bool) -> Json:
    """Return the schema of `source`, for rows without what these never tell. `database` is that of the event."""
    declared: Any = SOURCE_SCHEMA["fields"]
    fields: list[Json] = []
    for field in declared:
        match field["field"]:
            case "sequence" if of_rows:
                continue
            case "snapshot" if of_rows:
                fields.append({"type": "string", "optional": True, "field": "snapshot"})
            case "table":
                fields.append(field | {"optional": False})
            case _:
                fields.append(field)
    for name, kind in (("commit_ts", "int64"), ("cluster_id", "string")):
        fields.append({"type": kind, "optional": False, "field": name})
    return _struct(_source_name(database, options), fields) | {"field": "source"}


def _struct(name: str, fields: list[Json]) -> Json:
    return {"type": "struct", "name": name, "optional": False, "fields": fields}


def _space(database: str, options: DebeziumOptions) -> str:
    return ".".join((sanitize(options.cluster_id), sanitize(database)))


def _source_name(database: str, options: DebeziumOptions) -> str:
    return f"{_space(database, options)}.Source"


def _prefix(schema: TableSchema, options: DebeziumAvroOptions) -> str:
    return f"{_space(schema.database, options)}.{sanitize(schema.table)}"


def _columns(schema: TableSchema, columns: Sequence[Column], options: DebeziumAvroOptions) -> list[Json]:
    check_names(schema, columns)
    return [column_form(c, options) for c in columns]


def column_form(column: Column, options: DebeziumAvroOptions) -> Json:
    """Return a column's schema: that of JSON, always optional, without a default, and without losses."""
    data_type = column.data_type
    found: Json = {**column_schema(column, options.enable_tidb_extension), "optional": True}
    found.pop("default", None)
    match data_type.kind:
        case Kind.DECIMAL if options.decimal_handling_mode == "string":
            return found | {"type": "string"}
        case Kind.DECIMAL:
            precision, scale = (data_type.length, data_type.decimal) if data_type.length else (10, 0)
            digits = {"precision": str(precision), "scale": str(scale)}
            return found | {"type": "bytes", "name": DECIMAL, "parameters": digits}
        case Kind.INTEGER if goes_as_text(column, options):
            return found | {"type": "string"}
        case Kind.BINARY:
            return found | {"type": "bytes"}
    return found


def goes_as_text(column: Column, options: DebeziumAvroOptions) -> bool:
    """Tell whether a column is a BIGINT UNSIGNED that goes as text."""
    return is_large(column) and options.bigint_unsigned_handling_mode == "string"


def is_large(column: Column) -> bool:
    """Tell whether a column may have numbers that are too large for a long."""
    return column.data_type.mysql_type == "bigint" and column.data_type.unsigned
