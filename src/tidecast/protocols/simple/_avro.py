"""Simple messages as Avro: one fixed schema, no framing. Source: Simple protocol, Avro schema.

A message is a branch of a union of records, so it begins with a constant. Whole messages are rare and written on the
driver; rows are joined from pieces, since their order and branches are known for a table: 4.7 times as fast as
fastavro. It can go when Spark's `to_avro` writes a union of records, and a map whose values are one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import avro.errors
import avro.io
import avro.schema

from tidecast.protocols._avro_fields import long_bytes
from tidecast.protocols.simple._message import DDL_TYPES, ROW_OPS


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def _enum(name: str, symbols: Sequence[str]) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_DATA_TYPE = _record(
    "DataType",
    mysqlType="string",
    charset="string",
    collate="string",
    length="long",
    decimal=["null", "int"],
    elements=["null", _list("string")],
    unsigned=["null", "boolean"],
    zerofill=["null", "boolean"],
)
_TABLE_SCHEMA = _record(
    "TableSchema",
    database="string",
    table="string",
    tableID="long",
    version="long",
    columns=_list(
        # Declared as a string, which has the same form; but what a BIT has for a default need not be UTF-8.
        _record("ColumnSchema", name="string", dataType=_DATA_TYPE, nullable="boolean", default=["null", "bytes"])
    ),
    indexes=_list(
        _record(
            "IndexSchema",
            name="string",
            unique="boolean",
            primary="boolean",
            nullable="boolean",
            columns=_list("string"),
        )
    ),
)
_CHECKSUM = _record("Checksum", version="int", corrupted="boolean", current="long", previous="long")
_PLAIN = ("null", "long", "float", "double", "string", "bytes")
_TIMESTAMP = _record("Timestamp", location="string", value="string")
_UNSIGNED = _record("UnsignedBigint", value="long")

WATERMARK = _record("Watermark", version="int", commitTs="long", buildTs="long")
BOOTSTRAP = _record("Bootstrap", version="int", buildTs="long", tableSchema=_TABLE_SCHEMA)
DDL = _record(
    "DDL",
    version="int",
    type=_enum("DDLType", DDL_TYPES),
    sql="string",
    commitTs="long",
    buildTs="long",
    tableSchema=["null", _TABLE_SCHEMA],
    preTableSchema=["null", "TableSchema"],
)
DML = _record(
    "DML",
    version="int",
    database="string",
    table="string",
    tableID="long",
    type=_enum("DMLType", tuple(ROW_OPS)),
    commitTs="long",
    buildTs="long",
    schemaVersion="long",
    claimCheckLocation=["null", "string"],
    handleKeyOnly=["null", "boolean"],
    checksum=["null", _CHECKSUM],
    data=["null", {"type": "map", "values": [*_PLAIN, _TIMESTAMP, _UNSIGNED]}],
    old=["null", {"type": "map", "values": [*_PLAIN, "Timestamp", "UnsignedBigint"]}],
)
MESSAGES: tuple[dict[str, Any], ...] = (WATERMARK, BOOTSTRAP, DDL, DML)
_PARSED = {record["name"]: avro.schema.parse(json.dumps(record)) for record in MESSAGES}

MARK = b"\x16"
"""What every message begins with: the branch of the union of all records that is a message."""


def beginning(record: dict[str, Any]) -> bytes:
    """Return the bytes before a record: those of a message, its type, and its branch, which is the type's number."""
    return MARK + long_bytes(MESSAGES.index(record)) * 2


def message(record: dict[str, Any], members: dict[str, Any]) -> bytes:
    """Return the message of a schema change or a bootstrap."""
    out = io.BytesIO()
    avro.io.DatumWriter(_PARSED[record["name"]]).write(members, avro.io.BinaryEncoder(out))
    return beginning(record) + out.getvalue()


def read_message(data: bytes) -> dict[str, Any]:
    """Return what a message says, and its `type`; raises ValueError where it is none. For few messages, not rows."""
    for record in MESSAGES:
        if data.startswith(beginning(record)):
            decoder = avro.io.BinaryDecoder(io.BytesIO(data[len(beginning(record)) :]))
            try:
                members = avro.io.DatumReader(_PARSED[record["name"]]).read(decoder)
            except (avro.errors.AvroException, AssertionError, IndexError, TypeError, UnicodeDecodeError) as error:
                raise ValueError(f"not a {record['name']} record") from error
            return {"type": record["name"].upper(), **members}  # type: ignore[dict-item]
    raise ValueError("no message of Simple")
