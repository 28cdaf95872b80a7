"""Row changes as Arrow columns on their way to a table, without Spark: causes, keys, rows, slots."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from chaos_topic import RECORD
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from tidecast._policy import OnError, OnMismatch, OnUnrepresentable
from tidecast.checksum import Verdict
from tidecast.model import Column, DataType, Index, Reason, TableSchema
from tidecast.model._events import _within
from tidecast.replica.apply._changes import _at_door, _Door, _refused_keys
from tidecast.replica.apply._newest import _InSlots, _slotted
from tidecast.replica.settle import Policy, Slots
from tidecast.replica.settle._check import _Check, _checked, _refused
from tidecast.replica.tables import Contents
from tidecast.sources._passes import _made
from tidecast.sources._stream import _fresh
from tidecast.values import row_type

_INT, _BORN, _NAME = DataType("int"), DataType("date"), DataType("varchar", "utf8mb4", length=20)
_SCHEMA = TableSchema(
    "d",
    "t",
    1,
    1,
    (Column("id", _INT, False), Column("born", _BORN), Column("name", _NAME)),
    (Index("PRIMARY", True, True, False, ("id",)),),
)
_VERIFICATION = pa.struct(
    {"verdict": pa.string(), "expected": pa.int64(), "actual": pa.int64(), "corrupted": pa.bool_()}
)
_GOOD = {"verdict": str(Verdict.MATCH), "expected": 1, "actual": 1, "corrupted": False}

Row = Mapping[str, Any]


def changes(*rows: Row) -> pa.RecordBatch:
    """Return changes of `_SCHEMA`, each given by its columns that are not null."""
    kind = row_type(_SCHEMA)
    types = {
        **{f.name: f.type for f in RECORD},
        "headers": pa.string(),
        "op": pa.string(),
        "commit_ts": pa.int64(),
        "old": kind,
        "data": kind,
        "verdict": pa.string(),
        "corrupted": pa.bool_(),
        "reason": pa.string(),
        "detail": pa.string(),
        "verification": _VERIFICATION,
    }
    known = {"topic": "t", "partition": 0, "op": "u", "verification": _GOOD}
    return pa.RecordBatch.from_pydict(
        {name: pa.array([{**known, **row}.get(name) for row in rows], of) for name, of in types.items()}
    )


def row(key: int | None, born: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"id": key, "born": born, "name": name}


def checked(rows: pa.RecordBatch, **options: Any) -> list[tuple[str | None, str | None]]:
    given: dict[str, Any] = {"refusal": None, "log": False, **options}
    policy = given.pop("policy", Policy(OnError.DEAD_LETTER, OnMismatch.DEAD_LETTER))
    made = _checked(_Check(_SCHEMA, policy, **given), rows)
    assert made.schema.names[-4:] == ["verdict", "corrupted", "reason", "detail"]
    return [(one["reason"], one["detail"]) for one in made.to_pylist()]


_MISMATCH = {"verdict": str(Verdict.MISMATCH), "expected": 7, "actual": 8, "corrupted": False}
_FAIL = Policy(OnError.DEAD_LETTER, OnMismatch.DEAD_LETTER, OnUnrepresentable.FAIL)


@pytest.mark.parametrize(
    ("change", "options", "cause"),
    [
        ({"data": row(1)}, {}, (None, None)),
        ({"data": row(None)}, {}, (Reason.BAD_VALUE, "NULL in the key: id")),
        ({"op": "d", "old": row(None), "data": None}, {}, (Reason.BAD_VALUE, "NULL in the key: id")),
        ({"data": row(1, "2024-02-30")}, {}, (None, None)),
        (
            {"data": row(1, "2024-02-30")},
            {"policy": _FAIL},
            (Reason.BAD_VALUE, "the table cannot hold the value of born"),
        ),
        # A delete shows the row before it to a log alone.
        ({"op": "d", "old": row(1, "0000-00-00")}, {"policy": _FAIL}, (None, None)),
        (
            {"op": "d", "old": row(1, "0000-00-00")},
            {"policy": _FAIL, "log": True},
            (Reason.BAD_VALUE, "the table cannot hold the value of born"),
        ),
        (
            {"data": row(1), "verification": _MISMATCH},
            {},
            (Reason.CHECKSUM_MISMATCH, "expected 7, actual 8"),
        ),
        (
            {"data": row(1), "verification": {**_MISMATCH, "expected": None}},
            {},
            (Reason.CHECKSUM_MISMATCH, "expected no number, actual 8"),
        ),
        (
            {"data": row(1), "verification": _MISMATCH},
            {"policy": Policy(OnError.DEAD_LETTER, OnMismatch.APPLY)},
            (None, None),
        ),
        # The first cause counts.
        ({"data": row(None), "verification": _MISMATCH}, {}, (Reason.BAD_VALUE, "NULL in the key: id")),
        ({"reason": "bad-json", "detail": "no JSON", "data": row(None)}, {}, ("bad-json", "no JSON")),
        (
            {"data": row(None)},
            {"refusal": (Reason.TABLE_REFUSED, "no such column")},
            (Reason.TABLE_REFUSED, "no such column"),
        ),
    ],
)
def test_why_a_row_is_not_applied(change: Row, options: dict[str, Any], cause: tuple[str | None, str | None]) -> None:
    """A row's neighbours have no say."""
    assert checked(changes({"data": row(5)}, change, {"data": row(6)}), **options)[1] == cause


