"""The Avro schemas of a table's keys and values. Source: Avro protocol, schema JSON."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from tidecast._errors import EncodeError
from tidecast.model import Column, DataType, Kind, TableSchema, bit_default, sanitize
from tidecast.protocols._allowed import join_options
from tidecast.protocols._json_text import Json
from tidecast.protocols._registered import check_names, name_clash
from tidecast.protocols.avro._json import dumps
from tidecast.protocols.avro._options import AvroOptions

OP, COMMIT_TS, PHYSICAL_TIME = "_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time"
BEFORE = "_ticdc_before"
CHECKSUM, CORRUPTED, CHECKSUM_VERSION = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version"

_EXTENSION: list[dict[str, Json]] = [
    {"default": "", "name": OP, "type": "string"},
    {"default": 0, "name": COMMIT_TS, "type": "long"},
    {"default": 0, "name": PHYSICAL_TIME, "type": "long"},
]
_INTEGRITY: list[dict[str, Json]] = [
    {"default": "", "name": CHECKSUM, "type": "string"},
    {"default": False, "name": CORRUPTED, "type": "boolean"},
    {"default": 0, "name": CHECKSUM_VERSION, "type": "int"},
]


@dataclass(frozen=True)
class AvroForm:
    """How a column of one type is written: TiDB's name of the type, and Avro's."""

    tidb_type: str
    avro: str


_FORMS: dict[Kind, AvroForm] = {
    Kind.YEAR: AvroForm("YEAR", "int"),
    Kind.FLOAT: AvroForm("FLOAT", "float"),
    Kind.DOUBLE: AvroForm("DOUBLE", "double"),
    Kind.TEXT: AvroForm("TEXT", "string"),
    Kind.BINARY: AvroForm("BLOB", "bytes"),
    Kind.BIT: AvroForm("BIT", "bytes"),
    Kind.ENUM: AvroForm("ENUM", "string"),
    Kind.SET: AvroForm("SET", "string"),
    Kind.JSON: AvroForm("JSON", "string"),
    Kind.DATE: AvroForm("DATE", "string"),
    Kind.DATETIME: AvroForm("DATETIME", "string"),
    Kind.TIMESTAMP: AvroForm("TIMESTAMP", "string"),
    Kind.TIME: AvroForm("TIME", "string"),
    Kind.VECTOR: AvroForm("TiDBVECTORFloat32", "string"),
}


def avro_form(data_type: DataType, options: AvroOptions) -> AvroForm:
    """Return how a type is written. Raises EncodeError for a type that the protocol does not know."""
    match data_type.kind:
        case Kind.INTEGER:
            big, unsigned = data_type.mysql_type == "bigint", data_type.unsigned
            tidb_type = ("BIGINT" if big else "INT") + (" UNSIGNED" if unsigned else "")
            if big and unsigned and options.bigint_unsigned_handling_mode == "string":
                return AvroForm(tidb_type, "string")
            return AvroForm(tidb_type, "long" if big or (unsigned and data_type.mysql_type == "int") else "int")
        case Kind.DECIMAL:
            return AvroForm("DECIMAL", "bytes" if options.decimal_handling_mode == "precise" else "string")
        case kind if kind in _FORMS:
            return _FORMS[kind]
        case _:
            raise EncodeError(
                f"unknown mysql type {data_type.mysql_type}",
                code="CDC:ErrAvroEncodeFailed",
                hint="leave the column out with a column selector",
            )


def key_schema(schema: TableSchema, options: AvroOptions) -> str:
    """Return the schema of a table's keys: the handle key's columns, in table order."""
    keys = set(schema.handle_key)
    return _record(schema, [c for c in schema.columns if c.name in keys], [], options)


def value_schema(schema: TableSchema, options: AvroOptions) -> str:
    """Return the schema of a table's values: its columns, and the extension and checksum fields that are on."""
    extra = _EXTENSION if options.enable_tidb_extension else []
    if options.enable_tidb_extension and options.checksum:
        extra = [*extra, *_INTEGRITY]
    columns = value_columns(schema, options)
    if options.include_before_value:
        extra = [_before(schema, columns, options), *(extra or _EXTENSION[:1])]
    return _record(schema, columns, extra, options)


