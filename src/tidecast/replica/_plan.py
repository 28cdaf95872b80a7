"""What a batch means for one table: its rows that can be applied, and those that go to the dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError, TableRefused
from tidecast._policy import DdlKind, DdlPolicy, OnDdl, OnUnrepresentable
from tidecast.model import RECORD, Ddl, Reason, TableChanges, TableSchema
from tidecast.replica._applied_versions import AppliedVersions
from tidecast.replica._changes import doubtful_columns, table_changes
from tidecast.replica._check import Policy, check, refuse
from tidecast.replica._columns import fill, fills
from tidecast.replica._evolve import Evolution, OnNewKey, Shape, delete_objection, reconcile, with_wider_key
from tidecast.replica._key_change import is_before, is_later, notes_of, objection, on_new_key, rekeyed_by
from tidecast.replica._mask import NOTE as MASKS
from tidecast.replica._mask import check_masks, note, remembered
from tidecast.replica._mode import ROWS_ALONE, Contents
from tidecast.replica._prepare import Origin
from tidecast.replica._truncated import NEVER, Truncations, kind_of
from tidecast.replica._waiting import WAITING, Told, told_since, waiting_since
from tidecast.replica.targets import CONTENTS, TableState, TargetTable
from tidecast.replica.targets.delta import DeltaTarget
from tidecast.spark import union

_LETTER = [*RECORD.fieldNames(), "reason", "detail"]

_KEYSPACE, _VERSIONS, _TEXTS = "tidecast.keyspace", "tidecast.versions", "tidecast.unrepresentable"
SOURCES, SAFE = "tidecast.sources", ' ",[]'

NO_ORIGIN = Origin()

Refused = tuple[TableChanges, Reason, str]


@dataclass(frozen=True)
class Plan:
    """One table's part of a batch.

    `present` is the table as it lies there, None where there is none. `accepted` are the changes to apply, `refused`
    the others with the reason and the cause. `notes` is what the table shall remember, and does not yet. `unfinished`
    are files where the table shall lie, of a write that was not finished. `contents` is what it holds, `sources`
    are the tables at the source that become it. `outdated` are changes of the table that it was before the last one of
    `truncated` that dropped it, and those that an earlier attempt at the batch applied before the table got another
    key. `only` are the keys, `key`, to which changes are applied, None for all. `later` are changes by another key,
    which a plan of their own applies after this one; `rekeyed` tells that the table has got its key with this batch.
    `makes` tells that the table, which is not there, is made without a row, and `waited` that the one which is there
    has had none.
    """

    database: str
    table: str
    place: TargetTable
    present: Shape | None
    evolution: Evolution
    accepted: tuple[TableChanges, ...]
    refused: tuple[Refused, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    unfinished: Sequence[str] = ()
    contents: Contents = ROWS_ALONE
    sources: Sequence[str] = ()
    truncated: Truncations = NEVER
    outdated: tuple[TableChanges, ...] = ()
    only: DataFrame | None = None
    later: tuple[TableChanges, ...] = ()
    rekeyed: bool = False
    makes: bool = False
    waited: bool = False

    @property
    def is_new(self) -> bool:
        """Whether no row has come to the table before."""
        return self.present is None or self.waited

    @property
    def merges(self) -> bool:
        """Whether rows are found by their key; else they are appended."""
        return bool(self.key) and not self.contents.is_log

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty where nothing does."""
        return self.evolution.shape.key or ()

    @property
    def present_key(self) -> T.StructType:
        """The columns that identify a row of the source in the table that is there."""
        there = self.present or Shape()
        return T.StructType([T.StructField(name, there.columns[name]) for name in there.key or ()])

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of the table, which may hold several versions of a row of the source."""
        return self.contents.row_key(self.key)

    @property
    def all_changes(self) -> list[TableChanges]:
        """All its changes, each row checked (see `check`)."""
        return [*self.accepted, *self.set_aside]

    @property
    def set_aside(self) -> list[TableChanges]:
        """Its changes that are not applied, whatever they are."""
        return [*(c for c, _, _ in self.refused), *self.outdated]

    @property
    def frames(self) -> list[DataFrame]:
        """The frames of all its changes."""
        return [c.frame for c in self.all_changes]

    def then(self, later: Plan) -> Plan:
        """Return what this plan and the one of `later` did together, for a report."""
        one, two = self.evolution, later.evolution
        both = replace(
            two,
            refused={**one.refused, **two.refused},
            moves=(*one.moves, *two.moves),
            news=(*one.news, *two.news),
            left_out=(*one.left_out, *two.left_out),
        )
        return replace(
            later,
            evolution=both,
            present=self.present,
            truncated=self.truncated,
            accepted=(*self.accepted, *later.accepted),
            refused=(*self.refused, *later.refused),
        )

    def dead_letters(self) -> DataFrame:
        """Return the messages that are not applied: `RECORD`, `reason`, `detail`."""
        return union([frame.where(F.col("reason").isNotNull()).select(_LETTER) for frame in self.frames])

    def changes(self) -> DataFrame:
        """Return the changes to apply, in the table's types.

        Out: see `table_changes`; those that cannot be applied are among them, without a key.
        """
        changes = union([table_changes(c, self.evolution, self.doubtful, self.contents) for c in self.accepted])
        if self.only is None:
            return changes
        kind = self.only.schema["key"].dataType
        # Changes that cannot be applied have no key, and are counted.
        nothing = self.only.sparkSession.range(1).select(F.lit(None).cast(kind).alias("key"))
        those = union([self.only, nothing]).select(F.col("key").alias("asked"))
        return changes.join(those, F.col("key").eqNullSafe(F.col("asked")), "left_semi")

    @property
    def doubtful(self) -> list[str]:
        """The columns that may have values which the table cannot hold."""
        return doubtful_columns(self.accepted)

    def virtual(self) -> list[str]:
        """Return the columns whose values no message carries, because MySQL computes them when they are read."""
        return list(dict.fromkeys(c.name for change in self.accepted for c in change.schema.columns if c.virtual))

    def kept(self) -> Sequence[str]:
        """Return the columns that were gone from the source with this batch, and stay in the table."""
        return list(dict.fromkeys(self.evolution.kept))

    def unfilled(self) -> list[str]:
        """Return the columns that older rows lack and whose default cannot be told."""
        return [name for name in self._lacked() if fill(self.evolution.defined[name]) is None]

    def lent(self) -> list[str]:
        """Return the columns whose default rows of other source tables may get, which lack them."""
        return [n for n in self._lacked() if fills(self.evolution.defined[n])] if len(self.sources) > 1 else []

    def _lacked(self) -> list[str]:
        """Return the columns that rows of this batch, or those in the table, do not have yet."""
        lacking, lineage = [c.schema for c in self.accepted if c.upserts_from is not None], self.evolution.lineage
        shapes = [{*lineage.names(s).values(), *lineage.gone(s)} for s in lacking]
        shapes += [set(self.evolution.moved.columns)] if self.evolution.moved else []
        defined = self.evolution.defined
        return [n for n in defined if any(n not in names for names in shapes)]


def plan(
    place: TargetTable,
    changes: Sequence[TableChanges],
    schema_changes: Sequence[Ddl],
    contents: Contents = ROWS_ALONE,
    *,
    has_commit_ts: bool,
    policy: Policy,
    on_ddl: DdlPolicy,
    origin: Origin = NO_ORIGIN,
    truncated: Callable[[TableState | None, bool], Truncations] = lambda *_: NEVER,
    batch: str | None = None,
    told: Sequence[Told] = (),
    ended: Callable[[], int] = lambda: 0,
    born: Mapping[str, str] | None = None,
) -> Plan:
    """Return what the changes of one table, and of its schema, mean for it; there may be none of its rows.

    `has_commit_ts`: see `Events`; `origin`: see `Prepared`; `truncated` tells when it was truncated, of the table that
    is there, and whether that waits for its first row; `batch` names the batch among those of its checkpoint, None
    where there is none; `told` is what tells of a table without rows, `ended` when it ended last, `born` what a new
    table remembers besides. Raises
    ConfigError where the table holds something else than `contents`, or under other masks, and TableRefused where a
    column of the source has the name of one of those.
    """
    there = place.present()
    since = waiting_since(place, there)
    cut = truncated(there, since is not None)
    if since is not None and since > cut.dropped:
        cut = replace(cut, replaces=False)
    unfinished = () if there else place.unfinished()
    there = None if cut.replaces else there
    waits = there is not None and since is not None
    rekeyed = rekeyed_by(batch, there.notes) if there else None
    given, changes, outdated = changes, list[TableChanges](), list[TableChanges]()
    for change in given:
        by_old_key = rekeyed is not None and there and is_before(change, rekeyed, there.shape.key or ())
        (outdated if by_old_key or _is_of_dropped(change, cut) else changes).append(change)
    shown = [change.schema for change in schema_changes if change.schema and change.commit_ts > cut.dropped]
    by_ddl = [version for version in shown if not contents.clash([c.name for c in version.columns])]
    telling = list[Told]()
    if not given and (waits or there is None) and told:
        fit_to_be_told = [one for one in told if not contents.clash([c.name for c in one.schema.columns])]
        telling = told_since(fit_to_be_told, max(cut.dropped, ended()), since if waits else None)
    versions_told = (*(c.schema for c in (*changes, *outdated)), *shown, *(one.schema for one in told))
    schema = next(iter(versions_told), None) or _bare(schema_changes)
    present, notes = (there.shape, there.notes) if there else (None, dict[str, str]())
    _check_contents(schema.name, contents, notes if there else None, [c.schema for c in changes])
    texts = policy.on_unrepresentable is OnUnrepresentable.STRING
    _check_texts(schema.name, notes if there else None, texts=texts)
    sources = _sources(schema.name, origin, notes if there else None, on_ddl)
    masks = remembered(notes)
    versions_shown = (*(c.schema for c in changes), *shown, *(one.schema for one in telling))
    names = {c.name for version in versions_shown for c in version.columns}
    check_masks(schema.name, masks, origin.masked, present.columns if present else (), names)
    keyspace = unquote(notes.get(_KEYSPACE, "")) or next((c.keyspace for c in changes if c.keyspace), None)
    mine = [c for c in changes if c.keyspace in (None, "", keyspace)]
    memory = AppliedVersions.from_text(notes.get(_VERSIONS, ""))
    latest = [memory.newest] if waits and memory.newest else []
    memory = AppliedVersions() if waits else memory
    unfit = _of_others(changes, keyspace) + _without_their_key(mine)
    fit = [c for c in mine if all(c is not unusable for unusable, _, _ in unfit)]
    # A group of deletes may show nothing of its table but the key; it is no version of its own.
    versions = [c.schema for c in fit if c.upserts_from is not None]
    # A table may have been dropped and made anew before its first row; that concerns no row.
    known = [memory.newest.version] if memory.newest and present and has_commit_ts else []
    first = min([*(v.version for v in versions), *known], default=None)
    versions += [v for v in (*latest, *by_ddl) if first is not None and v.version >= first]
    if telling:  # one table at the source is what it was told to be last, several make one that holds them all
        versions = [*latest, *(one.schema for one in telling)] if len(sources) > 1 else [telling[-1].schema]
    # TRUNCATE and RENAME TABLE may come with the version that a change of columns made.
    columns_told = [change for change in schema_changes if kind_of(change) is None]
    new_key = on_new_key(contents, sources, on_ddl, batch)
    if versions:
        evolution = reconcile(
            versions,
            None if waits else present,
            memory,
            has_commit_ts=has_commit_ts,
            renamed={c.schema.version: c.statement.former_names for c in columns_told if c.schema and c.statement},
            on_ddl=on_ddl,
            on_new_key=new_key,
        )
        if present and not waits and evolution.rekeyed is not None and (cause := objection(place, present, evolution)):
            evolution = Evolution(present, {}, dict.fromkeys(versions, cause), memory, clash=cause)
    elif present is None or (waits and given):  # deletes alone: it still waits
        present, waits, evolution = None, False, Evolution(Shape())
    else:
        key = schema.handle_key
        shape = replace(present, key=key) if present.key is None and changes else present
        evolution = Evolution(shape, memory=memory, moved=present)
    if on_ddl.of(DdlKind.ALTER_COLUMN_TYPE) is not OnDdl.IGNORE:
        evolution = with_wider_key(evolution, [c.schema for c in fit if c.upserts_from is None])
    later = [change for change in fit if is_later(change, evolution)]
    accepted, refused = [], list[Refused]()
    for change in fit:
        if any(change is other for other in later):
            continue
        if cause := _refusal(change, evolution, contents, new_key):
            cause += f" ({', '.join(sources)} become one table)" if len(sources) > 1 else ""
            refused.append((change, Reason.SCHEMA_CHANGE, cause))
        else:
            accepted.append(check(change, policy, log=contents.is_log))
    shall = {} if there else {**(born or {})}
    shall |= {_KEYSPACE: quote(keyspace)} if keyspace else {}
    shall |= {CONTENTS: contents.text} if contents.text else {}
    shall |= {_TEXTS: OnUnrepresentable.STRING} if texts else {}
    shall |= {MASKS: note({**masks, **origin.masked})} if origin.masked else {}
    shall |= {SOURCES: quote(json.dumps(sources), safe=SAFE)} if sources != [schema.name] else {}
    shall |= {_VERSIONS: evolution.memory.text()} if evolution.memory.newest else {}
    shall |= {} if there and not waits else cut.notes  # else it remembers them when they are carried out
    shall |= {WAITING: str(telling[-1].commit_ts)} if telling else {WAITING: ""} if waits and versions else {}
    shall |= notes_of(evolution, batch) if there and not waits else {}
    return Plan(
        schema.database,
        schema.table,
        place,
        present,
        evolution,
        tuple(accepted),
        tuple((check(change, policy, (reason, cause)), reason, cause) for change, reason, cause in (*unfit, *refused)),
        {name: value for name, value in shall.items() if notes.get(name) != value},
        unfinished,
        contents,
        sources,
        cut,
        tuple(check(change, policy, log=contents.is_log) for change in outdated),
        later=tuple(later),
        rekeyed=bool(there) and not waits and (rekeyed is not None or evolution.rekeyed is not None),
        makes=bool(telling) and present is None,
        waited=waits,
    )


def _is_of_dropped(change: TableChanges, cut: Truncations) -> bool:
    """Tell whether changes are all of a table that was dropped; one that comes back by RECOVER keeps its version."""
    if change.schema.version >= cut.dropped:
        return False
    return change.frame.where(F.col("commit_ts") >= F.lit(cut.dropped)).isEmpty()


def _bare(schema_changes: Sequence[Ddl]) -> TableSchema:
    """Return a version that tells nothing but the table's name."""
    return TableSchema(schema_changes[0].database, schema_changes[0].table, 0, 0, ())


