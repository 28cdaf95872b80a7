"""Where messages go that cannot be handled: a folder of JSON Lines that reads back as a topic."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast._errors import DecodeError
from tidecast.model import RECORD

_PLACE = ("topic", "partition", "offset")


def write_dead_letters(frame: DataFrame, folder: Path) -> dict[str, int]:
    """Append messages and why they could not be handled to a folder; return their number by reason.

    In: the columns of `RECORD`, and `reason`, `detail`. Each line is a record as `FileTopics` reads it, with its
    topic, partition and offset, and `reason`, `detail` beside them. Nothing is written where there is nothing.
    """
    letters = frame.select(*RECORD.fieldNames(), "reason", "detail")
    counts = {row["reason"]: row["n"] for row in letters.groupBy("reason").agg(F.count("*").alias("n")).collect()}
    if counts:
        append_lines(letters.withColumn("timestamp", F.unix_millis("timestamp")), folder)
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


def append_lines(frame: DataFrame, folder: Path) -> None:
    """Append each row of a frame as one JSON line to new `.jsonl` files of a folder, nulls included."""
    folder.mkdir(parents=True, exist_ok=True)
    batch = uuid.uuid4().hex[:12]
    staging = folder / f".staging-{batch}"
    try:
        frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).write.text(str(staging))
        for number, part in enumerate(sorted(p for p in staging.glob("part-*") if p.stat().st_size)):
            part.replace(folder / f"part-{batch}-{number:05}.jsonl")
    finally:
        shutil.rmtree(staging, ignore_errors=True)
