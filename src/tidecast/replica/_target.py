"""Where tables lie: a folder of Delta tables, or a Spark catalog."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError, TableRefused
from tidecast.replica._evolve import Shape
from tidecast.replica._mode import Contents
from tidecast.spark import sql_name
from tidecast.storage import AnyPath, RemotePath, entries, files_below, spark_output, storage_path

_CATALOGS, _OWN_CATALOG = "spark.sql.catalog.", "spark_catalog"
_OURS, _KEY, CONTENTS = "tidecast.", "tidecast.key", "tidecast.contents"
_RENAMING, _RENAMED_KEY = "tidecast.renaming", "tidecast.renamed-key"
_MODE = "delta.columnMapping.mode"
_MAPPING = {_MODE: "name", "delta.feature.timestampNtz": "supported"}
"""Column mapping alone makes a table of reader version 2, in which delta-rs does not see it and reads nulls with
pyarrow; a feature that needs version 3 makes it look."""
_WIDENING = "delta.enableTypeWidening"
_LONG_LOG = {"delta.logRetentionDuration": "interval 365 days"}
_UNMAPPED = set(" ,;{}()\n\t=")
_VARIABLE, _SUBSTITUTES = "${", "spark.sql.variable.substitute"
_MAX_SEGMENT = 255
_JOURNAL, _LEDGER = ("_tidecast", "schema_changes"), ("_tidecast", "batches")
_WRITES = ("MERGE", "WRITE")
_COMMIT = re.compile(r"\d{20}\.(json|checkpoint)")
_DATA = re.compile(r"\.?part-\d{5}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[.-]c\d{3}[^/]*\.parquet(\.crc)?")
_PREFIX = 2  # letters of the folders in which Delta spreads files of tables with column mapping
_UNSAFE = re.compile(r"^[._]|[%/\\:*?\[\]{}<>|\"\x00-\x1f\x7f\ud800-\udfff]")
"""What a file system, a pattern of paths, or SQL with variables takes for something else."""


@dataclass(frozen=True)
class Target:
    """A folder of Delta tables, `folder/<database>/<table>`, or else a Spark catalog."""

    folder: AnyPath | None
    catalog: str

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError for a catalog that the session does not have."""
        if (
            self.folder is None
            and self.catalog != _OWN_CATALOG
            and not spark.conf.get(f"{_CATALOGS}{self.catalog}", "")
        ):
            hint = f"write a folder as ./{self.catalog}, or set {_CATALOGS}{self.catalog}"
            raise ConfigError(f"--to: Spark has no catalog {self.catalog!r}", hint=hint)

    def journal(self, spark: SparkSession) -> DeltaTarget:
        """Return the place of the schema journal, beside the tables. A database of this name lies elsewhere."""
        return self._beside(spark, *_JOURNAL)

    def ledger(self, spark: SparkSession) -> DeltaTarget:
        """Return the place of the ledger of batches, beside the tables."""
        return self._beside(spark, *_LEDGER)

    def place_of(self, source: str) -> AnyPath | None:
        """Return a folder that is held while a source is applied to these tables; None for a catalog."""
        if self.folder is None:
            return None
        name = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()  # a name may be too long for a folder
        return self.folder / "_tidecast" / "sources" / name

    def _beside(self, spark: SparkSession, folder: str, name: str) -> DeltaTarget:
        if self.folder:
            return _in_folder(spark, self.folder / folder / name)
        return self._in_catalog(spark, folder, name)

    def table(self, spark: SparkSession, database: str, table: str, *, make_database: bool = True) -> DeltaTarget:
        """Return the place of a table. A catalog's database is made if need be, unless `make_database` is false.

        Raises TableRefused for a name that no place can have.
        """
        if self.folder:
            return _in_folder(spark, self.folder / _segment(database) / _segment(table))
        if _VARIABLE in f"{database} {table}" and spark.conf.get(_SUBSTITUTES) != "false":
            hint = f"set {_SUBSTITUTES}=false, or replicate to a folder"
            raise TableRefused(f"Spark would put a variable's value in place of {_VARIABLE}…}} in a name", hint=hint)
        return self._in_catalog(spark, database, table, make_database=make_database)

    def itself(self, spark: SparkSession) -> DeltaTarget:
        """Return the folder as the place of one table."""
        assert self.folder is not None
        return _in_folder(spark, self.folder)

    def _in_catalog(self, spark: SparkSession, database: str, table: str, *, make_database: bool = True) -> DeltaTarget:
        if make_database:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {sql_name(self.catalog)}.{sql_name(database)}")
        return DeltaTarget(spark, ".".join(map(sql_name, (self.catalog, database, table))))


