"""Schema files of TiCDC's storage sink: the columns of a table version, or a statement on it, to the model."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from zlib import crc32

import pyarrow as pa

from tidecast._go import to_json
from tidecast.model import (
    Column,
    DataType,
    Ddl,
    Index,
    InvalidSchema,
    Kind,
    TableSchema,
    bit_default,
    checked,
    ddl_type,
    usual_length,
    with_digits,
)

_HIDDEN = "_V$_"
_LOST = "\ufffd"
_UNSIGNED = " UNSIGNED"
_UTF8 = ("utf8mb4", "utf8mb4_bin")
_LONGEST_SET = 64 * 256 - 1
"""The characters of a SET with all elements that one may have, and of commas between them."""
_DEFAULT = "ColumnDefault"
_UNSIZED = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.JSON, Kind.VECTOR, Kind.ENUM, Kind.SET)
_ALWAYS_UNSIGNED = (Kind.BIT, Kind.YEAR)
Name = tuple[str, str]
"""A table's database, and its own name."""
_SUMMED = ("Table", "Schema", "Version", "TableColumns", "TableColumnsTotal")


@dataclass(frozen=True)
class SchemaFile:
    """The content of a schema file. `schema` is None for a change of the database itself.

    `sql` is empty where the file only tells a table's columns, `number` is TiDB's of its action. The columns of
    `schema` are all of the table's, also the virtual ones: nothing here tells these.
    """

    database: str
    table: str
    version: int
    sql: str = ""
    number: object = None
    schema: TableSchema | None = None


def read_schema_file(text: bytes | str) -> SchemaFile:
    """Return what a schema file says. Raises InvalidSchema where it is none, or of a table that cannot be."""
    try:
        members: dict[str, Any] = json.loads(text)
        database, table, version = members["Schema"], members.get("Table") or "", members["TableVersion"]
        sql, columns = members.get("Query") or "", members.get("TableColumns") or []
        if not all(isinstance(one, str) for one in (database, table, sql)) or type(version) is not int:
            raise TypeError("a member is of another type")
        schema = checked(_table(database, table, version, columns)) if table else None
    except InvalidSchema:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidSchema(f"it is no schema file: {error}") from None
    return SchemaFile(database, table, version, sql, members.get("Type"), schema)


def write_schema_file(
    schema: TableSchema, *, sql: str = "", kind: int = 0, column_ids: bool = False, version: int | None = None
) -> tuple[str, str]:
    """Return the name of a table version's schema file, and its text.

    `sql` is the statement that made it and `kind` TiDB's number of such; `column_ids` is `output-column-id`. A
    database's own file has a schema without a table.
    """
    columns = [_members(column, schema, ids=column_ids) for column in schema.columns]
    members = {
        "Table": schema.table,
        "Schema": schema.database,
        "Version": 1,
        "TableVersion": schema.version if version is None else version,
        "Query": sql,
        "Type": kind,
        "TableColumns": columns or None,
        "TableColumnsTotal": len(columns),
    }
    name = f"schema_{members['TableVersion']}_{_checksum(members):010}.json"
    return name, to_json(members, indent=4)


def _members(column: Column, schema: TableSchema, *, ids: bool) -> dict[str, object]:
    """Return the members of a column in a schema file, without empty ones."""
    data_type = with_digits(column.data_type)
    kind, name = data_type.kind, data_type.mysql_type.upper()
    sized = kind not in _UNSIZED
    told = {
        "ColumnId": str(column.id) if ids and column.id is not None else "",
        "ColumnName": column.name,
        "ColumnType": name + (_UNSIGNED if data_type.unsigned or kind in _ALWAYS_UNSIGNED else ""),
        _DEFAULT: _default(column),
        "ColumnPrecision": str(data_type.length) if sized and data_type.length > 0 else "",
        "ColumnScale": str(data_type.decimal) if data_type.decimal > 0 or kind is Kind.DECIMAL else "",
        "ColumnNullable": "" if column.nullable else "false",
        "ColumnIsPk": "true" if column.name in schema.primary_key else "",
        "ColumnElems": [*data_type.elements],
    }
    return {member: value for member, value in told.items() if value or (value == "" and member == _DEFAULT)}


