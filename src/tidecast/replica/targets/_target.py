"""Where tables lie: a folder of Delta tables, or a Spark catalog, whose class tells the format."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, TableRefused
from tidecast.replica.targets._table import SUBSTITUTES, VARIABLE, TargetTable
from tidecast.replica.targets.delta import DeltaTarget
from tidecast.replica.targets.iceberg import IcebergTarget, check_iceberg
from tidecast.runtime import is_iceberg
from tidecast.spark import sql_name
from tidecast.storage import AnyPath, folder_path
from tidecast.topics import DEAD_LETTERS

_log = logging.getLogger(__name__)

_CATALOGS, _OWN_CATALOG = "spark.sql.catalog.", "spark_catalog"
_DELTA, _KEPT_IN = "org.apache.spark.sql.delta.catalog.DeltaCatalog", "spark.sql.catalogImplementation"
_MAX_SEGMENT = 255
_JOURNAL, _LEDGER = ("_tidecast", "schema_changes"), ("_tidecast", "batches")
_UNSAFE = re.compile(r"^[._]|[%/\\:*?\[\]{}<>|\"\x00-\x1f\x7f\ud800-\udfff]")
"""What a file system, a pattern of paths, or SQL with variables takes for something else."""

_making = threading.Lock()
"""Catalogs look whether a database is there and then make it: of two threads that do so one fails."""


@dataclass(frozen=True)
class Target:
    """A folder of Delta tables, `folder/<database>/<table>`, or else a Spark catalog."""

    folder: AnyPath | None
    catalog: str

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError for a catalog that the session does not have, or lacks the jar of.

        Warns of one that the session keeps in its memory.
        """
        if self.folder is not None:
            return
        if self.catalog == _OWN_CATALOG and self._implementation(spark) in ("", _DELTA):
            if spark.conf.get(_KEPT_IN, "in-memory") == "in-memory":
                _log.warning(
                    "--to: Spark keeps %s in memory, and its tables are lost to it when it ends: use a metastore "
                    "(%s=hive) or another catalog, or write to a folder",
                    self.catalog,
                    _KEPT_IN,
                )
            return
        if self.catalog != _OWN_CATALOG and not self._implementation(spark):
            hint = f"write a folder as ./{self.catalog}, or set {_CATALOGS}{self.catalog}"
            raise ConfigError(f"Spark has no catalog {self.catalog!r}", hint=hint)
        if is_iceberg(self._implementation(spark)):
            check_iceberg(spark, self.catalog)

    def _implementation(self, spark: SparkSession) -> str:
        """Return the class of the catalog, empty where nothing names one."""
        return spark.conf.get(f"{_CATALOGS}{self.catalog}", "") or ""

    def dead_letters(self, folder: AnyPath | None) -> AnyPath:
        """Return where dead letters go, by default a folder beside the tables. Raises ConfigError for a catalog."""
        place = folder or (self.folder / DEAD_LETTERS if self.folder else None)
        if place is None:
            hint = f"name a folder: --dead-letters DIR, or write a folder of tables as ./{self.catalog}"
            raise ConfigError(f"--to: {self.catalog} is a catalog, no place for dead letters", hint=hint)
        return place

    def encodes_names(self, spark: SparkSession) -> bool:
        """Tell whether tables are called otherwise in the catalog, as its paths are made of their names."""
        return is_iceberg(self._implementation(spark))

    def journal(self, spark: SparkSession, *, make_database: bool = True) -> TargetTable:
        """Return the place of the schema journal, beside the tables. A database of this name lies elsewhere."""
        return self._beside(spark, *_JOURNAL, make_database=make_database)

    def ledger(self, spark: SparkSession, *, make_database: bool = True) -> TargetTable:
        """Return the place of the ledger of batches, beside the tables."""
        return self._beside(spark, *_LEDGER, make_database=make_database)

    def _beside(self, spark: SparkSession, folder: str, name: str, *, make_database: bool = True) -> TargetTable:
        if self.folder:
            return DeltaTarget.in_folder(spark, self.folder / folder / name)
        return self._in_catalog(spark, folder, name, make_database=make_database)

    def table(self, spark: SparkSession, database: str, table: str, *, make_database: bool = True) -> TargetTable:
        """Return the place of a table. A catalog's database is made if need be, unless `make_database` is false.

        Raises TableRefused for a name that no place can have.
        """
        if self.folder:
            return DeltaTarget.in_folder(spark, self.folder / _segment(database) / _segment(table))
        if is_iceberg(self._implementation(spark)):  # whose catalogs make paths of names
            return self._in_catalog(spark, _segment(database), _segment(table), make_database=make_database)
        if VARIABLE in f"{database} {table}" and spark.conf.get(SUBSTITUTES) != "false":
            hint = f"set {SUBSTITUTES}=false, or replicate to a folder"
            raise TableRefused(f"Spark would put a variable's value in place of {VARIABLE}…}} in a name", hint=hint)
        return self._in_catalog(spark, database, table, make_database=make_database)

    def itself(self, spark: SparkSession) -> TargetTable:
        """Return the folder as the place of one table."""
        assert self.folder is not None
        return DeltaTarget.in_folder(spark, self.folder)

    def _in_catalog(self, spark: SparkSession, database: str, table: str, *, make_database: bool = True) -> TargetTable:
        if make_database:
            with _making:
                spark.sql(f"CREATE DATABASE IF NOT EXISTS {sql_name(self.catalog)}.{sql_name(database)}")
        name = ".".join(map(sql_name, (self.catalog, database, table)))
        if is_iceberg(self._implementation(spark)):
            return IcebergTarget(spark, name, catalog=self.catalog)
        return DeltaTarget(spark, name)


def parse_target(to: str) -> Target:
    """Return the target that `to` names: a path or URI, recognised by a `/`, `:` or leading `.`, or a catalog.

    Raises ConfigError for a URI of a scheme that is no storage, for a name with Spark's variables, and for nothing.
    """
    if VARIABLE in unquote(to):
        raise ConfigError(f"--to: Spark would put a variable's value in place of {VARIABLE}…}}", hint="another name")
    if "/" in to or ":" in to or to.startswith("."):
        return Target(folder_path(to, "--to").absolute(), "")
    if not to:
        raise ConfigError("no place for tables is given", hint="a folder, or a Spark catalog")
    return Target(None, to)


def _segment(name: str) -> str:
    """Return a name as one segment of a path; engines hide what begins with a dot or an underscore.

    Raises TableRefused for a name that cannot be one.
    """
    text = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name)
    size = len(text.encode())
    if not 0 < size <= _MAX_SEGMENT:
        raise TableRefused(f"no folder can have a name of {size} bytes", hint=f"1 to {_MAX_SEGMENT} are possible")
    return text
