"""Check tables: proofs, comparisons, snapshots, and the progress of a replica."""

from tidecast.replica.check._compare import ComparedTable, RowDifference
from tidecast.replica.check._places import is_table
from tidecast.replica.check._prove import ProofVerdict, Proven, ProvenTable, prove
from tidecast.replica.check._sides import AllTables, Compared, OneTable, Rows, Side, Topic, compare
from tidecast.replica.check._snapshot import Snapshot, SourceSnapshot, TableSnapshot, snapshot
from tidecast.replica.check._standing import AppliedSource, SchemaChange, applied_sources, last_schema_changes
from tidecast.replica.check._status import ReplicaStatus, Status, Step, TableStatus
from tidecast.replica.check._topic_rows import TopicTables

__all__ = [
    "AllTables",
    "AppliedSource",
    "Compared",
    "ComparedTable",
    "OneTable",
    "ProofVerdict",
    "Proven",
    "ProvenTable",
    "ReplicaStatus",
    "RowDifference",
    "Rows",
    "SchemaChange",
    "Side",
    "Snapshot",
    "SourceSnapshot",
    "Status",
    "Step",
    "TableSnapshot",
    "TableStatus",
    "Topic",
    "TopicTables",
    "applied_sources",
    "compare",
    "is_table",
    "last_schema_changes",
    "prove",
    "snapshot",
]
