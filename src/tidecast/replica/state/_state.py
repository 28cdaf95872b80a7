"""The state of a checkpoint between batches."""

from __future__ import annotations

from dataclasses import dataclass

from tidecast.replica.state._applied_keys import AppliedKeys
from tidecast.replica.state._proof import Proofs
from tidecast.replica.tables import Name


@dataclass(frozen=True)
class State:
    """The keys that a checkpoint's batches have applied, and the proofs of its tables.

    The rest of a replica's state lies with its tables: their notes, the journal and the ledger.
    """

    keys: AppliedKeys
    proofs: Proofs

    def move(self, old: Name, new: Name) -> None:
        """Let a table that has a new name keep both."""
        self.keys.move(old, new)
        self.proofs.move(old, new)
