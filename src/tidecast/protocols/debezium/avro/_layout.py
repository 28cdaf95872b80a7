"""The layout of messages of a registered schema: rows by their fields, or others. Source: Debezium protocol, Avro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tidecast.protocols._avro_fields import PRIMITIVES, branches
from tidecast.protocols.debezium._decode_schema import Field, column_field
from tidecast.protocols.debezium.avro._connect import connect_field, name_of, tells_default
from tidecast.protocols.debezium.avro._values import takes
from tidecast.registry import bounded_json

Json = dict[str, Any]

SIDES = ("before", "after")
_ORIGIN = {"db": "string", "table": "string", "connector": "string", "commit_ts": "long"}
_WRONG = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class Leaf:
    """A field whose values have no parts: its name and type."""

    name: str
    type: Any


@dataclass(frozen=True)
class Record:
    """A field that is a record: its name, where null is in its union if it is there, and its own fields."""

    name: str
    null: int | None
    fields: tuple[Leaf | Record, ...]

    def find(self, name: str) -> Leaf | Record | None:
        """Return a field by its name."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of messages of a registered schema. There is one of each text, see `layout_of`.

    `envelope` has the fields of rows, `columns` is what those of before and after mean, and `connect` how Kafka Connect
    has them; there are none for messages that are not rows. `says_nothing` tells that these are about no table, as
    heartbeats. `schema` is the schema itself.
    """

    schema: Json
    envelope: Record | None = None
    columns: tuple[Field, ...] = ()
    connect: tuple[Json, ...] = ()
    says_nothing: bool = False

    @property
    def tells_commit_ts(self) -> bool:
        """Tell whether rows may carry a commit-ts."""
        origin = self.envelope.find("source") if self.envelope else None
        return isinstance(origin, Record) and origin.find("commit_ts") is not None


@lru_cache(1024)
def layout_of(text: str) -> Layout | str:
    """Return the layout of messages by their registered schema, or why they are not Debezium's, for people."""
    try:
        schema = bounded_json(text)
        fields = {field["name"]: field for field in schema["fields"]} if schema["type"] == "record" else {}
    except _WRONG:
        return "it is no record"
    if "op" in fields and fields.keys() & {*SIDES}:
        return _rows(schema)
    if "source" in fields and ("ddl" in fields or "op" in fields):
        return Layout(schema)
    if fields.keys() == {"ts_ms"} or fields.keys() >= {"status", "id"}:
        return Layout(schema, says_nothing=True)
    missing = " and ".join(name for name in ("op", "source") if name not in fields)
    return f"it has no field {missing}, so it is no envelope of Debezium's; TiCDC's own rows are protocol=avro"


@lru_cache(1024)
def key_names(text: str) -> tuple[str, ...] | str:
    """Return the names that a key's registered schema has, or why it is no key, for people."""
    try:
        schema = bounded_json(text)
        return tuple(name_of(f) for f in schema["fields"]) if schema["type"] == "record" else "it is no record"
    except _WRONG:
        return "it is no record"


def _rows(schema: Json) -> Layout | str:
    named: dict[str, Json] = {}
    try:
        envelope = _record("", None, schema, None, named)
        origin = envelope.find("source")
        if not isinstance(origin, Record):
            return "its field source is no record"
        _check(origin)
        if envelope.find("op") != Leaf("op", "string"):
            return "its field op is no string"
        (row, *others) = _images(schema, envelope, named)
    except _Unreadable as unreadable:
        return str(unreadable)
    except (*_WRONG, RecursionError):
        return "it is no schema of Avro's"
    if any(other["fields"] != row["fields"] for other in others):
        return "its fields before and after are of different records"
    columns = []
    for field in row["fields"]:
        column = _column(field)
        if isinstance(column, str):
            return column
        columns.append(column)
    return Layout(schema, envelope, tuple(columns), tuple(map(connect_field, row["fields"])))


class _Unreadable(Exception):
    """A field of a type that is not read, for people."""


def _images(schema: Json, envelope: Record, named: Mapping[str, Json]) -> Iterator[Json]:
    """Yield the records of before and after."""
    namespace = _namespace(schema, None)
    for field in schema["fields"]:
        if field["name"] in SIDES:
            if not isinstance(envelope.find(field["name"]), Record):
                raise _Unreadable(f"its field {field['name']} is no record")
            block, _ = branches(field["type"])
            yield block if isinstance(block, dict) else named[_full(block, namespace)]


def _namespace(record: Json, outer: object) -> str:
    """Return the namespace of the names in a record."""
    return _full(str(record["name"]), record.get("namespace", outer)).rpartition(".")[0]


def _full(name: str, namespace: object) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _record(name: str, null: int | None, record: Json, namespace: object, named: dict[str, Json] | None) -> Record:
    """Return a record's fields. `named` are the records that these may name, and notes them; None where they may not.

    Only the envelope's own fields name records: that is all that Debezium needs, and it bounds what is read.
    """
    own = _namespace(record, namespace)
    fields = tuple(_field(field, own, named) for field in record["fields"])
    names = [field.name for field in fields]
    if len(names) > len({*names}):
        raise _Unreadable(f"it has two fields of one name in {record['name']}")
    return Record(name, null, fields)


def _field(field: Json, namespace: str, named: dict[str, Json] | None) -> Leaf | Record:
    name = field["name"]
    try:
        block, null = branches(field["type"])
    except ValueError:
        raise _Unreadable(f"its field {name} is a union of several types") from None
    record = block if isinstance(block, dict) and block["type"] == "record" else None
    if record is not None and named is not None:
        named[_full(str(record["name"]), record.get("namespace", namespace))] = record
    if isinstance(block, str) and named is not None:
        record = named.get(_full(block, namespace))
    if record is not None:
        return _record(name, null, record, namespace, None)
    kind = block if isinstance(block, str) else block["type"]
    if kind in PRIMITIVES:
        return Leaf(name, field["type"])
    raise _Unreadable(f"its field {name} is of type {kind}, which no row of Debezium's for MySQL has")


def _check(origin: Record) -> None:
    for name, wanted in _ORIGIN.items():
        field = origin.find(name)
        if field is None and name != "db":
            continue
        block = branches(field.type)[0] if isinstance(field, Leaf) else None
        if (block if isinstance(block, str) else (block or {}).get("type")) != wanted:
            raise _Unreadable(f"its field source.{name} is no {wanted}")


def _column(field: Json) -> Field | str:
    """Return a column, or what is wrong with it."""
    name = field["name"]
    try:
        connect = connect_field(field)
        column = column_field(connect)
    except _WRONG:
        block, _ = branches(field["type"])
        told = block if isinstance(block, str) else block.get("connect.name") or block.get("type")
        return f"its column {name} is of type {told}, which no column of TiDB has"
    if not takes(column):
        return f"its column {name} is a {column.column.data_type.mysql_type} and of Avro's type {connect['type']}"
    return replace(column, column=replace(column.column, default_known=tells_default(field)))
