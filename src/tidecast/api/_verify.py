"""The checksum of every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, overload

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidecast._progress import Progress, no_progress
from tidecast.api._source import GivenEvents, TopicSource, folder
from tidecast.api._verdicts import COUNTS, VERDICTS, count_verdicts, list_unread, list_verdicts, list_verdicts_of
from tidecast.checksum import Verdict
from tidecast.model import Events
from tidecast.protocols import Rejected, protocol_named
from tidecast.sources import (
    DEAD_LETTER,
    Here,
    messages_of,
    read_here,
    read_records,
    source_errors,
    subjects_of,
)
from tidecast.spark import mapped, union
from tidecast.storage import AnyPath
from tidecast.topics import append_lines, write_dead_letters

SHOWN_MISMATCHES = 20


@dataclass
class Verified:
    """The verdicts on rows: counts by verdict, and by table and verdict; dead letters by reason."""

    verdicts: Counter[str] = field(default_factory=Counter)
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    corrupted: int = 0
    mismatches: list[dict[str, object]] = field(default_factory=list)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether no row failed its check."""
        return not self.verdicts[Verdict.MISMATCH]


@overload
def verify(source: Events) -> DataFrame: ...


@overload
def verify(
    source: str,
    *,
    schema_registry: str | None = ...,
    tz: str | None = ...,
    mismatches: str | None = ...,
    dead_letters: str | None = ...,
    progress: Progress = ...,
    spark: SparkSession | None = ...,
) -> Verified: ...


