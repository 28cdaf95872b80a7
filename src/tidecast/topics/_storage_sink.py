"""The folder of TiCDC's storage sink as a source: tables as topics, lines of data files as records.

Source: Storage sink.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._csv_format import CsvFormat, csv_format
from tidecast._errors import ConfigError, SourceChanged
from tidecast.model import RECORD, Statement, read_statement
from tidecast.spark import mapped, small_table
from tidecast.storage import AnyPath, Entry, entry, path_uri, spark_inputs, spark_output
from tidecast.topics._base import ANEW, Offsets, Records, first_of
from tidecast.topics._sink_layout import (
    FILES_OF_SEGMENT,
    LINE_BITS,
    META,
    METADATA,
    RANK_BITS,
    DataFile,
    Writer,
    offset_of,
    place_of,
    rank_of,
    renamed,
    schema_version,
)
from tidecast.topics._sink_lines import Shown, Splitting, TooShort, seen
from tidecast.topics._sink_listing import Found, Known, at_once, below, files_of, is_passed, look
from tidecast.topics._sink_positions import Item, bounded, highest_rank, known_files, last_of, order_of, place_of_item

_log = logging.getLogger(__name__)

_FEW_BYTES = 1 << 18
_SAMPLE = 1 << 16
_LARGE = 32 << 20
"""From how many bytes on files are split in a step of their own, which takes Java the least memory."""
_CAUSE = [T.StructField("reason", T.StringType()), T.StructField("detail", T.StringType())]
_TOLD = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
}


@dataclass
class StorageSink:
    """A folder that TiCDC's storage sink writes. `csv` tells it from one of Canal-JSON; `params` are the source URI's.

    A topic is a table's folder, with one partition. `offset` numbers the records of all tables in one sequence: by
    table version, then by data folder, file and line. A schema file stands before the rows of its version, and the
    checkpoint-ts of `metadata` behind all rows that it covers. A checkpoint knows the schema files that were read, and
    by folder the last data file.
    """

    path: AnyPath
    csv: bool
    params: Mapping[str, str]
    _held: Sequence[str] = field(default=(), init=False)
    _listed: dict[Writer, dict[int, Entry]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Return the name of this place for errors."""
        return path_uri(self.path)

    @property
    def waits(self) -> str | None:
        """See `ReadableTopics.waits`."""
        return f"files wait that are missing, or not whole yet: {first_of(1, self._held)}" if self._held else None

    def end_offsets(self, after: Offsets | None = None, limit: int | None = None) -> Offsets:
        """Return by schema file, and by folder and writer, where the next record begins; see `Topics.end_offsets`.

        Files are read as a whole; with `limit` those that are likely to have so many rows, at least one. The
        checkpoint-ts, as `metadata`, moves when all files are taken, and none waits for its index. Raises SourceChanged
        where an index names an earlier file than one that was read, or a file is gone that was to come next.
        """
        before = after or Offsets()
        self._listed.clear()
        known = known_files(before, rewound := self._rewound(before))
        found = look(self.path, known)
        if not (found.schema_files or found.last or found.held or before.ends):
            raise ConfigError(
                "no storage sink's files to read: there is no schema file",
                where=self.where,
                hint="name the folder that the changefeed's sink URI names",
            )
        self._check_indexes(found, before)
        items, missing = self._new_items(found, known, before)
        cut = bool(missing)
        if limit is not None:
            first = bounded(items, self._listed, limit)
            items, cut = first, cut or len(first) < len(items)
        ends, ids = dict(before.ends), {at: id_ for at, id_ in before.ids.items() if at not in rewound}
        rank = max((rank_of(end - 1) for name, end in ends.items() if name != METADATA), default=0)
        for _, item in items:
            place = place_of_item(item)
            if place not in ends:
                rank += 1
                ends[place] = (rank << RANK_BITS) + 1
            if isinstance(item, DataFile):
                ends[place] = offset_of(rank_of(ends[place] - 1), item.index) + (1 << LINE_BITS)
                ids.pop(place, None)
                if place in rewound or item.index > found.unnamed.get(item.writer, item.index):
                    ids[place] = f"{item.name} {self._listed[item.writer][item.index].version}"
        if found.checkpoint_ts is not None and not cut and not found.held:
            ends[METADATA] = max(found.checkpoint_ts, ends.get(METADATA, 0))
        self._held = (*found.held, *missing)
        return Offsets(ends, ids)

    def _present_end(self, after: Offsets | None) -> Offsets:
        """Return the end for a read that names none, and warn of the files that it leaves out."""
        end = self.end_offsets(after)
        if self.waits:
            _log.warning("%s", self.waits)
        return end

    def _rewound(self, before: Offsets) -> set[str]:
        """Return the places whose last file was taken before an index named it, and was written anew since."""
        return {place for place in before.ids if self._written_anew(place, before.ids[place])}

    def _written_anew(self, place: str, id_: str) -> bool:
        name, _, version = id_.partition(" ")
        parsed = place_of(place)
        assert parsed
        there = entry(below(self.path, f"{parsed[0].folder}/{name}"))
        return there is not None and there.version != version

    def _check_indexes(self, found: Found, before: Offsets) -> None:
        told = known_files(before, set())
        for writer, file in found.last.items():
            last = told.last.get(writer, 0)
            place = writer.place(last // FILES_OF_SEGMENT)
            if file.index < last and place not in before.ids:
                left = {name: end for name, end in before.ends.items() if not name.startswith(f"{writer.folder}/")}
                what = f"{writer.folder} has been written anew: its last file is {file.name}, and {last} had been read"
                raise SourceChanged(what, where=self.where, hint=ANEW, remaining=left)

    def _new_items(self, found: Found, known: Known, before: Offsets) -> tuple[list[Item], list[str]]:
        """Return the files to be read, in order, up to the first that is missing or must wait; and those that do."""
        fresh = {
            path: schema_version(path.rpartition("/")[2]) or 0
            for path in found.schema_files
            if path not in known.schema_files
        }
        items: list[Item] = [((version, 0, [], "", path, 0), path) for path, version in fresh.items()]
        half_told = self._half_told(fresh, found.checkpoint_ts)
        gaps = [(order, path) for order, path in items if path in half_told]
        ahead = [(w, f, range(known.last.get(w, 0) + 1, f.index + 1)) for w, f in found.last.items()]
        ahead = [one for one in ahead if one[2]]
        listed = at_once(lambda one: files_of(self.path, one[0], one[2], one[1].name), ahead)
        for (writer, last, indexes), there in zip(ahead, listed, strict=True):
            waits = self._may_come(last, there.get(last.index), found.checkpoint_ts)
            if waits:
                there.pop(last.index, None)
            first = min(there, default=indexes.stop - waits)
            if first > indexes.start and writer in known.last:
                self._refuse_gap(writer, indexes.start, first, before)
            for index in range(first, indexes.stop):
                if index not in there:
                    gaps.append((order_of(writer, index), f"{writer.folder}/{renamed(last.name, index)}"))
                    break
                file = DataFile(writer, index, there[index].name)
                self._listed.setdefault(writer, {})[index] = there[index]
                items.append((order_of(writer, index), file))
        items.sort(key=lambda item: item[0])
        gaps.sort(key=lambda gap: gap[0])
        return [item for item in items if not gaps or item[0] < gaps[0][0]], [path for _, path in gaps]

    def _half_told(self, schema_files: Mapping[str, int], checkpoint_ts: int | None) -> set[str]:
        """Return the schema files of renames, given with their versions, that `metadata` has not passed.

        There is one for each table that a statement renames, and those of the others may not be there yet. Where the
        checkpoint-ts is the statement's own, TiCDC may be carrying it out.
        """
        if checkpoint_ts is None:
            return set()
        texts = self._texts([path for path, version in schema_files.items() if version >= checkpoint_ts])
        told = {path: _statement_in(text) for path, text in texts.items()}
        return {path for path, statement in told.items() if statement and statement.verb == "RENAME"}

    def _may_come(self, last: DataFile, there: Entry | None, checkpoint_ts: int | None) -> bool:
        """Tell whether a writer's last file is to be written yet: older TiCDC has the index name it first.

        It has come, or never will, once the checkpoint-ts is later than the index. Where none is told, one that is not
        there is taken for removed: it would be waited for without end.
        """
        is_settled = bool(there.size) if there else checkpoint_ts is None
        if is_settled:
            return False
        index = entry(below(self.path, last.writer.index))
        return index is not None and not is_passed(index, checkpoint_ts)

    def _refuse_gap(self, writer: Writer, wanted: int, first: int, before: Offsets) -> None:
        place = writer.place((first - 1) // FILES_OF_SEGMENT)
        rank = rank_of(before.ends[place] - 1) if place in before.ends else 1 + highest_rank(before)
        left = {**before.ends, place: offset_of(rank, first - 1) + (1 << LINE_BITS)}
        gone = f"file {wanted}" if first == wanted + 1 else f"files {wanted} to {first - 1}"
        raise SourceChanged(
            f"{gone} of {writer.folder} went before being read", where=self.where, hint=ANEW, remaining=left
        )

    def read(
        self,
        spark: SparkSession,
        after: Offsets | None = None,
        until: Offsets | None = None,
        waiting: Collection[str] = (),
    ) -> Records:
        """Return the records of the files beyond `after`, up to `until`. See `Topics.read`.

        Beside the columns of `RECORD` they have `reason` and `detail`: of a line that has no end. Tasks split the files
        themselves, each time that these are read: to keep their lines takes as long, and room for all of them. Lines of
        several tables are kept, as some modes read each table's rows alone, and would read all files for each of them.
        So are those of large files, as Java holds a file once more for each step on the way to a task's Python.
        Raises SourceChanged where a file went meanwhile, ConfigError where the files may be of two formats.
        """
        before = after or Offsets()
        until = until or self._present_end(after)
        files = self._files(before, until, anew=self._rewound(before), all_there=after is not None)
        told = self._control_records(before, until, {*waiting, *(file.writer.table for file, _ in files)})
        form = self._format(files, told, until, waiting)
        few = sum(one.size for _, one in files) <= _FEW_BYTES
        here = _told_frame(spark, told)
        if not files:
            return Records.of(here, ordered=True, few=few, kept=False, told=told, csv=form)
        paths = spark_inputs([one.path for _, one in files])
        whole = _as_records(spark.read.format("binaryFile").load(paths), self._key)
        split = Splitting(form, {name: rank_of(end - 1) for name, end in until.ends.items() if place_of(name)})
        several = len({file.writer.table for file, _ in files}) > 1
        if several or max(one.size for _, one in files) > _LARGE:
            frame = here.unionByName(mapped(whole, split, whole.schema))
            return Records.of(frame, ordered=True, few=few, told=told, csv=form)
        return Records.of(here.unionByName(whole), ordered=True, few=few, told=told, csv=form, split=split)

    def _key(self, path: Column) -> Column:
        """Return a file's path below the sink's folder from that which Spark tells."""
        base = spark_output(self.path).partition(":")[2].strip("/") + "/"
        return F.substring(path, F.instr(path, base) + len(base), F.length(path)).cast("binary")

    def _files(
        self, before: Offsets, until: Offsets, *, anew: set[str], all_there: bool
    ) -> list[tuple[DataFile, Entry]]:
        """Return the data files from one position to another."""
        ahead: list[tuple[Writer, range]] = []
        for place, end in until.ends.items():
            parsed = place_of(place)
            if not parsed:
                continue
            writer, segment = parsed
            last = last_of(segment, end)
            first = last_of(segment, before.ends[place]) + (place not in anew) if place in before.ends else None
            start = max(1, segment * FILES_OF_SEGMENT) if first is None else first
            if start <= last:
                ahead.append((writer, range(start, last + 1)))
        known, found = known_files(before).last, list[tuple[DataFile, Entry]]()
        for (writer, indexes), there in zip(ahead, at_once(lambda one: self._there(*one), ahead), strict=True):
            if all_there and len(there) < len(indexes) and min(there, default=0) > 0 and writer in known:
                self._refuse_gap(writer, indexes.start, min(there), before)
            found += [(DataFile(writer, index, one.name), one) for index, one in sorted(there.items())]
        return found

    def _there(self, writer: Writer, indexes: range) -> dict[int, Entry]:
        """Return a writer's files; those that were found a moment ago are not looked for again."""
        known = self._listed.get(writer, {})
        mine = {index: known[index] for index in indexes if index in known}
        return mine if len(mine) == len(indexes) else files_of(self.path, writer, indexes)

    def _control_records(self, before: Offsets, until: Offsets, tables: set[str]) -> pa.RecordBatch:
        """Return schema files, and the checkpoint-ts, as records.

        Schema files of tables that have rows come with every batch: those that were read before have the offset 0. So
        do those of all other tables, if a statement gave one of these tables the columns of another.
        """
        schemas = {name: end - 1 for name, end in until.ends.items() if schema_version(name.rpartition("/")[2])}
        fresh = [name for name in schemas if name not in before.ends]
        tables = tables | {_table_of(name) for name in fresh}
        texts = self._texts([name for name in schemas if _table_of(name) in tables])
        if any(_inherits(*one) for one in texts.items()):
            texts |= self._texts([name for name in schemas if name not in texts])
        rows: list[tuple[object, ...]] = [
            (_table_of(name), 0, 0 if name in before.ends else schemas[name], name.encode(), texts[name])
            for name in sorted(texts, key=schemas.__getitem__)
        ]
        checkpoint_ts = until.ends.get(METADATA)
        if checkpoint_ts is not None and checkpoint_ts != before.ends.get(METADATA):
            last = (highest_rank(until) + 1 << RANK_BITS) - 1
            text = json.dumps({"checkpoint-ts": checkpoint_ts}, separators=(",", ":")).encode()
            rows.append((METADATA, 0, last, METADATA.encode(), text))
        columns = zip(*rows, strict=True) if rows else ([] for _ in _TOLD)
        return pa.RecordBatch.from_pydict(
            {name: pa.array(values, kind) for (name, kind), values in zip(_TOLD.items(), columns, strict=True)}
        )

    def _texts(self, schema_files: Sequence[str]) -> dict[str, bytes]:
        texts = at_once(lambda name: below(self.path, name).read_bytes(), schema_files)
        return dict(zip(schema_files, texts, strict=True))

    def _format(
        self, files: Sequence[tuple[DataFile, Entry]], told: pa.RecordBatch, until: Offsets, waiting: Collection[str]
    ) -> CsvFormat:
        """Return how the files are written: as the URI says, else as the first that has rows shows.

        Lines that wait were written like those that came last, and so were those of Canal-JSON whose statements come.
        """
        form = csv_format(self.params)
        tables = waiting if self.csv else {*waiting, *told.column("topic").to_pylist()}
        for file, one in files or self._last_files(until, tables):
            shown = _shown(told, file.writer) if self.csv else None
            if one.size and (shown or not self.csv):
                with one.path.open("rb") as content:
                    sample = content.read(_SAMPLE)
                    try:
                        return seen(form, self.params, sample, shown, whole=len(sample) == one.size)
                    except TooShort:
                        return seen(form, self.params, sample + content.read(), shown)
        if waiting and self.csv:
            raise ConfigError(
                "lines wait, and no file is left that shows how they were written",
                where=self.where,
                hint="say it in the source's URI, as csv-include-commit-ts=true",
            )
        return form

    def _last_files(self, until: Offsets, tables: Collection[str]) -> Iterator[tuple[DataFile, Entry]]:
        for writer, last in known_files(until).last.items():
            if writer.table in tables:
                there = files_of(self.path, writer, range(last, last + 1))
                yield from ((DataFile(writer, index, one.name), one) for index, one in there.items())

    def expired_since(self, start_ts: int) -> None:
        """Return None: no name of a file tells that others have gone; see `Topics.expired_since`."""

    def spans(self) -> None:
        """Return None: what files hold, their records tell; see `Topics.spans`."""


def _table_of(schema_file: str) -> str:
    """Return the folder of the table, or of the database, that a schema file is of."""
    return schema_file.rpartition(f"/{META}/")[0]


def _inherits(name: str, schema_file: bytes) -> bool:
    """Tell whether a schema file's statement gives its table columns that another folder's files tell.

    TRUNCATE gives a table another number, and so another folder where this is the number.
    """
    statement = _statement_in(schema_file)
    if statement is None:
        return False
    moved = statement.verb == "TRUNCATE" and "/" not in _table_of(name)
    return moved or statement.renamed is not None or statement.like is not None


def _statement_in(schema_file: bytes) -> Statement | None:
    try:
        return read_statement(str(json.loads(schema_file)["Query"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _shown(told: pa.RecordBatch, writer: Writer) -> Shown | None:
    """Return what schema files say of the table of some data files."""
    names, columns = list[tuple[str, str]](), 0
    for topic, key, value in zip(*(told.column(n).to_pylist() for n in ("topic", "key", "value")), strict=True):
        name = key.decode().rpartition("/")[2]
        if topic == writer.table and schema_version(name) == writer.version:
            try:
                members = json.loads(value)
                names.append((members["Schema"], members["Table"]))
                columns = len(members["TableColumns"] or ())
            except (ValueError, LookupError, TypeError):
                return None
    return Shown(names, columns) if names else None


def _told_frame(spark: SparkSession, told: pa.RecordBatch) -> DataFrame:
    """Return records of the driver's as a frame: the columns of `RECORD`, and `reason`, `detail`."""
    rows = list(zip(*(column.to_pylist() for column in told.columns), strict=True))
    return _records(small_table(spark, rows, _TOLD), {name: F.col(name) for name in _TOLD})


def _as_records(files: DataFrame, key: Callable[[Column], Column]) -> DataFrame:
    """Return whole files with the columns of records, as `Splitting` takes them. In: those of Spark's binary files.

    By `_metadata` Spark would leave out files before it opens them, and hold each one that it opens once more.
    """
    known = {"key": key(F.col("path")), "timestamp": F.col("modificationTime"), "value": F.col("content")}
    return _records(files, known)


def _records(frame: DataFrame, known: Mapping[str, Column]) -> DataFrame:
    fields = (*RECORD.fields, *_CAUSE)
    return frame.select(*(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))
