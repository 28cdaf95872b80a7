"""The life of changefeeds: states, checkpoints and workers."""

from tidecast.changefeed._feed import Feed, Problem, State
from tidecast.changefeed._feeds import Changefeeds
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._runner import Job, Runner, StepResult
from tidecast.changefeed._scheduler import Timing
from tidecast.changefeed._snapshot import ChangefeedSpec, Snapshot, TableEligibility, lag_seconds
from tidecast.changefeed._spark_runner import SparkRunner

__all__ = [
    "ChangefeedSpec",
    "Changefeeds",
    "Feed",
    "Folders",
    "Job",
    "Problem",
    "Runner",
    "Snapshot",
    "SparkRunner",
    "State",
    "StepResult",
    "TableEligibility",
    "Timing",
    "lag_seconds",
]
