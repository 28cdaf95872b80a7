"""A batch of events onto tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, TableRefused
from tidecast._policy import OnError, OnMismatch
from tidecast._progress import Progress, no_progress
from tidecast.model import Events, TableChanges, TableSchema
from tidecast.replica._apply import apply
from tidecast.replica._check import Checked, Policy, refuse_mismatches
from tidecast.replica._ddl import not_carried_out
from tidecast.replica._plan import Plan, plan, refusing
from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._target import parse_target
from tidecast.spark import inheriting, parallel_map, union
from tidecast.storage import AnyPath
from tidecast.topics import refuse_dead_letters, write_dead_letters

_DEAD_LETTERS = "_dead_letters"
_AT_ONCE = 4

_OF_A_TABLE = ("22", "42601", "42602", "42622", "42701", "42702", "42703", "42704", "42711", "42846", "42K05", "42K09")
"""SQL's states that tell of a table's names, types or values; others tell of the session, the catalog, the storage."""

_VIOLATED = re.compile(r"\[DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED)\] .*")
"""Delta's errors at rows that a constraint of the table forbids; Spark gives them no state."""

Name = tuple[str, str]


def replicate(
    spark: SparkSession,
    events: Events,
    to: str,
    *,
    dead_letters: AnyPath | None = None,
    on_error: str = OnError.DEAD_LETTER,
    on_mismatch: str = OnMismatch.DEAD_LETTER,
    progress: Progress = no_progress,
) -> Replicated:
    """Bring tables up to a batch of events; the same batch again, or a longer one of the same topic, is safe.

    `to` is a folder (a path with a `/` or a leading `.`, or a URI) of Delta tables at
    `to/<database>/<table>`, or a Spark catalog. Each table gets the newest row of each key; rows of tables without a
    key are appended. Messages that cannot be read or applied are appended to `dead_letters` (by default the folder's
    `_dead_letters`), with them all messages of a table that `to` cannot take, for its name, its columns or what lies
    there; with `on_error="fail"` one such message stops the run before any table is touched.

    Each row's checksum is checked (see `tidecast.checksum.verify`). What does not fit goes to the dead letters, as a
    message that cannot be applied; with `on_mismatch="apply"` it is applied, with `"fail"` it stops the run before any
    table is touched. A later row of the same key is applied in any case.

    `progress` is told each table's name, and how many of how many tables are done.

    Raises ConfigError for a wrong option, or a catalog without `dead_letters`; DecodeError for a message and
    CorruptedData for a mismatch that stops the run. Source: Changefeeds, delivery; Avro protocol, row checksum.
    """
    policy = Policy(OnError.parse(on_error), OnMismatch.parse(on_mismatch))
    target = parse_target(to)
    folder = dead_letters or (target.folder / _DEAD_LETTERS if target.folder else None)
    if folder is None:
        raise ConfigError(f"{to} is a catalog, no place for dead letters", hint="name a folder: --dead-letters DIR")
    by_name: dict[Name, list[TableChanges]] = defaultdict(list)
    for changes in events.tables:
        by_name[changes.schema.database, changes.schema.table].append(changes)
    ddl_schemas: dict[Name, list[TableSchema]] = defaultdict(list)
    for change in events.ddl:
        if change.schema:
            ddl_schemas[change.schema.database, change.schema.table].append(change.schema)
    reports: dict[Name, TableReport] = {}

    def plan_of(name: Name) -> Plan:
        changes = by_name[name]
        try:
            place = target.table(spark, *name)
            return plan(place, changes, ddl_schemas[name], has_commit_ts=events.has_commit_ts, policy=policy)
        except Exception as error:
            return refusing(changes, _cause(error))

    def carry_out(plan: Plan) -> tuple[TableReport, Mapping[str, int]]:
        try:
            return _carry_out(plan, events, folder)
        except Exception as error:
            cause, name = _cause(error), (plan.database, plan.table)
            if policy.on_error is OnError.FAIL or not plan.accepted:
                raise TableRefused(cause, where=".".join(name)) from error
            return _carry_out(refusing(by_name[name], cause), events, folder)

    plans = parallel_map(plan_of, by_name)
    with ExitStack() as stack:
        if policy.stops:
            for one in plans:
                stack.enter_context(_persisted(one))
            _stop(events, plans, policy)
        dead_letter_counts = Counter(write_dead_letters(events.rejected, folder))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            running = [pool.submit(inheriting(carry_out), p) for p in plans]
            for done, future in enumerate(as_completed(running), 1):
                report, refused = future.result()
                reports[report.database, report.table] = report
                dead_letter_counts.update(refused)
                progress(report.name, done, len(plans))
    tables = tuple(reports[name] for name in by_name)
    dead_letters_in = folder if isinstance(folder, Path) else str(folder)
    return Replicated(
        tables, dict(dead_letter_counts), dead_letters_in if dead_letter_counts else None, not_carried_out(events.ddl)
    )


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
    if policy.stops_at_mismatch and plans:
        refuse_mismatches([change for p in plans for change in p.all_changes])
    if policy.on_error is OnError.FAIL:
        refuse_dead_letters(union([events.rejected, *(p.dead_letters() for p in plans)]))


def _carry_out(plan: Plan, events: Events, folder: AnyPath) -> tuple[TableReport, Mapping[str, int]]:
    """Do one table's part."""
    refused: Counter[str] = Counter()

    def set_aside(checked: Checked) -> None:
        if checked.total > checked.applicable:
            refused.update(write_dead_letters(plan.dead_letters(), folder))

    # Of a table with a key the rows are read once, and once more where there are dead letters.
    with nullcontext() if plan.key else _persisted(plan):
        return apply(plan, set_aside, has_commit_ts=events.has_commit_ts, ordered=events.ordered), refused


@contextmanager
def _persisted(plan: Plan) -> Iterator[None]:
    """Let Spark keep a table's rows, which are decoded and checked once, for the dead letters and for the table."""
    for frame in plan.frames:
        if not frame.is_cached:
            frame.persist()
    try:
        yield
    finally:
        for frame in plan.frames:
            frame.unpersist()
