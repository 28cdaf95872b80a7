"""A batch of events onto tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidecast._errors import ConfigError, TableRefused
from tidecast._policy import DdlKind, DdlPolicy, DdlWords, OnDdl, OnError, OnMismatch, OnUnrepresentable, TableMode
from tidecast._progress import Progress, no_progress
from tidecast.model import Bootstrap, Ddl, Events, TableChanges
from tidecast.replica._applied_keys import AppliedKeys
from tidecast.replica._apply import apply
from tidecast.replica._check import Checked, Policy, check, refuse_mismatches
from tidecast.replica._ddl import Name, carries_out, not_carried_out, stop_at_schema_changes
from tidecast.replica._journal import journaled, write_journal
from tidecast.replica._mode import ROWS_ALONE, Contents
from tidecast.replica._plan import Plan, has_several_sources, plan, refusing
from tidecast.replica._prepare import prepared
from tidecast.replica._proof import Proofs
from tidecast.replica._rename import SINCE, Known, Rename, Renames, renamed_before, renames, since_of
from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._route import Routes
from tidecast.replica._settings import NO_SETTINGS, Settings
from tidecast.replica._truncate import UNTIMED, placed
from tidecast.replica._truncated import Truncations, kind_of, removes_rows, truncations
from tidecast.replica._waiting import Ends, Told, ends
from tidecast.replica.targets import TableState, Target, TargetTable, parse_target
from tidecast.spark import inheriting, parallel_map, union
from tidecast.storage import AnyPath
from tidecast.topics import refuse_dead_letters, write_dead_letters

_AT_ONCE = 4
_UNMADE = "it is not made without a row: {}"

_OF_A_TABLE = ("22", "42601", "42602", "42622", "42701", "42702", "42703", "42704", "42711", "42846", "42K05", "42K09")
"""SQL's states that tell of a table's names, types or values; others tell of the session, the catalog, the storage."""

_VIOLATED = re.compile(r"\[DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED)\] .*")
"""Delta's errors at rows that a constraint of the table forbids; Spark gives them no state."""


