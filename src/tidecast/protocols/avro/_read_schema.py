"""Registered Avro schemas as tables of the model. Source: Avro protocol, column types, consumers compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tidecast._go import text_of
from tidecast.model import Column, DataType, Index, Kind, TableSchema
from tidecast.protocols._allowed import split_options
from tidecast.protocols._avro_fields import branches
from tidecast.protocols.avro._schema import BEFORE, CHECKSUM, OP
from tidecast.registry import bounded_json


@dataclass(frozen=True)
class Field:
    """A field of a registered schema: its Avro type, and the model's column where it is one.

    `record` are the fields of the row before.
    """

    name: str
    type: Any
    column: Column | None = None
    record: tuple[Field, ...] = ()


@dataclass(frozen=True, eq=False)
class WriterSchema:
    """A registered schema: the table that it names, its columns, and the extension's fields after them.

    There is one of each text, see `read_schema`, so that results can be kept by it.
    `keyspace` is the name of the database's tenant, `default` where there are none.
    """

    database: str
    table: str
    fields: tuple[Field, ...]
    keyspace: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns, in the schema's order."""
        return tuple(f.column for f in self.fields if f.column)

    def has(self, name: str) -> bool:
        """Tell whether there is an extension field of this name."""
        return any(field.column is None and field.name == name for field in self.fields)

    @property
    def extended(self) -> bool:
        """Tell whether messages carry the operation and the commit-ts."""
        return self.has(OP)

    @property
    def shows_before(self) -> bool:
        """Tell whether updates and deletes show the row before them: a delete is then a value, too."""
        return self.has(BEFORE)

    @property
    def checksums(self) -> bool:
        """Tell whether messages carry a row checksum."""
        return self.has(CHECKSUM)

    def table_schema(self, version: int, keys: Sequence[str]) -> TableSchema:
        """Return the model's table, `keys` naming the columns of its key."""
        columns = tuple(replace(c, nullable=c.nullable and c.name not in keys) for c in self.columns)
        return TableSchema(self.database, self.table, 0, version, columns, Index.of_key(keys))


@lru_cache(1024)
def read_schema(text: str) -> WriterSchema | None:
    """Return what a registered schema says, or None where it is none of TiCDC's."""
    try:
        schema = bounded_json(text)
        if schema["type"] != "record":
            return None
        keyspace, _, database = schema.get("namespace", "").partition(".")
        read = WriterSchema(database, schema["name"], tuple(map(_field, schema["fields"])), keyspace)
        before = next((field.record for field in read.fields if field.record), ())
        if before and tuple(field.column for field in before) != read.columns:
            raise ValueError(BEFORE)
        return read
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def objection(text: str) -> str:
    """Return why a registered schema is none of TiCDC's, for people."""
    try:
        schema = bounded_json(text)
    except ValueError:
        return "it is no JSON"
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return "it is no record"
    fields = schema.get("fields")
    if isinstance(fields, list) and any(map(_is_source, fields)):
        return "it is Debezium's envelope: read it with protocol=debezium-avro"
    for field in fields if isinstance(fields, list) else ():
        try:
            _field(field)
        except (KeyError, TypeError, ValueError, AttributeError):
            name = field.get("name") if isinstance(field, dict) else None
            if "tidb_type" in json.dumps(field):
                return f"field {name} is of no form that TiCDC writes"
            return f"field {name} has no tidb_type in connect.parameters, as of TiCDC 5 and other writers"
    return "it has no name, or no fields"


def _is_source(field: object) -> bool:
    """Tell whether a field is that of Debezium's envelope which tells where a row is from."""
    kind = field.get("type") if isinstance(field, dict) and field.get("name") == "source" else None
    return isinstance(kind, dict) and kind.get("type") == "record"


