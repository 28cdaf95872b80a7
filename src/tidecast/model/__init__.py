"""What a change is: tables, columns, types, rows, TSOs. Knows neither protocols nor places."""

from tidecast.model._actions import Action, ddl_action
from tidecast.model._events import CHECKSUM, HEADERS, RECORD, Bootstrap, Ddl, Events, Op, Reason, TableChanges, row_type
from tidecast.model._history import SchemaHistory, checked
from tidecast.model._names import sanitize
from tidecast.model._numbers import (
    as_listed,
    bit_bytes,
    bit_number,
    bit_width,
    enum_element,
    enum_number,
    set_elements,
    set_mask,
    set_number,
    signed,
    unsigned_number,
    unsigned_text,
)
from tidecast.model._plans import bad_names, evaluated_once, settled, side_by_side, small_table, union, with_looked_up
from tidecast.model._schema import Column, DataType, Index, SchemaKey, TableSchema
from tidecast.model._sql import called, sql_name, sql_text
from tidecast.model._text import REST, decimal_text, has_any, shortest_text, trimmed
from tidecast.model._tso import compose, is_tso, physical_ms, physical_ms_of, to_datetime
from tidecast.model._types import MAX_DECIMAL_PRECISION, Kind, spark_type
from tidecast.model._zones import shift_zone

__all__ = [
    "CHECKSUM",
    "HEADERS",
    "MAX_DECIMAL_PRECISION",
    "RECORD",
    "REST",
    "Action",
    "Bootstrap",
    "Column",
    "DataType",
    "Ddl",
    "Events",
    "Index",
    "Kind",
    "Op",
    "Reason",
    "SchemaHistory",
    "SchemaKey",
    "TableChanges",
    "TableSchema",
    "as_listed",
    "bad_names",
    "bit_bytes",
    "bit_number",
    "bit_width",
    "called",
    "checked",
    "compose",
    "ddl_action",
    "decimal_text",
    "enum_element",
    "enum_number",
    "evaluated_once",
    "has_any",
    "is_tso",
    "physical_ms",
    "physical_ms_of",
    "row_type",
    "sanitize",
    "set_elements",
    "set_mask",
    "set_number",
    "settled",
    "shift_zone",
    "shortest_text",
    "side_by_side",
    "signed",
    "small_table",
    "spark_type",
    "sql_name",
    "sql_text",
    "to_datetime",
    "trimmed",
    "union",
    "unsigned_number",
    "unsigned_text",
    "with_looked_up",
]
