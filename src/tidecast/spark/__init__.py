"""Helpers for Spark plans, which know nothing of what the rows are."""

from tidecast.spark._java import java_properties, java_version
from tidecast.spark._mapped import handed_over, mapped
from tidecast.spark._plans import (
    evaluated_once,
    inheriting,
    number_at,
    parallel_map,
    small_table,
    union,
    untraced,
    with_looked_up,
)
from tidecast.spark._reuse import reused
from tidecast.spark._settings import active_java, ansi_enabled
from tidecast.spark._sql import called, let, sql_column, sql_name, sql_text

__all__ = [
    "active_java",
    "ansi_enabled",
    "called",
    "evaluated_once",
    "handed_over",
    "inheriting",
    "java_properties",
    "java_version",
    "let",
    "mapped",
    "number_at",
    "parallel_map",
    "reused",
    "small_table",
    "sql_column",
    "sql_name",
    "sql_text",
    "union",
    "untraced",
    "with_looked_up",
]