def replicate(
    spark: SparkSession,
    events: Events,
    to: str,
    *,
    dead_letters: AnyPath | None = None,
    on_error: str = OnError.DEAD_LETTER,
    on_mismatch: str = OnMismatch.DEAD_LETTER,
    ddl: DdlWords | DdlPolicy = (),
    contents: Contents = ROWS_ALONE,
    on_unrepresentable: str = OnUnrepresentable.NULL,
    settings: Settings = NO_SETTINGS,
    applied: AppliedKeys | None = None,
    proofs: Proofs | None = None,
    progress: Progress = no_progress,
) -> Replicated:
    """Bring tables up to a batch of events; the same batch again, or a longer one of the same topic, is safe.

    `to` is a folder (a path with a `/` or a leading `.`, or a URI) of Delta tables at `to/<database>/<table>`, or a
    Spark catalog, of Delta or Iceberg tables. Each table gets the newest row of each key; rows of tables without a key
    are appended. Messages that cannot be read or applied are appended to `dead_letters` (by default the folder's
    `_dead_letters`), with them all messages of a table that `to` cannot take, for its name, its columns or what lies
    there; with `on_error="fail"` one such message stops the run before any table is touched.

    Each row's checksum is checked (see `tidecast.checksum.verify`). What does not fit goes to the dead letters, as a
    message that cannot be applied; with `on_mismatch="apply"` it is applied, with `"fail"` it stops the run before any
    table is touched. A later row of the same key is applied in any case.

    `ddl` says what is done where a table's schema changes: with `"lenient"` columns are added, types become wider,
    tables are renamed, and a column that is gone from the source, or renamed there, stays, null in new rows; a change
    that the table cannot follow sends its rows to the dead letters. With `"try_evolve"` columns are dropped and
    renamed, too, and tables are truncated and dropped; `"evolve"` does the same, but stops the run at a change that a
    table cannot follow. With `"ignore"` tables stay as they are, and with `"exception"` any change stops the run before
    any table is touched. Several words may be given, of which some are for one kind alone, such as
    `"drop-column=ignore"`; so may a mapping of kinds to words, and the `[ddl]` of a file. What became of each schema
    change that the messages tell is a row of the table `_tidecast/schema_changes` beside the tables.

    `contents` is what tables hold. With `TableMode.SOFT_DELETE` a deleted row stays, with `_deleted` true, and
    `_commit_ts` is that of its last change. With `TableMode.LOG` each change is a row, appended once, with `_op`,
    `_commit_ts`, `_verdict`, `_topic`, `_partition`, `_offset` and `_timestamp`; that of a delete is the row before it,
    of which Avro shows the key. With `TableMode.HISTORY` a row of a table with a key has a row for each of its
    versions, with `_valid_from` and `_valid_to`, commit-ts, the latter null for the one that holds now. A table keeps
    what it was made with.

    A value that the type of its column cannot hold, such as a zero date, is null in the table, and counted. With
    `on_unrepresentable="string"` columns that may have such values keep MySQL's text, and with `"fail"` a row with such
    a value is a message that cannot be applied.

    `settings` has routes, by which tables get another name or become one, and masks: columns that are dropped, hashed
    or redacted after their row was checked. A key's columns can only be hashed, and a table keeps the masks of its
    columns. Dead letters are messages as they were sent.

    `applied` are the keys of the batches before of the same topic: a change that is older than the one that a key was
    brought to changes nothing. Without them that holds within the batch alone. `proofs` are what the tables' rows come
    to by those batches.

    `progress` is told each table's name, and how many of how many tables are done.

    Raises ConfigError for a wrong option, a table with other `contents`, or a catalog without `dead_letters`;
    DecodeError for a message, CorruptedData for a mismatch and TableRefused for a schema change that stops the run.
    Source: Changefeeds, delivery; Avro protocol, row checksum; Other documents, Flink CDC's schema evolution.
    """
    of_values = OnUnrepresentable.parse(on_unrepresentable)
    policy = Policy(OnError.parse(on_error), OnMismatch.parse(on_mismatch), of_values)
    on_ddl = ddl if isinstance(ddl, DdlPolicy) else DdlPolicy.parse(settings.ddl, ddl)
    if contents.is_history and not events.has_commit_ts:
        raise ConfigError(
            f"--mode {contents.mode} needs a commit-ts in every message, deletes included",
            hint=f"Avro's deletes have none: use Simple, or Debezium or Canal-JSON with TiDB's extension, or "
            f"--mode {TableMode.SOFT_DELETE}",
        )
    target = parse_target(to)
    folder = target.dead_letters(dead_letters)
    ready = prepared(events, of_values, settings)
    before = cache(lambda: journaled(target.journal(spark, make_database=False)))

    def sources(name: Name) -> set[str]:
        return ready.origins[name].sources if name in ready.origins else set()

    renaming, all_ddl, fresh = Renames(), events.ddl, renames(events.ddl, settings.routes)
    carries = on_ddl.carries_out(DdlKind.RENAME_TABLE)
    if not events.has_commit_ts:
        renaming = Renames(refused={one.key: UNTIMED for one in fresh} if carries else {})
    elif fresh or applied is None or applied.tells_renames:
        done, not_done = (renamed_before(told, settings.routes) for told in (before().renames, before().left))
        renaming = Renames(fresh if carries else (), done, left=not_done if carries else [*not_done, *fresh])
        if renaming.of_batch:
            known = Known(
                lambda name, make_database=False: target.table(spark, *name, make_database=make_database),
                contents,
                applied,
                proofs,
                sources,
                [(at, name) for at, _, name in before().removals],
            )

            def journal_of(rename: Rename) -> None:
                if applied:
                    applied.tell_renamed()
                moved = [change for change in ready.events.ddl if (change.commit_ts, change.sql) == rename.key]
                write_journal(spark, target.journal(spark), moved, {}, {}, on_ddl, {}, renaming.now_of)

            renaming.carry_out(ready.events, known, journal_of)
        if renaming.left and applied:
            applied.tell_renamed()
    renaming.keep_apart(ready.events, lambda name: since_of(target.table(spark, *name, make_database=False)))
    renaming.check_sources(sources)
    events = renaming.follow(ready.events)
    by_name, ddl_by_name = by_table(events)
    makes = on_ddl.of(DdlKind.CREATE_TABLE) is not OnDdl.IGNORE and not (applied and applied.again)
    told_by_name = _told_by_table(events) if makes and events.has_commit_ts else {}
    # A retry of dead letters has the number of the batch before, whose rows by an old key are applied.
    batch = f"{applied.batch}/{applied.covered}" if applied and not applied.again else None
    reports: dict[Name, TableReport] = {}
    failed: dict[Name, str] = {}
    unmade: list[str] = []

    def truncated(name: Name, place: TargetTable, there: TableState | None, waits: bool) -> Truncations:
        """Return when a table was truncated, with what this batch tells of it; one that `waits` has no row."""
        has_rows = there is not None and not waits
        noted = there.notes if there and has_rows else None
        known = before().truncations(name, renaming.now, contents) if noted is None else Truncations.from_notes(noted)
        if not has_rows and (until := renaming.free.get(name)):
            known = replace(known, dropped=max(known.dropped, until))
        said = ddl_by_name.get(name, [])
        removing = [change for change in said if removes_rows(change) and carries_out(change, on_ddl)]
        found = truncations(removing, known, contents, present=has_rows)
        if found == known:
            return known
        if not events.has_commit_ts:
            return replace(known, objection=UNTIMED)
        if len(ready.origins[name].sources) > 1 or (there and has_several_sources(there.notes)):
            return replace(known, objection="several tables become this one")
        if there is None or not has_rows:
            return found
        keys = applied.of(*name, T.StructType()) if applied else None
        whole = proofs is not None and proofs.follows(*name, place)
        return placed(found, known, place, there.shape, contents, keys if whole else None)

    @cache
    def ends_known() -> Ends:
        found = Ends()
        said = [(shown, Rename.of(c, settings.routes)) for c, shown in zip(all_ddl, ready.events.ddl, strict=True)]
        told_before = ((c, (c.commit_ts, c.sql, (c.database, c.table))) for c in before().ends)
        said += [(change, Rename.journaled(*of_it, settings.routes)) for change, of_it in told_before]
        for change, rename in said:
            for name in _ended(change, rename, renaming, settings.routes):
                if now := name if renaming.is_left(change) else renaming.now(name, change.commit_ts):
                    found.add(now, change.commit_ts)
        return found

    def ended(name: Name) -> int:
        """Return when a table ended last, as far as this batch and the journal tell."""
        origins = [ready.origins[one].sources for one in (name, *renaming.former(name)) if one in ready.origins]
        return ends_known().of(name, set().union(*origins))

    def plan_of(name: Name) -> Plan | None:
        changes = by_name.get(name, [])
        needed = bool(changes)
        try:
            place = target.table(spark, *name, make_database=bool(changes))
            said, told = ddl_by_name.get(name, []), told_by_name.get(name, [])
            drops = any(kind_of(c) is DdlKind.DROP_TABLE and carries_out(c, on_ddl) for c in said)
            needed |= drops or (bool(said) and place.exists())
            if needed or told:
                found = plan(
                    place,
                    changes,
                    said,
                    contents,
                    has_commit_ts=events.has_commit_ts,
                    policy=policy,
                    on_ddl=on_ddl,
                    origin=ready.origin(name, renaming.former(name)),
                    truncated=lambda there, waits: truncated(name, place, there, waits),
                    batch=batch,
                    told=told,
                    ended=lambda: ended(name),
                    born={SINCE: str(since)} if (since := renaming.since.get(name)) else None,
                )
                return found if needed or found.makes or found.waited else None
        except Exception as error:
            failed[name] = cause = _cause(error)
            if changes:
                return refusing(changes, cause)
            if needed or on_ddl.default is OnDdl.EVOLVE:
                raise TableRefused(cause, where=".".join(name)) from error
            unmade.append(f"{'.'.join(name)}: {_UNMADE.format(cause)}")
        return None

    def carry_out(plan: Plan) -> tuple[TableReport, Mapping[str, int]]:
        try:
            if plan.makes:
                target.table(spark, plan.database, plan.table, make_database=True)
            done = _carry_out(plan, events, folder, applied, proofs)
        except Exception as error:
            cause, name = _cause(error), (plan.database, plan.table)
            if plan.makes and on_ddl.default is not OnDdl.EVOLVE:
                failed[name] = cause
                place = str(plan.place.path or plan.place.name)
                return TableReport(*name, place, 0, warnings=(_UNMADE.format(cause),)), {}
            if policy.on_error is OnError.FAIL or on_ddl.default is OnDdl.EVOLVE or not plan.accepted:
                raise TableRefused(cause, where=".".join(name)) from error
            failed[name] = cause
            report, refused = _carry_out(refusing(by_name[name], cause), events, folder, applied, None)
            return (proofs.of(plan).told(report) if proofs and plan.present else report), refused
        return done if not plan.evolution.later else _both(done, carry_out_later(plan))

    def carry_out_later(before: Plan) -> tuple[TableReport, Mapping[str, int]]:
        """Apply the changes by the key that a table gets after the others."""
        name, first = (before.database, before.table), before.evolution.later[0].version
        by_name[name] = list(before.later)
        ddl_by_name[name] = [c for c in ddl_by_name.get(name, []) if c.schema is None or c.schema.version >= first]
        later = plan_of(name)
        assert later is not None  # as there is a table, or are changes
        named[name] = named[name].then(later)
        stop_at_schema_changes((), {name: later}, on_ddl, {})
        if policy.stops:
            _stop(events, [later], policy)
        return carry_out(later)

    def made(plan: Plan) -> Plan:
        """Return a plan, but for a new table where none shall be made."""
        if plan.present is not None or not plan.accepted or on_ddl.of(DdlKind.CREATE_TABLE) is not OnDdl.IGNORE:
            return plan
        cause = f"a new table, and {on_ddl.told(DdlKind.CREATE_TABLE)}"
        # A table that was dropped before goes even so.
        return replace(refusing(by_name[plan.database, plan.table], cause), place=plan.place, truncated=plan.truncated)

    planned = parallel_map(plan_of, dict.fromkeys([*by_name, *ddl_by_name, *told_by_name]))
    plans = [made(one) for one in planned if one is not None]
    named = {(one.database, one.table): one for one in plans}
    done_before = {one.key for one in renaming.before}
    new_ddl = [change for change in events.ddl if (change.commit_ts, change.sql) not in done_before]
    new_ddl += [change for change in ready.events.ddl if renaming.is_left(change) and change not in new_ddl]
    new_ddl.sort(key=lambda change: change.commit_ts)
    stop_at_schema_changes(new_ddl, named, on_ddl, renaming.refused)
    with ExitStack() as stack:
        if policy.stops:
            for one in plans:
                stack.enter_context(persisted(*one.frames))
            _stop(events, plans, policy)
        dead_letter_counts = Counter(write_dead_letters(events.rejected, folder))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # In the order in which the pool takes them: the first of those that are left are at work.
            left = {pool.submit(inheriting(carry_out), plan): plan for plan in plans}
            finished = as_completed(tuple(left))
            while left:
                at_work = (f"{plan.database}.{plan.table}" for plan in islice(left.values(), _AT_ONCE))
                progress(f"applying {', '.join(at_work)}", len(plans) - len(left), len(plans))
                future = next(finished)
                report, refused = future.result()
                reports[report.database, report.table] = report
                dead_letter_counts.update(refused)
                del left[future]
    if events.ddl:
        # Under the names that tables had then, as a repetition tells them.
        told, journal = ready.events.ddl, target.journal(spark)
        write_journal(spark, journal, told, named, failed, on_ddl, renaming.refused, renaming.now_of)
    reported = ((one, reports[name]) for name, one in named.items())
    tables = tuple(
        report
        for one, report in reported
        if one.all_changes or one.evolution.news or one.makes or report.row_count is not None
    )
    if proofs:
        tables += _gone([one.old for one in renaming.of_batch if one.old not in named], target, spark)
    dead_letters_in = folder if isinstance(folder, Path) else str(folder)
    return Replicated(
        tables,
        dict(dead_letter_counts),
        dead_letters_in if dead_letter_counts else None,
        (*not_carried_out(new_ddl, named, on_ddl, renaming.refused), *unmade),
    )


