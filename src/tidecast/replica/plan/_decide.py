"""Decide a batch's effect on one table: its columns and key, the changes that it takes, the notes to keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from urllib.parse import quote, unquote

from tidecast._policy import DdlKind, OnDdl, OnUnrepresentable
from tidecast.model import Ddl, Reason, TableChanges, TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, Shown
from tidecast.replica.plan._deletes import with_wider_key
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._evolve import reconcile
from tidecast.replica.plan._facts import Facts, Rules
from tidecast.replica.plan._key_change import (
    BY_FORMER_KEY,
    is_before,
    is_later,
    notes_of,
    objection,
    on_new_key,
    rekeyed_by,
)
from tidecast.replica.plan._notes import (
    KEYSPACE,
    SAFE,
    SOURCES,
    TEXTS,
    VERSIONS,
    check_contents,
    check_texts,
    sources_of,
)
from tidecast.replica.plan._plan import Plan, PlannedRows, Refused
from tidecast.replica.plan._refused import is_of_dropped, of_others, refusal, shows_rows, without_their_key
from tidecast.replica.plan._returned_versions import split_where_others_began
from tidecast.replica.plan._shapes import OnNewKey
from tidecast.replica.plan._truncated import NEVER, Truncations, kind_of
from tidecast.replica.plan._version_rules import reused
from tidecast.replica.plan._waiting import WAITING, Told, creates, ends, told_since
from tidecast.replica.settle import Origin, check
from tidecast.replica.tables import NOTE as MASKS
from tidecast.replica.tables import Shape, check_masks, note, remembered
from tidecast.replica.targets import CONTENTS, TableState, TargetTable

NO_ORIGIN = Origin()


def plan(
    place: TargetTable,
    changes: Sequence[TableChanges],
    schema_changes: Sequence[Ddl],
    rules: Rules,
    *,
    origin: Origin = NO_ORIGIN,
    truncated: Callable[[TableState | None, bool], Truncations] = lambda *_: NEVER,
    told: Sequence[Told] = (),
    ended: Callable[[], int] = lambda: 0,
    born: Mapping[str, str] | None = None,
) -> Plan:
    """Return what the changes of one table, and of its schema, mean for it; there may be none of its rows.

    `origin`: see `Prepared`; `truncated`: see `Facts`; `told` is what tells of a table without rows, `ended` when it
    ended last, `born` what a new table remembers besides. Raises ConfigError where the table holds something else than
    the rules say, or under other masks, and TableRefused where a column of the source has the name of one of those.
    """
    facts = Facts.of(place, truncated)
    decision = _Decision(facts, changes, schema_changes, rules, origin, told, ended, born or {})
    decision.check()
    return decision.plan()


@dataclass(frozen=True)
class _Decision:
    """The parts of a decision, each made of those before it."""

    facts: Facts
    given: Sequence[TableChanges]
    sent: Sequence[Ddl]
    rules: Rules
    origin: Origin
    told: Sequence[Told]
    ended: Callable[[], int]
    born: Mapping[str, str]

    @cached_property
    def _by_former_key(self) -> list[TableChanges]:
        """The changes of before the table got the key that it has."""
        present, rekeyed = self.facts.present, rekeyed_by(self.facts.notes or {})
        if present is None or rekeyed is None:
            return []
        called = ((one, replace(one, schema=self._remembered.current(one.schema))) for one in self.given)
        return [one for one, now in called if is_before(now, rekeyed[1], present.key or ())]

    @cached_property
    def _rekeyed(self) -> bool:
        """Tell whether an earlier attempt at this batch gave the table its key."""
        rekeyed = rekeyed_by(self.facts.notes or {})
        return rekeyed is not None and rekeyed[0] == self.rules.batch

    @cached_property
    def _outdated(self) -> list[TableChanges]:
        """The changes that are of an earlier table of this name, or that were applied before this one got its key."""
        applied = {*map(id, self._by_former_key)} if self._rekeyed else set()
        return [one for one in self.given if id(one) in applied or is_of_dropped(one, self.facts.truncated)]

    @cached_property
    def _changes(self) -> list[TableChanges]:
        outdated = set(map(id, self._outdated))
        return [change for change in self.given if id(change) not in outdated]

    @cached_property
    def _shown(self) -> list[TableSchema]:
        """The versions that statements show."""
        dropped = self.facts.truncated.dropped
        return [change.schema for change in self.ddl if change.schema and change.commit_ts > dropped]

    @cached_property
    def _telling(self) -> list[Told]:
        """Return the messages that show a table without rows."""
        facts, contents = self.facts, self.rules.contents
        if self.given or not self.told or not (facts.waits or facts.state is None):
            return []
        fit = [one for one in self.told if not contents.clash([c.name for c in one.schema.columns])]
        return told_since(fit, max(facts.truncated.dropped, self.ended()), facts.since if facts.waits else None)

    @cached_property
    def _told(self) -> list[Shown]:
        """Return the versions that messages showed and the table has not taken, in their order."""
        known = self._remembered.told
        told = [Shown(one.schema, one.former) for one in self._telling]
        created = max((n for n, one in enumerate(self._telling) if one.creates), default=None)
        return list(dict.fromkeys([*known, *told] if created is None else told[created:]))

    @cached_property
    def _before_rows(self) -> list[TableSchema]:
        """Return the versions that were shown since the table was created, whose rows may come late."""
        shown = list[TableSchema]()
        for change in sorted(self.ddl, key=lambda change: change.commit_ts):
            if ends(change) or creates(change):
                shown.clear()
            if change.schema in self._shown:
                shown.append(change.schema)
        return [*(one.schema for one in self._told), *shown]

    @cached_property
    def _schema(self) -> TableSchema:
        """A version of the table; with its name alone where nothing shows one."""
        of_rows = (change.schema for change in (*self._changes, *self._outdated))
        found = (*of_rows, *self._shown, *(one.schema for one in self.told))
        return found[0] if found else TableSchema(self.ddl[0].database, self.ddl[0].table, 0, 0, ())

    @cached_property
    def _sources(self) -> list[str]:
        return sources_of(self._schema.name, self.origin, self.facts.notes, self.rules.on_ddl)

    def check(self) -> None:
        """Raise ConfigError or TableRefused where the table was made otherwise than this batch would."""
        name, facts, rules = self._schema.name, self.facts, self.rules
        check_contents(name, rules.contents, facts.notes, [change.schema for change in self._changes])
        check_texts(name, facts.notes, texts=rules.texts)
        shown = (*(c.schema for c in self._changes), *self._shown, *(one.schema for one in self._telling))
        names = {column.name for version in shown for column in version.columns}
        columns = facts.present.columns if facts.present else ()
        renamed = [move.renamed for move in self._evolution.moves]
        check_masks(name, remembered(facts.notes or {}), self.origin.masked, columns, names, renamed)

    @cached_property
    def _keyspace(self) -> str | None:
        noted = unquote((self.facts.notes or {}).get(KEYSPACE, ""))
        return noted or next((change.keyspace for change in self._changes if change.keyspace), None)

    @cached_property
    def _unfit(self) -> list[Refused]:
        """Return the changes of another table, of an earlier key, and those without the key that other changes have."""
        late = set() if self._rekeyed else {*map(id, self._by_former_key)}
        mine = [c for c in self._changes if c.keyspace in (None, "", self._keyspace) and id(c) not in late]
        by_former_key = [(c, Reason.SCHEMA_CHANGE, BY_FORMER_KEY) for c in self._changes if id(c) in late]
        return of_others(self._changes, self._keyspace) + without_their_key(mine) + by_former_key

    @cached_property
    def _fit(self) -> list[TableChanges]:
        unfit = {id(change) for change, _, _ in self._unfit}
        fit = [change for change in self._changes if id(change) not in unfit]
        if not self.rules.versions_by_time or len(self._sources) > 1:
            return fit
        shown = [change.schema for change in fit if shows_rows(change, self.rules.contents)]
        return split_where_others_began(fit, shown, self._remembered)

    @cached_property
    def ddl(self) -> list[Ddl]:
        """The schema changes, with the key that the table had where they show none."""
        former = self._remembered.newest
        return [replace(one, schema=one.schema and one.schema.keyed_like(former)) for one in self.sent]

    @cached_property
    def _remembered(self) -> AppliedVersions:
        """The versions that the table remembers, also while it waits."""
        return AppliedVersions.from_text((self.facts.notes or {}).get(VERSIONS, ""))

    @cached_property
    def _memory(self) -> AppliedVersions:
        return AppliedVersions() if self.facts.waits else self._remembered

    @cached_property
    def _versions(self) -> list[TableSchema]:
        """Return the versions whose rows the table must hold."""
        contents, newest = self.rules.contents, self._memory.newest
        waiting = self._remembered.newest
        latest = [waiting] if self.facts.waits and waiting else []
        told = [one.schema for one in self._told] or latest
        if telling := [one.schema for one in self._telling]:
            # One source table has the newest version; several become one table that holds all their versions.
            return [*latest, *telling] if len(self._sources) > 1 else telling[-1:]
        # A group of deletes may show nothing of its table but the key; it is no version of its own.
        of_rows = [(change.schema, shows_rows(change, contents)) for change in self._fit]
        knows = partial(self._memory.knows, versions_by_time=self.rules.versions_by_time)
        versions = [version for version, shows in of_rows if shows or knows(version)]
        # A table may have been dropped and re-created before its first row; that concerns no row.
        known = [newest.version] if newest and self.facts.present else []
        first = min([*(v.version for v in versions), *known], default=None)
        by_ddl = [version for version in self._shown if not contents.clash([c.name for c in version.columns])]
        return versions + [v for v in (*told, *by_ddl) if first is not None and v.version >= first]

    @cached_property
    def _on_new_key(self) -> OnNewKey:
        return on_new_key(self.rules.contents, self._sources, self.rules.on_ddl, self.rules.batch)

    @cached_property
    def _still_waits(self) -> bool:
        """Tell whether a table goes on waiting as it is, or gets its first row. Deletes alone leave it alone."""
        return self.facts.waits and (bool(self._versions) or not self.given)

    @cached_property
    def _present(self) -> Shape | None:
        return None if self.facts.waits and not self._still_waits else self.facts.present

    @cached_property
    def _evolution(self) -> Evolution:
        found = self._reconciled()
        if self.rules.on_ddl.of(DdlKind.ALTER_COLUMN_TYPE) is OnDdl.IGNORE:
            return found
        deletes = [change.schema for change in self._fit if not shows_rows(change, self.rules.contents)]
        return with_wider_key(found, deletes)

    def _reconciled(self) -> Evolution:
        present, rules, facts = self._present, self.rules, self.facts
        if not self._versions:
            if present is None:
                return Evolution(Shape())
            keyless = present.key is None and self._changes
            shape = replace(present, key=self._schema.handle_key) if keyless else present
            return Evolution(shape, memory=self._memory, moved=present)
        alone = rules.versions_by_time and len(self._sources) < 2
        # TRUNCATE and RENAME TABLE may come with the version that a change of columns made.
        columns_told = [change for change in self.ddl if kind_of(change) is None]
        renamed = {one.schema.version: dict(one.former) for one in self._told}
        renamed |= {c.schema.version: c.statement.former_names for c in columns_told if c.schema and c.statement}
        found = reconcile(
            self._versions,
            None if facts.waits else present,
            self._memory,
            versions_by_time=rules.versions_by_time,
            renamed=renamed,
            on_ddl=rules.on_ddl,
            on_new_key=self._on_new_key,
            earlier=self._before_rows if alone else (),
            several=len(self._sources) > 1,
        )
        if present is not None and not facts.waits and found.rekeyed is not None:
            cause = objection(facts.place, present, found)
            if cause is not None:
                refused = dict.fromkeys(self._versions, cause)
                found = Evolution(present, refused=refused, memory=self._memory, moved=present)
        if rules.versions_by_time and (newest := found.memory.newest):
            # Of several source tables, one's refused version would keep out later ones of the others. That has to be
            # only where its rows look as if they fitted.
            kept = found.shape.columns if rules.on_ddl.ignores_columns else ()
            told = [v for v in found.refused if (v.version > newest.version if alone else reused(v, renamed, kept))]
            # A version that was refused before, and waits now for rows by the old key, is decided after them.
            told += [one.schema for one in self._told if one.schema in found.later]
            found = replace(found, memory=found.memory.told_of(told, renamed))
        return found

    @cached_property
    def _later(self) -> list[TableChanges]:
        return [change for change in self._fit if is_later(change, self._evolution)]

    @cached_property
    def _causes(self) -> list[tuple[TableChanges, str | None]]:
        """The changes of this part of the batch, each with the cause why the table cannot take it."""
        later, among = set(map(id, self._later)), ""
        if len(self._sources) > 1:
            among = f" ({', '.join(self._sources)} become one table)"
        now = [change for change in self._fit if id(change) not in later]
        causes = [refusal(change, self._evolution, self.rules.contents, self._on_new_key) for change in now]
        return [(change, cause and f"{cause}{among}") for change, cause in zip(now, causes, strict=True)]

    def _notes(self) -> dict[str, str]:
        """Return the notes that the table does not have yet."""
        facts, rules, evolution = self.facts, self.rules, self._evolution
        waits, there, notes = self._still_waits, facts.state, facts.notes or {}
        stays = there is not None and not waits
        masks, name = self.origin.masked, self._schema.name
        shall = {} if there else {**self.born}
        shall |= {KEYSPACE: quote(self._keyspace)} if self._keyspace else {}
        shall |= {CONTENTS: rules.contents.text} if rules.contents.text else {}
        shall |= {TEXTS: OnUnrepresentable.STRING} if rules.texts else {}
        shall |= {MASKS: note({**remembered(notes), **masks})} if masks else {}
        shall |= {SOURCES: quote(json.dumps(self._sources), safe=SAFE)} if self._sources != [name] else {}
        memory = replace(evolution.memory, told=tuple(self._told)) if self._telling else evolution.memory
        shall |= {VERSIONS: memory.text()} if memory.newest else {}
        shall |= {} if stays else facts.truncated.notes  # else it remembers them when they are carried out
        shall |= notes_of(evolution, rules.batch) if stays else {}
        if self._telling:
            shall[WAITING] = str(self._telling[-1].commit_ts)
        elif waits and self._versions:
            shall[WAITING] = ""
        return {name: value for name, value in shall.items() if notes.get(name) != value}

    def plan(self) -> Plan:
        """Return the decision."""
        facts, rules, evolution = self.facts, self.rules, self._evolution
        refused = [(change, Reason.SCHEMA_CHANGE, cause) for change, cause in self._causes if cause]
        set_aside = [(check(c, rules.policy, (why, cause)), why, cause) for c, why, cause in (*self._unfit, *refused)]
        log = rules.contents.is_log
        rekeyed = self._rekeyed or evolution.rekeyed is not None
        rows = PlannedRows(
            tuple(check(change, rules.policy, log=log) for change, cause in self._causes if not cause),
            tuple(set_aside),
            tuple(check(change, rules.policy, log=log) for change in self._outdated),
            tuple(self._later),
        )
        return Plan(
            (self._schema.database, self._schema.table),
            facts,
            self._present,
            evolution,
            rows,
            self._notes(),
            rules.contents,
            self._sources,
            rekeyed=facts.state is not None and not self._still_waits and rekeyed,
            makes=bool(self._telling) and self._present is None,
        )
