"""How far a replica is, as its checkpoint, its tables and its topic tell."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, SourceChanged, Unreachable
from tidecast._progress import Progress as Told
from tidecast._progress import no_progress
from tidecast._secrets import resolved_uri
from tidecast._tso import physical_ms, to_datetime
from tidecast._uri import Place, parse_place, source_uri
from tidecast.api._checkpoint import source_named
from tidecast.api._dead_letters import DeadLetterCount, list_dead_letters
from tidecast.api._source import folder
from tidecast.replica import AppliedSource, SchemaChange, applied_sources, last_schema_changes, parse_target
from tidecast.runtime import spark_session
from tidecast.sources import Progress, check_source_of, open_source, read_progress, source_name
from tidecast.storage import AnyPath, path_of, storage_path
from tidecast.topics import Offsets, StorageSink, files_by_table, is_of_storage_sink

_KAFKA = "kafka topic "
_SCHEMA_CHANGES = 10


@dataclass(frozen=True)
class PlaceStatus:
    """How far a partition was read, or a file of messages, where `partition` is None and `file` its name.

    `offset` is the next one to read and `end` the one after the last message. Of a file these are bytes; of a table in
    the folder of a storage sink, which has the partition 0, numbers of files. `backlog` is what lies between. Both are
    None where the source was not asked, or did not answer.
    """

    topic: str
    partition: int | None
    file: str | None
    offset: int
    end: int | None = None
    backlog: int | None = None


@dataclass(frozen=True)
class SourceStatus:
    """How far a source was applied.

    `applied_at` is when its last batch was, which only the tables' ledger tells. `lag` is how many seconds ago the
    source was as the tables are, None where no watermark tells a `resolved_ts`. What waits, only a checkpoint tells:
    `rows_waiting` for the schemas of their tables, `rows_unresolved` for a watermark. `problem` says why the source
    told no end, or no longer has what follows.
    """

    source: str
    batch: int
    applied_at: dt.datetime | None
    resolved_ts: int | None
    resolved_time: dt.datetime | None
    lag: float | None
    places: tuple[PlaceStatus, ...]
    rows_waiting: int | None = None
    rows_unresolved: int | None = None
    problem: str | None = None

    @property
    def backlog(self) -> int | None:
        """Return what is left to read, in messages or, of files, in bytes; None if that is unknown."""
        known = [place.backlog for place in self.places if place.backlog is not None]
        return sum(known) if known or not self.places else None


@dataclass(frozen=True)
class ReplicaReport:
    """How far a replica is; `dead_letters` and `schema_changes` are None where nothing told them."""

    sources: tuple[SourceStatus, ...]
    dead_letters: tuple[DeadLetterCount, ...] | None = None
    schema_changes: tuple[SchemaChange, ...] | None = None


def status(
    source: str | None = None,
    *,
    checkpoint: str | None = None,
    to: str | None = None,
    dead_letters: str | None = None,
    progress: Told = no_progress,
    spark: SparkSession | None = None,
) -> ReplicaReport:
    """Tell how far a replica is: offsets, backlog, resolved-ts, lag, what waits, dead letters, schema changes.

    `checkpoint` and `to` are what `replicate` was given, at least one of them. A checkpoint takes no Spark. With `to`
    Spark reads the ledger and the journal beside the tables, and the dead letters, by default those in the folder.

    The backlog is known where the source is: of files by itself, of a Kafka topic where `source` names its brokers and
    credentials, which neither checkpoint nor ledger has.

    Raises ConfigError for a folder that is no checkpoint, tables without a ledger, or another source than theirs.
    """
    if checkpoint is None and to is None:
        raise ConfigError("nothing tells how far a replica is", hint="give --checkpoint DIR or --to WHERE, or both")
    if to is None and dead_letters is not None:
        raise ConfigError("--dead-letters is for --to", hint="tidecast dead-letters list DIR counts them")
    place = parse_place(resolved_uri(source_uri(source))) if source is not None else None
    if place:
        open_source(place)
    target = None if to is None else parse_target(to)
    letters_in = folder(dead_letters, "--dead-letters") or (target.folder if target else None)
    kept = None if checkpoint is None else storage_path(checkpoint, "--checkpoint")
    known = None if kept is None else read_progress(kept)
    if known and kept and place:
        check_source_of(known, place, kept)
    if to is None:
        assert known is not None
        return ReplicaReport((_of_checkpoint(known, place, None),), schema_changes=_waiting(known))
    progress("reading the ledger", 0, 0)
    session = spark or spark_session()
    applied = applied_sources(session, to)
    if known and kept:
        chosen = [one for one in applied if known.checkpoint and one.checkpoint == known.checkpoint]
        if not chosen:
            hint = "give the --checkpoint and the --to of one replica"
            raise ConfigError("the ledger of the tables does not know this checkpoint", where=str(kept), hint=hint)
        sources = [_of_checkpoint(known, place, chosen[0].applied_at)]
    else:
        sources = [_of_ledger(one, place) for one in applied if place is None or _is_of(one, place)]
        if not sources:
            there = ", ".join(one.source for one in applied)
            raise ConfigError("this source was not applied to the tables", where=to, hint=f"these were: {there}")
    changes = (*last_schema_changes(session, to, _SCHEMA_CHANGES), *(_waiting(known) if known else ()))
    letters = _dead_letters(letters_in) if letters_in else None
    return ReplicaReport(tuple(sources), letters, changes)


def _dead_letters(folder: AnyPath) -> tuple[DeadLetterCount, ...]:
    return list_dead_letters(str(folder)) if folder.is_dir() else ()


def _of_checkpoint(known: Progress, place: Place | None, applied_at: dt.datetime | None) -> SourceStatus:
    named = source_named(place, known.source) if place else known.source
    reached = (known.batch, applied_at, known.watermark)
    return _status(named, reached, known.offsets or Offsets(), place, known)


def _of_ledger(one: AppliedSource, place: Place | None) -> SourceStatus:
    return _status(one.source, (one.batch, one.applied_at, one.resolved_ts), Offsets(one.offsets), place)


def _status(
    source: str,
    reached: tuple[int, dt.datetime | None, int | None],
    offsets: Offsets,
    place: Place | None,
    waits: Progress | None = None,
) -> SourceStatus:
    batch, applied_at, resolved = reached
    in_kafka = _KAFKA in source
    asked = place or (None if in_kafka else _place_of_files(source))
    ends, problem = _ends(asked, offsets) if asked else (None, "where to ask is not known: give SOURCE as to replicate")
    return SourceStatus(
        source=source,
        batch=batch,
        applied_at=applied_at,
        resolved_ts=resolved,
        resolved_time=None if resolved is None else to_datetime(resolved),
        lag=None if resolved is None else max(time.time() - physical_ms(resolved) / 1000, 0.0),
        places=_places(offsets.ends, ends, in_kafka=in_kafka),
        rows_waiting=waits.rows_waiting if waits else None,
        rows_unresolved=waits.rows_unresolved if waits else None,
        problem=problem,
    )


def _ends(place: Place, offsets: Offsets) -> tuple[Mapping[str, int] | None, str | None]:
    """Return the present ends of a place's partitions or files, and what is wrong with it."""
    files = is_of_storage_sink(offsets.ends)  # which a ledger names without its protocol
    topics = StorageSink(path_of(place), csv=True, params={}) if files else open_source(place)
    try:
        return topics.end_offsets(offsets).ends, None
    except SourceChanged as error:
        return topics.end_offsets().ends, str(error)
    except (Unreachable, OSError) as error:
        return None, str(error)


