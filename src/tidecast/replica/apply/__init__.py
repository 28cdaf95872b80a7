"""Plans carried out on tables."""

from tidecast.replica.apply._apply import Work, apply, rows_made
from tidecast.replica.apply._rename import Known, carry_out_renames, since_of
from tidecast.replica.apply._truncate import placed

__all__ = [
    "Known",
    "Work",
    "apply",
    "carry_out_renames",
    "placed",
    "rows_made",
    "since_of",
]
