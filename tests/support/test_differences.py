"""What a comparison that fails tells."""

from __future__ import annotations

from typing import Any

import pytest
from differences import assert_messages_equal, assert_rows_equal

MESSAGES = {7: {"n": 353, "kind": "dml", "db": "orc", "table": "t_all"}, 8: {"n": 400, "kind": "watermark"}}


@pytest.mark.parametrize(
    ("got", "expected", "place", "ours", "theirs"),
    [
        (b'{"data":{"id":"1","d":"1.0"}}', b'{"data":{"id":"1","d":"1.00"}}', "data.d", "'1.0'", "'1.00'"),
        (("k", '{"a":[1,2]}'), ("k", '{"a":[1,3]}'), "[1].a[1]", "2", "3"),
        ({"id": 1}, {"id": 1, "v": None}, "v", "nothing", "None"),
        (b'{"a": 1}', b'{"a":1}', "", "b'{\"a\": 1}'", "b'{\"a\":1}'"),
        (
            b"\0" * 50 + b"\1",
            b"\0" * 50 + b"\2",
            "[50]",
            "…" + repr(b"\0" * 40 + b"\1"),
            "…" + repr(b"\0" * 40 + b"\2"),
        ),
        (b'{"a":1}', b'{"a":1.0}', "a", "1", "1.0"),
    ],
    ids=["json", "in a list", "missing", "spaces", "bytes", "types"],
)
def test_a_message_that_differs_is_shown_by_its_first_difference(
    got: Any, expected: Any, place: str, ours: str, theirs: str
) -> None:
    with pytest.raises(AssertionError) as error:
        assert_messages_equal({7: got, 8: "same"}, {7: expected, 8: "same"}, MESSAGES)
    assert str(error.value) == (
        f"1 of 2 messages differ, first event 353 of orc.t_all{place and ' at ' + place}:\n"
        f"  got      {ours}\n  expected {theirs}"
    )


def test_messages_that_are_missing_or_too_many_are_named() -> None:
    with pytest.raises(AssertionError, match=r"1 of 2 messages are missing: event 400 of watermark$"):
        assert_messages_equal({7: "a"}, {7: "a", 8: "b"}, MESSAGES)
    with pytest.raises(AssertionError, match=r"1 of 1 messages are unexpected: at 9$"):
        assert_messages_equal({7: "a", 9: "b"}, {7: "a"}, MESSAGES)
    with pytest.raises(AssertionError, match=r"are missing: event 353 of orc.t_all at topic/0/5$"):
        assert_messages_equal({}, {("topic", 0, 5): "a"}, {("topic", 0, 5): MESSAGES[7]})
    assert_messages_equal({7: "a"}, {7: "a"}, MESSAGES)


def test_a_row_that_differs_is_shown_beside_the_one_that_is_nearest() -> None:
    rows = [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": "y", "b": 3}]
    assert_rows_equal(reversed(rows), rows, "d.t")
    with pytest.raises(AssertionError) as error:
        assert_rows_equal([rows[0], {"id": 2, "a": "y", "b": 4, "c": 0}], rows, "d.t")
    assert str(error.value).splitlines() == [
        "d.t: 1 of 2 rows are missing, 1 are unexpected, first the row with {'a': 'y', 'id': 2}",
        "  column b: got 4, expected 3",
        "  column c: got 0, expected 'no such column'",
    ]
    with pytest.raises(AssertionError, match=r"d.t: 1 of 2 rows are missing, 0 are unexpected, first \{'a': 'y'"):
        assert_rows_equal(rows[:1], rows, "d.t")
    with pytest.raises(AssertionError, match="0 of 1 rows are missing, 1 are unexpected"):
        assert_rows_equal([rows[0], rows[0]], rows[:1], "d.t")
