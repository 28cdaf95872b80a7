"""What TiCDC may deliver, in many orders: tables end as the source is, whatever was repeated and whenever a batch ends.

A hundred schedules share a pack; `python -m tests.faults --schedules 1000` takes ten packs in every protocol. A failure
names the command that delivers its schedule alone: the batches have the same messages of it as among the others.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chaos import KEYS, SCHEDULES, TABLES, Change, Key, Pack
from chaos_topic import PROTOCOLS, ChaosTopic
from fault_seeds import FIRST, command, wanted
from pyspark.sql import SparkSession
from servers import KafkaBroker

import tidecast

_WANTED = wanted("schedules")
_ALONE = FIRST if _WANTED == 1 else None
_PACKS = range(FIRST // SCHEDULES, -(-(FIRST + (_WANTED or SCHEDULES)) // SCHEDULES))

Rows = Counter[tuple[object, ...]]
"""The rows of a table, and how often each is there; the first column tells the schedule."""


def model(changes: Iterable[Change]) -> dict[str, Rows]:
    """Return what tables are after changes in any order, repeated or not: the newest of each key."""
    newest: dict[str, dict[Key, Change]] = {name: {} for name in TABLES}
    for change in changes:
        before = newest[change.table].setdefault(change.key, change)
        if (change.time, change.data is not None) > (before.time, before.data is not None):
            newest[change.table][change.key] = change
    return {name: Counter(row_of(change) for change in rows.values() if change.data) for name, rows in newest.items()}


def row_of(change: Change) -> tuple[object, ...]:
    """Return the row after a change as the table has it in the end, with the column that it got."""
    table, row = TABLES[change.table], change.data or {}
    return (*(row[column["name"]] for column in table.columns), row.get("more", table.default))


def schedule_of(table: str, row: tuple[object, ...]) -> int:
    """Return the schedule that a row is of."""
    assert isinstance(row[0], int)
    return row[0] // KEYS if table == "one" else row[0]


@dataclass
class Ages:
    """How old the state of each key is, as far as a table shows it: it may only become younger."""

    states: Mapping[tuple[str, Key], list[object]]
    reached: dict[tuple[str, Key], int] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Ages:
        """Return the ages of keys in an empty table; `changes` are in the order of their commit-ts."""
        states: dict[tuple[str, Key], list[object]] = defaultdict(lambda: [None])
        for change in changes:
            if TABLES[change.table].key:
                states[change.table, change.key].append(change.data["at"] if change.data else None)
        return cls(states)

    def gone_back(self, tables: Mapping[str, Rows]) -> list[tuple[str, Key]]:
        """Return the keys whose state is older than one that was seen before."""
        keys = {name: len(TABLES[name].key) for name in tables if TABLES[name].key}
        shown = {(name, row[:size]): row[size] for name, size in keys.items() for row in tables[name]}
        back = []
        for place, states in self.states.items():
            later = (n for n in range(self.reached[place], len(states)) if states[n] == shown.get(place))
            if (now := next(later, None)) is None:
                back.append(place)
            else:
                self.reached[place] = now
        return back


@dataclass(frozen=True)
class Way:
    """How a pack gets to its tables: by a protocol, in files or in Kafka, where a batch ends by partition."""

    protocol: str
    in_kafka: bool = False

    def __str__(self) -> str:
        return self.protocol + ("-in-kafka" if self.in_kafka else "")


_EVERY_WAY = [Way("simple", in_kafka=True), *map(Way, PROTOCOLS)]
_WAYS = _EVERY_WAY if _WANTED else _EVERY_WAY[:1]
_BATCHES = 3 if len(_WAYS) == 1 else 6
"""A run of all tests has not the time for more than the one that shows most."""


@dataclass
class Outcome:
    """What the tables of a pack should be in the end."""

    way: Way
    pack: Pack
    expected: Mapping[str, Rows]

    def check(self, tables: Mapping[str, Rows], names: Iterable[str]) -> None:
        """Check that some tables are as they should be; say what is not, schedule by schedule."""
        found: dict[int, list[str]] = defaultdict(list)
        for name in names:
            there, expected = tables.get(name, Counter()), self.expected[name]
            for what, rows in (("should not have", there - expected), ("should have", expected - there)):
                for row, times in sorted(rows.items(), key=str):
                    found[schedule_of(name, row)].append(f"d.{name} {what} {row}" + f", {times} times" * (times > 1))
        assert not found, "\n".join(
            f"{command('schedules', 1, n)}: {'; '.join(said)}" for n, said in sorted(found.items())
        )


class Replica:
    """The tables of a pack, looked at after each batch."""

    def __init__(self, spark: SparkSession, folder: Path, pack: Pack, topic: ChaosTopic) -> None:
        self._spark, self._folder, self._pack, self._topic = spark, folder, pack, topic
        self._ages = Ages.of(pack.changes)
        self.tables: dict[str, Rows] = {}
        self.batches = 0
        self.gone_back: list[tuple[int, str, Key]] = []

    def follow_files(self) -> None:
        """Apply each batch that was sent; it ends anywhere in the order in which messages are sent."""
        for batch in self._pack.sent():
            self._topic.deliver(batch)
            self._replicate(self._topic.uri, schema_registry=self._topic.registry)
            self._look()

    def follow_kafka(self, broker: KafkaBroker) -> None:
        """Apply what was sent, as many messages of each partition at a time."""
        name, stop = f"chaos_{uuid.uuid4().hex}", threading.Event()
        length = self._topic.send(broker, name, [message for batch in self._pack.sent() for message in batch])
        size = -(-length // self._pack.batches)

        def progress(text: str, *_: int) -> None:
            if text.startswith("batch "):
                self._look()
                if self.batches == -(-length // size):
                    stop.set()

        self._replicate(
            self._topic.in_kafka(broker, name), continuous=True, batch_size=size, stop=stop, progress=progress
        )

    def at_once(self) -> dict[str, Rows]:
        """Apply the files of all batches in one run to other tables, and return these."""
        self._run(self._topic.uri, "others", schema_registry=self._topic.registry)
        return self._read("others")

    def _replicate(self, uri: str, **options: Any) -> None:
        self._run(uri, "tables", checkpoint=str(self._folder / "checkpoint"), **options)

    def _run(self, uri: str, to: str, **options: Any) -> None:
        to = str(self._folder / to)
        result = tidecast.replicate(uri, to, tz="UTC", on_error="fail", spark=self._spark, **options)
        assert not result.dead_letters

    def _read(self, where: str) -> dict[str, Rows]:
        folders = {name: self._folder / where / "d" / name for name in self._pack.tables}
        there = {name: self._spark.read.format("delta").load(str(f)) for name, f in folders.items() if f.exists()}
        return {name: Counter(map(tuple, frame.collect())) for name, frame in there.items()}

    def _look(self) -> None:
        self.tables = self._read("tables")
        self.gone_back += [(self.batches, *place) for place in self._ages.gone_back(self.tables)]
        self.batches += 1


@pytest.mark.parametrize(("way", "seed"), [(w, p) for w in _WAYS for p in _PACKS], ids=lambda part: str(part))
def test_tables_end_as_the_source_and_no_key_goes_back(
    way: Way, seed: int, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tells_all = PROTOCOLS[way.protocol].tells_all
    names = tuple(name for name, table in TABLES.items() if table.key or tells_all)
    pack = Pack(seed, tables=names, scatters=tells_all, alone=_ALONE, batches=_BATCHES)
    replica = Replica(spark, tmp_path, pack, ChaosTopic(spark, tmp_path, pack, way.protocol))
    if way.in_kafka:
        replica.follow_kafka(request.getfixturevalue("broker"))
    else:
        replica.follow_files()
    told = [event for batch in pack.sent() for _, event in batch if isinstance(event, Change)]
    assert set(told) == set(pack.changes)
    outcome = Outcome(way, pack, model(told))
    outcome.check(replica.tables, names)
    if not way.in_kafka:  # the files have the same messages
        outcome.check(replica.at_once(), names)
    if tells_all:  # an Avro delete has no commit-ts, and may be a new one
        said = (
            f"{command('schedules', 1, schedule_of(table, key))}: d.{table} {key} after batch {n}"
            for n, table, key in replica.gone_back
        )
        assert not replica.gone_back, "\n".join(said)
