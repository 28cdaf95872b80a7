"""Schema changes as Debezium messages. Source: Debezium protocol, DDL events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidecast.model import Column, DataType, Ddl, Kind, TableSchema, physical_ms
from tidecast.protocols.debezium._defaults import is_now
from tidecast.protocols.debezium._json import Json, dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import DDL_KEY_SCHEMA, DDL_VALUE_SCHEMA, JsonObject
from tidecast.protocols.debezium._source import source
from tidecast.protocols.debezium._statement import Definition, Name, Statement, read_statement

HIDDEN = "_V$_"
"""How the columns begin that TiDB makes for indexes on expressions."""

_Said = TypeVar("_Said")

_CHARSET = "utf8mb4"
_EPOCH = "1970-01-01 00:00:00"
_TIMES = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR)

_SILENT = {
    "ATTRIBUTES",
    "AUTO_ID_CACHE",
    "AUTO_RANDOM_BASE",
    "CACHE",
    "CHECK",
    "CONSTRAINT",
    "FOREIGN",
    "NOCACHE",
    "PLACEMENT",
    "PRE_SPLIT_REGIONS",
    "SHARD_ROW_ID_BITS",
    "TIFLASH",
    "TTL",
    "TTL_ENABLE",
}
"""What an ALTER TABLE may be about that TiCDC sends no message of, if it is about nothing else."""


@dataclass(frozen=True)
class _Details:
    """What no schema in the model tells of a table: its character set, and some of its columns."""

    charset: str = _CHARSET
    comments: dict[str, str] = field(default_factory=dict)
    scales: dict[str, int] = field(default_factory=dict)
    automatic: frozenset[str] = frozenset()

    def defining(self, definition: Definition) -> _Details:
        """Return the details after one column was defined anew."""
        name, was = definition.name, definition.had_name
        if not definition.whole:
            return self._with(name, self.comments.get(was), self.scales.get(was), was in self.automatic, was)
        scale = definition.arguments[1] if len(definition.arguments) > 1 else None
        return self._with(name, definition.comment, scale, definition.automatic, was)

    def _with(self, name: str, comment: str | None, scale: int | None, automatic: bool, was: str) -> _Details:
        gone = {name, was}
        return replace(
            self,
            comments=_without(self.comments, gone) | ({name: comment} if comment else {}),
            scales=_without(self.scales, gone) | ({name: scale} if scale is not None else {}),
            automatic=self.automatic - gone | ({name} if automatic else set()),
        )


def _without(said: dict[str, _Said], names: set[str]) -> dict[str, _Said]:
    return {name: value for name, value in said.items() if name not in names}


class DdlHistory:
    """What the schema changes of a stream, in their order, said beyond the schemas that came with them."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], _Details] = {}
        self._charsets: dict[str, str] = {}

    def take(self, statement: Statement, database: str) -> _Details:
        """Return what is known of a statement's table after it. `database` is for names without one."""
        name = _full(statement.name, database)
        if statement.subject == "DATABASE":
            self._charsets[name[0]] = statement.charset or _CHARSET
            return _Details()
        details = self._tables.get(name, _Details())
        if statement.like:
            details = self._tables.get(_full(statement.like, database), _Details())
        elif (statement.verb, statement.subject) == ("CREATE", "TABLE"):
            details = _Details(self._charsets.get(name[0], _CHARSET))
        if statement.charset:
            details = replace(details, charset=statement.charset)
        for definition in statement.definitions.values():
            details = details.defining(definition)
        if statement.renamed:
            self._tables.pop(name, None)
            name = _full(statement.renamed, database)
        self._tables[name] = details
        return details


