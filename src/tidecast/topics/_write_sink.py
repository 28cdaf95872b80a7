"""Rows into the folder of TiCDC's storage sink: data files, their indexes, schema files, `metadata`.

A batch is written aside first, and counted. Then, by table version, its schema file and its data files come into their
folders, each whole, and the index behind them; `metadata` comes last. So a reader that goes by indexes finds a whole
beginning of the batch, whatever happens. Source: Storage sink, layout.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import ConfigError
from tidecast.spark import small_table
from tidecast.storage import (
    AnyPath,
    entries,
    entry,
    make_folder,
    move,
    path_uri,
    remove_tree,
    replace_file,
    spark_output,
    sync_folder,
)
from tidecast.topics._base import Counts, TopicInfo
from tidecast.topics._sink_layout import META, METADATA, data_file, schema_version
from tidecast.topics._sink_listing import below
from tidecast.topics._write_files import STAGING, counted
from tidecast.topics._written import check_written, count_lines

_FILE = b"/"
DATE_SEPARATORS = {"none": "", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


@dataclass(frozen=True)
class SinkFiles:
    """The files of a storage sink, by TiCDC's names; `zone` is the server's time zone, for dates.

    `file_size` is how many bytes a data file has at most, as far as its rows are as long as most.
    """

    suffix: str
    terminator: str = "\r\n"
    date_separator: str = "day"
    file_index_digit: int = 20
    file_size: int = 64 << 20
    zone: str = "UTC"

    @property
    def date(self) -> str:
        """The folder of today, empty for none."""
        return dt.datetime.now(ZoneInfo(self.zone)).strftime(DATE_SEPARATORS.get(self.date_separator, ""))


@dataclass(frozen=True)
class StorageSinkWriter:
    """A folder that is written as TiCDC's storage sink writes it. Topics are the folders of table versions."""

    path: AnyPath
    files: SinkFiles

    @property
    def where(self) -> str:
        """Return the name of this place for errors."""
        return path_uri(self.path)

    def look(self, topic: str) -> TopicInfo:
        """Return that a folder has one partition."""
        return TopicInfo(topic, 1)

    def ensure(self, topic: str) -> TopicInfo:
        """Return that a folder has one partition; it is made when it is written.

        Of the sink's own folder it is asked whether it can be used. Raises ConfigError where that is not so, and
        Unreachable where the storage does not answer.
        """
        if topic == self.path.name:
            try:
                entry(self.path / METADATA)
            except PermissionError as error:
                hint = "look at credentials and endpoint, in the URI, the environment or Spark's settings"
                raise ConfigError(f"the folder cannot be read: {error.strerror}", where=self.where, hint=hint) from None
        return TopicInfo(topic, 1)

    def write(
        self,
        frame: DataFrame,
        complete: Callable[[DataFrame], DataFrame] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """Append rows to the folders that their topics name, and write the files that messages are.

        In: see `Topics.write`. A key that begins with `/` is a file's path below the sink's folder, and its value the
        content. Any other is the header of the file that the row is written to, empty or null for none.
        """
        whole_file = F.coalesce(F.col("key").startswith(F.lit(_FILE)), F.lit(False))
        files = self._whole_files(frame.where(whole_file))
        rows = frame.where(~whole_file)
        ranges, placed = counted(rows)
        staging = self.path / f"{STAGING}{uuid.uuid4().hex}"
        make_folder(self.path)
        try:
            if ranges:
                self._stage(placed, sorted(ranges), staging)
            self._adopt(staging, [(topic, rows) for (topic, _, _), rows in sorted(ranges.items())], files)
        finally:
            remove_tree(staging, ignore_errors=True)

    def _whole_files(self, frame: DataFrame) -> Mapping[str, bytes]:
        """Return the files that messages are, by path.

        Of `metadata` that is the one with the highest checkpoint-ts, of a schema file the one with a statement.
        """
        newest = F.get_json_object(F.col("value").cast("string"), "$.checkpoint-ts").cast("bigint")
        order = F.struct(newest, F.octet_length("value"))
        once = frame.groupBy("key").agg(F.max_by("value", order).alias("value"))
        return {bytes(row["key"]).removeprefix(_FILE).decode(): bytes(row["value"]) for row in once.collect()}

    def _stage(self, placed: DataFrame, ranges: list[tuple[str, int, int]], staging: AnyPath) -> None:
        """Write the rows of each range to a folder of its own, and in it each file to one."""
        length = F.avg(F.octet_length("value")).alias("length")
        most = {
            row["topic"]: max(1, int(self.files.file_size // max(1, row["length"] or 0)))
            for row in placed.groupBy("topic").agg(length).collect()
        }
        kinds = {"topic": pa.string(), "range": pa.int32(), "file": pa.int32(), "most": pa.int64()}
        known = [(topic, number, file, most[topic]) for file, (topic, _, number) in enumerate(ranges)]
        named = placed.join(F.broadcast(small_table(placed.sparkSession, known, kinds)), ["topic", "range"])
        row = F.row_number().over(Window.partitionBy("file").orderBy("sequence")) - 1
        first = row % F.col("most") == 0
        header = F.concat(F.col("key"), F.lit(self.files.terminator.encode()), F.col("value"))
        line = F.when(first & (F.octet_length("key") > 0), header).otherwise(F.col("value"))
        piece = F.floor(row / F.col("most")).cast("int").alias("piece")
        lines = named.select("file", piece, "sequence", line.cast("string").alias("line"))
        lines = lines.sortWithinPartitions("file", "piece", "sequence").drop("sequence")
        lines.write.partitionBy("file", "piece").option("lineSep", self.files.terminator).text(spark_output(staging))

    def _adopt(self, staging: AnyPath, ranges: list[tuple[str, int]], files: Mapping[str, bytes]) -> None:
        """Put what was written where readers look for it, by table version."""
        steps: list[tuple[int, int, Callable[[], None]]] = []
        for path, content in files.items():
            if path != METADATA:
                version = schema_version(path.rpartition("/")[2]) or 0
                steps.append((version, 0, partial(self._new, path, content)))
        for number, (topic, rows) in enumerate(ranges):
            pieces = [one.path for one in entries(staging / f"file={number}") if one.name.startswith("piece=")]
            pieces.sort(key=lambda piece: (len(piece.name), piece.name))
            written = [one.path for piece in pieces for one in entries(piece) if one.name.startswith("part-")]
            if self.files.terminator.endswith("\n") and (ends := sum(map(count_lines, written))) < rows:
                check_written(rows, ends, self.path)  # more are in values
            version = int(topic.rpartition("/")[2])
            steps.append((version, 1, partial(self._append, topic, written)))
        for _, _, step in sorted(steps, key=lambda one: one[:2]):
            step()
        if METADATA in files:
            self._checkpoint(files[METADATA])

    def _new(self, path: str, content: bytes) -> None:
        """Write a schema file, unless it is there."""
        file = below(self.path, path)
        if entry(file) is None:
            make_folder(file.parent)
            replace_file(file, content)

    def _append(self, topic: str, written: list[AnyPath]) -> None:
        """Give data files the next names in today's folder, and then name the last one in its index."""
        date = self.files.date
        folder = below(self.path, f"{topic}/{date}" if date else topic)
        make_folder(folder / META)
        index = folder / META / "CDC.index"
        last = _last_index(index)
        for file in written:
            last += 1
            name = f"CDC{last:0{self.files.file_index_digit}}.{self.files.suffix}"
            move(file, folder / name)
            sync_folder(folder)
            replace_file(index, f"{name}\n".encode())

    def _checkpoint(self, content: bytes) -> None:
        """Write `metadata`, unless it says more already."""
        there = entry(self.path / METADATA)
        if there is None or _checkpoint_ts(there.path.read_bytes()) < _checkpoint_ts(content):
            replace_file(self.path / METADATA, content)


def _last_index(index: AnyPath) -> int:
    try:
        found = data_file(index.read_text(encoding="utf-8").strip().rpartition("/")[2])
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return found[1] if found else 0


def _checkpoint_ts(content: bytes) -> int:
    try:
        return int(json.loads(content)["checkpoint-ts"])
    except (ValueError, LookupError, TypeError):
        return -1
