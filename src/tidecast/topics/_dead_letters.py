"""Where messages go that cannot be handled: a folder of JSON Lines that reads back as a topic."""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import Base64Bytes, TypeAdapter
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError, DecodeError, TerminalError
from tidecast.model import RECORD
from tidecast.spark import LONG_TEXTS
from tidecast.storage import (
    AnyPath,
    entries,
    make_folder,
    move,
    remove_file,
    remove_tree,
    spark_inputs,
    spark_output,
    sync_folder,
    touch,
)
from tidecast.topics._files import DEAD_LETTERS, NO_TOPIC
from tidecast.topics._written import check_written, count_lines

_PLACE = ("topic", "partition", "offset")
_LINE = T.StructType(
    [
        *(T.StructField(f.name, T.LongType()) if f.name == "timestamp" else f for f in RECORD.fields),
        T.StructField("reason", T.StringType()),
        T.StructField("detail", T.StringType()),
    ]
)
_APPLIED = "_applied"
"""The folder, in one of dead letters, of those that were applied after all."""


@dataclass(frozen=True)
class DeadLetters:
    """The messages that lay in a folder of dead letters when it was looked at.

    `frame` has the columns of `RECORD`, and `reason`, `detail` and `line`, the message as the line that it is. A run
    that was killed may have left a message twice, with another reason.
    """

    folder: AnyPath
    files: tuple[AnyPath, ...]
    frame: DataFrame


