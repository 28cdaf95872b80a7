"""A changefeed: its configuration, which rows go where, publishing them, and its life on a server."""

from tidecast.changefeed._config import SINK_PARAMETERS, ChangefeedConfig, build_config, load_config
from tidecast.changefeed._dispatch import Router, select_columns
from tidecast.changefeed._feed import Feed, Problem, State
from tidecast.changefeed._feeds import (
    Changefeeds,
    Snapshot,
    Sorted,
    Timing,
    Wish,
    lag_seconds,
    masked_sink_uri,
)
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._matcher import ColumnMatcher, TableMatcher
from tidecast.changefeed._planned import PlannedSchema, PlannedTable, plan
from tidecast.changefeed._publish import Published, publish
from tidecast.changefeed._replica_config import (
    checked_replica_config,
    default_replica_config,
    file_content,
    mask_replica_config,
    merge_replica_configs,
    read_replica_config,
    replica_config_for,
)
from tidecast.changefeed._runner import Job, Moved, Runner
from tidecast.changefeed._spark_runner import SparkRunner

__all__ = [
    "SINK_PARAMETERS",
    "ChangefeedConfig",
    "Changefeeds",
    "ColumnMatcher",
    "Feed",
    "Folders",
    "Job",
    "Moved",
    "PlannedSchema",
    "PlannedTable",
    "Problem",
    "Published",
    "Router",
    "Runner",
    "Snapshot",
    "Sorted",
    "SparkRunner",
    "State",
    "TableMatcher",
    "Timing",
    "Wish",
    "build_config",
    "checked_replica_config",
    "default_replica_config",
    "file_content",
    "lag_seconds",
    "load_config",
    "mask_replica_config",
    "masked_sink_uri",
    "merge_replica_configs",
    "plan",
    "publish",
    "read_replica_config",
    "replica_config_for",
    "select_columns",
]
