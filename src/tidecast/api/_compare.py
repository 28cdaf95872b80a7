"""Two places with tables against each other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._errors import ConfigError
from tidecast._policy import DdlPolicy, DdlWords, OnUnrepresentable
from tidecast._progress import Progress, no_progress
from tidecast._secrets import resolved_uri
from tidecast._uri import parse_place, scheme_of, source_uri
from tidecast.api._snapshot import tso_of
from tidecast.api._source import TopicSource
from tidecast.model import Events
from tidecast.replica import (
    AllTables,
    Compared,
    OneTable,
    Rows,
    Settings,
    Side,
    Topic,
    TopicTables,
    is_table,
    parse_target,
)
from tidecast.runtime import spark_session
from tidecast.sources import DATABASE_SCHEMES, Database, parse_database, read_database
from tidecast.spark import sql_name

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")

_Tables = Callable[[SparkSession, Events], TopicTables]
_Open = Callable[[SparkSession, Progress], AbstractContextManager[Side]]


def compare(
    a: str,
    b: str,
    *,
    schema_registry: str | None = None,
    tz: str | None = None,
    ddl: DdlWords = (),
    on_unrepresentable: str = "null",
    config: str | os.PathLike[str] | None = None,
    as_of: str | int | None = None,
    key: Sequence[str] = (),
    limit: int = 20,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Compared:
    """Compare two places with tables, and name the rows that differ.

    Each is a folder of tables or a catalog, as `replicate` takes it, one table, as `folder/database/table` or
    `catalog.database.table`, or the URI of a topic. A topic stands for the tables that `replicate` makes of all of it,
    with what the other side's tables hold beside the source's columns; `schema_registry`, `tz`, `ddl`,
    `on_unrepresentable` and `config` as there: those that the tables on the other side were made with.
    Tables belong together by their names, two single ones in any case.

    A side may be `mysql://user:password@host:port/database`, or `tidb://…`, also with `+ssl`: its tables are what
    `replicate` would make of the rows that are there, or that TiDB had at `as_of`, a TSO or a time.

    Counts and hashes of parts of each table are compared first, rows in the parts that differ, by the table's key or
    by the columns `key`; those of a table without a key as wholes. At most `limit` rows of a table are named, with the
    values that differ. Metadata columns that one side lacks are left out.

    Raises Unreachable for a database that does not answer, and ConfigError for what is no such place, for `config` or
    `on_unrepresentable` where neither side is a topic or a database, and for `key` with several tables.
    """
    if limit < 0:
        raise ConfigError("--limit is a number of rows, 0 or more")
    of_values = OnUnrepresentable.parse(on_unrepresentable)
    settings = Settings.of(config)
    made = [_is_topic(text) or scheme_of(text) in DATABASE_SCHEMES for text in (a, b)]
    tso = None if as_of is None else tso_of(as_of)
    if tso is not None and not any(scheme_of(text) in DATABASE_SCHEMES for text in (a, b)):
        raise ConfigError("--as-of is for a database of TiDB, and neither side is one")
    if not any(made) and (config is not None or of_values is not OnUnrepresentable.NULL):
        raise ConfigError(
            "--config and --on-unrepresentable say what a topic or a database comes to, and neither side is one"
        )
    comes_to = partial(
        TopicTables, on_ddl=DdlPolicy.parse(settings.ddl, ddl), on_unrepresentable=of_values, settings=settings
    )
    opens = [_checked(text, side, schema_registry, tz, comes_to, tso) for text, side in ((a, "A"), (b, "B"))]
    session = spark or spark_session()
    with ExitStack() as stack:
        sides = [stack.enter_context(opened(session, progress)) for opened in opens]
        return replica.compare(sides[0], sides[1], key=key, limit=limit, progress=progress)


def _checked(
    text: str, side: str, schema_registry: str | None, tz: str | None, comes_to: _Tables, as_of: int | None
) -> _Open:
    """Return what opens a place. Raises ConfigError for what is none: a wrong call need not wait for Spark."""
    scheme = scheme_of(text)
    if scheme in DATABASE_SCHEMES:
        database = parse_database(resolved_uri(text), as_of)
        return lambda spark, progress: _database(database, comes_to, spark, progress)
    if _is_topic(text):
        source = TopicSource.check(text, schema_registry=schema_registry, tz=tz)
        return lambda spark, progress: _topic(source, comes_to, spark, progress)
    if "/" in text or ":" in text or text.startswith(".") or not text:
        parse_target(text)
        return lambda spark, _: _folder(text, side, spark)
    parts = _parts(text)
    if len(parts) not in (1, 3):
        hint = "write catalog.database.table, catalog, or ./folder"
        raise ConfigError(f"{side}: this names no table and no catalog", where=text, hint=hint)
    parse_target(parts[0])
    return lambda spark, _: _catalog(parts, side, spark)


def _is_topic(text: str) -> bool:
    try:
        place = parse_place(source_uri(text))
    except ConfigError:
        return False
    return place.is_kafka or "protocol" in place.params


def _parts(text: str) -> list[str]:
    """Return the parts of a name of SQL's; none for what is no such name."""
    found = list(_PART.finditer(text))
    if ".".join(part[0] for part in found) != text:
        return []
    return [(part[1] or part[2]).replace("``", "`") for part in found]


@contextmanager
def _topic(source: TopicSource, comes_to: _Tables, spark: SparkSession, progress: Progress) -> Iterator[Side]:
    with replace(source, spark=spark).events(progress) as events:
        yield Topic(source.uri, comes_to(spark, events))


@contextmanager
def _database(database: Database, comes_to: _Tables, spark: SparkSession, progress: Progress) -> Iterator[Side]:
    progress("reading", 0, 0)
    with read_database(spark, database) as events:
        yield Rows(database, comes_to(spark, events))


@contextmanager
def _folder(text: str, side: str, spark: SparkSession) -> Iterator[Side]:
    target = parse_target(text)
    assert target.folder is not None
    if is_table(target.folder):
        name = unquote(target.folder.parent.name), unquote(target.folder.name)
        yield OneTable(name, target.itself(spark))
        return
    found = AllTables(spark, target)
    if not found.names():
        hint = "name a table as folder/database/table, a folder as replicate takes it, or a topic with ?protocol=…"
        raise ConfigError(f"{side}: there are no tables", where=text, hint=hint)
    yield found


@contextmanager
def _catalog(parts: Sequence[str], side: str, spark: SparkSession) -> Iterator[Side]:
    target = parse_target(parts[0])
    target.check(spark)
    if len(parts) == 1:
        yield AllTables(spark, target)
        return
    place = target.table(spark, parts[1], parts[2], make_database=False)
    if not place.exists():
        raise ConfigError(f"{side}: there is no such table", where=".".join(map(sql_name, parts)))
    yield OneTable((parts[1], parts[2]), place)