@dataclass(frozen=True)
class DeadLetter:
    """A message that could not be handled, and why; see `tidecast.model.Reason`. `timestamp` is in epoch ms."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: Base64Bytes | None = None
    value: Base64Bytes | None = None
    reason: str = ""
    detail: str | None = None


_LETTER = TypeAdapter(DeadLetter)


def write_dead_letters(frame: DataFrame, folder: AnyPath) -> dict[str, int]:
    """Add messages and why they could not be handled to a folder, each once; return their number by reason.

    In: the columns of `RECORD`, and `reason`, `detail`. Each line is a record as `FileTopics` reads it, with its
    topic, partition and offset, and `reason`, `detail` beside them. Nothing is written where there is nothing.
    """
    dead_letters = frame.select(*RECORD.fieldNames(), "reason", "detail")
    counts = {row["reason"]: row["n"] for row in dead_letters.groupBy("reason").agg(F.count("*").alias("n")).collect()}
    if counts:
        lines = dead_letters.withColumn("timestamp", F.unix_millis("timestamp"))
        append_lines(lines, folder, expected=sum(counts.values()))
    return counts


def refuse_dead_letters(frame: DataFrame) -> None:
    """Raise DecodeError for the first of the messages that could not be handled, if there is one.

    In: as `write_dead_letters`.
    """
    for row in frame.select(*_PLACE, "reason", "detail").orderBy("offset").limit(1).collect():
        raise DecodeError(
            f"{row['reason']}: {row['detail'] or 'the message cannot be read'}",
            where=" ".join(f"{name} {row[name]}" for name in _PLACE if row[name] is not None),
            hint="--on-error dead-letter sets such messages aside",
        )


def read_dead_letters(spark: SparkSession, folder: AnyPath) -> DeadLetters | None:
    """Return what lies in a folder of dead letters, None where nothing does."""
    files = tuple(one.path for one in entries(folder) if one.name.endswith(".jsonl"))
    if not files:
        return None
    lines = spark.read.text(spark_inputs(files)).select(F.col("value").alias("line"))
    parsed = lines.select("line", F.from_json("line", _LINE, LONG_TEXTS).alias("letter")).select("line", "letter.*")
    return DeadLetters(folder, files, parsed.withColumn("timestamp", F.timestamp_millis("timestamp")))


def first_dead_letters(folder: AnyPath, number: int, of: Callable[[DeadLetter], bool]) -> tuple[list[DeadLetter], int]:
    """Return some of the dead letters in a folder that are `of` a kind, in order of their places, and how many are.

    It takes no Spark, and no more memory than these. Raises ConfigError for a line that is no dead letter.
    """
    found = 0

    def counted() -> Iterator[DeadLetter]:
        nonlocal found
        for letter in filter(of, dead_letters_in(folder)):
            found += 1
            yield letter

    first = heapq.nsmallest(number, counted(), key=lambda one: (one.topic or "", one.partition or 0, one.offset or 0))
    return first, found


def dead_letters_folder(place: AnyPath) -> AnyPath:
    """Return the folder of dead letters that a place is, or that lies in it as `replicate` makes it."""
    inside = place / DEAD_LETTERS
    return inside if inside.is_dir() else place


def dead_letters_in(folder: AnyPath) -> Iterator[DeadLetter]:
    """Yield the dead letters in a folder, without Spark. Raises ConfigError for a line that is none."""
    for file in entries(folder):
        if file.name.endswith(".jsonl"):
            with file.path.open("rb") as lines:
                for line in filter(bytes.strip, lines):
                    yield _letter(line, file.path)


def _letter(line: bytes, file: AnyPath) -> DeadLetter:
    try:
        return _LETTER.validate_json(line)
    except ValueError:
        hint = "name the folder of dead letters, or that of the tables"
        raise ConfigError("it has a line that is no dead letter", where=str(file), hint=hint) from None


def replace_dead_letters(there: DeadLetters, applied: DataFrame, rest: DataFrame) -> None:
    """Put lines in the place of those in a folder: `rest` there, and `applied` in its folder `_applied`.

    In: `line`, a dead letter. Others may add to the folder at the same time. After a crash a message may lie there
    twice, and none is lost. Raises TerminalError where a folder has not got each of them.
    """
    with _folder(there.folder / _APPLIED):
        done = applied.select(F.col("line").alias("value")).distinct()
        _add(done, there.folder / _APPLIED, done.count())
    with _folder(there.folder):
        kept = rest.select(F.col("line").alias("value")).distinct()
        _move_in(kept, there.folder, kept.count(), None)
        for file in there.files:
            remove_file(file)
        sync_folder(there.folder)


def append_lines(frame: DataFrame, folder: AnyPath, *, expected: int) -> None:
    """Add each row of a frame as one JSON line, nulls included, to a folder, in new `.jsonl` files.

    A line that lies there stays the only one of its kind: who reads a topic again finds the same again. `expected` is
    the number of rows. Raises TerminalError where the folder has not got each of them in the end.
    """
    with _folder(folder):
        _add(frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("value")), folder, expected)


@contextmanager
def _folder(folder: AnyPath) -> Iterator[None]:
    """Make a folder that is no topic. Raises TerminalError where it cannot be written."""
    try:
        make_folder(folder)
        touch(folder / NO_TOPIC)
        yield
    except OSError as error:
        raise TerminalError(f"the folder cannot be written: {error.strerror}", where=str(folder)) from None


def _add(lines: DataFrame, folder: AnyPath, expected: int) -> None:
    """Add lines, `value`, which do not lie there."""
    rows = Observation()
    lines = lines.observe(rows, F.count("*").alias("n"))
    there = spark_inputs([one.path for one in entries(folder) if one.name.endswith(".jsonl")])
    if there:
        known = lines.sparkSession.read.text(there).select(F.col("value").alias("known"))
        # Neither is null. Of keys that are simply equal Spark would follow each back to its source, through all that it
        # was made of: copies of copies of each column of a row, for a filter on files that no folder here has.
        lines = lines.join(known, F.col("value").eqNullSafe(F.col("known")), "left_anti")
    _move_in(lines, folder, expected, rows)


def _move_in(lines: DataFrame, folder: AnyPath, expected: int, read: Observation | None) -> None:
    """Write lines to new files; `read` observes them before those that lie there were left out, with these `n`."""
    batch = uuid.uuid4().hex[:12]
    staging, written = folder / f".staging-{batch}", Observation()
    try:
        lines.observe(written, F.count("*").alias("n")).write.text(spark_output(staging))
        parts = [one.path for one in entries(staging) if one.name.startswith("part-") and one.size]
        known = read.get["n"] - written.get["n"] if read else 0
        check_written(expected, known + sum(map(count_lines, parts)), folder)
        for number, part in enumerate(parts):
            move(part, folder / f"part-{batch}-{number:05}.jsonl")
        sync_folder(folder)
    finally:
        remove_tree(staging, ignore_errors=True)