def encode_ddl(ddl: Ddl, options: DebeziumOptions, history: DdlHistory, *, build_ts: int) -> tuple[bytes, bytes] | None:
    """Return key and value of a schema change's message; None for one that TiCDC sends no message of.

    `history` must be given the schema changes of a stream in their order, each once. `build_ts` (milliseconds) is when
    the message is made. A statement that cannot be read has no message either.
    """
    statement = read_statement(ddl.sql)
    if statement is None:
        return None
    schema = ddl.schema
    said_database = statement.name[0] or (schema.database if schema else "")
    details = history.take(statement, said_database)
    change = _change(statement, ddl.type)
    if change is None:
        return None
    shown = _full(statement.renamed or statement.exchanged or statement.name, said_database)
    payload: JsonObject = {
        "databaseName": shown[0],
        "schemaName": None,
        "ddl": ddl.sql,
        "tableChanges": _changes(change, statement, said_database, schema, details),
    }
    before, middle, after = source(*shown, options)
    head = f'{{"source":{before}{physical_ms(ddl.commit_ts)}{middle}{ddl.commit_ts}{after},"ts_ms":{build_ts},'
    key: JsonObject = {"databaseName": shown[0]}
    return (
        _message(dumps(key), DDL_KEY_SCHEMA, options),
        _message(head + dumps(payload)[1:], DDL_VALUE_SCHEMA, options),
    )


def _message(payload: str, schema: JsonObject, options: DebeziumOptions) -> bytes:
    tail = "" if options.disable_schema else f',"schema":{dumps(schema)}'
    return f'{{"payload":{payload}{tail}}}'.encode()


def _full(name: Name, database: str) -> tuple[str, str]:
    return name[0] or database, name[1]


def _change(statement: Statement, ddl_type: str) -> str | None:
    """Return the type of a change, empty for one without table changes, None for one without a message."""
    match statement.verb, statement.subject:
        case (_, "DATABASE") | ("TRUNCATE", "TABLE"):
            return ""
        case "CREATE", "TABLE" | "VIEW":
            return "CREATE"
        case "DROP", "TABLE" | "VIEW" | "INDEX":
            return "DROP"
        case ("CREATE", "INDEX") | ("RENAME", "TABLE"):
            return "ALTER"
        case "ALTER", "TABLE":
            if statement.actions in ((("DROP", "INDEX"),), (("DROP", "KEY"),)):
                return "DROP"
            # A foreign key that needs a new index is a change of more than one thing, which only its type tells.
            silent = all(_SILENT.intersection(action) for action in statement.actions)
            return None if silent and ddl_type != "ALTER" else "ALTER"
    return None


def _changes(
    change: str, statement: Statement, database: str, schema: TableSchema | None, details: _Details
) -> list[Json]:
    if not change:
        return []
    names = [_full(statement.name, database), *([_full(statement.renamed, database)] if statement.renamed else [])]
    dropped = (statement.verb, statement.subject) == ("DROP", "TABLE")
    table = _table(schema, statement, details) if schema and not dropped else None
    return [{"type": change, "id": ",".join(f'"{d}"."{t}"' for d, t in names), "table": table}]


def _table(schema: TableSchema, statement: Statement, details: _Details) -> JsonObject:
    primary = next((i.columns for i in schema.indexes if i.primary), ())
    return {
        "defaultCharsetName": details.charset,
        "primaryKeyColumnNames": list(primary),
        "columns": [
            _column(n, c, statement.definitions.get(c.name), details)
            for n, c in enumerate(schema.columns, 1)
            if not c.name.startswith(HIDDEN)
        ],
        "comment": None,
    }


def _column(position: int, column: Column, definition: Definition | None, details: _Details) -> JsonObject:
    data_type, name = column.data_type, column.name
    jdbc_type, type_name = _JDBC.get(data_type.mysql_type, (_VARCHAR, data_type.mysql_type.upper()))
    if data_type.unsigned and data_type.kind in (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE):
        type_name += " UNSIGNED ZEROFILL" if data_type.zerofill else " UNSIGNED"
    scale = details.scales.get(name)
    length = _LENGTHS.get(data_type.kind, _no_length)(data_type)
    if definition and definition.whole and data_type.kind in _TIMES:
        length = next(iter(definition.arguments), None)
    automatic = name in details.automatic
    return {
        "name": name,
        "jdbcType": jdbc_type,
        "nativeType": None,
        "comment": None if definition else details.comments.get(name),
        "defaultValueExpression": _default(column, definition),
        "enumValues": [f"'{e}'" for e in data_type.elements] or None,
        "typeName": type_name,
        "typeExpression": _type_expression(type_name, data_type, scale),
        "charsetName": data_type.charset if data_type.charset not in ("", "binary") else None,
        "length": length,
        "scale": data_type.decimal if data_type.kind is Kind.DECIMAL else _float_scale(data_type, scale),
        "position": position,
        "optional": column.nullable,
        "autoIncremented": automatic,
        "generated": automatic,
    }


