"""The state of a replica between batches."""

from tidecast.replica.state._again import Again, at_places, concerned
from tidecast.replica.state._applied_keys import SAME_ROW, AppliedKeys, Counts, TableKeys, as_sent_again, with_row_key
from tidecast.replica.state._commit_notes import noted_in_commits
from tidecast.replica.state._journal import Journaled, journaled, write_journal
from tidecast.replica.state._ledger import AppliedBatch, check_applied, place_of, read_ledger, write_ledger
from tidecast.replica.state._proof import Proof, Proofs, RowSum, column_hash, measured, row_hash, row_sum
from tidecast.replica.state._state import State

__all__ = [
    "SAME_ROW",
    "Again",
    "AppliedBatch",
    "AppliedKeys",
    "Counts",
    "Journaled",
    "Proof",
    "Proofs",
    "RowSum",
    "State",
    "TableKeys",
    "as_sent_again",
    "at_places",
    "check_applied",
    "column_hash",
    "concerned",
    "journaled",
    "measured",
    "noted_in_commits",
    "place_of",
    "read_ledger",
    "row_hash",
    "row_sum",
    "with_row_key",
    "write_journal",
    "write_ledger",
]
