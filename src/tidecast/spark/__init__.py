"""Helpers for Spark plans, which know nothing of what the rows are."""

from tidecast.spark._mapped import handed_over, mapped
from tidecast.spark._plans import (
    evaluated_once,
    inheriting,
    number_at,
    parallel_map,
    persisted,
    small_table,
    union,
    untraced,
    with_looked_up,
)
from tidecast.spark._reuse import reused
from tidecast.spark._settings import LONG_TEXTS, MAX_LENGTH
from tidecast.spark._sql import sql_column, sql_name, sql_text

__all__ = [
    "LONG_TEXTS",
    "MAX_LENGTH",
    "evaluated_once",
    "handed_over",
    "inheriting",
    "mapped",
    "number_at",
    "parallel_map",
    "persisted",
    "reused",
    "small_table",
    "sql_column",
    "sql_name",
    "sql_text",
    "union",
    "untraced",
    "with_looked_up",
]
