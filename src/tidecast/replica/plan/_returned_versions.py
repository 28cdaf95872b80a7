"""Versions that only rows tell, where their columns were gone for a while and have come again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidecast.model import TableChanges, TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, fingerprint


def split_where_others_began(
    changes: Sequence[TableChanges], versions: Sequence[TableSchema], memory: AppliedVersions
) -> list[TableChanges]:
    """Return changes of which those since another version began are of a later one, although they look as before.

    `versions` are those that a batch's rows show, `memory` those before them. Rows that look alike have the number of
    the first of them: the last ones would else lack a column that the other version had lost.
    """
    return [part for change in changes for part in _parts(change, versions, memory)]


def _parts(change: TableChanges, versions: Sequence[TableSchema], memory: AppliedVersions) -> Iterator[TableChanges]:
    first, last = change.schema.version, change.rows_to
    looks, names = fingerprint(change.schema), {column.name for column in change.schema.columns}
    others = [v.version for v in (*versions, memory.newest) if v and fingerprint(v) != looks]
    others += [move.version for move in memory.moves if not names.isdisjoint((*move.dropped, *move.kept))]
    cuts = [version for version in others if last is not None and first < version < last]
    if last is None or not cuts or change.schema not in versions:
        yield change
        return
    yield replace(change.within(first, min(cuts) - 1, untimed=True), rows_to=min(cuts) - 1)
    again = replace(change.schema, version=max(cuts) + 1)
    yield replace(change.within(min(cuts), last, untimed=False), schema=again, rows=0)  # counted with the first