def _gone(names: Sequence[Name], target: Target, spark: SparkSession) -> tuple[TableReport, ...]:
    """Return what the ledger shall tell of tables that have other names now: that they are there no longer."""
    places = ((name, target.table(spark, *name, make_database=False)) for name in names)
    return tuple(
        TableReport(*name, str(place.path or place.name), 0, row_count=0, row_hash=0)
        for name, place in places
        if not place.exists()
    )


def by_table(events: Events) -> tuple[dict[Name, list[TableChanges]], dict[Name, list[Ddl]]]:
    """Return the row changes and the schema changes of each table."""
    by_name: dict[Name, list[TableChanges]] = defaultdict(list)
    for changes in events.tables:
        by_name[changes.schema.database, changes.schema.table].append(changes)
    ddl_by_name: dict[Name, list[Ddl]] = defaultdict(list)
    for change in events.ddl:
        if change.schema or (change.database and kind_of(change)):
            ddl_by_name[change.database, change.table].append(change)
    return by_name, ddl_by_name


def _told_by_table(events: Events) -> dict[Name, list[Told]]:
    """Return what tells of each table that it is there, with or without rows."""
    by_name: dict[Name, list[Told]] = defaultdict(list)
    said: list[Ddl | Bootstrap] = [*events.bootstraps, *events.ddl]
    for told in dict.fromkeys(map(Told.by, said)):
        if told:
            by_name[told.schema.database, told.schema.table].append(told)
    return by_name


