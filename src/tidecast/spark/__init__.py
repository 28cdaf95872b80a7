"""Helpers for Spark plans, which know nothing of what the rows are."""

from tidecast.spark._plans import bad_names, evaluated_once, settled, side_by_side, small_table, union, with_looked_up
from tidecast.spark._sql import called, let, sql_name, sql_text

__all__ = [
    "bad_names",
    "called",
    "evaluated_once",
    "let",
    "settled",
    "side_by_side",
    "small_table",
    "sql_name",
    "sql_text",
    "union",
    "with_looked_up",
]
