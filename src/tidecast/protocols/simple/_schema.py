"""TableSchema as Simple messages carry it, to the model and back. Source: Simple protocol, TableSchema.

JSON and Avro say the same with other names and other members left out. Each has a reader and a writer here, between
the model and the objects that go through `json` and `avro`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tidecast._go import text_of
from tidecast.model import Column, DataType, Index, Kind, TableSchema, bit_default, usual_length, with_digits

_SIGNED_OR_NOT = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.YEAR, Kind.BIT)
_WITHOUT_SCALE = (Kind.FLOAT, Kind.DOUBLE)
_WITH_FRACTION = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def table_schema(text: str) -> TableSchema:
    """Return the model's table for a `tableSchema` member, given as JSON text.

    Raises KeyError, TypeError or ValueError where the text is not of that form.
    """
    return from_json(json.loads(text))


def from_json(members: dict[str, Any]) -> TableSchema:
    """Return the model's table for a `tableSchema` of JSON; raises KeyError or TypeError where it is not one."""
    return _table(members, members["schema"])


def from_avro(members: dict[str, Any]) -> TableSchema:
    """Return the model's table for a `TableSchema` of Avro."""
    return _table(members, members["database"])


def to_json(schema: TableSchema) -> dict[str, Any]:
    """Return the `tableSchema` that JSON shows of a table, members in order."""
    columns = [_members(c, _json_type(c.data_type), c.default) for c in schema.columns]
    return {"schema": schema.database, **_rest(schema, columns)}


def to_avro(schema: TableSchema) -> dict[str, Any]:
    """Return the `TableSchema` that Avro shows of a table."""
    columns = [_members(c, _avro_type(c.data_type), _default_bytes(c.default)) for c in schema.columns]
    return {"database": schema.database, **_rest(schema, columns)}


def _rest(schema: TableSchema, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "table": schema.table,
        "tableID": schema.table_id,
        "version": schema.version,
        "columns": columns,
        "indexes": [
            {
                "name": i.name,
                "unique": i.unique,
                "primary": i.primary,
                "nullable": i.nullable,
                "columns": list(i.columns),
            }
            for i in schema.indexes
        ],
    }


def _members(column: Column, data_type: dict[str, Any], default: str | int | bytes | None) -> dict[str, Any]:
    return {"name": column.name, "dataType": data_type, "nullable": column.nullable, "default": default}


def _base(data_type: DataType) -> dict[str, Any]:
    return {"mysqlType": data_type.mysql_type, "charset": data_type.charset, "collate": data_type.collate}


def _json_type(data_type: DataType) -> dict[str, Any]:
    data_type = with_digits(data_type)
    optional = {
        "length": data_type.length or usual_length(data_type),
        "decimal": 0 if data_type.kind in _WITHOUT_SCALE else data_type.decimal,
        "elements": list(data_type.elements),
        "unsigned": data_type.unsigned,
        "zerofill": data_type.zerofill,
    }
    return _base(data_type) | {name: value for name, value in optional.items() if value}


def _avro_type(data_type: DataType) -> dict[str, Any]:
    data_type = with_digits(data_type)
    kind = data_type.kind
    numeric = kind in _SIGNED_OR_NOT
    return _base(data_type) | {
        "length": data_type.length or usual_length(data_type),
        "decimal": data_type.decimal if kind in (Kind.DECIMAL, Kind.TIMESTAMP) else None,
        "elements": list(data_type.elements) if kind in (Kind.ENUM, Kind.SET) else None,
        "unsigned": data_type.unsigned if numeric else None,
        "zerofill": data_type.zerofill if numeric else None,
    }


def _default_bytes(default: str | int | None) -> bytes | None:
    if isinstance(default, int):
        return bit_default(default)
    return None if default is None else default.encode()


def _table(members: dict[str, Any], database: str) -> TableSchema:
    return TableSchema(
        database=database,
        table=members["table"],
        table_id=members["tableID"],
        version=members["version"],
        columns=tuple(_column(c) for c in members["columns"]),
        indexes=tuple(
            Index(i["name"], i["unique"], i["primary"], i["nullable"], tuple(i["columns"])) for i in members["indexes"]
        ),
    )


def _column(members: dict[str, Any]) -> Column:
    data_type = _data_type(members["dataType"])
    default = members["default"]
    if isinstance(default, bytes):
        default = int.from_bytes(default, "big") if data_type.kind is Kind.BIT else text_of(default)
    if data_type.kind is Kind.BIT and isinstance(default, str):
        raise TypeError(f"the default of {members['name']} is no number")
    return Column(members["name"], data_type, members["nullable"], default)


def _data_type(members: dict[str, Any]) -> DataType:
    data_type = DataType(
        mysql_type=members["mysqlType"],
        charset=members["charset"],
        collate=members["collate"],
        length=members.get("length", 0),
        decimal=members.get("decimal") or 0,
        elements=tuple(members.get("elements") or ()),
        unsigned=members.get("unsigned") or False,
        zerofill=members.get("zerofill") or False,
    )
    if data_type.kind not in _WITH_FRACTION or not data_type.length:
        return data_type
    # Avro does not tell the fractional digits of most types, but their length counts them, after a point.
    before_point = usual_length(replace(data_type, decimal=0))
    return replace(data_type, decimal=max(0, data_type.length - before_point - 1))
