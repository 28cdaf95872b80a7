"""The tables that lie somewhere, and what is wrong with one that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidecast._errors import TidecastError, root_cause
from tidecast.replica.tables import Name
from tidecast.replica.targets import Target
from tidecast.spark import sql_name
from tidecast.storage import AnyPath, entries

_LOG, _OURS = "_delta_log", ("_", ".")
_DATA_FILE = re.compile(r"[^\s'\"`(){}\[\],]+\.(?:parquet|json|bin)\b")


def is_table(folder: AnyPath) -> bool:
    """Tell whether a folder is one table, and none of several."""
    return bool(entries(folder / _LOG))


def tables_in(spark: SparkSession, target: Target) -> list[Name]:
    """Return the databases and names of the tables that lie in a target, but for tidecast's own."""
    if target.folder is not None:
        return [
            (unquote(database.name), unquote(table.name))
            for database in entries(target.folder)
            if not database.name.startswith(_OURS) and not is_table(database.path)
            for table in entries(database.path)
            if is_table(table.path)
        ]
    catalog = sql_name(target.catalog)
    shown: Callable[[str], str] = unquote if target.encodes_names(spark) else str
    databases = [row[0] for row in spark.sql(f"SHOW DATABASES IN {catalog}").collect()]
    found = []
    for database in databases:
        if not database.startswith(_OURS):
            tables = spark.sql(f"SHOW TABLES IN {catalog}.{sql_name(database)}").where(~F.col("isTemporary"))
            found += [(shown(database), shown(row[0])) for row in tables.select("tableName").collect()]
    return found


def damage(error: Exception) -> str:
    """Return in a line why a table cannot be read, and which file it is, as far as the error tells."""
    if isinstance(error, TidecastError):
        return str(error)
    cause = " ".join(root_cause(error).split())
    file = _DATA_FILE.search(f"{error} {cause}")
    return cause if file is None or file[0] in cause else f"{unquote(file[0])}: {cause}"
