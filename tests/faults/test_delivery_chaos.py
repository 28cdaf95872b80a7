"""What TiCDC may deliver, in many orders: tables end as the source is, whatever was repeated and whenever a batch ends.

`TIDECAST_SCHEDULES` is how many schedules there are, `TIDECAST_SCHEDULE` the only one, by the number that a failure
names: its batches have the same messages of it as among the others.
"""

from __future__ import annotations

import os
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
from pyspark.sql import SparkSession
from servers import KafkaBroker

import tidecast

_ALONE = int(os.environ["TIDECAST_SCHEDULE"]) if "TIDECAST_SCHEDULE" in os.environ else None
_COUNT = int(os.environ.get("TIDECAST_SCHEDULES", SCHEDULES))
_PACKS = range(-(-_COUNT // SCHEDULES)) if _ALONE is None else [_ALONE // SCHEDULES]

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


_WAYS = [*map(Way, PROTOCOLS), Way("simple", in_kafka=True)]

_CUT = "a replay that a batch's end cuts sets keys back, for a watermark before it covers the rest"
_MOVED = "nothing is remembered of what was applied to a key that comes in several partitions"
_SET_BACK_FOR_GOOD = {"simple": _CUT, "debezium": _CUT, "simple-in-kafka": _MOVED}
_SET_BACK = dict.fromkeys(map(str, _WAYS), "nothing is remembered of what was applied to a key")
_REPEATED = dict.fromkeys(
    ("simple", "debezium", "simple-in-kafka"),
    "rows above the watermark are appended, and once more when they are repeated",
)
"""What fails, by way: to be taken out once it works. A pack other than the first may have no such case."""


@dataclass
class Outcome:
    """What became of a pack: its tables, what they should be, and the keys that went back, by the number of a batch."""

    way: Way
    pack: Pack
    tables: Mapping[str, Rows]
    at_once: Mapping[str, Rows]
    """The tables after one run without a checkpoint over the whole topic."""
    expected: Mapping[str, Rows]
    gone_back: list[tuple[int, str, Key]]

    def check(self, tables: Mapping[str, Rows], names: Iterable[str]) -> None:
        """Check that some tables are as they should be; say what is not, schedule by schedule."""
        found: dict[int, list[str]] = defaultdict(list)
        for name in names:
            there, expected = tables.get(name, Counter()), self.expected[name]
            for what, rows in (("should not have", there - expected), ("should have", expected - there)):
                for row, times in sorted(rows.items(), key=str):
                    found[schedule_of(name, row)].append(f"d.{name} {what} {row}" + f", {times} times" * (times > 1))
        assert not found, "\n".join(f"TIDECAST_SCHEDULE={n}: {'; '.join(said)}" for n, said in sorted(found.items()))


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

        uri = f"kafka://{broker.bootstrap}/{name}?{self._topic.protocol.params}"
        self._replicate(uri, continuous=True, batch_size=size, stop=stop, progress=progress)

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


@pytest.fixture(
    scope="module", params=[(way, pack) for way in _WAYS for pack in _PACKS], ids=lambda p: f"{p[0]}-{p[1]}"
)
def outcome(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A pack that was replicated batch by batch."""
    way, seed = request.param
    only_rows = not PROTOCOLS[way.protocol].tells_all
    names = tuple(name for name, table in TABLES.items() if table.key or not only_rows)
    pack = Pack(seed, tables=names, scatters=not only_rows, alone=_ALONE)
    folder = tmp_path_factory.mktemp(str(way))
    replica = Replica(spark, folder, pack, ChaosTopic(spark, folder, pack, way.protocol))
    if way.in_kafka:
        replica.follow_kafka(request.getfixturevalue("broker"))
    else:
        replica.follow_files()
    at_once = {} if way.in_kafka else replica.at_once()
    told = [event for batch in pack.sent() for _, event in batch if isinstance(event, Change)]
    assert set(told) == set(pack.changes)
    return Outcome(way, pack, replica.tables, at_once, model(told), replica.gone_back)


def expect(request: pytest.FixtureRequest, outcome: Outcome, known: Mapping[str, str]) -> None:
    """Let a test fail where it is known why; the first pack then must."""
    if reason := known.get(str(outcome.way)):
        strict = outcome.pack.seed == 0 and _ALONE is None
        request.applymarker(pytest.mark.xfail(reason=reason, strict=strict))


def test_a_topic_that_is_read_at_once_ends_as_the_source(outcome: Outcome) -> None:
    if outcome.way.in_kafka:
        pytest.skip("the files have the same messages")
    outcome.check(outcome.at_once, outcome.pack.tables)


def test_tables_with_a_key_end_as_the_source(request: pytest.FixtureRequest, outcome: Outcome) -> None:
    expect(request, outcome, _SET_BACK_FOR_GOOD)
    outcome.check(outcome.tables, [name for name in outcome.pack.tables if TABLES[name].key])


def test_rows_without_a_key_come_once(request: pytest.FixtureRequest, outcome: Outcome) -> None:
    if not PROTOCOLS[outcome.way.protocol].tells_all:
        pytest.skip("Avro has no tables without a key")
    expect(request, outcome, _REPEATED)
    outcome.check(outcome.tables, [name for name in outcome.pack.tables if not TABLES[name].key])


def test_no_key_goes_back_after_any_batch(request: pytest.FixtureRequest, outcome: Outcome) -> None:
    expect(request, outcome, _SET_BACK)
    back = [
        f"TIDECAST_SCHEDULE={schedule_of(name, key)}: d.{name} {key} after batch {n}"
        for n, name, key in outcome.gone_back
    ]
    assert not back, "\n".join(back)