def _before(schema: TableSchema, columns: list[Column], options: AvroOptions) -> dict[str, Json]:
    """Return the field of the row before, whose members have the order of their names."""
    fields = [_field(c, schema, options) for c in columns]
    name = f"{sanitize(schema.table)}_before"
    record: Json = {"fields": fields, "name": name, "namespace": _namespace(schema, options), "type": "record"}
    return {"default": None, "name": BEFORE, "type": ["null", record]}


def _namespace(schema: TableSchema, options: AvroOptions) -> str:
    return ".".join(filter(None, (sanitize(options.keyspace), sanitize(schema.database))))


def value_columns(schema: TableSchema, options: AvroOptions) -> list[Column]:
    """Return a table's columns in the order of its values: table order, or by column id under a checksum."""
    if not options.checksum:
        return list(schema.columns)
    known = all(c.id is not None for c in schema.columns)
    return sorted(schema.columns, key=lambda c: c.id or 0) if known else list(schema.columns)


def _record(schema: TableSchema, columns: list[Column], extra: list[dict[str, Json]], options: AvroOptions) -> str:
    namespace = _namespace(schema, options)
    fields = [_field(c, schema, options) for c in columns]
    check_names(schema, columns)
    if clash := [c.name for c in columns if sanitize(c.name) in {f["name"] for f in extra}]:
        raise name_clash(f"column {clash[0]} has the name of a field that the extension adds", schema)
    name = sanitize(schema.table)
    return dumps({"type": "record", "name": name, "namespace": namespace, "fields": [*fields, *extra]})


def _field(column: Column, schema: TableSchema, options: AvroOptions) -> Json:
    try:
        block, precise = _block(column.data_type, options)
        default = None if column.virtual else _default(column, options, precise=precise)
    except EncodeError as error:
        raise EncodeError(
            error.message, code=error.code, where=f"{schema.name} column {column.name}", hint=error.hint
        ) from None
    name = sanitize(column.name)
    nullable = column.nullable or column.virtual
    if default is None:
        return {"default": None, "name": name, "type": ["null", block]} if nullable else {"name": name, "type": block}
    return {"default": default, "name": name, "type": [block, "null"] if nullable else block}


def _block(data_type: DataType, options: AvroOptions) -> tuple[dict[str, Json], bool]:
    """Return a column's type object, and whether it is a precise decimal."""
    form = avro_form(data_type, options)
    parameters: dict[str, Json] = {}
    if data_type.kind in (Kind.ENUM, Kind.SET):
        parameters["allowed"] = join_options(data_type.elements)
    if data_type.kind is Kind.BIT:
        parameters["length"] = str(data_type.length or 1)
    block: dict[str, Json] = {
        "type": form.avro,
        "connect.parameters": {**parameters, "tidb_type": form.tidb_type},
    }
    if data_type.kind is not Kind.DECIMAL or form.avro == "string":
        return block, False
    precision, scale = (data_type.length, data_type.decimal) if data_type.length else (10, 0)
    return {**block, "logicalType": "decimal", "precision": precision, "scale": scale}, True


def _default(column: Column, options: AvroOptions, *, precise: bool) -> Json:
    """Return a column's default as its schema shows it. Source: Avro protocol, column defaults."""
    if column.default is None:
        return None
    large = (column.data_type.mysql_type, column.data_type.unsigned) == ("bigint", True)
    if large and options.bigint_unsigned_handling_mode == "string":
        return str(column.default)
    try:
        value = _DEFAULTS.get(column.data_type.kind, str)(column.default)
        if precise:
            Decimal(column.default)  # it is not shown, and must be a number all the same
    except (ValueError, ArithmeticError):
        raise EncodeError(
            f"default {column.default!r} is not a value of type {column.data_type}", code="CDC:ErrAvroEncodeFailed"
        ) from None
    if precise:
        return None
    return _wrapped(value) if large and isinstance(value, int) else value


def _wrapped(value: int) -> int:
    """Return the signed number whose 64 bits are those of an unsigned one."""
    return value - (1 << 64) if value >> 63 else value


def _float32(text: str | int) -> Json:
    return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])


def _bits(number: str | int) -> Json:
    value = int(number)
    return base64.b64encode(bit_default(value)).decode()


def _blob(text: str | int) -> Json:
    return base64.b64encode(str(text).encode()).decode()


_DEFAULTS: dict[Kind, Callable[[str | int], Json]] = {
    Kind.INTEGER: int,
    Kind.YEAR: int,
    Kind.FLOAT: _float32,
    Kind.DOUBLE: float,
    Kind.BIT: _bits,
    Kind.BINARY: _blob,
}
