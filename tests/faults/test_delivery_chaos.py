"""What TiCDC may deliver, in many orders: tables end as the source is, whatever was repeated and whenever a batch ends.

`TIDECAST_SCHEDULES` is how many schedules there are, `TIDECAST_SCHEDULE` the only one, by the number that a failure
names: its batches have the same messages of it as among the others.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from chaos import SCHEDULES, TABLES, Change, Key, Pack
from chaos_topic import PROTOCOLS, ChaosTopic
from pyspark.sql import SparkSession

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
    return row[0] // 4 if table == "one" else row[0]


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
            states[change.table, change.key].append(change.data["at"] if change.data else None)
        return cls(states)

    def gone_back(self, tables: Mapping[str, Rows]) -> list[tuple[str, Key]]:
        """Return the keys whose state is older than one that was seen before."""
        shown = {
            (name, row[: len(TABLES[name].key)]): row[len(TABLES[name].key)] for name, rows in tables.items() for row in rows
        }
        back = []
        for place, states in self.states.items():
            later = (n for n in range(self.reached[place], len(states)) if states[n] == shown.get(place))
            if (now := next(later, None)) is None:
                back.append(place)
            else:
                self.reached[place] = now
        return back


@dataclass
class Outcome:
    """What became of a pack: its tables, what they should be, and the keys that went back, by the number of a batch."""

    pack: Pack
    tables: Mapping[str, Rows]
    expected: Mapping[str, Rows]
    gone_back: list[tuple[int, str, Key]]

    def differences(self, names: Iterable[str]) -> list[str]:
        """Say what is wrong in some tables, schedule by schedule."""
        found: dict[int, list[str]] = defaultdict(list)
        for name in names:
            surplus, lacking = self.tables[name] - self.expected[name], self.expected[name] - self.tables[name]
            for what, rows in (("should not have", surplus), ("should have", lacking)):
                for row, times in sorted(rows.items(), key=str):
                    found[schedule_of(name, row)].append(f"d.{name} {what} {row}" + f", {times} times" * (times > 1))
        return [f"TIDECAST_SCHEDULE={seed}: {'; '.join(said)}" for seed, said in sorted(found.items())]


@pytest.fixture(scope="module", params=[(protocol, pack) for protocol in PROTOCOLS for pack in _PACKS], ids=str)
def outcome(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A pack that was replicated batch by batch."""
    protocol, seed = request.param
    keyed = PROTOCOLS[protocol].topic_per_table
    names = tuple(name for name, table in TABLES.items() if table.key or not keyed)
    pack = Pack(seed, tables=names, scatters=not keyed, alone=_ALONE)
    folder = tmp_path_factory.mktemp(protocol)
    topic = ChaosTopic(spark, folder, pack, protocol)
    told, back, ages = list[Change](), [], Ages.of(pack.changes)
    tables = dict[str, Rows]()
    for number, batch in enumerate(pack.sent()):
        told += topic.deliver(batch)
        result = tidecast.replicate(
            topic.uri,
            str(folder / "tables"),
            checkpoint=str(folder / "checkpoint"),
            schema_registry=topic.registry,
            tz="UTC",
            on_error="fail",
            spark=spark,
        )
        assert not result.dead_letters
        tables = read(spark, str(folder / "tables"), names)
        back += [(number, *place) for place in ages.gone_back({n: tables[n] for n in names if TABLES[n].key})]
    assert set(told) == set(pack.changes)
    return Outcome(pack, tables, model(told), back)


def read(spark: SparkSession, folder: str, names: Iterable[str]) -> dict[str, Rows]:
    """Return the rows of tables, without the column that they get while they lack it."""
    return {
        name: Counter(map(tuple, spark.read.format("delta").load(f"{folder}/d/{name}").collect())) for name in names
    }


def test_tables_with_a_key_end_as_the_source(outcome: Outcome) -> None:
    wrong = outcome.differences(name for name in outcome.pack.tables if TABLES[name].key)
    assert not wrong, "\n".join(wrong)


def test_rows_without_a_key_come_once(outcome: Outcome) -> None:
    wrong = outcome.differences(name for name in outcome.pack.tables if not TABLES[name].key)
    assert not wrong, "\n".join(wrong)


def test_no_key_goes_back_after_any_batch(outcome: Outcome) -> None:
    back = [f"after batch {number}: {place}" for number, *place in outcome.gone_back]
    assert not back, "\n".join(back)