def _field(field: dict[str, Any]) -> Field:
    if field["name"] == BEFORE and isinstance(field["type"], list):
        block, _ = branches(field["type"])
        if isinstance(block, dict) and block["type"] == "record":
            record = tuple(map(_field, block["fields"]))  # type: ignore[call-overload]
            return Field(BEFORE, field["type"], record=record)
    if isinstance(field["type"], str):
        # Only the extension's fields have bare types: a real column of such a name does not.
        if not field["name"].startswith("_tidb_"):
            raise ValueError(field["name"])
        return Field(field["name"], field["type"])
    block, null = branches(field["type"])
    if isinstance(block, str):
        raise TypeError(field["name"])
    data_type = _data_type(block)
    default = _default(field.get("default"), data_type)
    # A precise decimal's default is never shown.
    default_known = (data_type.kind, block["type"]) != (Kind.DECIMAL, "bytes")
    column = Column(field["name"], data_type, null is not None, default, default_known=default_known)
    return Field(field["name"], field["type"], column)


def _data_type(block: dict[str, Any]) -> DataType:
    parameters, avro = block["connect.parameters"], block["type"]
    plain = _TYPES[parameters["tidb_type"], avro]
    if plain.kind in (Kind.ENUM, Kind.SET):
        return replace(plain, elements=split_options(parameters["allowed"]))
    if plain.kind is Kind.BIT:
        return replace(plain, length=int(parameters["length"]))
    if plain.kind is Kind.DECIMAL and avro == "bytes":
        if block["precision"] < 1:
            raise ValueError("a decimal without digits")
        return replace(plain, length=block["precision"], decimal=block["scale"])
    return plain


def _text(mysql_type: str) -> DataType:
    return DataType(mysql_type, "utf8mb4", "utf8mb4_bin")


_TYPES: dict[tuple[str, str], DataType] = {
    ("INT", "int"): DataType("int"),
    ("INT UNSIGNED", "int"): DataType("mediumint", unsigned=True),
    ("INT UNSIGNED", "long"): DataType("int", unsigned=True),
    ("BIGINT", "long"): DataType("bigint"),
    ("BIGINT UNSIGNED", "long"): DataType("bigint", unsigned=True),
    ("BIGINT UNSIGNED", "string"): DataType("bigint", unsigned=True),
    ("FLOAT", "float"): DataType("float"),
    ("FLOAT", "double"): DataType("float"),
    ("DOUBLE", "double"): DataType("double"),
    ("DECIMAL", "bytes"): DataType("decimal"),
    ("DECIMAL", "string"): DataType("decimal"),
    ("TEXT", "string"): _text("text"),
    ("BLOB", "bytes"): DataType("blob"),
    ("BIT", "bytes"): DataType("bit", unsigned=True),
    ("ENUM", "string"): _text("enum"),
    ("SET", "string"): _text("set"),
    ("JSON", "string"): DataType("json"),
    ("DATE", "string"): DataType("date"),
    ("DATETIME", "string"): DataType("datetime"),
    ("TIMESTAMP", "string"): DataType("timestamp"),
    ("TIME", "string"): DataType("time"),
    ("YEAR", "int"): DataType("year", unsigned=True, zerofill=True),
    ("TiDBVECTORFloat32", "string"): DataType("vector"),
}
"""Every pair of TiDB's type name and Avro type that TiCDC writes, old releases included (FLOAT as double)."""


def _default(default: Any, data_type: DataType) -> str | int | None:
    read = _DEFAULTS.get(data_type.kind)
    return None if default is None else read(default, data_type) if read else str(default)


def _unsigned(default: Any, data_type: DataType) -> str:
    wrapped = data_type.mysql_type == "bigint" and data_type.unsigned and isinstance(default, int) and default < 0
    return str(default + (1 << 64)) if wrapped else str(default)


_DEFAULTS: dict[Kind, Callable[[Any, DataType], str | int]] = {
    Kind.INTEGER: _unsigned,
    Kind.BIT: lambda default, _: int.from_bytes(base64.b64decode(default), "big"),
    Kind.BINARY: lambda default, _: text_of(base64.b64decode(default)),
}
