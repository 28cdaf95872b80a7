"""Plans carried out on tables."""

from tidecast.replica.apply._apply import Work, apply, rows_made
from tidecast.replica.apply._newest import NewestChanges, newest_changes
from tidecast.replica.apply._rename import Known, carry_out_renames, since_of
from tidecast.replica.apply._truncate import placed

__all__ = [
    "Known",
    "NewestChanges",
    "Work",
    "apply",
    "carry_out_renames",
    "newest_changes",
    "placed",
    "rows_made",
    "since_of",
]
