"""Schemas of Kafka Connect in Avro, both ways. Source: Debezium protocol, Avro; Avro protocol, schema JSON.

Confluent's converter and TiCDC write what Connect knows and Avro does not as `connect.…` beside a type.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from tidecast._go import to_json
from tidecast.model import sanitize
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
    """Return a default in the form of JSON, None for a decimal's.

    Avro shows bytes as characters, JSON as Base64. A number with a fraction has the fewest digits.
    """
    default = told.get(DEFAULT, field.get("default"))
    if isinstance(default, float):
        return Decimal(repr(default))
    if not (told["type"] == "bytes" and isinstance(default, str)):
        return default
    return None if told.get("logicalType") == "decimal" else base64.b64encode(default.encode("latin-1")).decode()


_AVRO = {connect: avro for avro, connect in _CONNECT.items()} | {"int8": "int", "int16": "int"}
_SHORT = frozenset(["int8", "int16"])


def avro_schema(connect: Json) -> str:
    """Return the text of a schema of Connect's as TiCDC registers it, members in the order of their names."""
    return to_json(_ordered(_to_avro(connect, set())))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [*map(_ordered, value)] if isinstance(value, list) else value


def _to_avro(connect: Json, defined: set[str]) -> Any:
    """Return the type in Avro; a record that is defined already by its name."""
    beside = {f"connect.{name}": connect[name] for name in ("name", "version", "parameters") if connect.get(name)}
    match connect["type"]:
        case "struct":
            full = ".".join(map(sanitize, connect["name"].split(".")))
            if full in defined:
                return full
            defined.add(full)
            namespace, _, name = full.rpartition(".")
            fields = [_to_field(field, defined) for field in connect["fields"]]
            return beside | {"type": "record", "name": name, "namespace": namespace, "fields": fields}
        case "array":
            return beside | {"type": "array", "items": _to_avro(connect["items"], defined)}
        case "bytes" if connect.get("name") == DECIMAL:
            digits = {name: int(connect["parameters"][name]) for name in ("precision", "scale")}
            return beside | {"type": "bytes", "logicalType": "decimal"} | digits
        case kind:
            short = {"connect.type": kind} if kind in _SHORT else {}
            return beside | short | {"type": _AVRO[kind]} if beside or short else _AVRO[kind]


def _to_field(connect: Json, defined: set[str]) -> Json:
    kind = _to_avro(connect, defined)
    found = {"name": sanitize(connect["field"]), FIELD: connect["field"], "type": kind}
    if "tidb_type" in connect:
        found["tidb_type"] = connect["tidb_type"]
    return found | {"type": ["null", kind], "default": None} if connect["optional"] else found
