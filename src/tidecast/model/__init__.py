"""The model of changes: tables, columns, types, rows, TSOs. Knows neither protocols nor places."""

from tidecast._tso import LOGICAL_BITS, compose, latest_tso, physical_ms, to_datetime
from tidecast.model._actions import ALTER_EVENTS, DDL_EVENTS, Action, ddl_action, ddl_type
from tidecast.model._ddl import Bootstrap, Ddl
from tidecast.model._ddl_names import renamed_tables
from tidecast.model._ddl_parser import Definition, Name, Statement, read_statement
from tidecast.model._delete_ts import with_commit_ts
from tidecast.model._events import (
    CHECKSUM,
    HEADERS,
    RECORD,
    Events,
    Op,
    Pipeline,
    Reason,
    RowSource,
    TableChanges,
    row_type,
)
from tidecast.model._history import InvalidSchema, SchemaHistory, checked
from tidecast.model._schema import Column, Index, SchemaKey, TableSchema, sanitize
from tidecast.model._types import (
    MAX_DECIMAL_PRECISION,
    DataType,
    Kind,
    bit_default,
    bit_width,
    spark_type,
    type_name,
    usual_length,
    with_digits,
)

__all__ = [
    "ALTER_EVENTS",
    "CHECKSUM",
    "DDL_EVENTS",
    "HEADERS",
    "LOGICAL_BITS",
    "MAX_DECIMAL_PRECISION",
    "RECORD",
    "Action",
    "Bootstrap",
    "Column",
    "DataType",
    "Ddl",
    "Definition",
    "Events",
    "Index",
    "InvalidSchema",
    "Kind",
    "Name",
    "Op",
    "Pipeline",
    "Reason",
    "RowSource",
    "SchemaHistory",
    "SchemaKey",
    "Statement",
    "TableChanges",
    "TableSchema",
    "bit_default",
    "bit_width",
    "checked",
    "compose",
    "ddl_action",
    "ddl_type",
    "latest_tso",
    "physical_ms",
    "read_statement",
    "renamed_tables",
    "row_type",
    "sanitize",
    "spark_type",
    "to_datetime",
    "type_name",
    "usual_length",
    "with_commit_ts",
    "with_digits",
]
