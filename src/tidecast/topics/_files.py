"""Topics as files: the embedded twin of Kafka, a folder per topic, records as Parquet or as JSON Lines.

In JSON Lines bytes are base64, `timestamp` is in epoch milliseconds and `headers` a list of key and value.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError, SourceChanged, TidecastError, Unreachable
from tidecast.model import HEADERS, RECORD
from tidecast.spark import LONG_TEXTS, small_table
from tidecast.storage import AnyPath, Entry, entries, entry, make_folder, path_uri, spark_inputs
from tidecast.topics._base import ANEW, Counts, Offsets, Records, TopicInfo
from tidecast.topics._here import RecordsHere, read_lines, read_parquet
from tidecast.topics._write_files import TOPIC_ID, known_ends, write_files

_log = logging.getLogger(__name__)

_LINES = (".jsonl", ".jsonl.gz")
_PARQUET = ".parquet"
_BROKEN = "broken_line"
_RECORDS = (*_LINES, _PARQUET)
NO_TOPIC = ".no-topic"
DEAD_LETTERS = "_dead_letters"
"""The folder of dead letters beside tables or topics, where no other is named."""
_FEW_BYTES = 1 << 18
"""How large files are, all together and without what each file of Parquet has beside its rows (`_FOOTER`), that one
task reads and works on."""
_FOOTER = 3000
_AT_ONCE = 10_000

_RESERVED = (DEAD_LETTERS, "_delta_log", "_spark_metadata", "_temporary")
_DAMAGED = "it is damaged, or no file of its kind: fetch it again, or take it away"

_LINE = T.StructType(
    [
        *(f for f in RECORD.fields if f.name not in ("timestamp", "headers")),
        T.StructField("timestamp", T.LongType()),
        T.StructField("headers", HEADERS),
        T.StructField(_BROKEN, T.StringType()),
    ]
)


@lru_cache(64)
def _warn_once(text: str) -> None:
    """Warn of a place once, however often a command opens it."""
    _log.warning("%s", text)


@dataclass(frozen=True)
class FileTopics:
    """Topics in a folder, one folder each; or one file of JSON Lines or Parquet that holds records of any topic.

    `path` is the folder of the default topic `topic`, or the file. `pattern` (a regular expression on the whole
    name) chooses topics to read instead of the default one. `lines` writes JSON Lines instead of Parquet.
    `partitions` is the partition count of topics that are written.
    """

    path: AnyPath
    topic: str
    pattern: str | None = None
    lines: bool = False
    partitions: int = 3
    waits: ClassVar[str | None] = None

    @property
    def where(self) -> str:
        """Return the name of this place for errors."""
        return path_uri(self.path)

    def end_offsets(self, after: Offsets | None = None, limit: int | None = None) -> Offsets:
        """Return by file its size; see `Topics.end_offsets`. A file is read as a whole, so that `limit` has no say.

        A file that went had been read, so that old ones may be removed. One that has grown, or was written anew, is
        read from its start. Raises SourceChanged for one that shrank, and for a topic that `write` began anew.
        """
        files = {self._name(f.path): f for f in self._present()}
        written = {folder.name: id_ for folder in {f.path.parent for f in files.values()} if (id_ := _topic_id(folder))}
        offsets = Offsets(
            {name: file.size for name, file in files.items()},
            {**written, **{name: file.version for name, file in files.items()}},
        )
        if after is not None:
            anew = sorted(set(offsets.made_anew(after)) & written.keys())
            shrunk = sorted(name for name, size in offsets.ends.items() if size < after.ends.get(name, 0))
            left = {n: size for n, size in after.ends.items() if n not in shrunk and n.rpartition("/")[0] not in anew}
            for found, words in (
                (anew, "made anew since the checkpoint, so that its offsets mean other messages: topic"),
                (shrunk, "smaller than when it was read, so that it holds something else: file"),
            ):
                if found:
                    what = f"{words} {', '.join(found[:3])}"
                    raise SourceChanged(what, where=self.where, hint=ANEW, remaining=left)
        return offsets

    def _name(self, file: AnyPath) -> str:
        return "/".join(file.parts[len(self.path.parent.parts) :])

    def read(
        self,
        spark: SparkSession,
        after: Offsets | None = None,
        until: Offsets | None = None,
        waiting: Collection[str] = (),
    ) -> Records:
        """Return every record of the files that are new or have grown since `after`, up to `until`.

        A file that has grown is read from its start. Raises ConfigError where there is none to read.
        """
        files = self._files()
        several = len(files) > 1
        if until is not None:
            fresh = {name for name in until.ends if until.differs(after or Offsets(), name)}
            files = [f for f in files if self._name(f.path) in fresh]
        lines = [f.path for f in files if f.name.endswith(_LINES)]
        numbered = all(_has_offset(f) for f in lines)
        if several and not numbered:
            _warn_once(
                f"{self.where}: there are several files, and lines without an offset, which only have the number in "
                "their file: if messages have no commit-ts, nothing tells which of two is newer"
            )
        # Few lines are read here, which takes Spark some plans and a job.
        if lines and (here := self._here(files, 4 * _FEW_BYTES, numbered)):
            return Records.of(here.frame(spark), ordered=here.ordered, few=True, kept=False)
        parquet = [f.path for f in files if f.name.endswith(_PARQUET)]
        parts = []
        if parquet:
            parts.append(spark.read.schema(RECORD).parquet(*spark_inputs(parquet)))
        if lines:
            parts.append(_read_lines(spark, lines, numbered, self.topic))
        frame = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        few = sum(f.size for f in files) - len(parquet) * _FOOTER <= _FEW_BYTES
        # Parquet is read in a quarter of the time that Spark takes to keep what it read; lines are parsed.
        return Records.of(frame, ordered=not numbered and len(files) == 1, few=few, kept=bool(lines))

    def here(self, most: int) -> RecordsHere | None:
        """Return the records without Spark, where they lie in files on this machine of `most` bytes in all.

        None where they do not, or where something in a file is not as expected, which is Spark's to say.
        """
        return self._here(self._files(), most)

    def _here(self, files: Sequence[Entry], most: int, numbered: bool | None = None) -> RecordsHere | None:
        paths = [f.path for f in files if isinstance(f.path, Path)]
        if len(paths) < len(files) or sum(file.size for file in files) > most:
            return None
        lines = [path for path in paths if path.name.endswith(_LINES)]
        numbered = all(_has_offset(path) for path in lines) if numbered is None else numbered
        parts = [read_lines(path, self.topic, numbered) if path in lines else read_parquet(path) for path in paths]
        tables = [part for part in parts if part is not None]
        return RecordsHere.of(tables, ordered=not numbered and len(files) == 1) if len(tables) == len(files) else None

    def expired_since(self, start_ts: int) -> None:
        """Return None: no name of a file tells that others have gone; see `Topics.expired_since`."""

    def spans(self) -> None:
        """Return None: what files hold, their records tell; see `Topics.spans`."""

    def _present(self) -> list[Entry]:
        single = entry(self.path) if self.path.is_file() else None
        if single:
            files = [single] if single.name.endswith(_RECORDS) else []
        else:
            files = [f for folder in self._folders() for f in _records_in(folder)]
        for file in files:
            if file.name.startswith(("_", ".")):
                hint = "give it another name, or take it away"
                raise ConfigError("Spark reads no file whose name begins so", where=path_uri(file.path), hint=hint)
        return sorted(files, key=lambda file: file.path.parts)

    def _files(self) -> list[Entry]:
        files = self._present()
        if not files:
            raise ConfigError(
                "no records to read",
                where=self.where,
                hint="name a topic's folder, a .jsonl, .jsonl.gz or .parquet file, or topics=PATTERN",
            )
        return files

    def _folders(self) -> list[AnyPath]:
        beside = self.path.parent
        if self.pattern is not None:
            wanted = re.compile(self.pattern)
            return [f for f in _topics_in(beside) if wanted.fullmatch(f.name)]
        if self.path.is_dir():
            return [self.path, *_topics_in(self.path)]
        if self.path.name.endswith(_RECORDS):
            return []
        # A changefeed whose rules name a topic per table leaves no default topic: its sink URI still reads back.
        there = _topics_in(beside)
        if there:
            names = ", ".join(f.name for f in there)
            _warn_once(f"there is no topic {self.topic} in {beside}: reading all topics there: {names}")
        return there

    def look(self, topic: str) -> TopicInfo | None:
        """Return what is known of a topic, None where it has no folder."""
        return TopicInfo(topic, self.partitions) if (self.path.parent / topic).is_dir() else None

    def ensure(self, topic: str) -> TopicInfo:
        """Return what is known of a topic that is going to be written; a folder is made when it is written.

        Raises ConfigError for a name that is no topic's.
        """
        if not _may_be_topic(self.path.parent / topic):
            hint = f"give the topic a name that does not begin with a dot and is none of {', '.join(_RESERVED)}"
            raise ConfigError(f"{topic!r} cannot be a topic of files", where=self.where, hint=hint)
        return TopicInfo(topic, self.partitions)

    def write(
        self,
        frame: DataFrame,
        complete: Callable[[DataFrame], DataFrame] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """Append records to their topics; see `Topics.write`. Their offsets go on from those that lie there."""
        base = self.path.parent
        make_folder(base)

        def ends_of(topic: str) -> Mapping[int, int]:
            ends = known_ends(file.path for file in _records_in(base / topic))
            return _read_ends(frame.sparkSession, base / topic) if ends is None else ends

        write_files(frame, base, ends_of, complete, counts, lines=self.lines)


def _read_ends(spark: SparkSession, folder: AnyPath) -> Mapping[int, int]:
    """Return by partition the next offset after the records in a topic's folder, which are read for it."""
    there = FileTopics(folder, folder.name).read(spark).frame
    rows = there.groupBy("partition").agg(F.max("offset").alias("last")).collect()
    return {row["partition"]: row["last"] + 1 for row in rows}


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn what Spark raises for a file into the errors of tidecast, on one line; others go through unchanged.

    That is a damaged file, a storage that Spark does not know, and one that does not answer a task.
    """
    try:
        yield
    except TidecastError:
        raise
    except Exception as error:
        if silent := _SILENT.search(str(error)):
            raise Unreachable(silent[1]) from None
        if unknown := _NO_FILE_SYSTEM.search(str(error)):
            hint = "give it the connector, for S3 by --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.4.1"
            raise ConfigError(f"Spark has no file system for {unknown[1] or unknown[2]}", hint=hint) from None
        found = _FILE_ERROR.search(str(error))
        if found is None:
            raise
        if "FILE_NOT_EXIST" in found[0]:
            hint = "start it again: that reads what is there, or tells what is lost"
            raise ConfigError("the file went while it was read", where=found[1], hint=hint) from None
        raise ConfigError("the file cannot be read to its end", where=found[1], hint=_DAMAGED) from None


_NO_FILE_SYSTEM = re.compile(r"No FileSystem for scheme[: ]*\"?(\w+)|ClassNotFoundException: Class (\S+FileSystem) not")
_SILENT = re.compile(rf"{Unreachable.__module__}\.{Unreachable.__name__}: ([^\r\n]+)")
_FILE_ERROR = re.compile(r"\[FAILED_READ_FILE\.\w+\][^\r\n]*?([a-z0-9]+:/\S+?)\.?(?:\s|$)")


def _topic_id(folder: AnyPath) -> str:
    """Return what `write` called a topic when it began it; nothing for a topic of others."""
    try:
        return (folder / TOPIC_ID).read_text(encoding="ascii")
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return ""


def _records_in(folder: AnyPath) -> list[Entry]:
    """Return the files of records in a topic's folder."""
    return [f for f in entries(folder) if f.name.endswith(_RECORDS) and not f.name.startswith(".")]


