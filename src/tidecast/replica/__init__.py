"""Topics to tables: order, reconcile, apply; what cannot be applied goes to the dead letters."""

from tidecast.replica._again import Again, at_places, concerned
from tidecast.replica._applied_keys import AppliedKeys
from tidecast.replica._commit_notes import noted_in_commits
from tidecast.replica._compare import ComparedTable, RowDifference
from tidecast.replica._ledger import AppliedBatch, check_applied, place_of, write_ledger
from tidecast.replica._maintain import maintain
from tidecast.replica._mode import Contents
from tidecast.replica._places import is_table
from tidecast.replica._proof import Proofs
from tidecast.replica._prove import ProofVerdict, Proven, ProvenTable, prove
from tidecast.replica._replicate import renamed_names, replicate
from tidecast.replica._report import Replicated, Retried, TableReport
from tidecast.replica._settings import Settings
from tidecast.replica._sides import AllTables, Compared, OneTable, Rows, Side, Topic, compare
from tidecast.replica._snapshot import Snapshot, SourceSnapshot, TableSnapshot, snapshot
from tidecast.replica._standing import AppliedSource, SchemaChange, applied_sources, last_schema_changes
from tidecast.replica._status import ReplicaStatus, Status, Step, TableStatus
from tidecast.replica._topic_rows import TopicTables
from tidecast.replica.targets import parse_target

__all__ = [
    "Again",
    "AllTables",
    "AppliedBatch",
    "AppliedKeys",
    "AppliedSource",
    "Compared",
    "ComparedTable",
    "Contents",
    "OneTable",
    "ProofVerdict",
    "Proofs",
    "Proven",
    "ProvenTable",
    "ReplicaStatus",
    "Replicated",
    "Retried",
    "RowDifference",
    "Rows",
    "SchemaChange",
    "Settings",
    "Side",
    "Snapshot",
    "SourceSnapshot",
    "Status",
    "Step",
    "TableReport",
    "TableSnapshot",
    "TableStatus",
    "Topic",
    "TopicTables",
    "applied_sources",
    "at_places",
    "check_applied",
    "compare",
    "concerned",
    "is_table",
    "last_schema_changes",
    "maintain",
    "noted_in_commits",
    "parse_target",
    "place_of",
    "prove",
    "renamed_names",
    "replicate",
    "snapshot",
    "write_ledger",
]
