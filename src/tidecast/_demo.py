"""The demo: a recorded change log, the whole way to verified tables, on files."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._progress import Progress, no_progress
from tidecast._uri import local_path
from tidecast.api import read
from tidecast.checksum import Verdict
from tidecast.config import ChangefeedConfig, load_config
from tidecast.model import Events
from tidecast.publish import Published, publish
from tidecast.registry import Registry, open_registry
from tidecast.replica import ApplyOptions, replicate
from tidecast.runtime import QUICK, spark_session
from tidecast.spark import parallel_map
from tidecast.topics import DEAD_LETTERS

_SHOP = "shop"
_DATA = Path(__file__).with_name("data")

_LOG, _TOPICS, _SCHEMAS, _TABLES = "log", "topics", "schemas", "tables"
_OTHERS = {
    "debezium": "protocol=debezium&enable-tidb-extension=true",
    "simple": "protocol=simple&encoding-format=avro",
}
"""The protocols in which the log is published beside Avro, each to one topic in a folder of its name."""
_MARK = ".tidecast-demo"

_JAVA = "spark.driver.extraJavaOptions"
_QUICK = {
    **QUICK,
    # A few thousand rows: many pieces would only cost.
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Tables of some hundred rows need no statistics, and no sum of what is in them.
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # Java need not check the code of classes that come with Spark and tidecast: an eighth of the demo's CPU.
    _JAVA: f"{QUICK[_JAVA]} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}
_STAGES = 3


@dataclass(frozen=True)
class DemoTable:
    """One table of the demo: its topic, the messages in it, and its rows in the end.

    Of the `published` messages `verified` carried a checksum that fits, and `deletes` carried none.
    """

    table: str
    topic: str
    published: int
    verified: int
    deletes: int
    rows: int
    where: str


@dataclass(frozen=True)
class DemoTopic:
    """The topic of another protocol than Avro: its URI, and how many rows and schema changes are in it."""

    protocol: str
    source: str
    rows: int
    ddl: int


@dataclass(frozen=True)
class Demo:
    """The result of the demo: `source` is the URI of all its Avro topics, `schema_registry` that of their schemas."""

    folder: str
    source: str
    schema_registry: str
    tables: tuple[DemoTable, ...]
    others: tuple[DemoTopic, ...] = ()
    dead_letters: Mapping[str, int] = field(default_factory=dict)


def demo(folder: str = "tidecast-demo", *, progress: Progress = no_progress, spark: SparkSession | None = None) -> Demo:
    """Publish the change log of a small shop as Avro, verify every row's checksum, and replicate it into Delta tables.

    The log is published as Debezium and as Simple, too. Everything lies in `folder`: the `log` with its changefeed
    file, the Avro `topics` and their Schema Registry `schemas`, `debezium` and `simple` with a topic each, and
    `tables`. What an earlier run left there is replaced. Raises ConfigError for a folder that holds anything else, and
    CorruptedData where a checksum does not fit.
    """
    base = _cleared(local_path(folder, "--dir").absolute())
    shutil.copytree(_DATA, base / _LOG)
    progress("starting Spark", 0, _STAGES)
    with _session(spark) as session:
        return _in_session(session, base, progress)


@contextmanager
def _session(given: SparkSession | None) -> Iterator[SparkSession]:
    """Give a session; one of our own ends afterwards, as its settings are for a few rows."""
    running = given or SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    session = spark_session(conf=_QUICK)
    try:
        yield session
    finally:
        session.stop()


def _in_session(session: SparkSession, base: Path, progress: Progress) -> Demo:
    avro, registry = f"{(base / _TOPICS / _SHOP).as_uri()}?protocol=avro", (base / _SCHEMAS).as_uri()
    others = {protocol: f"{(base / protocol / _SHOP).as_uri()}?{params}" for protocol, params in _OTHERS.items()}
    source = f"{avro}&topics=.*"

    def stage(number: int) -> Progress:
        return lambda text, *_: progress(text, number, _STAGES)

    progress("publishing as Avro, as Debezium and as Simple", 1, _STAGES)
    log_file, changefeed = base / _LOG / f"{_SHOP}.jsonl.gz", base / _LOG / f"{_SHOP}.toml"
    configs = [load_config(avro, str(changefeed), registry), *map(load_config, others.values())]
    schemas = open_registry(registry)
    with read(session, f"{log_file.as_uri()}?protocol=simple", tz="UTC") as log:
        # Side by side: while one is planned, another runs.
        published, *published_too = parallel_map(lambda config: _publish(log, config, schemas), configs)
    progress("verifying every row's checksum, and applying to tables", 2, _STAGES)
    with read(session, source, schema_registry=registry, tz="UTC") as events:
        applied = replicate(events, ApplyOptions.of(str(base / _TABLES), on_mismatch="fail"), progress=stage(2))
    reports = {report.name: report for report in applied.tables}
    tables = tuple(
        DemoTable(
            table=table,
            topic=topic,
            published=messages,
            verified=reports[table].checksums[Verdict.MATCH],
            deletes=reports[table].checksums[Verdict.DELETE],
            rows=reports[table].upserted,  # the tables were new
            where=reports[table].where,
        )
        for (table, topic), messages in sorted(published.messages.items())
    )
    dead_letters = Counter(published.dead_letters) + Counter(applied.dead_letters)
    topics = tuple(
        DemoTopic(protocol, uri, done.total, done.ddl)
        for (protocol, uri), done in zip(others.items(), published_too, strict=True)
    )
    return Demo(str(base), source, registry, tables, topics, dead_letters)


def _publish(log: Events, config: ChangefeedConfig, registry: Registry) -> Published:
    dead_letters = Path(config.place.path).parent / DEAD_LETTERS
    return publish(log, config, config.open_sink(), registry, zone="UTC", dead_letters=dead_letters)


def _cleared(base: Path) -> Path:
    """Make the folder, or remove from it what an earlier run put there."""
    ours = {_LOG, _TOPICS, _SCHEMAS, _TABLES, *_OTHERS, _MARK}
    if base.exists() and not base.is_dir():
        raise ConfigError("this is not a folder", where=str(base), hint="--dir NAME of a new one")
    there = {entry.name for entry in base.iterdir()} if base.is_dir() else set()
    foreign = there - ours if _MARK in there else there
    if foreign:
        raise ConfigError(
            f"the folder holds something that is not the demo's: {min(foreign)}",
            where=str(base),
            hint="--dir NAME of a new folder",
        )
    try:
        base.mkdir(parents=True, exist_ok=True)
        (base / _MARK).touch()
        for name in there - {_MARK}:
            shutil.rmtree(base / name)
    except OSError as error:
        raise ConfigError(f"the folder cannot be used: {error.strerror}", where=str(base)) from None
    return base