def parse_target(to: str) -> Target:
    """Return the target that `to` names: a path or URI, recognised by a `/`, `:` or leading `.`, or a catalog.

    Raises ConfigError for a URI of a scheme that is no storage, for a name with Spark's variables, and for nothing.
    """
    if _VARIABLE in unquote(to):
        raise ConfigError(f"--to: Spark would put a variable's value in place of {_VARIABLE}…}}", hint="another name")
    if "/" in to or ":" in to or to.startswith("."):
        return Target(storage_path(to, "--to").absolute(), "")
    if not to:
        raise ConfigError("no place for tables is given", hint="a folder, or a Spark catalog")
    return Target(None, to)


def _in_folder(spark: SparkSession, folder: AnyPath) -> DeltaTarget:
    return DeltaTarget(spark, f"delta.{sql_name(_location(folder))}", folder)


def _location(folder: AnyPath) -> str:
    return spark_output(folder) if isinstance(folder, RemotePath) else str(folder)


def _segment(name: str) -> str:
    """Return a name as one segment of a path; engines hide what begins with a dot or an underscore.

    Raises TableRefused for a name that cannot be one.
    """
    text = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name)
    size = len(text.encode())
    if not 0 < size <= _MAX_SEGMENT:
        raise TableRefused(f"no folder can have a name of {size} bytes", hint=f"1 to {_MAX_SEGMENT} are possible")
    return text


