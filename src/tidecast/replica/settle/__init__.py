"""Prepare rows for tables: verified, under the tables' names and columns, the newest change of each key."""

from tidecast.replica.settle._check import (
    Checked,
    Policy,
    check,
    count,
    doubtful_columns,
    image_of_key,
    misfits,
    refuse,
    refuse_mismatches,
    sums_of_tallies,
    tallies,
)
from tidecast.replica.settle._identity import IDENTITY, identity, image_of_row, named
from tidecast.replica.settle._order import newest, without_repeats
from tidecast.replica.settle._prepare import Origin, Prepared, prepared

__all__ = [
    "IDENTITY",
    "Checked",
    "Origin",
    "Policy",
    "Prepared",
    "check",
    "count",
    "doubtful_columns",
    "identity",
    "image_of_key",
    "image_of_row",
    "misfits",
    "named",
    "newest",
    "prepared",
    "refuse",
    "refuse_mismatches",
    "sums_of_tallies",
    "tallies",
    "without_repeats",
]
