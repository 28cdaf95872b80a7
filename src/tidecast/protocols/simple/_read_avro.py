"""Simple messages in Avro as Spark reads them. Source: Simple protocol, Avro schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from tidecast.expressions import MAX_LENGTH, bit_bytes, enum_element, set_elements
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, TableSchema, spark_type
from tidecast.protocols.simple._avro import BOOTSTRAP, DML, MARK, MESSAGES, beginning
from tidecast.protocols.simple._zones import to_utc

_UINT64 = 1 << 64
_END = b"T"
_BODIES = ("tableSchema", "preTableSchema", "data", "old")
"""What the records end with; to read the rest of them, Spark need not see it."""


def _without_bodies(record: dict[str, Any]) -> list[Any]:
    return [f for f in record["fields"] if f["name"] not in _BODIES]


_TYPE = {"type": "enum", "name": "MessageType", "symbols": [record["name"].upper() for record in MESSAGES]}
_HEADER = json.dumps(
    {
        "type": "record",
        "name": "Message",
        "fields": [
            {"name": "type", "type": _TYPE},
            {"name": "payload", "type": [record | {"fields": _without_bodies(record)} for record in MESSAGES]},
        ],
    }
)
_PERMISSIVE = {"mode": "PERMISSIVE"}
_SIDES = {f["name"]: f["type"] for f in DML["fields"] if f["name"] in ("data", "old")}
_BEGINNING = {"name": "beginning", "type": {"type": "fixed", "name": "Beginning", "size": len(beginning(DML))}}
_MARKED = {"name": "end", "type": "bytes"}
_ROW = json.dumps(DML | {"fields": [_BEGINNING, *DML["fields"], _MARKED]})
"""A row's message as it is written, and a mark behind it."""


def is_avro(value: Column) -> Column:
    """Tell messages in Avro from others: they begin with a byte that JSON text cannot have."""
    return F.coalesce(F.substring(value, 1, len(MARK)) == F.lit(MARK), F.lit(False))


def head(value: Column) -> Column:
    """Return what `fields` reads of a message."""
    return from_avro(F.substring(value, len(MARK) + 1, MAX_LENGTH), _HEADER, _PERMISSIVE)


def fields(header: Column, value: Column) -> dict[str, Column]:
    """Return a message's members by name (see `tidecast.protocols.simple._decode`); `readable` first of all."""
    payload = [header["payload"][f"member{n}"] for n in range(len(MESSAGES))]

    def member(name: str) -> Column:
        has = [
            p for p, record in zip(payload, MESSAGES, strict=True) if any(f["name"] == name for f in record["fields"])
        ]
        return F.coalesce(*(p[name] for p in has))

    return {
        "readable": header["type"].isNotNull() & member("version").isNotNull(),
        **{f["name"]: member(f["name"]) for f in _without_bodies(DML)},
        "type": F.coalesce(member("type"), header["type"]),
    }


def without_build_ts(value: Column, build_ts: Column) -> Column:
    """Return a bootstrap with 0 for its `buildTs`: those that repeat each other differ in nothing else."""
    before = len(beginning(BOOTSTRAP)) + 1
    after = F.octet_length(to_avro(build_ts, json.dumps("long"))) + before + 1
    return F.concat(F.substring(value, 1, before), F.lit(b"\x00"), F.substring(value, after, F.lit(MAX_LENGTH)))


def body(schema: TableSchema, value: Column) -> Column:
    """Return a row's message, and a mark behind it.

    It must come out again: Spark takes trailing bytes in silence, and turns a message that it cannot read into a
    struct of nulls.
    """
    return F.concat(value, F.lit(b"\x02" + _END))


def row(schema: TableSchema, sides: Sequence[str], body: Column) -> Column:
    """Return the struct of a row's sides, `old` and `data`, from its body: by column name, values for `read_value`."""
    # Whichever side comes first has to define the types that the other one names.
    shown = zip((side for side in _SIDES if side in sides), _SIDES.values(), strict=False)
    record = DML | {"fields": [*({"name": side, "type": kind} for side, kind in shown), _MARKED]}
    return from_avro(body, _ROW, _PERMISSIVE | {"avroSchema": json.dumps(record)})


def names(message: Column, value: Column) -> Column:
    """Return the names that `old` shows, of a message that `row` has read."""
    return F.map_keys(message["old"])


def whole(message: Column) -> Column:
    """Tell whether a message that `row` has read was whole, and nothing but it."""
    return F.coalesce(message["end"] == F.lit(_END), F.lit(False))


def rest(schema: TableSchema, sides: Sequence[str], message: Column, value: Column) -> None:
    """Return nothing: `row` has read every value."""


def uneven(message: Column) -> Column:
    """Tell whether a message that `row` has read may show values which it could not read."""
    return F.lit(False)


def read_value(column: TableColumn, side: str, message: Column, more: Column, zone: str) -> Column:
    """Return a value of a row's side from what `row` has read of a message; null where it is not of its type.

    Each value is a struct of a member for each branch of the union but null. Out: see `tidecast.model.spark_type`.
    `zone` is that of TIMESTAMP values which name none. Source: Simple protocol, row values.
    """
    return _READERS.get(column.data_type.kind, _text)(column.data_type, message[side][column.name], zone)


def fallible(data_type: DataType) -> bool:
    """Tell whether a branch may fail to be a value of a type."""
    return True


def _branch(value: Column, index: int) -> Column:
    """Return a branch of the union; Spark does not count null."""
    return value[f"member{index - 1}"]


def _text(data_type: DataType, value: Column, zone: str) -> Column:
    return F.try_validate_utf8(_branch(value, 4))


def _integer(data_type: DataType, value: Column, zone: str) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return _branch(value, 1).try_cast(spark_type(data_type))
    signed = _branch(value, 7)["value"]
    number = signed.cast("decimal(20,0)")
    return F.when(signed < 0, (number + F.lit(Decimal(_UINT64))).cast("decimal(20,0)")).otherwise(number)


def _float(data_type: DataType, value: Column, zone: str) -> Column:
    return _branch(value, 2)


def _double(data_type: DataType, value: Column, zone: str) -> Column:
    return _branch(value, 3)


def _decimal(data_type: DataType, value: Column, zone: str) -> Column:
    return _branch(value, 4).try_cast(spark_type(data_type))


def _bytes(data_type: DataType, value: Column, zone: str) -> Column:
    return _branch(value, 5)


def _bit(data_type: DataType, value: Column, zone: str) -> Column:
    return bit_bytes(data_type, _branch(value, 4))


def _enum(data_type: DataType, value: Column, zone: str) -> Column:
    return enum_element(data_type, _branch(value, 1))


def _set(data_type: DataType, value: Column, zone: str) -> Column:
    return set_elements(data_type, _branch(value, 1))


def _timestamp(data_type: DataType, value: Column, zone: str) -> Column:
    named = _branch(value, 6)
    return to_utc(F.coalesce(named["value"], _branch(value, 4)), named["location"], zone)


_READERS: dict[Kind, Callable[[DataType, Column, str], Column]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _bytes,
    Kind.BIT: _bit,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.TIMESTAMP: _timestamp,
}
