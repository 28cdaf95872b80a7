"""Schema history: what a stream of schema changes says of each table version beyond its columns.

A message that carries a schema tells neither column ids nor which columns are virtual. Both follow from the
history: ids count up from 1 as columns are made, are never used twice, survive a rename, and a column whose
data must be rewritten is a new column to TiDB. Source: TiDB's rules of MODIFY COLUMN; Avro protocol, column order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from tidecast.model._events import Ddl
from tidecast.model._schema import Column, DataType, TableSchema
from tidecast.model._types import INTEGERS, Kind

SchemaKey = tuple[str, str, int]
"""Database, table and version: what a row message says of its schema."""

_NAME = r"`((?:[^`]|``)+)`"
_LIKE = re.compile(rf"^CREATE TABLE (?:IF NOT EXISTS )?(?:{_NAME}\.)?{_NAME} LIKE (?:{_NAME}\.)?{_NAME}", re.I)
_RENAMED = re.compile(rf"\b(?:CHANGE COLUMN (?:IF EXISTS )?{_NAME}|RENAME COLUMN {_NAME} TO) {_NAME}", re.I)
_GENERATED = re.compile(r"\bGENERATED ALWAYS AS ?\(", re.I)
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|/\*(?!T).*?\*/", re.S)
_HIDDEN = "_V$_"


_STATE = TypeAdapter(list[tuple[TableSchema, int]])


class SchemaHistory:
    """Every table version that a stream has shown, by database, table and version, with ids and virtual columns."""

    def __init__(self, state: bytes = b"[]") -> None:
        self._versions: dict[SchemaKey, TableSchema] = {}
        self._by_name: dict[tuple[str, str], TableSchema] = {}
        self._by_id: dict[int, TableSchema] = {}
        self._last_id: dict[int, int] = {}
        for schema, last_id in _STATE.validate_json(state):
            self._take(schema, last_id)

    def __getitem__(self, key: SchemaKey) -> TableSchema:
        return self._versions[key]

    def __contains__(self, key: SchemaKey) -> bool:
        return key in self._versions

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._versions.values())

    def newest(self) -> list[TableSchema]:
        """Return the newest version of every table, by its latest name."""
        return list(self._by_name.values())

    def state(self) -> bytes:
        """Return the history as JSON, from which another one can be made."""
        return _STATE.dump_json([(schema, self._last_id[schema.table_id]) for schema in self._versions.values()])

    def _take(self, schema: TableSchema, last_id: int) -> None:
        self._versions.setdefault((schema.database, schema.table, schema.version), schema)
        self._by_name[schema.database, schema.table] = self._by_id[schema.table_id] = schema
        self._last_id[schema.table_id] = last_id

    def add(self, schema: TableSchema, ddl: Ddl | None = None) -> TableSchema:
        """Take the next schema of the stream, by a schema change or (without one) by a bootstrap; return it whole."""
        key = (schema.database, schema.table, schema.version)
        if ddl is None and key in self._versions:
            return self._versions[key]
        sql = _LITERAL.sub("''", ddl.sql) if ddl else ""
        before = self._before(schema, ddl, sql)
        schema = _with_virtual(_with_ids(schema, before, sql, self._last(before)), before, sql)
        self._take(schema, max(self._last(before), *(c.id or 0 for c in schema.columns), 0))
        return schema

    def _last(self, before: TableSchema | None) -> int:
        return self._last_id[before.table_id] if before else 0

    def _before(self, schema: TableSchema, ddl: Ddl | None, sql: str) -> TableSchema | None:
        name = (schema.database, schema.table)
        if ddl and (like := _LIKE.match(sql)):
            return self._by_name.get((_unquote(like[3]) or _unquote(like[1]) or name[0], _unquote(like[4])))
        if ddl and ddl.type == "CREATE":
            return None
        return self._by_id.get(schema.table_id) or self._by_name.get(name)


def _unquote(name: str | None) -> str:
    return (name or "").replace("``", "`")


def _renames(sql: str) -> Mapping[str, str]:
    return {_unquote(m[3]): _unquote(m[1] or m[2]) for m in _RENAMED.finditer(sql)}


def _with_ids(schema: TableSchema, before: TableSchema | None, sql: str, last_id: int) -> TableSchema:
    old = {c.name: c for c in before.columns} if before else {}
    renames = _renames(sql)
    ids: dict[str, int] = {}
    fresh: list[str] = []
    for column in schema.columns:
        origin = old.get(renames.get(column.name, column.name))
        if origin and origin.id and not rewrites(origin.data_type, column.data_type):
            ids[column.name] = origin.id
        else:
            fresh.append(column.name)
    # Several columns of one statement get their ids in the statement's order, which FIRST and AFTER may undo.
    if before:
        fresh.sort(key=lambda name: sql.find("`" + name.replace("`", "``") + "`"))
    for number, name in enumerate(fresh, last_id + 1):
        ids[name] = number
    return replace(schema, columns=tuple(replace(c, id=ids[c.name]) for c in schema.columns))


def rewrites(old: DataType, new: DataType) -> bool:
    """Tell whether TiDB must rewrite a column's data to change its type, so that the column gets a new id."""
    if old.kind is Kind.INTEGER and new.kind is Kind.INTEGER:
        narrower = INTEGERS.index(new.mysql_type) < INTEGERS.index(old.mysql_type)
        return narrower or old.unsigned != new.unsigned
    if {old.mysql_type, new.mysql_type} == {"char", "varchar"}:
        return True
    strings = (Kind.TEXT, Kind.BINARY)
    if old.mysql_type != new.mysql_type and not (old.kind in strings and new.kind in strings):
        return True
    if old.kind in (Kind.ENUM, Kind.SET):
        return new.elements[: len(old.elements)] != old.elements
    if old.kind is Kind.DECIMAL:
        return (old.length, old.decimal, old.unsigned) != (new.length, new.decimal, new.unsigned)
    if old.mysql_type == new.mysql_type == "binary":
        return old.length != new.length
    return 0 < new.length < old.length or 0 < new.decimal < old.decimal or old.unsigned != new.unsigned


def _with_virtual(schema: TableSchema, before: TableSchema | None, sql: str) -> TableSchema:
    was = {c.name: c.virtual for c in before.columns} if before else {}
    renames = _renames(sql)
    said = dict(_generated(sql))

    def virtual(column: Column) -> bool:
        inherited = was.get(renames.get(column.name, column.name), False)
        return column.name.startswith(_HIDDEN) or said.get(column.name, inherited)

    return replace(schema, columns=tuple(replace(c, virtual=virtual(c)) for c in schema.columns))


def _generated(sql: str) -> Iterable[tuple[str, bool]]:
    """Yield each generated column that a statement defines, and whether it is a virtual one."""
    for match in _GENERATED.finditer(sql):
        names = re.findall(_NAME, sql[_item_start(sql, match.start()) : match.start()])
        rest = sql[_closing(sql, match.end()) + 1 :].lstrip()
        if names:
            yield _unquote(names[-1]), not rest.upper().startswith("STORED")


def _item_start(sql: str, position: int) -> int:
    """Return where the column definition that reaches `position` begins: after the last comma or bracket around it."""
    depth = 0
    for i in range(position - 1, -1, -1):
        if sql[i] == ")":
            depth += 1
        elif sql[i] == "(":
            if depth == 0:
                return i + 1
            depth -= 1
        elif sql[i] == "," and depth == 0:
            return i + 1
    return 0


def _closing(sql: str, position: int) -> int:
    """Return where the bracket that opened just before `position` closes."""
    depth = 1
    for i in range(position, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[i], 0)
        if depth == 0:
            return i
    return len(sql)
