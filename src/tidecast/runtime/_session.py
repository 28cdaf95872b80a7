"""The local Spark session that tidecast works in when nobody brings another."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidecast._errors import ConfigError
from tidecast._limits import LARGEST_COLLECTION, LARGEST_MESSAGE
from tidecast.runtime._answers import check_master, check_remote, start_errors
from tidecast.runtime._class_archive import class_archive
from tidecast.runtime._jars import ICEBERG_JARS, SPARK_JARS, fetch_jars
from tidecast.runtime._java import find_java
from tidecast.runtime._outside import outside_settings, submitted
from tidecast.runtime._where import MASTER, REMOTE, check_settings, is_small, take_command_settings

_REMOTE_VARIABLE = "SPARK_REMOTE"
_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.]+")
# Settings that are lists: what a caller gives is added to ours instead of replacing it.
_LISTS = {
    "spark.jars": ",",
    "spark.sql.extensions": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
}


def spark_session(
    app_name: str = "tidecast", *, cores: int | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Give a Spark session with the Kafka, Avro and Delta connectors: a local one, unless somebody says otherwise.

    The first call fetches the connectors and, if need be, finds a Java; see `fetch_jars` and `find_java`. Settings of
    spark-submit, `PYSPARK_SUBMIT_ARGS` and spark-defaults.conf are kept: master, memory, packages and all else. On a
    cluster tidecast sets nothing that is meant for one machine. With `spark.remote` in `conf`, or `SPARK_REMOTE`, the
    session is one of that Spark Connect server. The server needs the connectors itself. `cores`, by default all of the
    machine's, is for a local session. `conf` overrides any setting, `spark.master` too; to the lists (`spark.jars`,
    `spark.sql.extensions`, `extraJavaOptions` of driver and executors) it adds. A session that already runs is returned
    with nothing but `conf` applied. A setting `spark.sql.catalog.<name>` that names a class of Iceberg's brings
    Iceberg's connector. Spark's own log is silent; `TIDECAST_SPARK_LOG=warn` turns it on.
    Raises `ConfigError` for a master or a server that is none, and `Unreachable` for one that does not answer. Raises
    `MissingRuntime` when Java or a connector cannot be had, and `TerminalError` when Spark does not start.
    """
    given = _merged(conf or {}, take_command_settings())
    check_settings(given)
    running = running_session()
    if running is not None:
        return _reused(running, given)
    _silence_python_side()
    with start_errors(given):
        if REMOTE in given or (MASTER not in given and (is_remote() or _REMOTE_VARIABLE in os.environ)):
            return _connected(given)
        return _started(app_name, cores, given)


def _reused(running: SparkSession, given: Mapping[str, str]) -> SparkSession:
    """Return a session that runs, with what is given; where Spark runs is settled."""
    remote = is_remote()
    for name in (MASTER, REMOTE):
        fits = remote if name == REMOTE else not remote and running.conf.get(MASTER, None) == given.get(MASTER)
        if name in given and not fits:
            raise ConfigError(f"{name} comes too late: this program has a Spark session already")
    for name, value in given.items():
        if name not in (MASTER, REMOTE):
            running.conf.set(name, value)
    return running


def _connected(given: Mapping[str, str]) -> SparkSession:
    url = given.get(REMOTE) or os.environ.get(_REMOTE_VARIABLE)
    if url:
        check_remote(url)
    return _configured(SparkSession.builder, {**_CHOICES, **_SQL, **given}).getOrCreate()


