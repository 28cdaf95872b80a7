"""The commands, each ready to run once more on topics that `bench.topics` wrote."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

import tidecast
from tidecast.runtime import spark_session

Run = Callable[[], object]

SINKS = {
    "debezium": "protocol=debezium",
    "simple": "protocol=simple",
    "simple-avro": "encoding-format=avro&protocol=simple",
    "avro": "protocol=avro&enable-tidb-extension=true",
}
STORAGE_SINKS = {"csv": "protocol=csv", "canal-json": "enable-tidb-extension=true&protocol=canal-json"}
_CSV = "[sink.csv]\ninclude-commit-ts = true\n"
_TOPICS = '[sink]\ndispatchers = [{matcher = ["*.*"], topic = "{schema}_{table}"}]\n'
_CHECKSUMS = '[integrity]\nintegrity-check-level = "correctness"\n'


@contextmanager
def workspace() -> Iterator[tuple[SparkSession, Path]]:
    """Give a session, and a folder that is removed afterwards."""
    spark, base = spark_session("bench"), Path(tempfile.mkdtemp(prefix="tidecast-bench-"))
    try:
        yield spark, base
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


def anew(base: Path, name: str, work: Callable[[Path], object]) -> Run:
    """Return a run that writes to another folder each time, and removes the one before."""
    numbers = count()

    def run() -> None:
        n = next(numbers)
        shutil.rmtree(base / f"{name}-{n - 1}", ignore_errors=True)
        work(base / f"{name}-{n}")

    return run


class Runs:
    """Commands on the topics of a folder, and on other protocols' topics made of them."""

    def __init__(self, spark: SparkSession, base: Path) -> None:
        self.spark, self.base = spark, base
        self._registry = (base / "registry").as_uri()
        self._avro = f"file://{base}/topics/orders?protocol=avro&topics=.*"

    def folder(self, name: str) -> Path:
        """Return the folder of a protocol's topics, or of a storage sink, made the first time."""
        made = self.base / f"{name}-source"
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            self._convert(self._avro, unfinished, name, _CSV if name in STORAGE_SINKS else _TOPICS + _CHECKSUMS)
            unfinished.rename(made)
        return made

    def source(self, name: str) -> str:
        """Return the URI of a protocol's topics, or of a storage sink."""
        if name in STORAGE_SINKS:
            return f"file://{self.folder(name)}/orders?{STORAGE_SINKS[name]}"
        return self._avro if name == "avro" else f"file://{self.folder(name)}/orders?{SINKS[name]}&topics=.*"

    def verify(self, source: str = "avro") -> Callable[[], tidecast.Verified]:
        """Verify the rows of a protocol's topics."""
        return lambda: tidecast.verify(self.source(source), schema_registry=self._registry, tz="UTC", spark=self.spark)

    def replicate(self, source: str = "avro") -> Run:
        """Replicate a protocol's topics to new tables."""
        return anew(self.base, f"{source}-tables", lambda folder: self._replicate(source, folder))

    def again(self, *, checkpoint: bool) -> Run:
        """Replicate to tables that have all rows; with a checkpoint there is nothing to read either."""
        name = "known" if checkpoint else "again"
        kept = str(self.base / "checkpoint") if checkpoint else None
        return lambda: self._replicate("avro", self.base / name, kept)

    def convert(self, sink: str, source: str = "avro") -> Run:
        """Convert a protocol's topics to another protocol."""
        return anew(
            self.base, f"{source}-to-{sink}", lambda folder: self._convert(self.source(source), folder, sink, _TOPICS)
        )

    def _replicate(self, source: str, folder: Path, checkpoint: str | None = None) -> object:
        return tidecast.replicate(
            self.source(source),
            str(folder),
            checkpoint=checkpoint,
            schema_registry=self._registry,
            tz="UTC",
            spark=self.spark,
        )

    def _convert(self, source: str, folder: Path, sink: str, settings: str) -> object:
        config = folder.with_suffix(".toml")
        config.write_text(settings)
        return tidecast.convert(
            source,
            f"file://{folder}/orders?{(SINKS | STORAGE_SINKS)[sink]}",
            config=str(config),
            source_schema_registry=self._registry,
            schema_registry=f"{folder.as_uri()}/registry" if sink == "avro" else None,
            tz="UTC",
            spark=self.spark,
        )


def commands(spark: SparkSession, base: Path) -> dict[str, Run]:
    """Return the commands by name."""
    runs = Runs(spark, base)
    return {
        "verify": runs.verify(),
        "verify simple": runs.verify("simple"),
        "verify debezium": runs.verify("debezium"),
        "replicate": runs.replicate(),
        "replicate again": runs.again(checkpoint=False),
        "replicate, nothing new": runs.again(checkpoint=True),
        "replicate debezium": runs.replicate("debezium"),
        "replicate simple": runs.replicate("simple"),
        "replicate simple-avro": runs.replicate("simple-avro"),
        **{f"convert to {name}": runs.convert(name) for name in SINKS},
        "convert simple to debezium": runs.convert("debezium", "simple"),
    }
