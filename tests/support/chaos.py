"""Row changes of a few tables, and orders of delivery in which TiCDC may bring them, both made from seeds.

A pack is many schedules in one topic, so that they share its tables, its schema changes, its watermarks and each batch
of a replica. A schedule has keys of its own, and its own order of delivery: restarts, each of which sends everything
after some earlier commit-ts again, and single messages that are sent twice. Source: Changefeeds, delivery.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from growing_topic import ID, PRIMARY, Said

from tidecast.model import compose

SCHEDULES = 100
"""How many schedules a pack has."""
KEYS = 4
"""How many keys a schedule has in each table."""

_TIMES, _STEPS, _AHEAD = 60, 9, 20
"""How long a pack lasts, in how many steps it is sent, and how far beyond the end of one a table may be."""
_REGRESSED = 3
"""Watermarks between those at the ends of steps are as low as after a restart: a schedule may be back there."""

_EPOCH = compose(1_700_000_000_000)
_VARCHAR = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 8}
_BIGINT = {**ID["dataType"], "mysqlType": "bigint", "length": 20}

Row = dict[str, int | str | None]
Key = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Table:
    """A table: its columns, its key, the column that it gets one day, and what older rows have in that."""

    name: str
    columns: Sequence[Said]
    key: tuple[str, ...]
    added: Said
    default: int | None = None

    def key_of(self, row: Row) -> Key:
        """Return the key of a row, which of a table without one is the whole row."""
        return tuple(row[name] for name in self.key or row)

    def schema(self, version: int, *, grown: bool) -> Said:
        """Return its schema as the Simple protocol shows it."""
        head = {"schema": "d", "table": self.name, "tableID": crc32(self.name.encode()), "version": tso(version)}
        indexes = [{**PRIMARY, "columns": list(self.key)}] if self.key else []
        return {**head, "columns": [*self.columns, *([self.added] if grown else [])], "indexes": indexes}


_AT: Said = {**ID, "name": "at", "dataType": _BIGINT}
_MORE: Said = {**ID, "name": "more"}
TABLES = {
    table.name: table
    for table in (
        Table("one", [ID, _AT], ("id",), {**_MORE, "default": "5"}, 5),
        Table(
            "pair",
            [{**ID, "name": "a"}, {**ID, "name": "b", "dataType": _VARCHAR}, _AT],
            ("a", "b"),
            {**_MORE, "nullable": True},
        ),
        Table("log", [{**ID, "name": "schedule"}, _AT], (), {**_MORE, "nullable": True}),
    )
}
"""One with a key, one with a key of two columns, one without a key. `at` tells each change of a schedule."""


def tso(time: int) -> int:
    """Return a moment of a pack as a TSO."""
    return _EPOCH + time


@dataclass(frozen=True, eq=False)
class Change:
    """A row change, `old` and `data` as the table was then; equal to itself alone."""

    schedule: int
    table: str
    time: int
    old: Row | None
    data: Row | None

    @property
    def key(self) -> Key:
        """The key of the row that it is about."""
        row = self.data or self.old
        assert row is not None
        return TABLES[self.table].key_of(row)


@dataclass(frozen=True)
class SchemaChange:
    """CREATE TABLE, or the column that a table gets."""

    table: str
    time: int
    sql: str


@dataclass(frozen=True)
class Watermark:
    """The end of all that happened up to a moment."""

    time: int


Event = Change | SchemaChange | Watermark
Sent = tuple[int | None, Event]
"""A message in the order in which TiCDC sends them: its partition, None for all of them, and what it tells."""


@dataclass(frozen=True)
class Pack:
    """Many schedules in one topic. `alone` leaves out all schedules but one, whose messages and batches stay as are."""

    seed: int
    tables: tuple[str, ...] = tuple(TABLES)
    scatters: bool = True
    """Whether schedules may spread the changes of one key over partitions, as TiCDC's dispatcher `ts` does."""
    alone: int | None = None
    partitions: int = 4
    batches: int = 6

    @property
    def schedules(self) -> Sequence[int]:
        """The numbers of its schedules, which are their seeds."""
        return [self.alone] if self.alone is not None else range(self.seed * SCHEDULES, (self.seed + 1) * SCHEDULES)

    @cached_property
    def growth(self) -> Mapping[str, SchemaChange]:
        """The schema change of each table by which it gets its column."""
        chance = random.Random(f"growth {self.seed}")
        moments = chance.sample(range(_TIMES // 4, _TIMES * 3 // 4), len(TABLES))
        named = dict(zip(TABLES, moments, strict=True))
        return {t: SchemaChange(t, at, f"ALTER TABLE `d`.`{t}` ADD COLUMN `more` INT") for t, at in named.items()}

    @cached_property
    def bounds(self) -> Sequence[int]:
        """The ends of steps: each schedule sends everything up to it before a watermark or a schema change comes."""
        chance = random.Random(f"bounds {self.seed}")
        return sorted({*chance.sample(range(1, _TIMES), _STEPS), *(g.time for g in self.growth.values()), _TIMES})

    @cached_property
    def changes(self) -> Sequence[Change]:
        """All row changes, by commit-ts; of a transaction the deletes come first."""
        found = [change for n in self.schedules for change in _changes(n, self) if change.table in self.tables]
        return sorted(found, key=lambda c: (c.time, c.data is not None))

    @cached_property
    def history(self) -> Sequence[Event]:
        """Everything in the order in which it happened."""
        created = [SchemaChange(t, 0, f"CREATE TABLE `d`.`{t}`") for t in self.tables]
        grown = [self.growth[t] for t in self.tables]
        watermarks = [Watermark(time) for time in range(1, _TIMES + 1)]
        order = {SchemaChange: 0, Change: 1, Watermark: 2}
        events: list[Event] = [*grown, *self.changes, *watermarks]
        return [*created, *sorted(events, key=lambda e: (e.time, order[type(e)]))]

    def sent(self) -> list[list[Sent]]:
        """Return the messages, in the order in which they are sent, by batch."""
        chance = random.Random(f"sent {self.seed}")
        senders = [_Sender(n, self) for n in self.schedules]
        messages: list[Sent] = [(None, event) for event in self.history[: len(self.tables)]]
        cuts: list[float] = [0.0, *sorted(chance.uniform(0, len(self.bounds)) for _ in range(self.batches - 1))]
        batches: list[list[Sent]] = [[] for _ in cuts]
        for step, bound in enumerate(self.bounds):
            # By the time, a part of a step, at which it is sent: a batch is what was sent between two moments.
            step_chance = random.Random(f"step {self.seed} {step}")
            timed: list[tuple[float, Sent]] = [(0.0, message) for message in messages]
            for sender in senders:
                timed += sender.send_up_to(bound)
            if step and step_chance.random() < 0.5:
                regressed = Watermark(step_chance.randint(1, min(self.bounds[step - 1], _REGRESSED)))
                timed.append((step_chance.random(), (None, regressed)))
            messages = [(None, g) for g in self.growth.values() if g.time == bound and g.table in self.tables]
            if bound == _TIMES:
                messages.append((None, Watermark(bound)))
            elif step_chance.random() < 0.5:  # as a rule it lags behind what was sent
                messages.append((None, Watermark(step_chance.choice(self.bounds[max(0, step - 2) : step + 1]))))
            for moment, message in sorted(timed, key=lambda t: t[0]):
                batches[sum(cut <= step + moment for cut in cuts) - 1].append(message)
        batches[-1] += messages
        return batches

    def message(self, event: Event) -> Said:
        """Return an event as a message of the Simple protocol."""
        head = {"version": 1, "commitTs": tso(event.time), "buildTs": 1}
        if isinstance(event, Watermark):
            return {**head, "type": "WATERMARK"}
        table, grown = TABLES[event.table], self.growth[event.table].time
        if isinstance(event, SchemaChange):
            kind = event.sql.split()[0]
            before = {"preTableSchema": table.schema(0, grown=False)} if kind == "ALTER" else {}
            schema = table.schema(event.time, grown=kind == "ALTER")
            return {**head, "type": kind, "sql": event.sql, "tableSchema": schema, **before}
        kind = "DELETE" if event.data is None else "INSERT" if event.old is None else "UPDATE"
        version = tso(grown if event.time > grown else 0)
        place = {"database": "d", "table": table.name, "tableID": crc32(table.name.encode()), "schemaVersion": version}
        sides = {side: row for side, row in (("data", event.data), ("old", event.old)) if row is not None}
        return {**head, "type": kind, **place, **{side: _texts(row) for side, row in sides.items()}}


def _texts(row: Row) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}


def _changes(seed: int, pack: Pack) -> Iterator[Change]:
    """Yield what happens to a schedule's rows: inserts, updates, deletes, and keys that change."""
    chance, number = random.Random(f"changes {seed}"), 0
    rows: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}
    moments = sorted(set(range(1, _TIMES + 1)) - {g.time for g in pack.growth.values()})
    for time in sorted(chance.sample(moments, chance.randint(3, 15))):
        for name in chance.sample(list(TABLES), chance.randint(1, 3)):
            table, there = TABLES[name], rows[name]
            if time > pack.growth[name].time:
                for row in there.values():
                    row.setdefault("more", table.default)
            before, moved = {key: dict(row) for key, row in there.items()}, set[Key]()
            for _ in range(chance.choice([1, 1, 1, 2])):
                number += 1
                new: Row = {"at": number}
                if time > pack.growth[name].time:
                    new["more"] = chance.choice([1, 2, table.default])
                mine = [*there]
                match chance.choice(["put", "put", "delete", "move", "swap"]) if table.key else "append":
                    case "append":
                        yield Change(seed, name, time, None, {"schedule": seed, **new})
                    case "put":
                        key = _key(name, seed, chance.randrange(KEYS))
                        there[key] = {**dict(zip(table.key, key, strict=True)), **new}
                    case "delete" if mine:
                        del there[chance.choice(mine)]
                    case "move" if mine:
                        there.pop(chance.choice(mine))
                        key = _key(name, seed, chance.randrange(KEYS))
                        there[key] = {**dict(zip(table.key, key, strict=True)), **new}
                    case "swap" if len(mine) > 1:
                        for key in chance.sample(mine, 2):
                            number += 1
                            there[key] = {**there[key], **new, "at": number}
                            moved.add(key)
            for key in sorted({*before, *there} if table.key else (), key=str):
                old, now = before.get(key), dict(there[key]) if key in there else None
                if old and now and key in moved:  # a row that got another key, and one that got the key of this
                    yield Change(seed, name, time, old, None)
                    yield Change(seed, name, time, None, now)
                elif old != now:
                    yield Change(seed, name, time, old, now)


