"""Carry out renames: move a table, and the checkpoint's state of it.

That comes before anything else of a batch, once: the table remembers how far it got, and the journal that it was done,
before the next one begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import types as T

from tidecast._errors import TableRefused
from tidecast.model import Events
from tidecast.replica.plan import SAFE, SINCE, SOURCES, Rename, Renames, has_several_sources, tells_age, waiting_since
from tidecast.replica.state import State
from tidecast.replica.tables import COMMIT_TS, VALID_FROM, VALID_TO, Contents, Name
from tidecast.replica.targets import TableState, TargetTable
from tidecast.storage import entries

_RENAMED = "tidecast.renamed"
"""The last rename that a table is moved for (see `mark`); the journal tells when all that goes along was, too."""


@dataclass(frozen=True)
class Known:
    """The facts that decide whether a rename can be carried out: checkpoint, journal, and the tables' contents."""

    table: Callable[..., TargetTable]
    contents: Contents
    state: State | None
    sources: Callable[[Name], set[str]]
    removals: Iterable[tuple[int, Name]]
    dry: bool = False


def carry_out_renames(renaming: Renames, events: Events, known: Known, journal: Callable[[Rename], None]) -> None:
    """Let tables follow, with what the checkpoint knows of them; `events` are the batch's.

    `journal` is told of each, before the next one: a run that ends later must not find its own tables in the way.
    """
    for rename in renaming.pending():
        since = {SINCE: str(rename.commit_ts)} if renaming.is_apart(rename) else {}
        try:
            check = partial(renaming.check, rename, events, known.sources, known.removals)
            _move(rename, known, check, since)
        except TableRefused as error:
            renaming.refuse(rename, str(error))
        else:
            renaming.follow_up(rename)
            journal(rename)


def _move(rename: Rename, known: Known, check: Callable[[], None], since: Mapping[str, str]) -> None:
    """Move a table with what the checkpoint knows of it, if it has to be. Raises TableRefused where it cannot."""
    old, new, at = known.table(rename.old), known.table(rename.new), rename.mark
    state, there = old.present(), new.present()
    if there is not None and there.notes.get(_RENAMED) == at:
        if known.dry:
            return
        if state is not None and state.notes.get(_RENAMED) == at:
            old.drop()  # a run ended between the copy and this
        elif state is not None:
            return  # a later rename brought another table to the old name, after this one was done
    elif there is not None:
        check()
        raise TableRefused("there is a table of the new name already", where=new.shown)
    elif state is None:
        check()
        if _is_spelled_otherwise(old):
            raise TableRefused("its statement spells the table's name in other letters")
        if known.state and any(known.state.keys.any_of(*name) for name in (rename.old, rename.new)):
            raise TableRefused("deletes of these tables came, and no row")
        return
    else:
        notes = {_RENAMED: at, **since}
        if state.notes.get(_RENAMED) != at:
            check()
            _check_age(rename, known, old, state)
            if known.dry:
                return
            if SOURCES in state.notes or ".".join(rename.new) != rename.becomes:
                notes[SOURCES] = quote(json.dumps([rename.becomes]), safe=SAFE)
            old.remember(notes)
        new = known.table(rename.new, make_database=True)
        try:
            old.move_to(new)
        except (UnsupportedOperationException, AnalysisException, TableRefused) as error:
            if waiting_since(old, state) is not None:
                old.drop()  # a later message, or the first row, creates the one of the new name
                _keep_up(rename, known)
                return
            held = {_RENAMED: "0", SINCE: "0", SOURCES: quote(json.dumps([".".join(rename.old)]), safe=SAFE)}
            old.remember({name: state.notes.get(name, held[name]) for name in notes})
            if isinstance(error, TableRefused):
                raise
            raise TableRefused(f"the catalog renames no table: {str(error).strip().splitlines()[0]}") from None
    _keep_up(rename, known)


def _keep_up(rename: Rename, known: Known) -> None:
    """Move the checkpoint's state of a table."""
    if known.state:
        known.state.move(rename.old, rename.new)


def _is_spelled_otherwise(table: TargetTable) -> bool:
    """Tell whether there is a table, or a database, whose name differs from its own in upper and lower case alone."""
    if table.path is None:
        return False
    parts = ((part.name, [entry.name for entry in entries(part.parent)]) for part in (table.path.parent, table.path))
    return any(name not in there and name.lower() in map(str.lower, there) for name, there in parts)


def _check_age(rename: Rename, known: Known, old: TargetTable, state: TableState) -> None:
    """Raise TableRefused where a table has anything newer than its rename, or nothing tells."""
    if has_several_sources(state.notes):
        raise TableRefused("several tables become this one")
    newer = TableRefused("newer rows of another table of the old name, or the new one, came already")
    if mine := known.state:
        if mine.keys.any_of(*rename.new):
            raise newer
        if mine.keys.of(*rename.old, T.StructType()).newest >= rename.commit_ts:
            raise newer
    if waiting_since(old, state) is not None:
        return  # no row
    if tells_age(known.contents):
        ages = [name for name in (COMMIT_TS, VALID_FROM, VALID_TO) if name in known.contents.columns]
        if not old.read().where(" OR ".join(f"{name} >= {rename.commit_ts}L" for name in ages)).isEmpty():
            raise newer
        return
    if not (mine and mine.proofs.follows(*rename.old, old)):
        cause = "nothing tells whether its rows are older: replicate with one --checkpoint, or with --metadata"
        raise TableRefused(f"{cause} {COMMIT_TS}")
    if not mine.keys.of(*rename.old, T.StructType()).remembers_since(rename.commit_ts):
        raise TableRefused("it is so old that nothing tells any more which rows are older")


def since_of(table: TargetTable) -> int | None:
    """Return since when a table's name means it, None where there is no table."""
    state = table.present()
    return None if state is None else int(state.notes.get(SINCE) or 0)