def _ended(change: Ddl, rename: Rename | None, renaming: Renames, routes: Routes) -> list[Name]:
    """Return the names of tables that a schema change ended; none where a renamed one kept its rows."""
    if not ends(change) or (rename and (rename.old == rename.new or renaming.carried_out(rename))):
        return []
    names = [(change.database, change.table), *([rename.old] if rename else [])]
    if change.statement and change.statement.exchanged:
        database, table = change.statement.exchanged
        names.append(routes.name(database or change.database, table))
    return names


def _cause(error: Exception) -> str:
    """Return what is wrong with a table; raise an error that is not about one table alone."""
    if isinstance(error, TableRefused):
        return str(error)
    if violated := _VIOLATED.search(str(error)):
        return violated[0]
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    if state is None or not state.startswith(_OF_A_TABLE):
        raise error
    return str(error).strip().splitlines()[0]


def _stop(events: Events, plans: Sequence[Plan], policy: Policy) -> None:
    """Raise for the first message that stops the run."""
    later = [replace(p, refused=(), outdated=(), accepted=tuple(check(c, policy) for c in p.later)) for p in plans]
    plans = [*plans, *(one for one in later if one.accepted)]
    changes = [change for p in plans for change in p.all_changes]
    if policy.stops_at_mismatch and changes:
        refuse_mismatches(changes)
    if policy.on_error is OnError.FAIL:
        refuse_dead_letters(union([events.rejected, *(p.dead_letters() for p in plans if p.all_changes)]))


