"""TableSchema as Simple JSON carries it, to the model and back. Source: Simple protocol, section TableSchema."""

from __future__ import annotations

import json
from typing import Any

from tidecast.model import Column, DataType, Index, TableSchema


def table_schema(text: str) -> TableSchema:
    """Return the model's table for a `tableSchema` member, given as JSON text.

    Raises KeyError, TypeError or ValueError where the text is not of that form.
    """
    said: dict[str, Any] = json.loads(text)
    return TableSchema(
        database=said["schema"],
        table=said["table"],
        table_id=said["tableID"],
        version=said["version"],
        columns=tuple(_column(c) for c in said["columns"]),
        indexes=tuple(
            Index(i["name"], i["unique"], i["primary"], i["nullable"], tuple(i["columns"])) for i in said["indexes"]
        ),
    )


def _column(said: dict[str, Any]) -> Column:
    return Column(said["name"], _data_type(said["dataType"]), said["nullable"], said["default"])


def _data_type(said: dict[str, Any]) -> DataType:
    return DataType(
        mysql_type=said["mysqlType"],
        charset=said["charset"],
        collate=said["collate"],
        length=said.get("length", 0),
        decimal=said.get("decimal", 0),
        elements=tuple(said.get("elements") or ()),
        unsigned=said.get("unsigned", False),
        zerofill=said.get("zerofill", False),
    )
