"""Topics to tables: order, reconcile, apply; what cannot be applied goes to the dead letters."""

from tidecast.replica._applied_keys import AppliedKeys
from tidecast.replica._ledger import AppliedBatch, write_ledger
from tidecast.replica._maintain import maintain
from tidecast.replica._mode import Contents
from tidecast.replica._replicate import replicate
from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._settings import Settings
from tidecast.replica._target import parse_target

__all__ = [
    "AppliedBatch",
    "AppliedKeys",
    "Contents",
    "Replicated",
    "Settings",
    "TableReport",
    "maintain",
    "parse_target",
    "replicate",
    "write_ledger",
]
