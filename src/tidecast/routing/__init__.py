"""Rules: the tables, events and columns that leave, and the topic and partition of each."""

from tidecast.routing._event_filter import EventFilters, RowFilter, check_event_filters, filter_errors
from tidecast.routing._matcher import ColumnMatcher, TableFilter, TableMatcher
from tidecast.routing._partitions import Partitions
from tidecast.routing._router import Router, column_selection
from tidecast.routing._rules import ColumnSelector, Dispatcher, EventFilter, Filter, RoutingRules
from tidecast.routing._target import TableRoutes, check_target, target_name, target_pattern

__all__ = [
    "ColumnMatcher",
    "ColumnSelector",
    "Dispatcher",
    "EventFilter",
    "EventFilters",
    "Filter",
    "Partitions",
    "Router",
    "RoutingRules",
    "RowFilter",
    "TableFilter",
    "TableMatcher",
    "TableRoutes",
    "check_event_filters",
    "check_target",
    "column_selection",
    "filter_errors",
    "target_name",
    "target_pattern",
]
