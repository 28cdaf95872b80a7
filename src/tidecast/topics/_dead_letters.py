"""Where messages go that cannot be handled: a folder of JSON Lines that reads back as a topic."""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidecast._errors import DecodeError, TerminalError
from tidecast.model import RECORD
from tidecast.storage import (
    AnyPath,
    entries,
    make_folder,
    move,
    remove_tree,
    spark_input,
    spark_output,
    sync_folder,
    touch,
)
from tidecast.topics._files import NO_TOPIC
from tidecast.topics._written import check_written, count_lines

_PLACE = ("topic", "partition", "offset")


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


def append_lines(frame: DataFrame, folder: AnyPath, *, expected: int) -> None:
    """Add each row of a frame as one JSON line, nulls included, to a folder, in new `.jsonl` files.

    A line that lies there stays the only one of its kind: who reads a topic again finds the same again. `expected` is
    the number of rows. Raises TerminalError where the folder has not got each of them in the end.
    """
    rows, written = Observation(), Observation()
    lines = frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("value"))
    lines = lines.observe(rows, F.count("*").alias("n"))
    batch = uuid.uuid4().hex[:12]
    staging = folder / f".staging-{batch}"
    try:
        make_folder(folder)
        touch(folder / NO_TOPIC)
        there = [spark_input(one.path) for one in entries(folder) if one.name.endswith(".jsonl")]
        if there:
            lines = lines.join(frame.sparkSession.read.text(there), "value", "left_anti")
        lines.observe(written, F.count("*").alias("n")).write.text(spark_output(staging))
        parts = [one.path for one in entries(staging) if one.name.startswith("part-") and one.size]
        known = rows.get["n"] - written.get["n"]
        check_written(expected, known + sum(map(count_lines, parts)), folder)
        for number, part in enumerate(parts):
            move(part, folder / f"part-{batch}-{number:05}.jsonl")
        sync_folder(folder)
    except OSError as error:
        raise TerminalError(f"the folder cannot be written: {error.strerror}", where=str(folder)) from None
    finally:
        remove_tree(staging, ignore_errors=True)
