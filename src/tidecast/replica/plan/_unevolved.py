"""A table whose columns follow no version of its source: `--ddl ignore`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidecast.model import TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, Move
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._shapes import OnNewKey, alters, clash, shape_of, wider
from tidecast.replica.plan._version_rules import VersionRules, retaken
from tidecast.replica.tables import Shape


def unevolved(
    given: Sequence[TableSchema], present: Shape | None, memory: AppliedVersions, rules: VersionRules
) -> Evolution:
    """Return an evolution that changes nothing: rows lose the columns that the table lacks, and lack those it has.

    From a statement on that gives a column a name which the table has, that name means another column. What comes
    after a version that does not fit is refused, too: that one may have altered values, and rows may be missing.
    """
    first = memory.newest or min(given, key=lambda v: v.version)
    shape = present or shape_of(first)
    later = ((number, former) for number, former in rules.renamed.items() if number > first.version)
    told = ((number, name) for number, former in later for name in retaken(former, shape.columns))
    until, taken = min(told, default=(None, ""))
    refused = {
        v: cause
        for v in given
        if (cause := _unfit(shape, memory.current(v), memory.current(first), rules.on_new_key))
        or (cause := f"{taken} is another column now" if until is not None and v.version >= until else None)
    }
    if rules.sure and not rules.several:
        since = min((v for v in refused if v.version > first.version), key=lambda v: v.version, default=None)
        refused |= {v: refused[since] for v in given if since and v.version > since.version and v not in refused}
    lacking = [(v, tuple(set(shape.columns) - set(memory.names(v).values()))) for v in given]
    gone = tuple(Move(v.version, kept=names) for v, names in lacking if names and v.version > first.version)
    remembered = memory if memory.newest or present else memory.after([first])
    defined = {c.name: c for c in first.columns}
    return Evolution(
        shape, defined, refused, remembered, moved=present, read_by=replace(memory, moves=(*memory.moves, *gone))
    )


def _unfit(shape: Shape, version: TableSchema, first: TableSchema, on_new_key: OnNewKey) -> str | None:
    by = shape_of(version)
    types = {c.name: c.data_type for c in first.columns if c.name in shape.columns}
    altered = ((c.name, alters(types[c.name], c.data_type)) for c in version.columns if c.name in types)
    if found := next(((name, how) for name, how in altered if how), None):
        return f"column {found[0]} {found[1]}, in rows too that no message shows"
    return clash(replace(shape, columns={}), by, on_new_key=on_new_key) or wider(shape, by)
