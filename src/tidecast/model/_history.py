"""Schema history: what a stream of schema changes says of each table version beyond its columns.

A message that carries a schema tells neither column ids nor which columns are virtual. Both follow from the
history: ids count up from 1 as columns are made, are never used twice, survive a rename, and a column whose
data must be rewritten is a new column to TiDB.
Source: Other documents, TiDB's MODIFY COLUMN; Avro protocol, column order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from tidecast.model._ddl import Ddl
from tidecast.model._ddl_parser import Statement
from tidecast.model._schema import Column, SchemaKey, TableSchema
from tidecast.model._types import INTEGERS, DataType, Kind

_HIDDEN = "_V$_"
_PADDED = {"char": True, "binary": True, "varchar": False, "varbinary": False}

_MAX_DIGITS, _MAX_SCALE, _MAX_BITS, _MAX_BINARY = 65, 30, 64, 255

_KEEPING = ("TRUNCATE", "RENAME")
"""Schema changes that keep a table's version."""

_STATE = TypeAdapter(list[tuple[TableSchema, int]])
_TABLE = TypeAdapter(TableSchema)


class InvalidSchema(ValueError):
    """A message or a registry shows a schema that no table can have."""


def checked(schema: TableSchema) -> TableSchema:
    """Return a schema that a message or a registry showed, if a history can keep it and a table can be like that.

    Raises InvalidSchema where a member is of another type, a text is none, two columns have one name, as MySQL sees it,
    or a type is beyond MySQL's limits. So it does where the primary key has a column that the table lacks: rows that
    only this column tells apart would be one.
    """
    try:
        _TABLE.validate_json(_TABLE.dump_json(schema, warnings=False), strict=True)
    except ValueError:
        raise InvalidSchema("a schema has a member that is not of its type") from None
    names: dict[str, str] = {}
    for column in schema.columns:
        if other := names.get(column.name.lower()):
            raise InvalidSchema(f"{schema.name} has two columns of one name: {other} and {column.name}")
        names[column.name.lower()] = column.name
        if not _is_possible(kind := column.data_type):
            size = f"{column.name} {kind.mysql_type}({kind.length},{kind.decimal})"
            raise InvalidSchema(f"{schema.name} has a column that no table can have: {size}")
    there = {column.name for column in schema.columns}
    if lacking := [name for index in schema.indexes if index.primary for name in index.columns if name not in there]:
        raise InvalidSchema(f"the primary key has column {lacking[0]}, which is not in the row")
    return schema


def _is_possible(data_type: DataType) -> bool:
    """Tell whether a type is within MySQL's limits, where its numbers say how values are held or padded."""
    length, scale = data_type.length, data_type.decimal
    match data_type.kind:
        case Kind.DECIMAL:
            return length <= _MAX_DIGITS and 0 <= scale <= min(_MAX_SCALE, length or _MAX_SCALE)
        case Kind.BIT:
            return length <= _MAX_BITS
        case Kind.BINARY if data_type.mysql_type == "binary":
            return length <= _MAX_BINARY
    return True


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
        """Put a schema last: what `state` gives is taken in the same order again, and must say the same."""
        was = self._versions.pop(schema.key, None)
        self._versions[schema.key] = schema
        self._by_name[schema.database, schema.table] = self._by_id[schema.table_id] = schema
        self._last_id[schema.table_id] = last_id
        if was and was.table_id != schema.table_id:
            self._forget(was.table_id)

    def _forget(self, table_id: int) -> None:
        """Forget the last schema of a table that was truncated: nothing may be known that `state` does not give."""
        left = [schema for schema in self._versions.values() if schema.table_id == table_id]
        if left:
            self._by_id[table_id] = left[-1]
        else:
            del self._by_id[table_id], self._last_id[table_id]

    def add(self, schema: TableSchema, ddl: Ddl | None = None) -> TableSchema:
        """Take the next schema of the stream, by a schema change or (without one) by a bootstrap; return it whole.

        A version that has come before says nothing new, whether by a bootstrap, by a schema change that is sent again,
        or by one that keeps the version; but after TRUNCATE the table has another id.
        """
        known = self._versions.get(schema.key)
        moved = ddl and ddl.type in _KEEPING and known and known.table_id != schema.table_id
        if known and (ddl is None or (schema.version and not moved)):
            return known
        statement = ddl.statement if ddl else None
        before = known if moved else self._before(schema, ddl, statement)
        schema = _with_virtual(_with_ids(schema, before, statement, self._last(before)), before, statement)
        self._take(schema, max(self._last(before), *(c.id or 0 for c in schema.columns), 0))
        return schema

    def take_keys(self, rows: Iterable[TableSchema], told: Iterable[Ddl]) -> None:
        """Give versions that do not show their keys those of rows, whose schemas these are.

        The rows are of the version itself, or of the nearest one to it where it was `told` with them, by a schema
        change that leaves keys as they are.
        """
        by_name: dict[tuple[str, str], list[TableSchema]] = {}
        for schema in sorted(rows, key=lambda s: s.version):
            by_name.setdefault((schema.database, schema.table), []).append(schema)
        alike = {d.schema.key for d in told if d.schema and d.statement and not d.statement.may_change_keys}
        for key, known in self._versions.items():
            if known.keys_known or not (found := by_name.get(key[:2])):
                continue
            before = [schema for schema in found if schema.version <= known.version]
            nearest = (before or found[:1])[-1]
            if nearest.version == known.version or key in alike:
                self._versions[key] = known.keyed_like(nearest)
                if self._by_name[key[:2]] is known:
                    self._by_name[key[:2]] = self._versions[key]

    def _last(self, before: TableSchema | None) -> int:
        return self._last_id[before.table_id] if before else 0

    def _before(self, schema: TableSchema, ddl: Ddl | None, statement: Statement | None) -> TableSchema | None:
        name = (schema.database, schema.table)
        if statement and statement.like:
            database, table = statement.like
            return self._by_name.get((database or statement.name[0] or name[0], table))
        if ddl and ddl.type == "CREATE":
            return None
        was = (ddl and ddl.renamed_from) or name
        return self._by_id.get(schema.table_id) or self._by_name.get(was) or self._by_name.get(name)


