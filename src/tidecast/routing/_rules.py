"""The rules of filters, dispatchers and column selectors, as TiCDC's changefeed file has them.

A key's name is the attribute's with hyphens. Source: Changefeed configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tidecast._config_model import ConfigModel, Many


class EventFilter(ConfigModel):
    """`[[filter.event-filters]]`."""

    matcher: Many = ()
    ignore_event: Many = ()
    ignore_sql: Many = ()
    ignore_insert_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_delete_value_expr: str = ""
    ignore_update_only_columns: Many | None = None


class Filter(ConfigModel):
    """`[filter]`: which tables and events are replicated."""

    rules: Many = ("*.*",)
    ignore_txn_start_ts: Annotated[tuple[int, ...], Field(strict=False)] = ()
    event_filters: Annotated[tuple[EventFilter, ...], Field(strict=False)] = ()


class Dispatcher(ConfigModel):
    """`[[sink.dispatchers]]`: the topic and the partition of the tables that `matcher` matches.

    `dispatcher` is the old name of `partition`. `target_schema` and `target_table` are what messages call them.
    """

    matcher: Many = ()
    partition: str = ""
    dispatcher: str = ""
    index: str = ""
    columns: Many = ()
    topic: str = ""
    target_schema: str = ""
    target_table: str = ""


class ColumnSelector(ConfigModel):
    """`[[sink.column-selectors]]`: the columns that are sent of the tables that `matcher` matches."""

    matcher: Many = ()
    columns: Many = ()


@dataclass(frozen=True)
class RoutingRules:
    """The rules of where rows go: of `dispatchers` and of `column_selectors` the first that matches a table counts.

    `default_topic` is that of tables whose dispatcher names none; `one_table_per_topic` tells that the protocol allows
    no second one in a topic. `case_sensitive` is about the matchers of table routes: TiCDC loses it for all others.
    """

    dispatchers: tuple[Dispatcher, ...] = ()
    column_selectors: tuple[ColumnSelector, ...] = ()
    default_topic: str = ""
    one_table_per_topic: bool = False
    case_sensitive: bool = False