def _started(app_name: str, cores: int | None, given: Mapping[str, str]) -> SparkSession:
    settings = settings_of(app_name, cores, outside_settings(), given)
    check_master(settings[MASTER])
    builder = _configured(SparkSession.builder, settings)
    with _environment(**{_REMOTE_VARIABLE: None}):  # a master that is given counts for more
        if submitted():  # Java runs, and Python's workers and its class path are spark-submit's
            return builder.getOrCreate()
        # Spark starts its Java and its Python workers with the environment of this moment, and offers no other way.
        python, java = os.environ.get("PYSPARK_PYTHON", sys.executable), find_java()
        if _is_local(settings[MASTER]):
            python, options = sys.executable, settings[_JAVA_OPTIONS]
            builder.config(_JAVA_OPTIONS, f"{class_archive(java, options)} {options}".strip())
        with _environment(JAVA_HOME=str(java.home), PYSPARK_PYTHON=python):
            session = builder.getOrCreate()
    atexit.register(_remove_litter, Path("artifacts").absolute())
    return session


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def settings_of(
    app_name: str, cores: int | None, outside: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of a new session: ours, over them somebody else's, over these those that are given."""
    chosen = {**outside, **given}
    ours = {"spark.app.name": app_name, **_CHOICES, **_SQL, **_STATIC, **_DRIVER, **_connectors(chosen)}
    if _is_local(chosen.get(MASTER, "local")):
        ours |= _local(cores or _usable_cores())
        ours = _merged(ours, QUICK if is_small() else _THOROUGH)
    settings = _merged(_in_time(ours), outside, given)
    if _JAVA_OPTIONS in settings:
        settings[_JAVA_OPTIONS] = _with_one_collector(settings[_JAVA_OPTIONS])
    return settings


def configure_spark(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Put the Kafka, Avro and Delta connectors, and the settings that tidecast is best run with, on a builder.

    As `configure_spark_with_delta_pip` does for Delta: `tidecast.configure_spark(SparkSession.builder).getOrCreate()`.
    Settings of the builder, spark-submit, `PYSPARK_SUBMIT_ARGS` and spark-defaults.conf are kept. It adds to those that
    are lists: `spark.jars`, `spark.sql.extensions`, `extraJavaOptions` of driver and executors. Connectors that
    `spark.jars` or `spark.jars.packages` name already are left out. Master, memory, time zone and ANSI rules stay
    the caller's. For Spark Connect it makes only those settings that a session takes: its server has to have the
    connectors. A session that already runs takes no more than those. Raises MissingRuntime where
    a connector cannot be had.
    """
    chosen = {name: str(value) for name, value in builder._options.items()}  # there is no public way to read them
    if is_remote() or _REMOTE_VARIABLE in os.environ or REMOTE in chosen:
        return _configured(builder, {name: value for name, value in _SQL.items() if name not in chosen})
    outside = outside_settings()
    ours = _in_time({**_SQL, **_STATIC, **_connectors({**outside, **chosen})})
    merged = _merged(ours, outside, chosen)
    return _configured(builder, {name: merged[name] for name in ours})


def _in_time(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that do not come too late for Spark's Java."""
    return {name: value for name, value in settings.items() if not (submitted() and name.startswith("spark.driver."))}


def _merged(ours: Mapping[str, str], *others: Mapping[str, str]) -> dict[str, str]:
    """Return settings in which later ones take the place of earlier ones, or are added where these are lists."""
    chosen = dict(ours)
    for settings in others:
        for name, value in settings.items():
            before, separator = chosen.get(name), _LISTS.get(name)
            if before and separator and before not in value:
                chosen[name] = before if value in before else f"{before}{separator}{value}"
            else:
                chosen[name] = value
    return chosen


def _connectors(outside: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of the connectors' jars, but for those that are there already."""
    if submitted():  # a jar that comes now is on no class path of the driver
        return {}
    there = f"{outside.get('spark.jars', '')},{outside.get('spark.jars.packages', '')}"
    has_iceberg = any(_CATALOG.fullmatch(name) and is_iceberg(value) for name, value in outside.items())
    wanted = {**SPARK_JARS, **(ICEBERG_JARS if has_iceberg else {})}
    missing = {name: digest for name, digest in wanted.items() if name.split(":")[1] not in there}
    return {"spark.jars": ",".join(map(str, fetch_jars(missing)))}


def is_iceberg(implementation: str) -> bool:
    """Tell whether a class that Spark has for a catalog is one of Iceberg's."""
    return implementation.startswith("org.apache.iceberg.")


AVRO_LIMITS = (
    f"-Dorg.apache.avro.limits.bytes.maxLength={LARGEST_MESSAGE} "
    f"-Dorg.apache.avro.limits.string.maxLength={LARGEST_MESSAGE} "
    f"-Dorg.apache.avro.limits.collectionItems.maxLength={LARGEST_COLLECTION}"
)
"""Avro's own limits, which keep a damaged length from taking all memory; Java reads them once, when it starts.

For every Java that is to read Avro messages, on the driver and on executors.
Source: Other documents, Avro's SystemLimitException.
"""

_STATIC = {
    "spark.driver.extraJavaOptions": AVRO_LIMITS,
    "spark.executor.extraJavaOptions": AVRO_LIMITS,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Each table has classes of its own, and Spark by default forgets all but a hundred: it would make them anew in
    # every batch of a dozen tables or more.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Otherwise Spark walks the Python stack for each part of an expression, and plans take twice as long.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# Settings of a session of ours, which any other may choose; tidecast works with either.
_CHOICES = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    # Delta would ask a table that it makes for the files that were in it before, in a query of its own.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
}
# Settings that help every session, however it came about; a running Spark takes them, too.
_SQL = {
    # Java compiles no method above 8000 bytes: tables of many columns need several.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Otherwise Spark clones the session for every frame that is kept, and never lets the clone go.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    # Ten thousand messages, as many as go to Python at once by default, may be as many megabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    # As many messages as Spark keeps in one piece by default, 10,000, would be more than the heap where they are large.
    "spark.sql.inMemoryColumnarStorage.batchSize": "1000",
    # Nested rows, most of what is kept, are not made smaller, and to look for a way takes a tenth of `replicate`.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Where a batch reads many files, Spark would start a task to look at each of them before it reads any.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    # A name such as `${env:HOME}` in a message is a name.
    "spark.sql.variable.substitute": "false",
}


QUICK: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # With a shuffle each job would become several, to learn what little there is between them.
    "spark.sql.adaptive.enabled": "false",
    # Spark writes each plan out as text, for a page that no command opens.
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.debug.maxToStringFields": "0",
    # Spark's work on each plan for filters that follow from others, and to check its own rules.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
}
"""What makes a session quick for some thousand rows, and slow for more: code, and code well compiled, pays late."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_THOROUGH = {_JAVA_OPTIONS: "-XX:+UseParallelGC"}
"""What any other session has. G1, Java's own choice, finds no place for a large file among many pieces of rows.

In a heap of 1.8 GB it could not read files of 40 MB, and ParallelGC could.
"""


def _with_one_collector(java_options: str) -> str:
    """Return options with the last collector that they name alone, or none where the environment names one.

    Java does not start with two.
    """
    elsewhere = any(_COLLECTOR.search(os.environ.get(name, "")) for name in _JAVA_VARIABLES)
    chosen = [] if elsewhere else _COLLECTOR.findall(java_options)[-1:]
    return _COLLECTOR.sub(lambda named: named[0] if named[0] in chosen else "", java_options)


_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables of the environment with more options of Java."""

# Settings of the driver's Java when we start it, wherever its executors are.
_DRIVER = {
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()} {AVRO_LIMITS}"
    ),
    "spark.ui.showConsoleProgress": "false",
}


