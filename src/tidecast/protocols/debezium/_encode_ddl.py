"""Schema changes as Debezium messages. Source: Debezium protocol, DDL events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from tidecast._go import text_of
from tidecast.model import (
    Column,
    DataType,
    Ddl,
    Definition,
    Kind,
    Name,
    Statement,
    TableSchema,
    bit_default,
    physical_ms,
    read_statement,
)
from tidecast.protocols._json_text import Json
from tidecast.protocols.debezium._defaults import is_now
from tidecast.protocols.debezium._encode import source, tail
from tidecast.protocols.debezium._json import dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import DDL_KEY_SCHEMA, DDL_VALUE_SCHEMA, JsonObject

HIDDEN = "_V$_"
"""How the columns begin that TiDB makes for indexes on expressions."""

_CHARSET = "utf8mb4"
_EPOCH = "1970-01-01 00:00:00"
_log = logging.getLogger(__name__)
_TIMES = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR)


@dataclass(frozen=True)
class _ColumnDetails:
    """The properties of a column that no schema in the model has."""

    comment: str | None = None
    scale: int | None = None
    automatic: bool = False


_PLAIN_COLUMN = _ColumnDetails()


@dataclass(frozen=True)
class _Details:
    """The properties of a table that no schema in the model has: its character set, its columns by casefolded names."""

    charset: str = _CHARSET
    columns: dict[str, _ColumnDetails] = field(default_factory=dict)

    def after(self, statement: Statement) -> _Details:
        """Return the details after a statement; names may change places in it."""
        was = statement.renamed_columns | {d.name: d.had_name for d in statement.definitions.values()}
        was = {name.casefold(): old.casefold() for name, old in was.items()}
        now = {name: self.columns.get(old, _PLAIN_COLUMN) for name, old in was.items()}
        now |= {d.name.casefold(): _defined(d) for d in statement.definitions.values() if d.whole}
        untouched = {name: details for name, details in self.columns.items() if name not in was.values()}
        return replace(
            self,
            charset=statement.charset or self.charset,
            columns={name: details for name, details in (untouched | now).items() if details != _PLAIN_COLUMN},
        )


def _defined(definition: Definition) -> _ColumnDetails:
    scale = definition.arguments[1] if len(definition.arguments) > 1 else None
    return _ColumnDetails(definition.comment, scale, definition.automatic)


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

_STATE = TypeAdapter(tuple[dict[str, str], list[tuple[tuple[str, str], _Details]]])


class DdlHistory:
    """Details that the schema changes of a stream, in their order, give beyond the schemas that come with them.

    Names count without their case. `state` hands the knowledge of one run to the next.
    """

    def __init__(self, state: bytes = b"") -> None:
        self._charsets, tables = _STATE.validate_json(state or b"[{},[]]")
        self._tables = dict(tables)

    def state(self) -> bytes:
        """Return what is known as JSON, to be given to the next run."""
        return _STATE.dump_json((self._charsets, list(self._tables.items())))

    def take(self, statement: Statement, database: str) -> _Details:
        """Return what is known of a statement's table after it. `database` is for names without one."""
        name = _key(statement.name, database)
        if statement.subject == "DATABASE":
            self._charsets[name[0]] = statement.charset or _CHARSET
            return _Details()
        details = self._tables.get(name, _Details())
        if statement.like:
            details = self._tables.get(_key(statement.like, database), _Details())
        elif (statement.verb, statement.subject) == ("CREATE", "TABLE"):
            details = _Details(self._charsets.get(name[0], _CHARSET))
        details = details.after(statement)
        if statement.renamed:
            self._tables.pop(name, None)
            name = _key(statement.renamed, database)
        self._tables[name] = details
        return details


def encode_ddl(ddl: Ddl, options: DebeziumOptions, history: DdlHistory, *, build_ts: int) -> tuple[bytes, bytes] | None:
    """Return key and value of a schema change's message; None for one that TiCDC sends no message of.

    `history` must be given the schema changes of a stream in their order, each once. `build_ts` (milliseconds) is when
    the message is made. The names are those of the table, which a statement may spell in another case. Of a statement
    that cannot be read, the message tells what its type and its table say; without them, it has none.
    """
    statement = read_statement(ddl.sql) or _guessed(ddl)
    if statement is None:
        _log.warning("no message leaves of a schema change whose statement cannot be read: %s", ddl.sql)
        return None
    schema = ddl.schema
    said_database = statement.name[0] or ddl.database
    details = history.take(statement, said_database)
    change = _change(statement, ddl.type)
    if change is None:
        return None
    names = [_full(name, said_database) for name in (statement.name, statement.renamed) if name]
    if schema:
        names[-1] = (schema.database, schema.table)
    shown = ddl.shown_as if statement.exchanged else names[-1]
    payload: JsonObject = {
        "databaseName": shown[0],
        "schemaName": None,
        "ddl": ddl.sql,
        "tableChanges": _changes(change, statement, names, schema, details),
    }
    before, middle, after = source(*shown, options)
    head = f'{{"source":{before}{physical_ms(ddl.commit_ts)}{middle}{ddl.commit_ts}{after},"ts_ms":{build_ts},'
    key: JsonObject = {"databaseName": shown[0]}
    return (
        f'{{"payload":{dumps(key)}'.encode() + tail(DDL_KEY_SCHEMA, options),
        f'{{"payload":{head}{dumps(payload)[1:]}'.encode() + tail(DDL_VALUE_SCHEMA, options),
    )


