"""A Delta table, in a folder or in a catalog."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import TableRefused
from tidecast.replica.targets._table import KEY, TableState, TargetTable
from tidecast.replica.targets.delta._compact import compact
from tidecast.spark import sql_name
from tidecast.storage import (
    AnyPath,
    RemotePath,
    copy,
    entries,
    files_below,
    make_folder,
    remove_file,
    remove_tree,
    replace_file,
    spark_output,
)

_LOG = "_delta_log"
_MODE = "delta.columnMapping.mode"
_NTZ = "timestampNtz"
_WITHOUT_ZONE = {f"delta.feature.{_NTZ}": "supported"}
"""What a table needs to get a timestamp without time zone that it was not made with."""
_MAPPING = {_MODE: "name", **_WITHOUT_ZONE}
"""Column mapping alone makes a table of reader version 2, in which delta-rs does not see it and reads nulls with
pyarrow; a feature that needs version 3 makes it look."""
_WIDENING = "delta.enableTypeWidening"
_VECTORS = "enableDeletionVectors"
_DEFAULTS = "spark.databricks.delta.properties.defaults"
_LARGE = 64 << 20
"""From so many bytes on a table's files are not written anew for a few changed rows in each."""
_LONG_LOG = {"delta.logRetentionDuration": "interval 365 days"}
_UNMAPPED = set(" ,;{}()\n\t=")
_WRITES = ("MERGE", "WRITE", "DELETE", "UPDATE")
_COMMIT = re.compile(r"\d{20}\.(json|checkpoint)")
_DATA = re.compile(r"\.?part-\d{5}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[.-]c\d{3}[^/]*\.parquet(\.crc)?")
_GOING = "_tidecast_dropped"  # beside the commits of a table that is being removed; Delta passes over it
_PREFIX = 2  # characters of the folders in which Delta spreads files of tables with column mapping


@dataclass(frozen=True)
class DeltaTarget(TargetTable):
    """One Delta table: `name` as Spark SQL names it, `path` where it is one of a folder."""

    _sizes: list[int] = field(default_factory=list, init=False, compare=False, repr=False)
    """The size of its files when its properties were read: one question tells both."""

    @classmethod
    def in_folder(cls, spark: SparkSession, folder: AnyPath) -> DeltaTarget:
        """Return the table of a folder, whether it exists or not."""
        return cls(spark, f"delta.{sql_name(_location(folder))}", folder)

    def exists(self) -> bool:
        return super().exists() if self.path is None else _has_commit(self.path)

    def present(self) -> TableState | None:
        if self.read_only and self.path is not None and _is_going(self.path):
            return None
        self._finish_drop()
        return super().present()

    def drop(self) -> None:
        if self.path is None:
            super().drop()
            return
        replace_file(self.path / _LOG / _GOING, b"")
        self._finish_drop()

    def move_to(self, other: TargetTable) -> None:
        source, target = self.path, other.path
        if source is None or target is None:
            super().move_to(other)
            return
        other.unfinished()  # nothing else lies there
        if not isinstance(source, RemotePath) and not isinstance(target, RemotePath):
            remove_tree(target, ignore_errors=True)
            make_folder(target.parent)
            source.rename(target)
            return
        # Until all is there, it looks like a table that is being removed.
        replace_file(target / _LOG / _GOING, b"")
        for name in files_below(source):
            copy(source / name, target / name)
        remove_file(target / _LOG / _GOING)
        self.drop()

    def _finish_drop(self) -> None:
        """Remove the files of a table that is being removed; what tells so is the last one of them."""
        if self.path is None or not _is_going(self.path):
            return
        for name in files_below(self.path):
            if PurePosixPath(name).name != _GOING:
                remove_file(self.path / name)
        remove_tree(self.path)

    def version(self) -> int | None:
        if self.path is not None:
            files = (_COMMIT.match(file.name) for file in entries(self.path / _LOG))
            return max((int(file[0].partition(".")[0]) for file in files if file), default=None)
        if not self.exists():
            return None
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").select("version").first()
        return row[0] if row else None

    def read_now(self) -> DataFrame:
        # Delta looks for the newest version with each action on a frame that names none.
        return self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {self.version()}")

    def written_since(self, version: int) -> bool:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(F.col("version") > version)
        return history.where(F.col("operation").isin(*_WRITES)).first() is not None

    def made_anew_since(self, version: int, made: str | None) -> bool:
        newest = self.version()
        return newest is None or newest < version

    def unfinished(self) -> list[str]:
        if self.path is None:
            return []
        files = [PurePosixPath(name) for name in files_below(self.path)]
        foreign = [f for f in files if not _is_unfinished(f)] + _of_one_write(files)
        if foreign:
            hint = "move them away, or replicate to another place"
            raise TableRefused(
                f"the folder holds files of no Delta table: {foreign[0]}", where=str(self.path), hint=hint
            )
        return list(map(str, files))

    def create(
        self, rows: DataFrame, key: tuple[str, ...], notes: Mapping[str, str], *, appended: bool = False
    ) -> None:
        writer = rows.writeTo(self.name).using("delta")
        properties = {
            KEY: json.dumps(key),
            **notes,
            **(self.notes_of_appends if appended else {}),
            **_mapping(rows.columns),
        }
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        if self.path and self.path.exists() and not _has_commit(self.path):
            writer.createOrReplace()  # `create` takes whatever lies in a folder for a table
        else:
            writer.create()

    @property
    def notes_of_appends(self) -> Mapping[str, str]:
        return _LONG_LOG

    def append(self, rows: DataFrame, note: str) -> None:
        rows.writeTo(self.name).option("userMetadata", note).append()

    def add_rows(self, rows: DataFrame, note: str) -> None:
        if self.path is not None:
            writer = rows.write.format("delta").mode("append").option("userMetadata", note)
            writer.option("mergeSchema", "true").save(_location(self.path))
        else:
            super().add_rows(rows, note)

    def _add_rows(self, rows: DataFrame, note: str) -> None:
        rows.writeTo(self.name).option("userMetadata", note).option("mergeSchema", "true").append()

    def note(self, beginning: str) -> str | None:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(F.col("userMetadata").startswith(beginning))
        row = history.orderBy(F.desc("version")).select("userMetadata").first()
        return row[0] if row else None

    def add(self, columns: Mapping[str, T.DataType]) -> None:
        self._admit(columns)
        super().add(columns)

    def _for_renames(self) -> Mapping[str, str]:
        return {} if self._properties().get(_MODE) == _MAPPING[_MODE] else _MAPPING

    def widens(self, old: Mapping[str, T.DataType], new: Mapping[str, T.DataType]) -> bool:
        # Readers must know type widening then, so the table's owner can forbid it.
        if not all(is_widening(old[name], kind) for name, kind in new.items()):
            return False
        return self._properties().get(_WIDENING) != "false"

    def widen(self, columns: Mapping[str, T.DataType]) -> None:
        if self._properties().get(_WIDENING) != "true":
            self.remember({_WIDENING: "true"})
        super().widen(columns)

    def location(self) -> str:
        return str(self._detail("location"))

    def rewrite(self, rows: DataFrame) -> None:
        self._admit({field.name: field.dataType for field in rows.schema.fields})
        # `saveAsTable` and `writeTo` would replace the table's properties too.
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.location())

    def size(self) -> int:
        return self._sizes[-1] if self._sizes else int(self._detail("sizeInBytes"))

    def before_updates(self) -> None:
        # Readers must know deletion vectors then, so the table's owner can forbid them, and a small table has none.
        name, default = f"delta.{_VECTORS}", f"{_DEFAULTS}.{_VECTORS}"
        properties, size = self._details("properties", "sizeInBytes")
        if size >= _LARGE and name not in properties and self.spark.conf.get(default, None) is None:
            self.remember({name: "true"})

    def compact(self, every: int) -> None:
        if version := self.version():
            compact(self.spark, self.name, version, every)

    def _admit(self, columns: Mapping[str, T.DataType]) -> None:
        """Let the table have columns of these names and types."""
        properties, features = self._details("properties", "tableFeatures")
        needed = _mapping(columns) if properties.get(_MODE) != _MAPPING[_MODE] else {}
        if T.TimestampNTZType() in columns.values() and _NTZ not in features:
            needed = needed | _WITHOUT_ZONE
        if needed:
            self.remember(needed)

    def _properties(self) -> dict[str, str]:
        properties, size = self._details("properties", "sizeInBytes")
        self._sizes[:] = [int(size)]
        return dict(properties)

    def _detail(self, name: str) -> Any:
        return self._details(name)[0]

    def _details(self, *names: str) -> Row:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.name}").select(*names).first()
        assert row is not None
        return row


