"""Tables that schema changes have shown, for rows whose schema tells less. Source: Debezium protocol, Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidecast.model import Column, TableSchema
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._known import Chosen, chosen
from tidecast.protocols.debezium.avro._layout import Layout
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._schema import column_form

Json = dict[str, Any]

_COMPARED = ("type", "name", "tidb_type")


def fitting(known: Sequence[TableSchema], begun: int, layout: Layout) -> tuple[Chosen, tuple[Field, ...]]:
    """Return the version of a table that would give the schema of its rows, if one does, and how these are read.

    `begun` of the known versions begin before the rows, see `chosen`. The version has the columns of the rows in their
    order.
    """
    told = {connect["field"]: connect for connect in layout.connect}
    found = chosen(known, begun, [*told], lambda schema: _gives({c.name: c for c in schema.columns}, told))
    if found.schema is None:
        return found, layout.columns
    forms = {field.column.name: field.form for field in layout.columns}
    return found, tuple(Field(c, forms[c.name], digits=True) for c in found.schema.columns)


def _gives(columns: dict[str, Column], told: dict[str, Json]) -> bool:
    return all(name in columns and _is_form(columns[name], connect) for name, connect in told.items())


def _is_form(column: Column, connect: Json) -> bool:
    """Tell whether a column goes as Kafka Connect's schema says, in one of the modes that there are."""
    as_text: Any = "string" if connect["type"] == "string" else None
    options = DebeziumAvroOptions(
        enable_tidb_extension="tidb_type" in connect,
        decimal_handling_mode=as_text or "precise",
        bigint_unsigned_handling_mode=as_text or "long",
    )
    form = column_form(column, options)
    same = all(form.get(name) == connect.get(name) for name in _COMPARED)
    return same and _parameters(form) == _parameters(connect)


def _parameters(connect: Json) -> Json:
    """Return parameters without the two names that the digits of a decimal have."""
    found = dict(connect.get("parameters") or {})
    digits = found.pop("connect.decimal.precision", None)
    return found if digits is None else found | {"precision": digits}
