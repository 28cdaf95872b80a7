"""Changes that a table does not take, whatever their rows are."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from tidecast.model import Reason, TableChanges
from tidecast.replica.plan._deletes import delete_objection
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._plan import Refused
from tidecast.replica.plan._shapes import OnNewKey
from tidecast.replica.plan._truncated import Truncations
from tidecast.replica.tables import Contents
from tidecast.sources import narrowed


def is_of_dropped(change: TableChanges, cut: Truncations) -> bool:
    """Tell whether changes are all of a table that was dropped; one that comes back by RECOVER keeps its version."""
    if change.schema.version >= cut.dropped:
        return False
    return narrowed(change, "commit_ts").frame.where(F.col("commit_ts") >= F.lit(cut.dropped)).isEmpty()


def of_others(changes: Sequence[TableChanges], keyspace: str | None) -> list[Refused]:
    """Return the changes of a table that has the same name, but another keyspace."""
    rest = f"and the table there is of keyspace {keyspace}: give each keyspace a place of its own"
    others = [c for c in changes if c.keyspace not in (None, "", keyspace)]
    return [(c, Reason.FOREIGN_SCHEMA, f"of keyspace {c.keyspace}, {rest}") for c in others]


def without_their_key(changes: Sequence[TableChanges]) -> list[Refused]:
    """Refuse changes without a key whose table version has a key in other changes."""
    keyed = {c.schema.version for c in changes if c.upserts_from is not None and c.schema.handle_key}
    unkeyed = [c for c in changes if c.schema.version in keyed and not c.schema.handle_key]
    return [(c, Reason.BAD_MESSAGE, "no key, which other rows of the same schema have") for c in unkeyed]


def shows_rows(change: TableChanges, contents: Contents) -> bool:
    """Tell whether changes show rows for a table. To a log those of deletes are rows, too, if not the key alone."""
    schema = change.schema
    whole = contents.is_log and len(schema.columns) > len(schema.handle_key)
    return whole or change.upserts_from is not None


def refusal(change: TableChanges, evolution: Evolution, contents: Contents, new_key: OnNewKey) -> str | None:
    """Return why changes of a version cannot be applied, None where they can."""
    if contents.is_log and not evolution.shape.columns:
        return "a delete before any row has shown the table's columns"
    if shows_rows(change, contents):
        return evolution.refused.get(change.schema)
    return delete_objection(evolution, change.schema, new_key)