def _topics_in(folder: AnyPath) -> list[AnyPath]:
    """Return the topics of a folder: the folders in it, but hidden ones and those that something else is kept in.

    That is Spark's and Delta's own, and what the file `.no-topic` says of: dead letters and mismatches.
    """
    return [f.path for f in entries(folder) if f.is_dir and _may_be_topic(f.path)]


def _may_be_topic(folder: AnyPath) -> bool:
    return not (folder.name.startswith(".") or folder.name in _RESERVED or (folder / NO_TOPIC).exists())


def _has_offset(file: AnyPath) -> bool:
    try:
        with file.open("rb") as content, gzip.open(content) if file.suffix == ".gz" else content as lines:
            line = lines.readline()
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"the file cannot be read: {error}", where=path_uri(file), hint=_DAMAGED) from None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "offset" in record


def _read_lines(spark: SparkSession, files: list[AnyPath], numbered: bool, topic: str) -> DataFrame:
    # As text first: Spark's reader of JSON files takes a line that is an array for as many records as are in it.
    text = spark.read.text(spark_inputs(files)).where(F.trim("value") != "")
    if not numbered:
        text = _number_lines(text)
    record = F.from_json("value", _LINE, {"columnNameOfCorruptRecord": _BROKEN, **LONG_TEXTS})
    offset = [] if numbered else ["number"]
    read = text.select(F.col("value").alias("line"), record.alias("record"), *offset)
    columns = {f.name: F.col("record")[f.name] for f in RECORD}
    # A line that is no JSON is kept whole as a value, so that it reaches the dead letters.
    broken = F.col("record").isNull() | F.col("record")[_BROKEN].isNotNull()
    columns |= {
        "topic": F.coalesce(columns["topic"], F.lit(topic)),
        "timestamp": F.timestamp_millis(columns["timestamp"]),
        "value": F.when(broken, F.col("line").cast("binary")).otherwise(columns["value"]),
    }
    if not numbered:
        columns["offset"] = F.coalesce(columns["offset"], F.col("number"))
    return read.select(*(column.alias(name) for name, column in columns.items()))


def _number_lines(frame: DataFrame) -> DataFrame:
    """Add the number of each line in its file; Spark may have cut a file in several pieces."""
    placed = frame.select(
        "*",
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("id"),
    )
    pieces = placed.groupBy("file", "block").agg(F.min("id").alias("first"), F.count("*").alias("lines")).collect()
    starts, before = [], {p["file"]: 0 for p in pieces}
    for piece in sorted(pieces, key=lambda p: (p["file"], p["block"])):
        starts.append((piece["file"], piece["block"], before[piece["file"]] - piece["first"]))
        before[piece["file"]] += piece["lines"]
    kinds = {"file": pa.string(), "block": pa.int64(), "shift": pa.int64()}
    known = small_table(frame.sparkSession, starts, kinds)
    joined = placed.join(F.broadcast(known), ["file", "block"])
    return joined.withColumn("number", F.col("id") + F.col("shift"))
