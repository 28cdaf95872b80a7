"""Orders in which TiCDC may deliver the same messages, and the tables that they come to.

Source: Changefeeds, delivery.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from tidecast.conformance._cases import PROTOCOLS, Case, Protocol, Record, final_table
from tidecast.conformance._golden import Event, Golden, Message, golden

_PARTITIONS = 3
_KEYED, _LOG = "t_hash", "t_nokey"
_TABLES = (_KEYED, _LOG)

Sent = tuple[int | None, Message]
"""A message and its partition; None for all of them."""


@dataclass(frozen=True)
class _History:
    """The messages of a case in the order of their commits: what tells of tables, and rows."""

    head: Sequence[Message]
    rows: Sequence[Message]
    events: Mapping[int, Event]

    def commit_ts(self, message: Message) -> int:
        return int(self.events[message.n].commit_ts or 0)

    def by_key(self, message: Message) -> int:
        """Return the partition of a row by its key, as the dispatcher `index-value` does."""
        event = self.events[message.n]
        row = event.new or event.old or {}
        return crc32(str(row.get("id", event.table)).encode()) % _PARTITIONS

    def by_time(self, message: Message) -> int:
        """Return the partition of a row by its commit-ts, as the dispatcher `ts` does."""
        return crc32(str(self.commit_ts(message)).encode()) % _PARTITIONS


Deliver = Callable[[_History, random.Random], list[Sent]]


def _in_order(history: _History, _: random.Random) -> list[Sent]:
    return [(history.by_key(m), m) for m in history.rows]


def _duplicates(history: _History, chance: random.Random) -> list[Sent]:
    return [(history.by_key(m), m) for m in history.rows for _ in range(chance.choice([1, 1, 2, 3]))]


def _replays(history: _History, chance: random.Random) -> list[Sent]:
    """Return rows with restarts: each sends everything after an earlier commit-ts again, and all ends are reached."""
    return _in_order_of(history, [*_restarts(history, chance), len(history.rows)])


def _cut_short(history: _History, chance: random.Random) -> list[Sent]:
    """Return rows of which the last restart has just begun: old states of rows come last."""
    whole = len(history.rows)
    return [*_in_order_of(history, [*_restarts(history, chance), whole]), *_in_order(history, chance)[: whole // 2]]


def _restarts(history: _History, chance: random.Random) -> list[int]:
    return sorted(chance.sample(range(len(history.rows) // 4, len(history.rows)), 3))


def _in_order_of(history: _History, ends: Sequence[int]) -> list[Sent]:
    rows = _in_order(history, random.Random())
    found: list[Sent] = []
    start = 0
    for end in ends:
        found += rows[start:end]
        start = end // 2
        while 0 < start < len(rows) and _same_time(history, rows, start):
            start -= 1  # a restart begins with a whole transaction
    return found


def _same_time(history: _History, rows: Sequence[Sent], place: int) -> bool:
    return history.commit_ts(rows[place - 1][1]) == history.commit_ts(rows[place][1])


def _interleaved(history: _History, chance: random.Random) -> list[Sent]:
    """Return rows as a reader gets them that is fast in one partition and slow in another."""
    return _mixed([(history.by_key(m), m) for m in history.rows], chance)


def _scattered(history: _History, chance: random.Random) -> list[Sent]:
    """Return the changes of one key in several partitions, where the commit-ts alone tells which is the newest."""
    return _mixed([(history.by_time(m), m) for m in history.rows], chance)


def _mixed(sent: Sequence[Sent], chance: random.Random) -> list[Sent]:
    """Return messages in another order, in which those of each partition stay as they are."""
    queues = [[message for message in sent if message[0] == place] for place in range(_PARTITIONS)]
    weights = [9, 3, 1]
    found: list[Sent] = []
    while any(queues):
        (place,) = chance.choices(range(_PARTITIONS), [w * bool(q) for w, q in zip(weights, queues, strict=True)])
        found.append(queues[place].pop(0))
    return found


_SCHEDULES: Mapping[str, tuple[Deliver, bool]] = {
    "in order": (_in_order, False),
    "duplicates": (_duplicates, False),
    "replays": (_replays, False),
    "partitions at other paces": (_interleaved, False),
    "replay cut short": (_cut_short, True),
    "one key in several partitions": (_scattered, True),
}
"""How messages are delivered, and whether the tables can only be told where deletes have a commit-ts."""


def schedule_cases() -> Iterator[Case]:
    """Yield a case for each protocol and schedule: the same messages of two tables, delivered in another order."""
    known = golden()
    for name, protocol in PROTOCOLS.items():
        if name == "avro-precise":
            continue
        history = _history(known, protocol)
        for feature, (deliver, needs_time) in _SCHEDULES.items():
            if needs_time and not protocol.orders_deletes:
                continue
            case = Case(f"{name}.{feature.replace(' ', '-')}", protocol.name, "tables", protocol.variant, name)
            # Everybody gets the same orders, every time.
            sent = [*((None, m) for m in history.head), *deliver(history, random.Random(feature))]
            case.records += _records(sent)
            for table in _TABLES:
                events = [known.events[m.n] for _, m in sent if m.table == table and m.kind == "dml"]
                if events:
                    columns = known.columns_of(events[0])
                    case.tables.append(final_table(known, protocol, events, feature, columns))
            yield case


def _history(known: Golden, protocol: Protocol) -> _History:
    mine = [m for m in known.messages[protocol.variant] if m.table in _TABLES and not m.damaged]
    # Bootstraps would only come between.
    return _History([m for m in mine if m.kind == "ddl"], [m for m in mine if m.kind == "dml"], known.events)


def _records(sent: Sequence[Sent]) -> Iterator[Record]:
    ends = dict.fromkeys(range(_PARTITIONS), 0)
    for place, message in sent:
        for partition in range(_PARTITIONS) if place is None else [place]:
            yield Record(partition, ends[partition], message.key, message.value)
            ends[partition] += 1
