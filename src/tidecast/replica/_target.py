"""Where tables lie: a folder of Delta tables, or a Spark catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast._uri import local_path
from tidecast.model import sql_name
from tidecast.replica._evolve import Shape

_OURS, _KEY = "tidecast.", "tidecast.key"
_MAPPING = {"delta.columnMapping.mode": "name"}
_LONG_LOG = {"delta.logRetentionDuration": "interval 365 days"}
_UNMAPPED = set(" ,;{}()\n\t=")


@dataclass(frozen=True)
class Target:
    """A folder of Delta tables, `folder/<database>/<table>`, or else a Spark catalog."""

    folder: Path | None
    catalog: str

    def table(self, spark: SparkSession, database: str, table: str) -> DeltaPlace:
        """Return the place of a table. A catalog's database is made if need be."""
        if self.folder:
            path = str(self.folder / _segment(database) / _segment(table))
            return DeltaPlace(spark, f"delta.{sql_name(path)}", path)
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {sql_name(self.catalog)}.{sql_name(database)}")
        return DeltaPlace(spark, ".".join(map(sql_name, (self.catalog, database, table))))


def parse_target(to: str) -> Target:
    """Return the target that `to` names: a path or file:// URI, recognised by a `/`, `:` or leading `.`, or a catalog.

    Raises ConfigError for a URI of another scheme, and for nothing.
    """
    if "/" in to or ":" in to or to.startswith("."):
        return Target(local_path(to, "--to").absolute(), "")
    if not to:
        raise ConfigError("no place for tables is given", hint="a folder, or a Spark catalog")
    return Target(None, to)


def _segment(name: str) -> str:
    """Return a name as one segment of a path; engines hide what begins with a dot or an underscore."""
    name = name.replace("%", "%25").replace("/", "%2F")
    return f"%{ord(name[0]):02X}{name[1:]}" if name.startswith((".", "_")) else name


@dataclass(frozen=True)
class Present:
    """A table as it lies there: its shape, and what it remembers in properties of ours, such as `tidecast.key`."""

    shape: Shape
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeltaPlace:
    """One Delta table: `name` as Spark SQL names it, `path` where it is one of a folder."""

    spark: SparkSession
    name: str
    path: str | None = None

    def present(self) -> Present | None:
        """Return what is there, None where there is no table."""
        if self.path is not None and not DeltaTable.isDeltaTable(self.spark, self.path):
            return None
        if self.path is None and not self.spark.catalog.tableExists(self.name):
            return None
        notes = {name: value for name, value in self._properties().items() if name.startswith(_OURS)}
        key = tuple(json.loads(notes[_KEY])) if _KEY in notes else None
        return Present(Shape({f.name: f.dataType for f in self.read().schema.fields}, key), notes)

    def read(self) -> DataFrame:
        """Return the table's rows."""
        return self.spark.table(self.name)

    def handle(self) -> DeltaTable:
        """Return Delta's own handle of the table."""
        return DeltaTable.forName(self.spark, self.name)

    def create(self, rows: DataFrame, key: tuple[str, ...], notes: Mapping[str, str]) -> None:
        """Make the table, with rows and what it shall remember, in one commit."""
        writer = rows.writeTo(self.name).using("delta")
        properties = {_KEY: json.dumps(key), **notes, **({} if key else _LONG_LOG), **_mapping(rows.columns)}
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def append(self, rows: DataFrame, note: str) -> None:
        """Add rows, and leave a note in the table's history, in one commit."""
        rows.writeTo(self.name).option("userMetadata", note).append()

    def note(self, beginning: str) -> str | None:
        """Return the newest note in the table's history that begins so."""
        history = self.handle().history().where(F.col("userMetadata").startswith(beginning))
        row = history.orderBy(F.desc("version")).select("userMetadata").first()
        return row[0] if row else None

    def rewrite(self, rows: DataFrame) -> None:
        """Replace the table's rows and columns in one commit; `rows` may read the table itself."""
        mapping = _mapping(rows.columns)
        if mapping.items() - self._properties().items():
            self.remember(mapping)
        # `saveAsTable` and `writeTo` would replace the table's properties too.
        location = self._detail("location")
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(location)

    def remember(self, notes: Mapping[str, str]) -> None:
        """Keep notes with the table, in one commit. None has a single quote or a backslash."""
        said = ", ".join(f"'{name}' = '{value}'" for name, value in notes.items())
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({said})")

    def _properties(self) -> dict[str, str]:
        properties: dict[str, str] = self._detail("properties")
        return properties

    def _detail(self, name: str) -> Any:
        row = self.handle().detail().select(name).first()
        assert row is not None
        return row[0]


def _mapping(names: list[str]) -> dict[str, str]:
    """Return the property by which Delta takes names that Parquet cannot have."""
    return _MAPPING if any(_UNMAPPED & set(name) for name in names) else {}