def _check_contents(
    name: str, contents: Contents, notes: Mapping[str, str] | None, versions: Sequence[TableSchema]
) -> None:
    """Raise ConfigError where a table, which remembers `notes`, holds something else, TableRefused where it cannot."""
    held = Contents.from_text(notes.get(CONTENTS, "")) if notes is not None else contents
    if held != contents:
        asked = " ".join(("--mode", held.mode, *(f"--metadata {name}" for name in held.metadata)))
        hint = "use the same, or replicate to another place"
        raise ConfigError(f"the table was made with {asked}", where=name, hint=hint)
    for version in versions:
        if column := contents.clash([c.name for c in version.columns]):
            raise TableRefused(
                f"column {column} of the source has the name of a metadata column", hint="another --mode"
            )


def _check_texts(name: str, notes: Mapping[str, str] | None, *, texts: bool) -> None:
    """Raise ConfigError where a table, which remembers `notes`, keeps dates and times in another form."""
    if notes is not None and (_TEXTS in notes) is not texts:
        held = "with" if _TEXTS in notes else "without"
        hint = "do the same, or replicate to another place"
        option = f"--on-unrepresentable {OnUnrepresentable.STRING}"
        raise ConfigError(f"the table was made {held} {option}", where=name, hint=hint)


def has_several_sources(notes: Mapping[str, str]) -> bool:
    """Tell whether several tables of the source become the one that remembers this."""
    return len(json.loads(unquote(notes.get(SOURCES, "[]")))) > 1