def _places(offsets: Mapping[str, int], ends: Mapping[str, int] | None, *, in_kafka: bool) -> tuple[PlaceStatus, ...]:
    found = []
    if is_of_storage_sink(offsets):
        done, there = files_by_table(offsets), None if ends is None else files_by_table(ends)
        for table in {**done, **(there or {})}:
            read, end = done.get(table, 0), None if there is None else there.get(table, 0)
            found.append(PlaceStatus(table, 0, None, read, end, None if end is None else max(end - read, 0)))
        return tuple(sorted(found, key=lambda p: p.topic))
    for name in {**offsets, **(ends or {})}:
        topic, _, last = name.rpartition("/")
        offset, end = offsets.get(name, 0), None if ends is None else ends.get(name)
        backlog = None if ends is None else max((end or 0) - offset, 0)
        partition, file = (int(last), None) if in_kafka else (None, last)
        found.append(PlaceStatus(topic, partition, file, offset, end, backlog))
    return tuple(sorted(found, key=lambda p: (p.topic, p.partition or 0, p.file or "")))


def _place_of_files(name: str) -> Place | None:
    """Return the place of a source of files by its name; None where a pattern chose among topics."""
    scheme, _, path = name.partition("://")
    return None if path.endswith("/") or "/ " in path else parse_place(f"{scheme}://{quote(path, safe='/@')}")


def _is_of(one: AppliedSource, place: Place) -> bool:
    return one.source == source_named(place, source_name(place))


def _waiting(known: Progress) -> tuple[SchemaChange, ...]:
    """Return the schema changes that wait for a watermark."""
    return tuple(SchemaChange(d.commit_ts, d.database, d.table, d.sql, "waiting") for d in known.ddl_unresolved)
