"""From the versions of a table to one shape that holds the rows of all of them.

Columns may be added, dropped and renamed, and types may become wider. The user chooses whether a dropped column stays
(see `OnDdl`). A type that cannot hold the old values, and values that MySQL changed without a row change, cannot be
followed: from such a version on, a table's rows are refused. So is another key, unless it identifies the table's rows
(see `OnNewKey`); then rows that have it come after all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidecast._policy import CARRY_OUT, DdlKind, DdlPolicy, OnDdl
from tidecast.model import TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, Move, fingerprint, first_columns, with_columns_of
from tidecast.replica.plan._evolution import Evolution, News
from tidecast.replica.plan._shapes import (
    KEY_CHANGED,
    OnNewKey,
    clash,
    following,
    key_text,
    objection,
    shape_of,
    widened,
    wider,
)
from tidecast.replica.plan._unevolved import unevolved
from tidecast.replica.plan._version_rules import VersionRules
from tidecast.replica.tables import Shape, table_type

_NOTHING = AppliedVersions()
_LENIENT = DdlPolicy()
_NEVER: Mapping[int, Mapping[str, str]] = {}
_TOO_OLD = "a version from before those in the table, which does not fit them"


def reconcile(
    versions: Iterable[TableSchema],
    present: Shape | None,
    memory: AppliedVersions = _NOTHING,
    *,
    versions_by_time: bool = True,
    renamed: Mapping[int, Mapping[str, str]] = _NEVER,
    on_ddl: DdlPolicy = _LENIENT,
    on_new_key: OnNewKey = OnNewKey.REFUSE,
    earlier: Sequence[TableSchema] = (),
    several: bool = False,
) -> Evolution:
    """Return the shape that holds the rows of all versions of a table, and which versions it cannot hold.

    `versions`, in the order in which they came, may hold versions without rows: schema changes tell them, and only they
    show when a column was first there. `present` is the table as it lies there, None where there is none, and `memory`
    what it remembers. A version that it knows, or that lacks columns which come later in the batch, is an older one, so
    that a topic may be applied again from its start. `versions_by_time` tells that versions are numbered by time; else
    they are so mostly, and the order in which they came counts where it fits better. `renamed` has the columns that
    statements rename, by the number of the version that they make, see `Statement.former_names`. `earlier` are versions
    of a new table from before its first row, whose rows may come late: the table needs no room for them. `several`
    tables at the source may become this one: a version that lacks a column may be of one that does not have it yet.
    """
    # A version may come with its columns' ids and without them: it is the same, and renames nothing once more.
    alike = dict[tuple[int, str], TableSchema]()
    same = {v: alike.setdefault((v.version, fingerprint(v)), v) for v in versions}
    rules = VersionRules(on_ddl, renamed, versions_by_time, on_new_key, several)
    found = _reconciled(list(alike.values()), present, memory, rules, earlier)
    return replace(found, refused={v: found.refused[one] for v, one in same.items() if one in found.refused})


def _reconciled(
    given: Sequence[TableSchema],
    present: Shape | None,
    memory: AppliedVersions,
    rules: VersionRules,
    earlier: Sequence[TableSchema],
) -> Evolution:
    on_ddl, versions_by_time = rules.on_ddl, rules.sure
    if on_ddl.ignores_columns:
        return unevolved(given, present, memory, rules)
    fresh = _fresh(given, memory, versions_by_time=versions_by_time)
    lost = {v: cause for v in fresh if (cause := _renamed_since(v, memory, rules))}
    fresh = [v for v in fresh if v not in lost]
    last = [memory.newest] if memory.newest else []
    numbered = sorted([*last, *fresh], key=lambda v: v.version)
    after = numbered[numbered.index(last[0]) :] if last else numbered
    orders = (numbered, after if versions_by_time else [*last, *fresh])
    lines = [_line(order, present, memory, rules, alone=fresh == given) for order in orders]
    line = max(lines, key=lambda one: (set(last) <= set(one.accepted), len(one.accepted), -len(one.moves)))
    refused = lost | {v: line.refused.get(v, _TOO_OLD) for v in fresh if v not in (*line.accepted, *line.later)}
    moves = line.moves if last else (*_moves_to(line.accepted[0], earlier, rules), *line.moves)
    taken = memory
    if set(line.accepted) - set(last):
        taken = memory.after(line.accepted, moves, whole=rules.several, unknown=line.unknown)
    taken = taken.knowing(line.accepted[1:]) if line.rekeyed else taken
    moved = present
    if present is not None:
        moved = following(present, line.moves)
        moved = replace(moved, key=line.shape.key) if line.rekeyed else moved
        if cause := clash(moved, line.shape, taken.kept, rules.on_new_key):
            return Evolution(present, {}, dict.fromkeys(given, cause), memory, clash=cause)
    first = first_columns(line.accepted, taken, line.unknown)
    # Columns may be added FIRST or AFTER others: the newest version has the order.
    ordered = dict.fromkeys([*(c.name for c in line.accepted[-1].columns), *line.shape.columns])
    shape = replace(line.shape, columns={name: line.shape.columns[name] for name in ordered})
    left_out: list[str] = []
    if on_ddl.of(DdlKind.ADD_COLUMN) is OnDdl.IGNORE:
        base = moved or following(shape_of(memory.current(line.accepted[0])), line.moves)
        left_out = [name for name in shape.columns if name not in base.columns]
        shape = replace(shape, columns={name: kind for name, kind in shape.columns.items() if name in base.columns})
    evolution = Evolution(
        shape,
        first,
        refused,
        taken,
        moves=line.moves,
        moved=moved,
        news=line.news,
        again=line.again,
        left_out=left_out,
        order=[c.name for c in line.accepted[-1].columns] if on_ddl.default in CARRY_OUT and taken != memory else (),
        rekeyed=line.accepted[1].version if line.rekeyed else None,
        later=line.later,
    )
    return evolution if moved is None else replace(evolution, shape=widened(moved, shape))


def _fresh(given: Sequence[TableSchema], memory: AppliedVersions, *, versions_by_time: bool) -> list[TableSchema]:
    """Return the versions that a table has not taken.

    One that looks like the newest is it once more, from another message, unless another version lies between them.
    """
    unknown = [v for v in given if not memory.knows(v, versions_by_time=versions_by_time)]
    if memory.newest is None or not versions_by_time:
        return unknown
    next_one = min((v.version for v in unknown if v.version > memory.newest.version), default=None)
    return [v for v in given if v in unknown or (next_one is not None and v.version > next_one)]


def _renamed_since(version: TableSchema, memory: AppliedVersions, rules: VersionRules) -> str | None:
    """Return why rows of a version that a table has not taken would get under other columns' names, else None.

    That is one from before the newest, since when a statement renamed a column, which the table did not follow.
    """
    if memory.newest is None or version.version >= memory.newest.version:
        return None
    moved = {move.version for move in memory.moves}
    names = {column.name.lower() for column in version.columns}
    since = ((n, set(former.values())) for n, former in rules.surely_renamed.items() if n not in moved)
    renamed = (names & was for n, was in since if version.version < n <= memory.newest.version)
    return next((f"{_TOO_OLD}: {min(was)} was renamed since" for was in renamed if was), None)


def _moves_to(first: TableSchema, earlier: Sequence[TableSchema], rules: VersionRules) -> tuple[Move, ...]:
    """Return the renames and drops in versions before the first that a table takes, as far back as they fit."""
    moves, after = list[Move](), first
    for version in sorted({v for v in earlier if v.version < first.version}, key=lambda v: v.version, reverse=True):
        move = replace(rules.move(version, after), kept=())
        if objection(shape_of(version), version, after, move, frozenset(), rules.on_new_key):
            break
        moves, after = [move, *moves], version
    return tuple(move for move in moves if move.changes_columns)


@dataclass(frozen=True)
class _Line:
    """The versions of a table in order: those whose rows one shape can hold, and why it cannot hold the others.

    `unknown` are the added columns that are renamed ones at the source: nothing tells what older rows have in them.
    """

    accepted: Sequence[TableSchema]
    refused: Mapping[TableSchema, str]
    shape: Shape
    moves: tuple[Move, ...]
    news: Sequence[News]
    again: Sequence[str]
    rekeyed: bool
    later: Sequence[TableSchema]
    unknown: Set[str]


def _line(
    versions: Sequence[TableSchema], present: Shape | None, memory: AppliedVersions, rules: VersionRules, *, alone: bool
) -> _Line:
    """Follow versions in their order. Columns that are gone before the newest one that is known are not followed.

    The first one may have narrower types than the table that is `present`, which never become narrower again.
    `alone`: no rows have come of versions that are known. Only then may the first one have another key than the
    next.
    """
    accepted, refused = list(versions[:1]), dict[TableSchema, str]()
    moves, news, again = list[Move](), list[News](), list[str]()
    kept, unknown = set(memory.kept), set[str]()
    before = memory.current(versions[0])
    shape = shape_of(before)
    room = widened(present or shape, shape).columns
    shape = replace(shape, columns={name: room[name] for name in shape.columns})
    settled, rekeyed, later = memory.newest in (None, versions[0]), False, list[TableSchema]()
    for n, version in enumerate(versions[1:], 1):
        there = memory.current(version)
        move = rules.move(before, there) if settled else Move(version.version)
        there = with_columns_of(there, before) if rules.several else there
        on_new_key = rules.on_new_key
        old_key, key = following(shape, [move]).key, there.handle_key
        rekeys = bool(old_key and key) and set(old_key or ()) != set(key) and version.version > before.version
        if rekeys and settled and not refused and on_new_key is OnNewKey.FOLLOW:
            if not (alone and n == 1 and versions[0] == memory.newest):
                later += versions[n:]
                break
            on_new_key = OnNewKey.NO_KEY
        cause = next((why for one, why in refused.items() if not rules.are_apart(one, version)), None)
        cause = cause or rules.mixes(version)
        cause = cause or objection(shape, before, there, move, kept, on_new_key)
        if settled and not cause and rules.on_ddl.of(DdlKind.ALTER_COLUMN_TYPE) is OnDdl.IGNORE:
            cause = wider(following(shape, [move]), shape_of(there))
        if cause:
            refused[version] = cause
            continue
        accepted.append(version)
        if on_new_key is not rules.on_new_key:
            rekeyed = True
            news.append((None, f"{KEY_CHANGED} {key_text(old_key)} to {key_text(key)}"))
        if settled:
            news += _news(before, there, move)
            added = {c.name for c in there.columns} - {c.name for c in before.columns}
            again += sorted(kept & added)
            renamed = rules.surely_renamed.get(version.version, {})
            unknown |= {name for name in added - kept - {*dict(move.renamed)} if name.lower() in renamed}
        if move.changes_columns or move.kept:
            moves.append(move)
            kept |= {*move.kept}
        shape, before = widened(following(shape, [move]), shape_of(there)), there
        shape = replace(shape, key=key) if rekeyed else shape
        settled |= version == memory.newest
    return _Line(accepted, refused, shape, tuple(moves), news, again, rekeyed, later, unknown)


def _news(before: TableSchema, version: TableSchema, move: Move) -> list[News]:
    """Say what a version changed, for people."""
    renamed = dict(move.renamed)
    old = {c.name: c.data_type for c in before.columns}
    said: list[News] = [(DdlKind.RENAME_COLUMN, f"column {was} renamed to {now}") for now, was in move.renamed]
    said += [(DdlKind.DROP_COLUMN, f"column {name} dropped") for name in move.dropped]
    said += [(DdlKind.DROP_COLUMN, f"column {name} dropped or renamed") for name in move.kept]
    for column in version.columns:
        was = old.get(renamed.get(column.name, column.name))
        if was is None or (column.name in renamed.values() and column.name not in renamed):
            said.append((DdlKind.ADD_COLUMN, f"column {column.name} added"))
        elif table_type(was) != table_type(column.data_type):
            what = f"column {column.name} changed from {was} to {column.data_type}"
            said.append((DdlKind.ALTER_COLUMN_TYPE, what))
    return said