def is_widening(old: T.DataType, new: T.DataType) -> bool:
    """Tell whether Delta can give a column a wider type without a new file. Source: Other documents, Delta protocol."""
    if isinstance(new, T.DecimalType):
        digits = old.precision - old.scale if isinstance(old, T.DecimalType) else _DIGITS.get(old, math.inf)
        scale = old.scale if isinstance(old, T.DecimalType) else 0
        return new.precision - new.scale >= digits and new.scale >= scale
    return (old, new) in _WIDENINGS


_DIGITS: dict[T.DataType, float] = {T.IntegerType(): 10, T.LongType(): 20}
_WIDENINGS = [(T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType())]


def _location(folder: AnyPath) -> str:
    return spark_output(folder) if isinstance(folder, RemotePath) else str(folder)


def _has_commit(folder: AnyPath) -> bool:
    names = [file.name for file in entries(folder / _LOG)]
    return any(map(_COMMIT.match, names)) and _GOING not in names


def _is_going(folder: AnyPath) -> bool:
    return any(file.name == _GOING for file in entries(folder / _LOG))


def _is_unfinished(file: PurePosixPath) -> bool:
    """Tell whether a file, seen from a table's folder, is one that Delta writes before a table's first commit."""
    *folders, name = file.parts
    if folders[:1] == [_LOG]:
        return name.startswith(".")  # a commit on its way to its name
    return bool(_DATA.fullmatch(name)) and (not folders or (len(folders) == 1 and len(folders[0]) == _PREFIX))


def _of_one_write(files: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return files that Spark wrote without Delta, which gives each of a write's files another id."""
    by_id: dict[str, PurePosixPath] = {}
    data = [(file, found[1]) for file in files if (found := _DATA.fullmatch(file.name)) and file.suffix != ".crc"]
    return [file for file, write in data if by_id.setdefault(write, file) != file]


def _mapping(names: Iterable[str]) -> dict[str, str]:
    """Return the property by which Delta takes names that Parquet cannot have."""
    return _MAPPING if any(_UNMAPPED & set(name) for name in names) else {}