def _former(columns: Iterable[Column], statement: Statement | None) -> Mapping[str, Column]:
    """Return what each column was before a statement, by its lower-case name now.

    Names are compared in lower case, as a statement may spell them otherwise.
    """
    old = {c.name.lower(): c for c in columns}
    if statement is None:
        return old
    renamed = statement.former_names
    same = {name: column for name, column in old.items() if name not in renamed.values()}
    return same | {new: old[was] for new, was in renamed.items() if was in old}


def _with_ids(
    schema: TableSchema, before: TableSchema | None, statement: Statement | None, last_id: int
) -> TableSchema:
    former = _former(before.columns, statement) if before else {}
    ids: dict[str, int] = {}
    fresh: list[str] = []
    for column in schema.columns:
        origin = former.get(column.name.lower())
        if origin and origin.id and not rewrites(origin.data_type, column.data_type):
            ids[column.name] = origin.id
        else:
            fresh.append(column.name)
    # Several columns of one statement get their ids in the statement's order, which FIRST and AFTER may undo.
    if before and statement and len(fresh) > 1:
        defined = [name.lower() for name in statement.definitions]
        fresh.sort(key=lambda name: defined.index(name.lower()) if name.lower() in defined else len(defined))
    for number, name in enumerate(fresh, last_id + 1):
        ids[name] = number
    return replace(schema, columns=tuple(replace(c, id=ids[c.name]) for c in schema.columns))


def rewrites(old: DataType, new: DataType) -> bool:
    """Tell whether TiDB must rewrite a column's data to change its type, so that the column gets a new id."""
    if old.kind is Kind.INTEGER and new.kind is Kind.INTEGER:
        narrower = INTEGERS.index(new.mysql_type) < INTEGERS.index(old.mysql_type)
        return narrower or old.unsigned != new.unsigned
    if {_PADDED.get(old.mysql_type), _PADDED.get(new.mysql_type)} == {True, False}:
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


def _with_virtual(schema: TableSchema, before: TableSchema | None, statement: Statement | None) -> TableSchema:
    former = _former(before.columns, statement) if before else {}
    definitions = statement.definitions.values() if statement else ()
    generated = {d.name.lower(): d.generated == "VIRTUAL" for d in definitions if d.generated}

    def virtual(column: Column) -> bool:
        name = column.name.lower()
        inherited = name in former and former[name].virtual
        return column.name.startswith(_HIDDEN) or generated.get(name, inherited)

    return replace(schema, columns=tuple(replace(c, virtual=virtual(c)) for c in schema.columns))
