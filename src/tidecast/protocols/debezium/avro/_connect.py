"""Avro's schemas as those of Kafka Connect. Source: Debezium protocol, Avro; Avro protocol, schema JSON.

Confluent's converter and TiCDC write what Connect knows and Avro does not as `connect.…` beside a type.
"""

from __future__ import annotations

import base64
from typing import Any

from tidecast.protocols._avro_fields import branches
from tidecast.protocols.debezium._decode_schema import DECIMAL

Json = dict[str, Any]

_CONNECT = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
"""Connect's types by Avro's."""

FIELD, DEFAULT = "connect.field", "connect.default"


def name_of(field: Json) -> str:
    """Return the original name of a field if `connect.field` has it, else its name in Avro."""
    name = field.get(FIELD, field["name"])
    if not isinstance(name, str):
        raise TypeError(f"{field['name']}: {FIELD} is no text")
    return name


def connect_field(field: Json) -> Json:
    """Return a record's field as Connect's JSON form has a column's.

    Raises KeyError, TypeError or ValueError for a field of a type that no column has.
    """
    block, null = branches(field["type"])
    told: Json = {"type": block} if isinstance(block, str) else block
    name, parameters = told.get("connect.name"), told.get("connect.parameters") or {}
    if told.get("logicalType") == "decimal" and told["type"] == "bytes":
        name, parameters = DECIMAL, _decimal(told, parameters)
    found: Json = {
        "type": told.get("connect.type") or _CONNECT[told["type"]],
        "optional": null is not None,
        "name": name,
        "version": told.get("connect.version"),
        "parameters": parameters,
        "field": name_of(field),
        "tidb_type": field.get("tidb_type"),
        "default": _default(field, told),
    }
    return {member: value for member, value in found.items() if value is not None}


def tells_default(field: Json) -> bool:
    """Tell whether a field would show a default that its column has.

    TiCDC leaves all of them out, and is known by the original name of each field. A decimal's is not read.
    """
    block, _ = branches(field["type"])
    return FIELD not in field and not (isinstance(block, dict) and block.get("logicalType") == "decimal")


def _decimal(told: Json, parameters: Json) -> Json:
    """Return a decimal's parameters, with its digits from where Avro has them if they have none."""
    digits = {"precision", "connect.decimal.precision"}
    missing = {} if digits & parameters.keys() else {"precision": str(told["precision"])}
    return {"scale": str(told.get("scale", 0)), **missing, **parameters}


def _default(field: Json, told: Json) -> Any:
    """Return a default in the form of JSON: bytes, which Avro shows as characters, in Base64; None for a decimal's."""
    default = told.get(DEFAULT, field.get("default"))
    if not (told["type"] == "bytes" and isinstance(default, str)):
        return default
    return None if told.get("logicalType") == "decimal" else base64.b64encode(default.encode("latin-1")).decode()
