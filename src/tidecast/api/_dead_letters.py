"""Dead letters: list them, and apply them once more when the cause is mended."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError, TerminalError
from tidecast._policy import DdlWords, OnDataLoss
from tidecast._progress import Progress, no_progress
from tidecast.api._checkpoint import Checkpoint, replay_window_of
from tidecast.api._source import TopicSource
from tidecast.model import RECORD, Events, Reason
from tidecast.replica import Again, ApplyOptions, Retried, at_places, concerned, renamed_names, replicate, write_ledger
from tidecast.sources import TopicStream, source_errors, split_at_commit_ts
from tidecast.spark import number_at, union
from tidecast.storage import AnyPath, check_exclusive, remove_tree, storage_path
from tidecast.topics import (
    DeadLetters,
    Offsets,
    Records,
    dead_letters_folder,
    dead_letters_in,
    read_dead_letters,
    replace_dead_letters,
)

_AGAIN, _LEFT = "again", "left"
_PLACE = ("topic", "partition", "offset")
_MESSAGE = RECORD.fieldNames()
"""What tells messages apart: several have one place where lines of files tell no offsets."""


@dataclass(frozen=True)
class DeadLetterCount:
    """How many dead letters of a topic have a reason, and the detail of one of them."""

    topic: str
    reason: str
    count: int
    detail: str | None


def list_dead_letters(where: str) -> tuple[DeadLetterCount, ...]:
    """Return what lies in a folder of dead letters, by topic and reason.

    `where` is that folder, or what `replicate` was given as `to`, where that is a folder. It takes no Spark. Raises
    ConfigError where there is no such folder, or something else lies there.
    """
    place = storage_path(where, "WHERE")
    if not place.is_dir():
        hint = "name the folder of dead letters, which the first of them makes, or that of the tables"
        raise ConfigError("there is no such folder", where=str(place), hint=hint)
    counts, details = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for letter in dead_letters_in(dead_letters_folder(place)):
        of = (letter.topic or "", letter.reason)
        counts[of] += 1
        if letter.detail is not None:
            details[of] = min(details.get(of, letter.detail), letter.detail)
    return tuple(DeadLetterCount(*of, count, details.get(of)) for of, count in sorted(counts.items()))


def retry_dead_letters(
    source: str,
    to: str,
    *,
    checkpoint: str,
    schema_registry: str | None = None,
    tz: str | None = None,
    dead_letters: str | None = None,
    on_mismatch: str = "dead-letter",
    ddl: DdlWords = (),
    mode: str = "current",
    metadata: Sequence[str] = (),
    on_unrepresentable: str = "null",
    config: str | os.PathLike[str] | None = None,
    replay_window: str | None = None,
    on_data_loss: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Retried:
    """Apply the dead letters of a replica once more, after what was wrong with them was put right.

    `source`, `to`, `checkpoint` and the other options are those of `replicate`, with what is right now. The topic is
    read again up to the checkpoint, and of the keys that dead letters have all of it is applied with them: so a newer
    change of a key stays, whenever it came. Where one that is not older cannot be applied now, the key stays as it is,
    and its dead letters do. To a table without a key, and to a log, a row is appended once; where the topic has it
    again after a watermark that covers it, which a batch may have left out, it stays a dead letter. What still cannot
    be applied stays one, with its present reason; the others go to the folder `_applied` in that of the dead letters.
    Dead letters of other sources, and of other messages than lie at their places now, stay as they are.

    It is a batch of the checkpoint, with a row in the ledger, so that tables are proven afterwards. After a crash the
    next retry changes nothing that was applied.

    If the topic no longer holds a dead letter's message, nothing shows what came after it, and it stays a dead letter.
    With `on_data_loss="continue"` it is applied, and may set a key back. The same holds if another message, which is
    no dead letter, cannot be read now; without that option this is an error.

    Raises TerminalError if a run of the replica is at work, or ended within a batch, and SourceChanged if the topic was
    re-created. Raises ConfigError for an option, if the checkpoint has applied nothing, or if another message cannot be
    read.
    Source: Changefeeds, delivery.
    """
    options = ApplyOptions.of(
        to,
        dead_letters=dead_letters,
        on_mismatch=on_mismatch,
        ddl=ddl,
        mode=mode,
        metadata=metadata,
        on_unrepresentable=on_unrepresentable,
        config=config,
    )
    data_loss = OnDataLoss.parse(on_data_loss or OnDataLoss.FAIL)
    resume_from = storage_path(checkpoint, "--checkpoint")
    window = replay_window_of(checkpoint, replay_window)
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    check_exclusive(resume_from, "--checkpoint")
    options.target.check(checked.session)
    progress("reading", 0, 0)
    kept = Checkpoint(resume_from, checked, options, window)
    with (
        kept.locked_stream("a run of the replica is at work: let it end first") as stream,
        source_errors(checked.uri),
        ExitStack() as frames,
    ):
        if stream.is_within:
            hint = "let `replicate` end that batch first: its tables are of after what is read again"
            raise TerminalError("a run of the replica ended within a batch", where=str(resume_from), hint=hint)
        there = read_dead_letters(checked.session, options.dead_letters)
        if there is None:
            return Retried()
        found = _letters_of(stream, there, frames, goes_on=data_loss is OnDataLoss.CONTINUE)
        if not found.count:
            return Retried(warnings=found.warnings)
        return _retry(kept, stream, there, found, frames, progress)


@dataclass(frozen=True)
class _Letters:
    """The dead letters of a topic that can be applied once more.

    `letters` are they, `places` where their messages are, `count` how many. `records` are the topic's messages, and
    the dead letters' where the topic has them no more and the retry `goes_on` without it.
    """

    letters: DataFrame
    places: DataFrame
    count: int
    records: Records
    goes_on: bool
    warnings: tuple[str, ...]


def _letters_of(stream: TopicStream, there: DeadLetters, frames: ExitStack, *, goes_on: bool) -> _Letters:
    """Return which of a folder's dead letters are the stream's; those that are kept are let go of by `frames`."""
    (records, sent), all_ = stream.applied_records(), there.frame.persist()
    frames.callback(all_.unpersist)
    mine = _same_messages(all_, records.frame, sent)
    offsets = stream.progress.offsets
    of_topics = all_.where(F.col("topic").isin(sorted(offsets.topics if offsets else ())))
    lost = _gone(of_topics, records.frame, offsets)
    warnings = tuple[str, ...]()
    known = mine.unionByName(lost).select("line")
    if foreign := of_topics.select("line").distinct().join(known, "line", "left_anti").count():
        warnings = (f"{foreign:,} dead letters are of another topic of this name, and stay as they are",)
    if gone := lost.select(*_PLACE).distinct().count():
        told = "and what came after them is not known" if goes_on else "and they stay as they are"
        warnings += (f"the topic no longer holds the messages of {gone:,} dead letters, {told}",)
        if goes_on:
            mine = mine.unionByName(lost)
            anew = lost.select(_MESSAGE).distinct()
            records = replace(records, frame=records.frame.unionByName(anew, allowMissingColumns=True))
    places = mine.select(*_PLACE).distinct().persist()
    frames.callback(places.unpersist)
    return _Letters(mine, places, mine.select(_MESSAGE).distinct().count(), records, goes_on, warnings)


def _retry(
    checkpoint: Checkpoint,
    stream: TopicStream,
    there: DeadLetters,
    found: _Letters,
    frames: ExitStack,
    progress: Progress,
) -> Retried:
    """Apply dead letters with all that the topic has of their keys, as a batch of the checkpoint."""
    session, places, left_in = checkpoint.source.session, found.places, checkpoint.folder / _AGAIN / _LEFT
    remove_tree(left_in, ignore_errors=True)
    events = frames.enter_context(stream.decoded(found.records))
    if not found.goes_on:
        _refuse_unread(events, places)
    again = Again(places, checkpoint.folder / _AGAIN, left_in, events)
    if stream.progress.rows_unresolved or stream.progress.ddl_unresolved:
        resolved = -1 if stream.progress.watermark is None else stream.progress.watermark
        events, later, _, _ = split_at_commit_ts(events, resolved)
        if later is not None:
            again.keep([later], places, "its commit-ts is above the resolved-ts that the tables have come to")
    options = checkpoint.options
    batch = stream.batch_of(concerned(events, places, options.settings.routes, renamed_names(session, options)))
    stream.begin(batch)
    state = checkpoint.state(batch, batch.progress.covered, again)
    applied = replicate(batch.events, replace(options, dead_letters=left_in), state=state, progress=progress)
    left = _left(session, left_in, places)
    counts = {row["reason"]: row["n"] for row in _by_reason(left).collect()}
    write_ledger(session, options.to, checkpoint.ledger_row(stream, batch), replace(applied, dead_letters=counts))
    stream.commit(batch)
    _put_away(there, found.letters, left)
    again.end()
    still = sum(counts.values())
    return Retried(found.count, found.count - still, counts, applied.tables, (*found.warnings, *applied.warnings))


def _same_messages(letters: DataFrame, *forms: DataFrame) -> DataFrame:
    """Return the dead letters of this topic: a place may hold one of another topic of the same name.

    `forms` are the topic's messages; one that could not be unpacked then may be so now.
    """
    names = [*_PLACE, "key", "value"]
    message = union([form.select(F.struct(*names).alias("message")) for form in forms])
    same = (F.col(name).eqNullSafe(F.col("message")[name]) for name in names)
    return letters.join(message, reduce(and_, same), "left_semi")


def _gone(letters: DataFrame, records: DataFrame, offsets: Offsets | None) -> DataFrame:
    """Return the dead letters older than the first message that the topic still has of their partition."""
    place = F.struct("topic", "partition")
    starts = records.groupBy(place.alias("place")).agg(F.min("offset").alias("start"))
    end = number_at(offsets.ends if offsets else {}, F.concat_ws("/", "topic", F.col("partition").cast("string")))
    found = letters.join(starts, place.eqNullSafe(F.col("place")), "left")
    return found.where(F.col("offset") < F.coalesce("start", end)).select(letters.columns)


def _refuse_unread(events: Events, places: DataFrame) -> None:
    """Raise ConfigError for a message that cannot be read now, and is no dead letter: it may have been applied."""
    unread = events.rejected.where(F.col("reason") != Reason.UNKNOWN_TABLE)  # such rows wait
    for row in at_places(unread, places, "left_anti").orderBy(*_PLACE).limit(1).collect():
        raise ConfigError(
            f"a message that is no dead letter cannot be read: {row['reason']}: {row['detail'] or ''}",
            where=" ".join(f"{name} {row[name]}" for name in _PLACE if row[name] is not None),
            hint="retry with the options, and the registry, that it was read with; --on-data-loss continue goes on "
            "without it, and may set a key back",
        )


def _left(spark: SparkSession, folder: AnyPath, places: DataFrame) -> DataFrame:
    """Return the messages that could not be applied: one line for each, `reason`, `line` and its place."""
    there = read_dead_letters(spark, folder)
    columns = [*_PLACE, "reason", "line"]
    if there is None:
        return places.where("false").selectExpr(*_PLACE, "'' AS reason", "'' AS line")
    return at_places(there.frame, places).dropDuplicates(_MESSAGE).select(columns)


def _by_reason(left: DataFrame) -> DataFrame:
    return left.groupBy("reason").agg(F.count("*").alias("n"))


def _put_away(there: DeadLetters, mine: DataFrame, left: DataFrame) -> None:
    """Replace the folder's `mine` by those that are left. Does nothing if all are left."""
    others = there.frame.select("line").join(mine.select("line"), "line", "left_anti")
    applied = at_places(mine, left, "left_anti")
    if applied.isEmpty() and left.join(mine.select("line"), "line", "left_anti").isEmpty():
        return
    replace_dead_letters(there, applied, union([others, left.select("line")]))
