"""One table's changes as versions of its rows (see `_history`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.replica._report import TableReport
from tidecast.replica.apply._history import DELETE, INSERT, UPDATE, laid_out, open_since
from tidecast.replica.apply._lookup import BatchKeys
from tidecast.replica.apply._merge import counts_by_action, effect, execute, prepare
from tidecast.replica.apply._newest import NewestChanges
from tidecast.replica.apply._reports import of_several_topics, report_of, unrepresentable_by_column
from tidecast.replica.apply._rows import (
    HASHES,
    keep,
    parts_of,
    stored_columns,
    writing,
)
from tidecast.replica.plan import Plan
from tidecast.replica.settle import Checked, count
from tidecast.replica.state import (
    Proof,
    TableKeys,
    row_hash,
)
from tidecast.spark import sql_column

_VERSIONS = {HASHES[0]: "after", HASHES[1]: "there"}


def keep_versions(
    plan: Plan,
    newest: NewestChanges,
    set_aside: Callable[[Checked], None],
    deletes: TableKeys | None,
    proof: Proof | None,
) -> TableReport:
    """Put the versions that changes made among those of the table; `deletes` are what came before it was there."""
    changes, done = newest.changes, newest.counts
    with ExitStack() as kept:
        checked = Checked.of(done) + count(plan.rows.set_aside)
        set_aside(checked)
        before = deletes.times(plan.place.spark) if deletes and plan.is_new else None
        versions = laid_out(plan, changes, done["since"] or 0, before)
        versions = keep(versions.withColumns(_hashes_of_versions(plan)) if proof else versions, kept)
        (came,) = versions.agg(
            F.count_if(F.col("fresh") & ~F.col("deleted")).alias("upserted"),
            F.count_if(F.col("fresh") & F.col("deleted")).alias("deleted"),
            *counts_by_action(),
            *(effect(plan) if proof else ()),
        ).collect()
        to_do = versions.where(F.col("action").isNotNull())
        if plan.present is None:
            with writing(proof, came, creates=True):
                plan.place.create(to_do.select(stored_columns(plan)), plan.key, plan.notes)
        elif any(came[action] for action in (INSERT, UPDATE, DELETE)):
            with writing(proof, came):
                prepare(plan, came)
                execute(plan, to_do, came, BatchKeys(), [open_since(done["since"])])
    upserted, deleted = came["upserted"], came["deleted"]
    unchanged = done["moments"] - upserted - deleted
    lost, warnings = unrepresentable_by_column(plan, done), of_several_topics(plan, done["topics"])
    return report_of(plan, checked, upserted, deleted, unchanged, lost, warnings)


def _hashes_of_versions(plan: Plan) -> dict[str, Column]:
    """Return the first two of `HASHES` for versions as `laid_out` gives them."""
    rows = {name: {n: sql_column(row, part, n) for part, n in parts_of(plan)} for name, row in _VERSIONS.items()}
    return {name: F.expr(f"nvl2({_VERSIONS[name]}, {row_hash(values)}, NULL)") for name, values in rows.items()}
