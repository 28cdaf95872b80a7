"""What Simple messages are, whichever their encoding. Source: Simple protocol, messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import Column

from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Op, TableSchema

VERSION = 1
ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
BOOTSTRAP, WATERMARK = "BOOTSTRAP", "WATERMARK"


class RowReader(Protocol):
    """How the rows of one encoding are read; the modules `_read_json` and `_read_avro` each are one."""

    def body(self, schema: TableSchema, value: Column) -> Column:
        """Return what `row` takes of a row's message."""

    def row(self, schema: TableSchema, sides: Sequence[str], body: Column) -> Column:
        """Return the struct of a row's sides, `old` and `data`, by column name."""

    def rest(self, schema: TableSchema, sides: Sequence[str], message: Column, value: Column) -> Column | None:
        """Return what `row` could not read of a message; None where it reads every value."""

    def uneven(self, message: Column) -> Column:
        """Tell whether a message that `row` has read may show values which it could not read."""

    def names(self, message: Column, value: Column) -> Column:
        """Return the names that `old` shows, of a message that `row` has read."""

    def whole(self, message: Column) -> Column:
        """Tell whether a message that `row` has read was whole."""

    def read_value(self, column: TableColumn, side: str, message: Column, more: Column, zone: str) -> Column:
        """Return a value of the model from what `row` and `rest` have read; null where it is not of its type."""

    def fallible(self, data_type: DataType) -> bool:
        """Tell whether a value may fail to be one of a type."""
