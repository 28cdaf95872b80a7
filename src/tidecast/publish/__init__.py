"""One batch on its way out: select, register, encode, fit, order, write."""

from tidecast.publish._bootstrap import Bootstraps
from tidecast.publish._dry_run import PlannedSchema, PlannedTable, plan
from tidecast.publish._publish import Published, announce, bootstraps_of, check_publishable, publish

__all__ = [
    "Bootstraps",
    "PlannedSchema",
    "PlannedTable",
    "Published",
    "announce",
    "bootstraps_of",
    "check_publishable",
    "plan",
    "publish",
]