def _key(table: str, seed: int, number: int) -> Key:
    return (seed * KEYS + number,) if table == "one" else (seed, f"k{number}")


class _Sender:
    """Sends the messages of one schedule, step by step: each table by itself, as TiCDC does."""

    def __init__(self, seed: int, pack: Pack) -> None:
        self._pack, self._chance = pack, random.Random(f"sender {seed}")
        by = ["key", "key", "table", *(["ts"] if pack.scatters else [])]
        self._seed, self._by = seed, self._chance.choice(by)
        self._reached = dict.fromkeys(TABLES, 0)
        self._again = self._chance.choice([0.1, 0.3, 0.6])  # how often it starts again
        self._events: dict[str, list[Change | SchemaChange]] = {name: [] for name in TABLES}
        for change in pack.changes:
            if change.schedule == seed:
                self._events[change.table].append(change)
        for name in pack.tables:  # a restart tells schema changes again, but a hundred of them need not all do so
            if self._chance.random() < 0.1:
                self._events[name].append(pack.growth[name])
                self._events[name].sort(key=lambda e: e.time)

    def send_up_to(self, bound: int) -> list[tuple[float, Sent]]:
        """Return the messages of a step, each with the part of the step that has passed then."""
        chance, timed = self._chance, list[tuple[float, Sent]]()
        for name in TABLES:
            grows = self._pack.growth[name].time
            latest = grows if bound <= grows else _TIMES
            sent = list(self._table(name, chance.randint(bound, min(latest, bound + _AHEAD))))
            moments = sorted(chance.random() for _ in sent)
            timed += zip(moments, sent, strict=True)
        return timed

    def _table(self, name: str, target: int) -> Iterator[Sent]:
        """Send a table's events up to a moment, with restarts on the way."""
        chance = self._chance
        start = self._reached[name]
        target = max(target, start)
        while chance.random() < self._again:
            again = chance.randint(0, start)
            until = chance.randint(again, target)
            yield from self._range(name, again, until, first=self._reached[name])
            self._reached[name] = max(self._reached[name], until)
            start = until
        yield from self._range(name, start, target, first=self._reached[name])
        self._reached[name] = target

    def _range(self, name: str, after: int, until: int, *, first: int) -> Iterator[Sent]:
        for event in self._events[name]:
            if after < event.time <= until:
                if isinstance(event, SchemaChange):
                    if event.time < first:  # the first time it waits for all schedules
                        yield None, event
                    continue
                for _ in range(2 if self._chance.random() < 0.05 else 1):
                    yield self._partition(event), event

    def _partition(self, change: Change) -> int:
        key = change.key if TABLES[change.table].key else ""
        by = {"key": f"{change.table} {key}", "table": change.table, "ts": str(change.time)}[self._by]
        return crc32(f"{self._seed} {by}".encode()) % self._pack.partitions
