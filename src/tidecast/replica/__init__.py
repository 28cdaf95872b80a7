"""Topics to tables: order, reconcile, apply; what cannot be applied goes to the dead letters."""

from tidecast.replica._applied_keys import AppliedKeys
from tidecast.replica._ledger import AppliedBatch, write_ledger
from tidecast.replica._maintain import maintain
from tidecast.replica._mode import Contents
from tidecast.replica._replicate import replicate
from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._snapshot import Snapshot, SourceSnapshot, TableSnapshot, snapshot
from tidecast.replica._status import ReplicaStatus, Status, TableStatus
from tidecast.replica.targets import parse_target

__all__ = [
    "AppliedBatch",
    "AppliedKeys",
    "Contents",
    "ReplicaStatus",
    "Replicated",
    "Snapshot",
    "SourceSnapshot",
    "Status",
    "TableReport",
    "TableSnapshot",
    "TableStatus",
    "maintain",
    "parse_target",
    "replicate",
    "snapshot",
    "write_ledger",
]