def _sources(name: str, origin: Origin, notes: Mapping[str, str] | None, on_ddl: DdlPolicy) -> list[str]:
    """Return the tables that become this one, with those that a table remembers in `notes`.

    Raises ConfigError where one of several would drop or rename what another has still.
    """
    held = [] if notes is None else json.loads(unquote(notes.get(SOURCES, quote(json.dumps([name])))))
    sources = sorted({*held, *origin.sources})
    kind = next((k for k in (DdlKind.DROP_COLUMN, DdlKind.RENAME_COLUMN) if on_ddl.carries_out(k)), None)
    if len(sources) > 1 and kind:
        cause = f"{', '.join(sources)} become one table, from which --ddl {on_ddl.of(kind)} would drop columns of the "
        raise ConfigError(f"{cause}others", where=name, hint=f"--ddl {OnDdl.LENIENT}")
    return sources or [name]


def refusing(changes: Sequence[TableChanges], cause: str) -> Plan:
    """Return a plan by which all changes of a table, at least one, go to the dead letters; nothing else is done."""
    schema, nowhere = changes[0].schema, DeltaTarget(changes[0].frame.sparkSession, "")
    refused = tuple((refuse(change, cause), Reason.TABLE_REFUSED, cause) for change in changes)
    return Plan(schema.database, schema.table, nowhere, None, Evolution(Shape()), (), refused)


def _of_others(changes: Sequence[TableChanges], keyspace: str | None) -> list[Refused]:
    """Return the changes of a table that has the same name, but another keyspace."""
    rest = f"and the table there is of keyspace {keyspace}: give each keyspace a place of its own"
    others = [c for c in changes if c.keyspace not in (None, "", keyspace)]
    return [(c, Reason.FOREIGN_SCHEMA, f"of keyspace {c.keyspace}, {rest}") for c in others]


def _without_their_key(changes: Sequence[TableChanges]) -> list[Refused]:
    """Refuse changes without a key whose table version has a key in other changes."""
    keyed = {c.schema.version for c in changes if c.upserts_from is not None and c.schema.handle_key}
    unkeyed = [c for c in changes if c.schema.version in keyed and not c.schema.handle_key]
    return [(c, Reason.BAD_MESSAGE, "no key, which other rows of the same schema have") for c in unkeyed]


def _refusal(change: TableChanges, evolution: Evolution, contents: Contents, new_key: OnNewKey) -> str | None:
    if contents.is_log and not evolution.shape.columns:
        return "a delete before any row has shown the table's columns"
    if change.upserts_from is not None:
        return evolution.refused.get(change.schema)
    return delete_objection(evolution, change.schema, new_key)
