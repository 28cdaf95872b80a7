"""Prepare rows for tables: verified, under the tables' names and columns, the newest change of each key."""

from tidecast.replica.settle._check import (
    Checked,
    Policy,
    check,
    columns_in,
    count,
    counted_in,
    doubtful_columns,
    key_image,
    misfits,
    refuse,
    refuse_mismatches,
    refused_rows,
    sums_of_tallies,
    tallies,
)
from tidecast.replica.settle._identity import IDENTITY, SENT, SENT_TABLE, identity, is_sent, row_image
from tidecast.replica.settle._order import newest, without_repeats
from tidecast.replica.settle._prepare import Origin, Prepared, prepared
from tidecast.replica.settle._slots import Slots, out_of_slots

__all__ = [
    "IDENTITY",
    "SENT",
    "SENT_TABLE",
    "Checked",
    "Origin",
    "Policy",
    "Prepared",
    "Slots",
    "check",
    "columns_in",
    "count",
    "counted_in",
    "doubtful_columns",
    "identity",
    "is_sent",
    "key_image",
    "misfits",
    "newest",
    "out_of_slots",
    "prepared",
    "refuse",
    "refuse_mismatches",
    "refused_rows",
    "row_image",
    "sums_of_tallies",
    "tallies",
    "without_repeats",
]
