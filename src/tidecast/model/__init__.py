"""What a change is: tables, columns, types, rows, TSOs. Knows neither protocols nor places."""

from tidecast.model._events import CHECKSUM, HEADERS, RECORD, Ddl, Events, Op, Reason, TableChanges, row_type
from tidecast.model._history import SchemaHistory, SchemaKey
from tidecast.model._schema import Column, DataType, Index, TableSchema
from tidecast.model._tso import compose, physical_ms, physical_ms_of, to_datetime
from tidecast.model._types import Kind, spark_type

__all__ = [
    "CHECKSUM",
    "HEADERS",
    "RECORD",
    "SchemaHistory",
    "SchemaKey",
    "Column",
    "DataType",
    "Ddl",
    "Events",
    "Index",
    "Kind",
    "Op",
    "Reason",
    "TableChanges",
    "TableSchema",
    "compose",
    "physical_ms",
    "physical_ms_of",
    "row_type",
    "spark_type",
    "to_datetime",
]