def _float_scale(data_type: DataType, scale: int | None) -> int | None:
    return scale if data_type.kind in (Kind.FLOAT, Kind.DOUBLE) else None


def _type_expression(type_name: str, data_type: DataType, scale: int | None) -> str:
    base, space, sign = type_name.partition(" ")
    if data_type.kind is Kind.DOUBLE and scale:
        return f"{base}({data_type.length},{scale}){space}{sign}"
    if data_type.kind is Kind.VECTOR and data_type.length > 0:
        return f"{base}({data_type.length})"
    return type_name


def _default(column: Column, definition: Definition | None) -> str | None:
    """Return a default as text: that of the statement for times which it defines, else the stored one."""
    kind = column.data_type.kind
    default = column.default
    if definition and kind in _TIMES and definition.default is not None:
        default = definition.default
    if default is None:
        return None
    if kind is Kind.BIT:
        return _digits(int(default), column.data_type.length)
    return _EPOCH if is_now(str(default)) else str(default)


def _digits(bits: int, length: int) -> str:
    """Return a BIT default's digits: of its first byte as many as the type has left over, or no zeros before it."""
    first, *others = bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "big")
    return f"{first:b}".rjust(length % 8, "0") + "".join(f"{byte:08b}" for byte in others)


def _no_length(data_type: DataType) -> int | None:
    return None


def _width(data_type: DataType) -> int | None:
    signed, unsigned = WIDTHS[data_type.mysql_type]
    as_signed = not data_type.unsigned or (data_type.mysql_type == "tinyint" and data_type.zerofill)
    return None if data_type.length in (0, signed if as_signed else unsigned) else data_type.length


def _unless(*lengths: int) -> Callable[[DataType], int | None]:
    return lambda data_type: None if data_type.length in lengths else data_type.length


def _characters(data_type: DataType) -> int | None:
    hidden = {"char": 1, "binary": 1, "varchar": 5, "varbinary": 5}.get(data_type.mysql_type)
    return None if hidden is None or data_type.length == hidden else data_type.length


WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_LENGTHS: dict[Kind, Callable[[DataType], int | None]] = {
    Kind.INTEGER: _width,
    Kind.FLOAT: _unless(0, 12),
    Kind.DOUBLE: _unless(0, 22),
    Kind.DECIMAL: lambda t: t.length,
    Kind.BIT: _unless(0, 1),
    Kind.TEXT: _characters,
    Kind.BINARY: _characters,
    Kind.ENUM: lambda t: 1,
    Kind.SET: lambda t: 2 * len(t.elements) - 1,
    Kind.DATETIME: lambda t: t.decimal,
    Kind.TIMESTAMP: lambda t: t.decimal,
    Kind.TIME: lambda t: t.decimal,
    Kind.YEAR: lambda t: 4,
    Kind.VECTOR: _unless(0, -1),
}

_VARCHAR = 12
_JDBC = {
    name: (jdbc_type, name.upper())
    for jdbc_type, names in {
        5: "tinyint smallint",
        4: "mediumint int year",
        -5: "bigint",
        6: "float",
        8: "double",
        3: "decimal",
        -7: "bit",
        1: "char enum set",
        -2: "binary",
        _VARCHAR: "varchar tinytext text mediumtext longtext vector",
        -3: "varbinary",
        2004: "tinyblob blob mediumblob longblob",
        1111: "json",
        91: "date",
        93: "datetime",
        2014: "timestamp",
        92: "time",
    }.items()
    for name in names.split()
}