def _default(column: Column) -> str | None:
    if column.default is None:
        return None
    if column.data_type.kind is Kind.BINARY:
        return str(column.default).replace(_LOST, "\udcff")  # which stands for some byte that is no UTF-8
    if column.data_type.kind is not Kind.BIT or not isinstance(column.default, int):
        return str(column.default)
    return bit_default(column.default).decode("utf-8", "surrogateescape")


def schema_checksum(text: bytes | str) -> int:
    """Return the checksum that the name of a schema file has: CRC32 of some members as Go indents them."""
    return _checksum(json.loads(text))


def _checksum(members: Mapping[str, Any]) -> int:
    columns = sorted(members.get("TableColumns") or [], key=lambda column: column["ColumnName"].encode())
    summed = {name: members[name] for name in _SUMMED} | {"Version": 0, "TableColumns": columns}
    return crc32(to_json(summed, indent=4).encode())


def _table(database: str, table: str, version: int, columns: Iterable[Mapping[str, str]]) -> TableSchema:
    made = tuple(map(_column, columns))
    keys = (column["ColumnName"] for column in columns if column.get("ColumnIsPk") == "true")
    return TableSchema(database, table, 0, version, made, Index.of_key(keys))


def _column(members: Mapping[str, str]) -> Column:
    data_type = _data_type(members)
    name = members["ColumnName"]
    if data_type.kind is Kind.UNKNOWN:
        raise InvalidSchema(f"column {name} is of type {members['ColumnType']}, which TiDB does not have")
    default: str | int | None = members.get("ColumnDefault")
    known = default is None or _LOST not in str(default)
    if data_type.kind is Kind.BIT and isinstance(default, str):
        default = int.from_bytes(default.encode(), "big") if known else None
    number = members.get("ColumnId")
    return Column(
        name,
        data_type,
        members.get("ColumnNullable") != "false",
        default,
        int(number) if number else None,
        virtual=name.startswith(_HIDDEN),
        default_known=known,
    )


def _data_type(members: Mapping[str, str]) -> DataType:
    text = members["ColumnType"]
    name, unsigned = text.removesuffix(_UNSIGNED).lower(), text.endswith(_UNSIGNED)
    length, scale = (int(members.get(member) or 0) for member in ("ColumnPrecision", "ColumnScale"))
    data_type = DataType(name, length=length, decimal=scale, unsigned=unsigned)
    if data_type.kind is Kind.BINARY and not name.endswith(("binary", "blob")):
        return replace(data_type, charset=_UTF8[0], collate=_UTF8[1])
    if data_type.kind in (Kind.ENUM, Kind.SET):
        elements = tuple(members.get("ColumnElems") or ())
        data_type = replace(data_type, charset=_UTF8[0], collate=_UTF8[1], elements=elements)
    return replace(data_type, length=length or usual_length(data_type))


def text_if_unlisted(column: Column) -> Column:
    """Return a column, as text where it is an ENUM or a SET whose elements nothing tells: those of older TiCDC."""
    listed = column.data_type.kind not in (Kind.ENUM, Kind.SET) or column.data_type.elements
    return column if listed else replace(column, data_type=DataType("varchar", *_UTF8, length=_LONGEST_SET))


Tables = Mapping[bytes, TableSchema]
"""Table versions by what the paths of their data files begin with: the table's folder, the version, each with `/`."""


@dataclass(frozen=True)
class Told:
    """The content of schema files: table versions without virtual columns, and schema changes with their places.

    `broken` are the places of files that cannot be used, and why.
    """

    tables: Tables
    changes: Sequence[tuple[int, Ddl]]
    broken: Sequence[tuple[int, str]]