def _is_local(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _local(cores: int) -> dict[str, str]:
    """Return the settings of a session in one process on this machine."""
    return {
        MASTER: f"local[{cores}]",
        # One process does all the work: more pieces than cores only cost.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.driver.memory": f"{min(max(cores, 2), 16)}g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Without a UI nobody looks at what has been; a server runs for long.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.enabled": "false",
        # The Python of a session that was submitted may be another one, without tidecast.
        **({} if submitted() else {"spark.python.daemon.module": "tidecast._spark_daemon"}),
    }


def running_session() -> SparkSession | None:
    """Return the session that runs in this program, None where none does."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    stopped = SparkContext._active_spark_context is None and not is_remote()
    return None if stopped else session


def _silence_python_side() -> None:
    """Keep pyspark and py4j from printing exceptions that they raise as well; log4j2.properties does so for Java."""
    if "TIDECAST_SPARK_LOG" not in os.environ:
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        for name in ("py4j.clientserver", "py4j.java_gateway"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_not_from_py4j)  # it takes the root logger for its own


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _remove_litter(folder: Path) -> None:
    """Remove the empty folder that Spark 4.0.0 makes where it was started (SPARK-52396; mended in 4.0.1)."""
    with suppress(OSError):  # what is not empty is not Spark's
        for inner in folder.glob("spark-*"):
            inner.rmdir()
        folder.rmdir()


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux tells which cores this process may use
        return os.cpu_count() or 1


@contextmanager
def _environment(**variables: str | None) -> Iterator[None]:
    """Set variables for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