@dataclass(frozen=True)
class TableState:
    """A table as it lies there: its shape, and what it remembers in properties of ours, such as `tidecast.key`.

    Metadata columns (see `Contents`) are no part of the shape.
    """

    shape: Shape
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeltaTarget:
    """One Delta table: `name` as Spark SQL names it, `path` where it is one of a folder."""

    spark: SparkSession
    name: str
    path: AnyPath | None = None

    def present(self) -> TableState | None:
        """Return what is there, None where there is no table; finish what `follow` has begun on it."""
        if not self.exists():
            return None
        properties = self._properties()
        if begun := properties.get(_RENAMING):
            self._finish(json.loads(unquote(begun)))
            properties = self._properties()
        return self._state(properties)

    def seen(self) -> TableState:
        """Return what is there, and do nothing to it."""
        return self._state(self._properties())

    def _state(self, properties: Mapping[str, str]) -> TableState:
        notes = {name: value for name, value in properties.items() if name.startswith(_OURS)}
        said = unquote(notes.get(_RENAMED_KEY, "null"))
        key = json.loads(notes.get(_KEY, "null") if said == "null" else said)
        ours = Contents.from_text(notes.get(CONTENTS, "")).columns
        columns = {f.name: f.dataType for f in self.read().schema.fields if f.name not in ours}
        return TableState(Shape(columns, None if key is None else tuple(key)), notes)

    def exists(self) -> bool:
        """Tell whether there is a table."""
        return self.spark.catalog.tableExists(self.name) if self.path is None else _has_commit(self.path)

    def version(self) -> int | None:
        """Return the number of the table's newest version, None where there is no table."""
        if self.path is not None:
            files = (_COMMIT.match(file.name) for file in entries(self.path / "_delta_log"))
            return max((int(file[0].partition(".")[0]) for file in files if file), default=None)
        if not self.exists():
            return None
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").select("version").first()
        return row[0] if row else None

    def read(self) -> DataFrame:
        """Return the table's rows."""
        return self.spark.table(self.name)

    def unfinished(self) -> list[str]:
        """Return the files of a first write that was not finished, in a folder that is no table yet.

        Raises TableRefused for a folder that holds anything else.
        """
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
        """Make the table, with rows and what it shall remember, in one commit; over an unfinished one if need be.

        `appended`: its history is to be kept for a year, as `note` reads it.
        """
        writer = rows.writeTo(self.name).using("delta")
        properties = {_KEY: json.dumps(key), **notes, **(_LONG_LOG if appended else {}), **_mapping(rows.columns)}
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        if self.path and self.path.exists() and not _has_commit(self.path):
            writer.createOrReplace()  # `create` takes whatever lies in a folder for a table
        else:
            writer.create()

    def append(self, rows: DataFrame, note: str) -> None:
        """Add rows, and leave a note in the table's history, in one commit."""
        rows.writeTo(self.name).option("userMetadata", note).append()

    def add_rows(self, rows: DataFrame, note: str) -> None:
        """Append rows, and make the table if need be, or add columns that it lacks; another run may do so, too."""
        if self.path is not None:
            writer = rows.write.format("delta").mode("append").option("userMetadata", note)
            writer.option("mergeSchema", "true").save(_location(self.path))
            return
        if not self.exists():
            try:
                self.create(rows, (), {})
                return
            except Exception:
                if not self.exists():
                    raise
        rows.writeTo(self.name).option("userMetadata", note).option("mergeSchema", "true").append()

    def note(self, beginning: str) -> str | None:
        """Return the newest note in the table's history that begins so."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(F.col("userMetadata").startswith(beginning))
        row = history.orderBy(F.desc("version")).select("userMetadata").first()
        return row[0] if row else None

    def written_since(self, version: int) -> bool:
        """Tell whether rows were merged or appended after a version, of what may also have been compacted since."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(F.col("version") > version)
        return history.where(F.col("operation").isin(*_WRITES)).first() is not None

    def takes(self, names: Iterable[str]) -> bool:
        """Tell whether `add`, `rename` and `drop` can be told these names: Spark looks for variables in them."""
        return self.spark.conf.get(_SUBSTITUTES) == "false" or not any(_VARIABLE in name for name in names)

    def add(self, columns: Mapping[str, T.DataType]) -> None:
        """Add columns, in one commit and without a new file: they are null in the rows that are there."""
        self._map(list(columns))
        defined = ", ".join(f"{sql_name(name)} {kind.simpleString()}" for name, kind in columns.items())
        self._alter(f"ADD COLUMNS ({defined})")

    def follow(self, steps: Sequence[tuple[str, str]], key: tuple[str, ...] | None, notes: Mapping[str, str]) -> None:
        """Rename and drop columns (see `steps`), in one commit each and without a new file; keep the key, and notes.

        What is to be done is kept with the table first: `present` finishes it where this ends halfway.
        """
        begun = {"columns": self.read().columns, "steps": steps, "key": key}
        mapped = self._properties().get(_MODE) == _MAPPING[_MODE]
        self.remember({**notes, _RENAMING: _quoted(begun), **({} if mapped else _MAPPING)})
        self._finish(begun)

    def _finish(self, begun: Mapping[str, Any]) -> None:
        states = [list(begun["columns"])]
        for old, new in begun["steps"]:
            states.append([new if name == old else name for name in states[-1] if name != old or new])
        there = self.read().columns
        if there not in states:
            hint = "undo it, or remove the property tidecast.renaming"
            raise TableRefused("somebody else changed its columns while they were being renamed", hint=hint)
        # Where two states look the same, so do their columns: renames leave each in its place.
        for old, new in begun["steps"][states.index(there) :]:
            what = f"RENAME COLUMN {sql_name(old)} TO {sql_name(new)}" if new else f"DROP COLUMNS ({sql_name(old)})"
            self._alter(what)
        self.remember({_RENAMED_KEY: _quoted(begun["key"]), _RENAMING: ""})

    @property
    def widens(self) -> bool:
        """Whether `widen` may be used: readers must know type widening then, so the table's owner can forbid it."""
        return self._properties().get(_WIDENING) != "false"

    def widen(self, columns: Mapping[str, T.DataType]) -> None:
        """Give columns wider types (see `is_widening`), in one commit each and without a new file."""
        if self._properties().get(_WIDENING) != "true":
            self.remember({_WIDENING: "true"})
        for name, kind in columns.items():
            self._alter(f"ALTER COLUMN {sql_name(name)} TYPE {kind.simpleString()}")

    def rewrite(self, rows: DataFrame) -> None:
        """Replace the table's rows and columns in one commit; `rows` may read the table itself."""
        self._map(rows.columns)
        # `saveAsTable` and `writeTo` would replace the table's properties too.
        location = self._detail("location")
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(location)

    def remember(self, notes: Mapping[str, str]) -> None:
        """Keep notes with the table, in one commit. None has a single quote or a backslash."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in notes.items())
        self._alter(f"SET TBLPROPERTIES ({properties})")

    def _alter(self, what: str) -> None:
        """Change the table's metadata in one commit."""
        self.spark.sql(f"ALTER TABLE {self.name} {what}")

    def _map(self, names: list[str]) -> None:
        """Let the table have columns of these names."""
        mapping = _mapping(names)
        if mapping and self._properties().get(_MODE) != mapping[_MODE]:
            self.remember(mapping)

    def _properties(self) -> dict[str, str]:
        properties: dict[str, str] = self._detail("properties")
        return properties

    def _detail(self, name: str) -> Any:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.name}").select(name).first()
        assert row is not None
        return row[0]


