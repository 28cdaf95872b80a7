"""The events of golden files: each file is decoded once, however many tests read it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from golden_data import Line, Table, lines, of_tables, registry_folder, topic
from pyspark.sql import DataFrame, SparkSession

from tidecast.model import Events, TableChanges
from tidecast.registry import open_registry
from tidecast.sources import read_topic
from tidecast.spark import parallel_map

ZONE = "Asia/Shanghai"


@dataclass(frozen=True)
class Decoded:
    """The events of a golden file, and its messages; a row's `offset` is the place of its message among them.

    The events hold values, no plan: a test may do with them what it likes, and Spark plans that alone.
    """

    events: Events
    messages: list[Line]

    @cached_property
    def numbers(self) -> list[int]:
        """The event number of each message."""
        return [message["n"] for message in self.messages]

    def only(self, tables: Collection[Table]) -> Events:
        """Return the events with the rows of some tables alone."""
        chosen = (t for t in self.events.tables if (t.schema.database, t.schema.table) in tables)
        return replace(self.events, tables=tuple(chosen))


class GoldenEvents:
    """Decodes golden files, such as "simple-json", when a test first asks for them.

    With `tables` the rows of other tables are left out before they are decoded, as Spark's time goes with the number of
    tables; schema changes, bootstraps and watermarks are all there.
    """

    def __init__(self, spark: SparkSession, golden: Callable[[str], Path], folder: Path) -> None:
        self._spark, self._golden, self._folder = spark, golden, folder
        self._decoded = cache(self._decode)

    def __call__(self, variant: str, tables: frozenset[Table] | None = None) -> Decoded:
        """Return what a golden file says."""
        return self._decoded(variant, tables)

    def _decode(self, variant: str, tables: frozenset[Table] | None) -> Decoded:
        file = self._golden(f"{variant}.jsonl.gz")
        messages = lines(file)
        if tables is not None:
            messages = of_tables(messages, tables)
            file = topic(self._folder / f"{variant}-{len(list(self._folder.iterdir()))}.jsonl", messages)
        protocol = "canal-json" if variant.startswith("canal-json") else variant.partition("-")[0]
        registry = None
        if protocol == "avro":
            schemas = self._golden(f"{variant.removesuffix('-corrupt')}.schemas.jsonl.gz")
            registry = open_registry(registry_folder(schemas, self._folder / f"{variant}.schemas"))
        uri = f"file://{file}?protocol={protocol}"
        with read_topic(self._spark, uri, registry=registry, zone=ZONE) as events:
            return Decoded(_computed(events), messages)


def _computed(events: Events) -> Events:
    """Return events whose frames hold their rows and read no source."""

    def table(changes: TableChanges) -> TableChanges:
        return replace(changes, source=changes.frame.localCheckpoint())

    def frame(rows: DataFrame | None) -> DataFrame | None:
        return None if rows is None else rows.localCheckpoint()

    tables = tuple(parallel_map(table, events.tables))
    rejected = events.rejected.localCheckpoint()
    return replace(events, tables=tables, rejected=rejected, watermarks=frame(events.watermarks), cached=())