def verify(
    source: str | Events,
    *,
    schema_registry: str | None = None,
    tz: str | None = None,
    mismatches: str | None = None,
    dead_letters: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> DataFrame | Verified:
    """Check the checksum of every row.

    Given events, return a DataFrame of their rows with the verdict on each: `database`, `table`, `topic` string,
    `partition` int, `offset` bigint, `op` string, `commit_ts` bigint, `key` string (the handle key's columns as JSON),
    `verdict` string (see `Verdict`), `expected`, `actual` bigint and `corrupted` boolean: the source itself found the
    row damaged.
    Given a source's URI, read it, count the verdicts and return them; `mismatches` is a folder that gets each mismatch
    as a JSON line, `dead_letters` one for the messages that could not be read. `tz` is the sender's time zone. With
    events each of these options is a ConfigError.

    The row before a change counts where the source carried a checksum of it, and a row does not match if either does
    not. A delete is called one unless it carries a checksum that its row does not fit. A row without a checksum, or
    with 0, is not checked. Source: Avro protocol, row checksum.
    """
    if isinstance(source, Events):
        options = {"schema_registry": schema_registry, "tz": tz, "mismatches": mismatches}
        GivenEvents.check(source, **options, dead_letters=dead_letters, spark=spark)
        return _listed(source)
    mismatches_in = folder(mismatches, "--mismatches")
    dead_letters_in = folder(dead_letters, "--dead-letters")
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    progress("verifying rows", 0, 0)
    alone = spark is None and not (mismatches_in or dead_letters_in)
    if alone and (here := read_here(checked.uri, registry=checked.registry, zone=checked.zone)):
        return _verified_here(checked, here)
    with source_errors(checked.uri):
        return _verified(checked, mismatches_in, dead_letters_in)


def _listed(events: Events) -> DataFrame:
    """Return the verdict on each row: in one pass where the tables' rows are just as their source gave them."""
    if not events.rows or not all(table.is_whole for table in events.tables):
        parts = [mapped(t.frame, partial(list_verdicts_of, t.schema), VERDICTS) for t in events.tables]
        return union(parts, events.tasks) if parts else events.rejected.sparkSession.createDataFrame([], VERDICTS)
    of = frozenset(table.name for table in events.tables)
    return events.rows.map(partial(list_verdicts, of=of), VERDICTS)


def _verified(source: TopicSource, mismatches_in: AnyPath | None, dead_letters_in: AnyPath | None) -> Verified:
    """Verify a source in one pass, and in another one for each kind of thing that is wrong with it."""
    records, protocol = read_records(source.session, source.uri)
    messages = messages_of(
        records, protocol, registry=source.registry, zone=source.zone, subjects=subjects_of(source.uri)
    )
    report = _report(messages.counted(count_verdicts, COUNTS), source)
    unread = _with(report, messages.broken)
    rows = messages.rows() if not report.ok or (dead_letters_in and unread) else None
    if not report.ok and rows:
        wrong = _mismatches(rows.map(partial(list_verdicts, only=Verdict.MISMATCH), VERDICTS)).persist()
        report.mismatches = [r.asDict() for r in wrong.limit(SHOWN_MISMATCHES).collect()]
        if mismatches_in:
            append_lines(wrong, mismatches_in, expected=report.verdicts[Verdict.MISMATCH])
        wrong.unpersist()
    if dead_letters_in and unread and rows:
        letters = [rows.map(list_unread, DEAD_LETTER), *([messages.broken_messages()] if messages.broken else [])]
        report.dead_letters = write_dead_letters(union(letters), dead_letters_in)
    return report


def _verified_here(source: TopicSource, here: Here) -> Verified:
    """Verify messages in this process."""
    pairs = [(here.decoded, here.messages)]
    report = _report((row for part in count_verdicts(pairs) for row in part.to_pylist()), source)
    _with(report, here.broken)
    if not report.ok:
        wrong = (row for part in list_verdicts(pairs, Verdict.MISMATCH) for row in part.to_pylist())
        report.mismatches = [
            {"topic": r["topic"], "partition": r["partition"], "offset": r["offset"]}
            | {"table": f"{r['database']}.{r['table']}", "key": r["key"]}
            | {name: r[name] for name in ("expected", "actual", "corrupted")}
            for r in islice(wrong, SHOWN_MISMATCHES)
        ]
    return report


def _with(report: Verified, broken: Iterable[Rejected]) -> Mapping[str, int]:
    """Count control messages that cannot be used, too; return the dead letters."""
    report.dead_letters = Counter(report.dead_letters) + Counter(
        reason for part in broken for reason in part.reason.to_pylist()
    )
    return report.dead_letters


def _report(rows: Iterable[Row | dict[str, Any]], source: TopicSource) -> Verified:
    """Return what counts of verdicts (see `COUNTS`) say."""
    report, unread, timed = Verified(), Counter[str](), set[str]()
    for row in rows:
        if row["verdict"] is None:
            unread[row["reason"]] += row["rows"]
            continue
        table = f"{row['database']}.{row['table']}"
        report.tables.setdefault(table, Counter())[row["verdict"]] += row["rows"]
        report.verdicts[row["verdict"]] += row["rows"]
        report.corrupted += row["rows"] if row["corrupted"] else 0
        if row["reason"] is not None:
            unread[row["reason"]] += row["rows"]
        if row["timed"]:
            timed.add(table)
    report.dead_letters = unread
    report.warnings = _warnings(report, timed, source)
    return report


def _warnings(report: Verified, timed: set[str], source: TopicSource) -> list[str]:
    if not report.verdicts.total():
        return ["there is no row to check"]
    if not report.verdicts[Verdict.MATCH] + report.verdicts[Verdict.MISMATCH]:
        return ["nothing was checked: no row carries a checksum that can be checked"]
    return _doubtful_zone(report, timed, source.zone) if protocol_named(source.protocol).zoned_checksums else []


def _doubtful_zone(report: Verified, timed: set[str], zone: str) -> list[str]:
    """Return a warning where half of the rows of the tables with TIMESTAMP columns do not match, or more."""
    counts = ((name, report.tables.get(name, Counter())) for name in sorted(timed))
    wrong = [name for name, of in counts if of[Verdict.MISMATCH] and of[Verdict.MISMATCH] >= of[Verdict.MATCH]]
    if not wrong:
        return []
    return [
        f"most rows of {', '.join(wrong)} do not match, and these tables have TIMESTAMP columns: "
        f"is {zone} the sender's time zone? --tz names another"
    ]


def _mismatches(rows: DataFrame) -> DataFrame:
    wrong = rows.where(F.col("verdict") == Verdict.MISMATCH)
    table = F.concat_ws(".", "database", "table").alias("table")
    return wrong.select("topic", "partition", "offset", table, "key", "expected", "actual", "corrupted")