def test_all_rows_of_a_table_are_refused_but_what_could_not_be_read_says_why() -> None:
    made = _refused("no table", changes({"data": row(1)}, {"reason": "bad-json", "detail": "no JSON"})).to_pylist()
    assert [(one["verdict"], one["reason"], one["detail"]) for one in made] == [
        (None, "table-refused", "no table"),
        ("unreadable", "bad-json", "no JSON"),
    ]


def door(**given: Any) -> _Door:
    columns = {c.name: c for c in _SCHEMA.columns}
    known: dict[str, Any] = {
        "row": {"id": T.LongType(), "born": T.DateType(), "name": T.StringType(), "rank": T.IntegerType()},
        "key": {"id": T.LongType()},
        "there": columns,
        "fills": {"rank": pa.scalar(3, pa.int32())},
        "doubtful": ["born"],
        "contents": Contents(),
        "has_rows": True,
        "may_move": True,
    }
    return _Door(**{**known, **given})


def at_door(rows: pa.RecordBatch, **given: Any) -> list[dict[str, Any]]:
    made = _at_door(door(**given), rows).to_pylist()
    return [{name: one[name] for name in ("offset", "fits", "key", "deleted", "after")} for one in made]


def after(**values: Any) -> dict[str, Any]:
    return {"row": {"id": None, "born": None, "name": None, "rank": 3, **values}, "lost": [False]}


def test_rows_have_the_columns_and_types_of_the_table() -> None:
    made = at_door(
        changes(
            {"offset": 1, "op": "c", "data": row(1, "2024-02-29", "ann")},
            {"offset": 2, "op": "d", "old": row(2, "2024-02-29", "bob")},
            {"offset": 3, "data": row(3, "2024-02-30"), "reason": "bad-value"},
            {"offset": 4, "data": row(4, "0000-00-00")},
        )
    )
    assert made == [
        {
            "offset": 1,
            "fits": True,
            "key": {"id": 1},
            "deleted": False,
            "after": after(id=1, born=dt.date(2024, 2, 29), name="ann"),
        },
        {"offset": 2, "fits": True, "key": {"id": 2}, "deleted": True, "after": None},
        {"offset": 3, "fits": False, "key": None, "deleted": False, "after": None},
        {"offset": 4, "fits": True, "key": {"id": 4}, "deleted": False, "after": {**after(id=4), "lost": [True]}},
    ]


@pytest.mark.parametrize("reason", [None, "bad-value"])
def test_an_update_of_a_key_deletes_the_row_under_the_old_one(reason: str | None) -> None:
    rows = changes(
        {"offset": 1, "old": row(1), "data": row(1, name="x")},
        {"offset": 2, "old": row(2), "data": row(20), "reason": reason},
    )
    made = [(one["offset"], one["key"] and one["key"]["id"], one["deleted"]) for one in at_door(rows)]
    changed = [(2, 20, False), (2, 2, True)] if reason is None else [(2, None, False)]
    assert made == [(1, 1, False), *changed]


def test_a_log_has_the_row_before_a_delete_and_no_default_in_it() -> None:
    contents = Contents.parse("log")
    (one,) = at_door(changes({"op": "d", "old": row(2, name="bob")}), contents=contents, key={}, may_move=False)
    assert one["key"] is None
    assert one["after"]["row"] == {"id": 2, "born": None, "name": "bob", "rank": None}
    assert one["after"]["metadata"]["_op"] == "d"