def _full(name: Name, database: str) -> tuple[str, str]:
    return name[0] or database, name[1]


def _key(name: Name, database: str) -> tuple[str, str]:
    database, table = _full(name, database)
    return database.casefold(), table.casefold()


def _guessed(ddl: Ddl) -> Statement | None:
    """Return a statement that says no more than a schema change's type and table do."""
    verb, subject = _OF_TYPE.get(ddl.type, ("", ""))
    if not verb or ddl.schema is None:
        return None
    name = (ddl.schema.database, ddl.schema.table)
    if ddl.type == "RENAME":
        return Statement(verb, subject, ddl.renamed_from or name, renamed=name, sound=False)
    return Statement(verb, subject, name, sound=False)


_OF_TYPE = {
    "CREATE": ("CREATE", "TABLE"),
    "ERASE": ("DROP", "TABLE"),
    "RENAME": ("RENAME", "TABLE"),
    "TRUNCATE": ("TRUNCATE", "TABLE"),
    "ALTER": ("ALTER", "TABLE"),
    "CINDEX": ("CREATE", "INDEX"),
    "DINDEX": ("DROP", "INDEX"),
}


def _change(statement: Statement, ddl_type: str) -> str | None:
    """Return the type of a change, empty for one without table changes, None for one without a message."""
    if statement.subject in ("TABLE", "INDEX") and ddl_type == "QUERY":
        return None
    if statement.is_on_primary_key:
        return "ALTER"
    match statement.verb, statement.subject:
        case ("CREATE" | "DROP", "DATABASE") | ("TRUNCATE", "TABLE"):
            return ""
        case "ALTER", "DATABASE":
            return "" if statement.charset else None
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
    change: str, statement: Statement, names: list[tuple[str, str]], schema: TableSchema | None, details: _Details
) -> list[Json]:
    if not change:
        return []
    dropped = (statement.verb, statement.subject) == ("DROP", "TABLE")
    table = _table(schema, statement, details) if schema and not dropped else None
    return [{"type": change, "id": ",".join(f'"{d}"."{t}"' for d, t in names), "table": table}]


def _table(schema: TableSchema, statement: Statement, details: _Details) -> JsonObject:
    primary = next((i.columns for i in schema.indexes if i.primary), ())
    defined = {name.casefold(): d for name, d in statement.definitions.items()} if statement.sound else {}
    return {
        "defaultCharsetName": details.charset,
        "primaryKeyColumnNames": list(primary),
        "columns": [
            _column(n, c, defined.get(c.name.casefold()), details)
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
    column_details = details.columns.get(name.casefold(), _PLAIN_COLUMN)
    length_of = _LENGTHS.get(data_type.kind)
    length = length_of(data_type) if length_of else None
    if definition and definition.whole and data_type.kind in _TIMES:
        length = next(iter(definition.arguments), None)
    scale = _scale(data_type, column_details)
    return {
        "name": name,
        "jdbcType": jdbc_type,
        "nativeType": None,
        "comment": None if definition else column_details.comment,
        "defaultValueExpression": _default(column, definition),
        "enumValues": [f"'{e}'" for e in data_type.elements] or None,
        "typeName": type_name,
        "typeExpression": _type_expression(type_name, data_type, scale),
        "charsetName": data_type.charset if data_type.charset not in ("", "binary") else None,
        "length": length,
        "scale": scale,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": column_details.automatic,
        "generated": column_details.automatic,
    }


def _scale(data_type: DataType, details: _ColumnDetails) -> int | None:
    """Return the digits of a fraction; those of FLOAT and DOUBLE tells a statement, and else some sources."""
    if data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        return details.scale if details.scale is not None else data_type.decimal or None
    return data_type.decimal if data_type.kind is Kind.DECIMAL else None


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
    if definition and definition.whole and kind in _TIMES and definition.default is not None:
        default = definition.default
    if default is None:
        return None
    if kind is Kind.BIT:
        return _digits(int(default), column.data_type.length)
    return _EPOCH if is_now(str(default)) else str(default)


def _digits(bits: int, length: int) -> str:
    """Return the binary digits of a BIT default; the first byte has as many as the type needs beyond whole bytes.

    TiCDC takes the bytes for text; each that is no UTF-8 becomes the three bytes of U+FFFD.
    """
    first, *others = text_of(bit_default(bits)).encode()
    return f"{first:b}".rjust(length % 8, "0") + "".join(f"{byte:08b}" for byte in others)


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