def schema_files(messages: pa.RecordBatch) -> Told:
    """Return what schema files say.

    In: `topic`, the table's folder; `value`, a file's text; `offset`, 0 for a file whose statement was taken before.
    """
    topics, offsets, values = (messages.column(name).to_pylist() for name in ("topic", "offset", "value"))
    files: list[_Placed] = []
    broken: list[tuple[int, str]] = []
    for place, (topic, offset, value) in enumerate(zip(topics, offsets, values, strict=True)):
        try:
            file = read_schema_file(value)
        except InvalidSchema as error:
            broken.append((place, f"a schema file that cannot be used: {error}"))
        else:
            files.append(_Placed(place, topic, offset, file, change_of(file, offset)))
    files.sort(key=lambda one: (one.file.version, bool(one.file.sql)))
    tables: dict[bytes, TableSchema] = {}
    changes: list[tuple[int, Ddl]] = []
    virtual: dict[Name, frozenset[str]] = {}
    for one in _in_turn(files):
        change, schema = one.change, one.file.schema
        if schema:
            hidden = _virtual(schema, change, virtual)
            virtual[schema.database, schema.table] = hidden
            stored = tuple(column for column in schema.columns if column.name not in hidden)
            schema = replace(schema, columns=stored)
            key = f"{one.topic}/{one.file.version}/".encode()
            # Where a table's number is its folder, it has all names there that one statement gives it.
            tables[key] = schema if one.had_name else tables.get(key, schema)
        if change and one.offset:
            schema = schema if schema and schema.columns else None
            changes.append((one.place, replace(change, schema=schema, position=one.offset)))
    return Told(tables, changes, broken)


@dataclass(frozen=True)
class _Placed:
    """A schema file with its place among messages, what these say of it, and its statement."""

    place: int
    topic: str
    offset: int
    file: SchemaFile
    change: Ddl | None

    @property
    def name(self) -> Name:
        return self.file.database, self.file.table

    @property
    def had_name(self) -> Name | None:
        return self.change.renamed_from if self.change else None


def _in_turn(files: Iterable[_Placed]) -> Iterator[_Placed]:
    """Yield files of rising versions in the order of their statements.

    A statement that renames several tables has a file for each, and nothing but names tells which comes first.
    """
    there = set[Name | None]()
    for _, group in groupby(files, key=lambda one: one.file.version):
        of_others, renames = list[_Placed](), list[_Placed]()
        for one in group:
            (renames if one.had_name else of_others).append(one)
        offsets = iter(sorted(one.offset for one in renames if one.offset))
        in_turn = (replace(one, offset=next(offsets)) if one.offset else one for one in _passing_on(renames, there))
        for one in (*of_others, *in_turn):
            there.discard(one.had_name)
            if one.change and one.change.type == "ERASE":
                there.discard(one.name)
            else:
                there.add(one.name)
            yield one


def _passing_on(renames: Sequence[_Placed], there: Container[Name | None]) -> list[_Placed]:
    """Return the renames of one statement so that each new name is free. `there` are the names that tables had.

    A name that no other rename gives up was free before, and in a circle of names one that no table had.
    """
    left, found = list(renames), list[_Placed]()
    while left:
        given_up = {one.had_name for one in left}
        name: Name | None = min(left, key=lambda one: (one.name in given_up, one.name in there)).name
        while one := next((one for one in left if one.name == name), None):
            left.remove(one)
            found.append(one)
            name = one.had_name
    return found


def change_of(file: SchemaFile, offset: int) -> Ddl | None:
    """Return the statement of a schema file, None where it only tells columns."""
    if not file.sql:
        return None
    return Ddl(
        ddl_type(file.sql, file.number), file.sql, file.version, position=offset, named=(file.database, file.table)
    )


def _virtual(
    schema: TableSchema, change: Ddl | None, known: Mapping[tuple[str, str], frozenset[str]]
) -> frozenset[str]:
    """Return the virtual columns of a version: what statements say of them is all that tells them."""
    statement = change.statement if change else None
    source = (schema.database, schema.table)
    if change and change.renamed_from:
        source = change.renamed_from
    elif statement and statement.like:
        source = (statement.like[0] or schema.database, statement.like[1])
    before = {name.lower() for name in known.get(source, ())}
    defined = {
        d.name.lower(): d.generated for d in (statement.definitions.values() if statement else ()) if d.generated
    }
    former = statement.former_names if statement else {}

    def hidden(column: Column) -> bool:
        name = column.name.lower()
        return column.virtual or (defined[name] == "VIRTUAL" if name in defined else former.get(name, name) in before)

    return frozenset(column.name for column in schema.columns if hidden(column))
