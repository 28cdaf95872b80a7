"""Schedules keep to TiCDC's contract, and are the same alone."""

from __future__ import annotations

import pytest
from chaos import Change, Pack, SchemaChange, Watermark


@pytest.fixture(scope="module", params=range(3))
def pack(request: pytest.FixtureRequest) -> Pack:
    return Pack(request.param)


def test_everything_is_sent_and_much_of_it_again(pack: Pack) -> None:
    sent = [event for batch in pack.sent() for _, event in batch]
    changes = [event for event in sent if isinstance(event, Change)]
    assert set(changes) == set(pack.changes)
    assert len(changes) > 2 * len(pack.changes)
    alters = [event for event in sent if isinstance(event, SchemaChange) and event.time]
    assert len(alters) > len(set(alters)) == len(pack.tables)
    assert {c.table for c in pack.changes} == set(pack.tables)
    assert any(not c.data for c in pack.changes)


def test_a_watermark_comes_after_all_that_it_covers(pack: Pack) -> None:
    known, watermarks = set[Change](), list[int]()
    for _, event in (message for batch in pack.sent() for message in batch):
        if isinstance(event, Change):
            known.add(event)
        elif isinstance(event, Watermark):
            watermarks.append(event.time)
            assert all(change in known for change in pack.changes if change.time <= event.time)
    assert watermarks != sorted(watermarks)


def test_a_schema_change_comes_between_the_rows_of_its_table(pack: Pack) -> None:
    known = set[object]()
    for _, event in (message for batch in pack.sent() for message in batch):
        grows = pack.growth[event.table] if isinstance(event, Change) else event
        if isinstance(event, Change) and event.time > grows.time:
            assert grows in known
        if isinstance(event, SchemaChange) and event not in known and event.time:
            mine = [change for change in pack.changes if change.table == event.table]
            assert all(change in known for change in mine if change.time < event.time)
        known.add(event)


def test_the_changes_of_a_key_come_in_order_at_first(pack: Pack) -> None:
    newest: dict[object, int] = {}
    known = set[Change]()
    for _, event in (message for batch in pack.sent() for message in batch):
        if isinstance(event, Change) and event not in known:
            place = event.schedule, event.table
            assert newest.get(place, 0) <= event.time
            newest[place] = event.time
            known.add(event)


def test_a_schedule_alone_is_the_same_as_among_others(pack: Pack) -> None:
    seed = pack.schedules[7]
    alone = Pack(pack.seed, alone=seed)
    for one, other in zip(alone.sent(), pack.sent(), strict=True):
        mine = [(p, told(e)) for p, e in one if isinstance(e, Change)]
        assert mine == [(p, told(e)) for p, e in other if isinstance(e, Change) and e.schedule == seed]


def told(change: Change) -> tuple[object, ...]:
    return change.table, change.time, change.old, change.data