def is_widening(old: T.DataType, new: T.DataType) -> bool:
    """Tell whether Delta can give a column a wider type without a new file. Source: Other documents, Delta protocol."""
    if isinstance(new, T.DecimalType):
        digits = old.precision - old.scale if isinstance(old, T.DecimalType) else _DIGITS.get(old, math.inf)
        scale = old.scale if isinstance(old, T.DecimalType) else 0
        return new.precision - new.scale >= digits and new.scale >= scale
    return (old, new) in _WIDENINGS


_DIGITS: dict[T.DataType, float] = {T.IntegerType(): 10, T.LongType(): 20}
_WIDENINGS = [(T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType())]


def _has_commit(folder: AnyPath) -> bool:
    return any(_COMMIT.match(file.name) for file in entries(folder / "_delta_log"))


def _is_unfinished(file: PurePosixPath) -> bool:
    """Tell whether a file, seen from a table's folder, is one that Delta writes before a table's first commit."""
    *folders, name = file.parts
    if folders[:1] == ["_delta_log"]:
        return name.startswith(".")  # a commit on its way to its name
    return bool(_DATA.fullmatch(name)) and (not folders or (len(folders) == 1 and len(folders[0]) == _PREFIX))


def _of_one_write(files: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return files that Spark wrote without Delta, which gives each of a write's files another id."""
    by_id: dict[str, PurePosixPath] = {}
    data = [(file, found[1]) for file in files if (found := _DATA.fullmatch(file.name)) and file.suffix != ".crc"]
    return [file for file, write in data if by_id.setdefault(write, file) != file]


def _quoted(said: object) -> str:
    """Return a value as JSON without single quotes and backslashes; `unquote` undoes it."""
    return quote(json.dumps(said), safe=' ",:[]{}()')


def _mapping(names: list[str]) -> dict[str, str]:
    """Return the property by which Delta takes names that Parquet cannot have."""
    return _MAPPING if any(_UNMAPPED & set(name) for name in names) else {}
