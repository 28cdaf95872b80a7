"""The members that rows share are parsed once for all: a message says the same in any order of its members."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidecast.protocols import Decoded
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


@pytest.mark.parametrize("row", [_ROW, _ROW.replace('"id":"1"', '"id":1.0'), _ROW.replace('"a"', '"a","n":"b"')])
def test_a_row_in_another_order_says_the_same(row: str) -> None:
    shown = f"{{{','.join([*_IN_ORDER[:3], row])}}}".encode()
    other = f"{{{','.join([row, *_IN_ORDER[:3]])}}}".encode()
    assert _told(shown) == _told(other)
    assert _decoded(shown).rows


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
