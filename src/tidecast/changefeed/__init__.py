"""The life of changefeeds: states, checkpoints and workers."""

from tidecast.changefeed._feed import Feed, Problem, State
from tidecast.changefeed._feeds import Changefeeds, Snapshot, Sorted, Timing, Wish, lag_seconds, masked_sink_uri
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._runner import Job, Moved, Runner
from tidecast.changefeed._spark_runner import SparkRunner

__all__ = [
    "Changefeeds",
    "Feed",
    "Folders",
    "Job",
    "Moved",
    "Problem",
    "Runner",
    "Snapshot",
    "Sorted",
    "SparkRunner",
    "State",
    "Timing",
    "Wish",
    "lag_seconds",
    "masked_sink_uri",
]
