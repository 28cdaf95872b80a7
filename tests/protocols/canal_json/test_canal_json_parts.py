"""The members that rows share are parsed once for all: a message says the same in any order of its members."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidecast.protocols import Decoded
from tidecast.protocols.canal_json import PROTOCOL, _parse
from tidecast.protocols.canal_json._columns import CanalDecoder

_BEGIN = '"id":0,"database":"shop","table":"t","pkNames":["id"],"isDdl":false,"type":"INSERT"'
_TIMES = '"es":1700000000000,"ts":1700000000001'
_TYPES = '"sql":"","sqlType":{"id":4,"n":12},"mysqlType":{"id":"int","n":"varchar(9)"}'
_ROW = '"old":null,"data":[{"id":"1","n":"a"}],"_tidb":{"commitTs":445664083148800001}'
_IN_ORDER = [_BEGIN, _TIMES, _TYPES, _ROW]
_OTHERS = [
    '"type":"DELETE"',
    '"es":1',
    '"ts":{"a":1',
    '"id":{"a":1',
    '"a":1}',
    '"database":"other"',
    '"sqlType":{"id":4}',
    '"sqlType":null',
    '"mysqlType":{"id":"int"',
    '"n":"text"}',
    '"pkNames":null',
    '"old":[{"n":"b"}],"type":"UPDATE"',
    '"data":[{"id":"2","n":"b"}]',
    '"data":[{"id":3,"n":"b","n":"c"}]',
    '"_tidb":{"commitTs":445664083148800002}',
    '"_tidb":null',
    "",
]


@pytest.fixture(autouse=True, scope="module")
def _first_rows_too() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parse, "_FREQUENT", 0)
        yield


def _decoded(value: bytes) -> Decoded:
    return CanalDecoder().decode(pa.RecordBatch.from_pydict({"value": pa.array([value], pa.binary())}))


def _told(value: bytes) -> object:
    """Return all that a message says."""
    decoded = _decoded(value)
    rows = [
        (one.version.schema, *(getattr(one, name).to_pylist() for name in ("op", "commit_ts", "old", "data", "detail")))
        for one in decoded.rows
    ]
    return rows, [one.reason.to_pylist() for one in decoded.rejected], decoded.control.tolist()


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("", ""),
        ('"id":"1"', '"id":1.0'),
        ('"id":"1"', '"id":null'),
        ('"a"', '"a","n":"b"'),
        ('"a"', r'"a\n\u00e9\\\"\ud83d\ude00é😀"'),
        ('"a"', r'"\ud83d"'),
        ('"a"', r'"\x"'),
        ('"a"', '"\t"'),
        ('"old":null', '"old":[{"id":"2","n":null}]'),
        ("445664083148800001", "0445664083148800001"),
        ("445664083148800001", "9445664083148800001"),
        (',"_tidb":{"commitTs":445664083148800001}', ""),
        (',"_tidb":{"commitTs":445664083148800001}', ',"_tidb":{"onlyHandleKey":true,"commitTs":445664083148800001}'),
    ],
)
@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE"])
def test_a_row_in_another_order_says_the_same(kind: str, written: str, other: str) -> None:
    begin, row = _BEGIN.replace("INSERT", kind), _ROW.replace(written, other)
    shown = f"{{{','.join([begin, _TIMES, _TYPES, row])}}}".encode()
    turned = f"{{{','.join([row, begin, _TIMES, _TYPES])}}}".encode()
    assert _told(shown) == _told(turned)


@example([(1, '"id":{"a":1'), (3, '"sql":"","a":1}'), (6, '"_tidb":null')])
@example([(2, '"ts":{"a":1'), (4, '"old":null,"a":1}')])
@example([(3, '"es":1'), (6, '"_tidb":null')])
@example([(3, '"sqlType":null')])
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(_OTHERS)), min_size=1, max_size=3))
def test_members_at_wrong_places_are_read_as_json_says(others: list[tuple[int, str]]) -> None:
    parts = [*_IN_ORDER]
    for place, other in others:
        parts.insert(place, other)
    value = f"{{{','.join(parts)}}}".encode()
    try:
        members = json.loads(value)
    except ValueError:
        assert _told(value) == ([], [["bad-json"]], [])
        return
    if '"n":"c"' not in value.decode():  # one that shows a column twice does not survive
        assert _told(value) == _told(json.dumps(dict(reversed(members.items())), separators=(",", ":")).encode())


def test_an_empty_location_is_that_of_no_other_message() -> None:
    tidb = '"_tidb":{"commitTs":445664083148800001,"onlyHandleKey":false,"claimCheckLocation":""}'
    value = f"{{{','.join([_BEGIN, _TIMES, _TYPES, _ROW])}}}".replace('"_tidb":{"commitTs":445664083148800001}', tidb)
    assert '"claimCheckLocation"' in value
    decoded = _decoded(value.encode())
    assert (len(decoded.rows), decoded.rejected) == (1, [])
    assert PROTOCOL.claim_check_locations is not None
    assert PROTOCOL.claim_check_locations(pa.array([value.encode()])).to_pylist() == [None]


def test_a_row_as_ticdc_writes_it_is_taken_apart() -> None:
    """Else the tests above compare a parser with itself."""
    said = _parse._in_parts(f"{{{','.join(_IN_ORDER)}}}".encode())
    assert said is not None
    assert said.rows == [{"id": "1", "n": "a"}]


def test_a_long_value_of_escapes_needs_little_memory() -> None:
    value = f"{{{','.join(_IN_ORDER)}}}".replace('"a"', json.dumps("\n" * 500_000)).encode()
    tracemalloc.start()
    try:
        said = _parse.parse(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(said, _parse.Said)
    assert said.rows == [{"id": "1", "n": "\n" * 500_000}]
    assert peak < 30 * len(value)
