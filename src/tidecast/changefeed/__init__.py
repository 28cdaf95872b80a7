"""A changefeed: its configuration, which rows go where, and publishing them."""

from tidecast.changefeed._config import ChangefeedConfig, load_config
from tidecast.changefeed._dispatch import Router, select_columns
from tidecast.changefeed._matcher import ColumnMatcher, TableMatcher
from tidecast.changefeed._publish import Published, publish

__all__ = [
    "ChangefeedConfig",
    "ColumnMatcher",
    "Published",
    "Router",
    "TableMatcher",
    "load_config",
    "publish",
    "select_columns",
]