def test_the_keys_of_changes_that_are_not_applied() -> None:
    rows = changes(
        {"offset": 1, "data": row(1)},
        {"offset": 2, "data": row(2), "reason": "bad-value"},
        {"offset": 3, "old": row(3), "data": row(30), "reason": "bad-value"},
        {"offset": 4, "data": row(None), "reason": "bad-value"},
        {"offset": 5, "op": "d", "old": row(5), "reason": "bad-value"},
    )
    found = [(one["offset"], one["key"] and one["key"]["id"]) for one in _refused_keys(door(), rows).to_pylist()]
    assert sorted(found, key=str) == [(2, 2), (3, 3), (3, 30), (4, None), (5, 5)]


_KINDS = st.lists(st.sampled_from([T.IntegerType(), T.LongType(), T.StringType(), T.DecimalType(4, 1)]), max_size=5)


@given(st.lists(_KINDS, min_size=1, max_size=4))
def test_each_table_has_slots_of_its_types_and_none_is_left_over(tables: Sequence[Sequence[T.DataType]]) -> None:
    slots = Slots.of(tables)
    used = set[int]()
    for types in tables:
        places = slots.places(types)
        assert [slots.types[n] for n in places] == [*types]
        assert len({*places}) == len(types)
        used |= {*places}
    assert used == {*range(len(slots.types))}


def test_rows_in_slots() -> None:
    types = [T.LongType(), T.DateType(), T.StringType(), T.IntegerType()]
    keys, rows = Slots.of([[T.IntegerType()], [T.LongType()]]), Slots.of([[T.LongType()] * 2, types])
    slots = _InSlots(7, keys, keys.places([T.LongType()]), rows, rows.places(types))
    given = changes({"data": row(1, name="x")}, {"op": "d", "old": row(2)}, {"data": row(3), "reason": "bad-value"})
    made = _slotted(slots, _at_door(door(), given)).to_pylist()
    used, other = (f"s{n}" for n in (keys.places([T.LongType()])[0], keys.places([T.IntegerType()])[0]))
    assert [(one["table"], one["key"]) for one in made] == [
        (7, {used: 1, other: None}),
        (7, {used: 2, other: None}),
        (7, None),
    ]
    of_row = {f"s{n}": value for n, value in zip(rows.places(types), (1, None, "x", 3), strict=True)}
    nothing = dict.fromkeys(rows.struct.names)
    assert [one["after"] and one["after"]["row"] for one in made] == [{**nothing, **of_row}, None, None]


@pytest.mark.parametrize(
    ("watermarks", "covered", "waited", "ordered", "fresh"),
    [
        ({"t/0": 10}, -1, {}, False, [False, True, True, True, True]),
        ({"": 10}, -1, {}, True, [False, True, False, True, True]),
        ({"t/0": 10}, 6, {}, False, [False, True, False, True, True]),
        # What waited for its schema is fresh, though its watermark has passed.
        ({"t/0": 10}, -1, {"t/0": 1}, False, [True, True, True, True, True]),
    ],
)
def test_rows_that_came_in_an_earlier_batch(
    watermarks: dict[str, int], covered: int, waited: dict[str, int], ordered: bool, fresh: list[bool]
) -> None:
    rows = changes(
        {"offset": 1, "commit_ts": 10},
        {"offset": 2, "commit_ts": 11},
        {"offset": 3, "commit_ts": 5, "partition": 1},
        {"offset": 4},
        {"offset": 5, "commit_ts": 3, "reason": "bad-json"},
    )
    assert _fresh(watermarks, covered, waited, ordered, rows).to_pylist() == fresh


@pytest.mark.parametrize(("untimed", "offsets"), [(True, [2, 3, 5]), (False, [2, 3])])
def test_rows_between_two_commit_ts(untimed: bool, offsets: list[int]) -> None:
    rows = changes(*({"offset": n, "commit_ts": ts} for n, ts in enumerate([1, 2, 4, 5, None], 1)))
    assert _within(2, 4, untimed, rows).column("offset").to_pylist() == offsets


def test_what_is_refused_has_the_types_of_what_is_checked() -> None:
    """Spark takes no two batches of a task whose Arrow types differ."""
    rows = changes({"data": row(1), "verification": _MISMATCH})
    policy, names = (
        Policy(OnError.DEAD_LETTER, OnMismatch.DEAD_LETTER),
        ("topic", "value", "verdict", "reason", "detail"),
    )
    checked_rows = partial(_checked, _Check(_SCHEMA, policy, None, log=False))
    made = [_made([step, lambda b: b.select(names)], rows).schema for step in (checked_rows, partial(_refused, "no"))]
    assert made[0] == made[1]
