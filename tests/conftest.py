"""What the whole test run shares: one Spark session, one broker, one registry of each kind, the golden data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from golden_events import GoldenEvents
from hypothesis import settings
from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from servers import KafkaBroker, S3Server, SchemaRegistry

from tidecast.runtime import spark_session

# A first example may load a time zone or a library beside other programs; speed is measured by `bench`.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A quick start matters more than throughput here; programs that a test starts inherit it.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"


# A plan of many tables takes Spark far longer to compile than its few rows take to compute. The programs that tests
# start, and tests that ask for `compiled`, run as users do.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Spark writes each plan out as text, for a page that nobody opens here.
NO_PLAN_TEXT = {"spark.sql.maxPlanStringLength": "0", "spark.sql.debug.maxToStringFields": "0"}

# Which brings Iceberg's jar; tests make catalogs of their own, with places for the tables.
ICEBERG = {"spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog"}


_SPARK = {"spark", "session", "other_session", "compiled", "decoded"}
_KAFKA = {"broker", "registry", "secured_registry"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by what it needs: `kafka`, `spark`, or `unit` for neither; put those that are `decoded` first.

    The fixtures that a test asks for tell it; a test that starts a program of its own which runs Spark says so itself.
    Of several processes the first begins with the first tests, and so is the one that decodes golden files.
    """
    items.sort(key=lambda item: "decoded" not in getattr(item, "fixturenames", ()))
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for mark, needed in (("spark", _SPARK), ("kafka", _KAFKA)):
            if fixtures & needed:
                item.add_marker(mark)
        if not any(item.get_closest_marker(mark) for mark in ("spark", "kafka")):
            item.add_marker("unit")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of the run."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {"spark.sql.warehouse.dir": str(warehouse), **INTERPRETED, **NO_PLAN_TEXT, **ICEBERG}
    session = spark_session("tidecast-tests", cores=2, conf=conf)
    # py4j else looks through all jars for this class, twice for each function of several columns.
    java_import(session.sparkContext._jvm, "org.apache.spark.api.python.PythonUtils")
    yield session
    session.stop()


@pytest.fixture
def other_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A second session of the same program; afterwards that of the run is the active one again."""
    yield spark.newSession()
    spark.createDataFrame([], "x int")  # which makes a session the active one


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[SparkSession]:
    """The Spark session of the run, generating code as it does for users."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    yield spark
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture
def substituting(spark: SparkSession) -> Iterator[None]:
    """Spark's default, which our own sessions do not have."""
    before = spark.conf.get("spark.sql.variable.substitute") or "true"
    spark.conf.set("spark.sql.variable.substitute", "true")
    yield
    spark.conf.set("spark.sql.variable.substitute", before)


@pytest.fixture(params=["true", "false"], ids=["ansi", "no-ansi"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The Spark session of the run under ANSI rules and without them."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before or "true")


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A Kafka broker; tests share it, so each names its own topics."""
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """A Schema Registry; tests share it, so each names its own subjects."""
    with SchemaRegistry() as running:
        yield running


@pytest.fixture(scope="session")
def secured_registry() -> Iterator[SchemaRegistry]:
    """A Schema Registry that asks for a user and a password."""
    with SchemaRegistry(secured=True) as running:
        yield running


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A store of objects; tests share its bucket, so each names its own folders."""
    with S3Server() as running:
        yield running


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Path]:
    """Where a file of golden data lies: `golden("simple-json.jsonl.gz")`."""
    folder = Path(__file__).with_name("golden") / "public"

    def path(name: str) -> Path:
        found = folder / name
        assert found.is_file(), f"there is no golden file {name}"
        return found

    return path


@pytest.fixture(scope="session")
def decoded(
    spark: SparkSession, golden: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> GoldenEvents:
    """The events of golden files, each decoded once: `decoded("simple-json").events`."""
    return GoldenEvents(spark, golden, tmp_path_factory.mktemp("golden"))
