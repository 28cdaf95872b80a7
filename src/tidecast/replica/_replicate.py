"""A batch of events onto tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._progress import Progress, unseen
from tidecast.model import Events, TableChanges, TableSchema, side_by_side, union
from tidecast.replica._apply import apply
from tidecast.replica._ddl import not_carried_out
from tidecast.replica._plan import Plan, plan
from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._target import parse_target
from tidecast.topics import refuse_dead_letters, write_dead_letters

ON_ERROR = ("dead-letter", "fail")

_DEAD_LETTERS = "_dead_letters"
_AT_ONCE = 4

Name = tuple[str, str]


def replicate(
    spark: SparkSession,
    events: Events,
    to: str,
    *,
    dead_letters: Path | None = None,
    on_error: str = "dead-letter",
    progress: Progress = unseen,
) -> Replicated:
    """Bring tables up to a batch of events; the same batch again, or a longer one of the same topic, is safe.

    `to` is a folder (a path with a `/` or a leading `.`, or a file:// URI) of Delta tables at
    `to/<database>/<table>`, or a Spark catalog. Each table gets the newest row of each key; rows of tables without a
    key are appended. Messages that cannot be read or applied are appended to `dead_letters` (by default the folder's
    `_dead_letters`); with `on_error="fail"` one such message stops the run before any table is touched.
    `progress` is told each table's name, and how many of how many tables are done.

    Raises ConfigError for a wrong `to` or `on_error`, or a catalog without `dead_letters`, and DecodeError for
    a message that stops the run. Source: Avro and Simple protocol, delivery.
    """
    if on_error not in ON_ERROR:
        raise ConfigError(f"on-error is {on_error!r}", hint=f"one of {', '.join(ON_ERROR)}")
    target = parse_target(to)
    folder = dead_letters or (target.folder / _DEAD_LETTERS if target.folder else None)
    if folder is None:
        raise ConfigError(f"{to} is a catalog, no place for dead letters", hint="name a folder: --dead-letters DIR")
    by_name: dict[Name, list[TableChanges]] = defaultdict(list)
    for changes in events.tables:
        by_name[changes.schema.database, changes.schema.table].append(changes)
    told: dict[Name, list[TableSchema]] = defaultdict(list)
    for change in events.ddl:
        if change.schema:
            told[change.schema.database, change.schema.table].append(change.schema)
    reports: dict[Name, TableReport] = {}
    plans = side_by_side(lambda n: plan(target.table(spark, *n), by_name[n], told[n], dated=events.dated), by_name)
    if on_error == "fail":
        refuse_dead_letters(union([events.rejected, *(p.dead_letters() for p in plans)]))
    letters = Counter(write_dead_letters(events.rejected, folder))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(_carry_out, p, events, folder) for p in plans]
        for done, future in enumerate(as_completed(running), 1):
            report, refused = future.result()
            reports[report.database, report.table] = report
            letters.update(refused)
            progress(report.name, done, len(plans))
    tables = tuple(reports[name] for name in by_name)
    return Replicated(tables, dict(letters), folder if letters else None, not_carried_out(events.ddl))


def _carry_out(plan: Plan, events: Events, folder: Path) -> tuple[TableReport, Mapping[str, int]]:
    """Do one table's part; its messages are decoded once, for the dead letters and for the table."""
    for frame in plan.frames:
        frame.persist()
    try:
        refused = write_dead_letters(plan.dead_letters(), folder)
        return apply(plan, dated=events.dated, ordered=events.ordered), refused
    finally:
        for frame in plan.frames:
            frame.unpersist()