def _both(
    one: tuple[TableReport, Mapping[str, int]], other: tuple[TableReport, Mapping[str, int]]
) -> tuple[TableReport, Mapping[str, int]]:
    """Return what two parts of a table's batch did."""
    warnings = tuple(dict.fromkeys((*one[0].warnings, *other[0].warnings)))
    return replace(one[0].then(other[0]), warnings=warnings), Counter(one[1]) + Counter(other[1])


def _carry_out(
    plan: Plan, events: Events, folder: AnyPath, applied: AppliedKeys | None, proofs: Proofs | None
) -> tuple[TableReport, Mapping[str, int]]:
    """Do one table's part."""
    refused: Counter[str] = Counter()

    def set_aside(checked: Checked) -> None:
        if checked.total > checked.applicable:
            letters = plan.dead_letters()
            with persisted(letters):
                refused.update(write_dead_letters(letters, folder))

    # Of a table with a key the rows are read once, and once more where there are dead letters.
    with nullcontext() if plan.merges and not (applied and applied.again) else persisted(*plan.frames):
        timed, ordered = events.has_commit_ts, events.ordered
        report = apply(plan, set_aside, has_commit_ts=timed, ordered=ordered, applied=applied, proofs=proofs)
    return report, refused


@contextmanager
def persisted(*frames: DataFrame) -> Iterator[None]:
    """Let Spark keep those of some frames that it does not keep already: their rows are decoded and checked once."""
    kept = [frame.persist() for frame in frames if not frame.is_cached]
    try:
        yield
    finally:
        for frame in kept:
            frame.unpersist()


def renamed_names(spark: SparkSession, target: Target, settings: Settings) -> list[tuple[Name, Name]]:
    """Return the old and the new name of each table that was renamed, as the journal tells."""
    told = journaled(target.journal(spark, make_database=False)).renames
    return [(one.old, one.new) for one in renamed_before(told, settings.routes)]
