"""Fields of lines: Arrow's reader and a regular expression of ours agree, whatever stands in a line."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidecast._csv_format import CsvFormat
from tidecast.protocols.csv._fields import UNMARKED, _by_arrow, _splitter, fields_of

pytestmark = pytest.mark.unit

_FORM = CsvFormat()
_LINES = st.lists(st.text('",\r\n\\Na1 é', max_size=12).map(str.encode), min_size=1, max_size=6)
_VALUES = st.lists(st.lists(st.one_of(st.none(), st.text(max_size=8)), min_size=3, max_size=3), min_size=1, max_size=6)


def _column(lines: list[bytes]) -> pa.Array:
    return pa.array(lines, pa.large_binary())


@given(_LINES, st.integers(1, 4))
def test_arrow_reads_what_the_expression_reads(lines: list[bytes], count: int) -> None:
    slow = [_splitter(_FORM)(line) for line in lines]
    fast = _by_arrow(_column(lines), _FORM, count)
    if fast is not None:
        assert [list(row) for row in zip(*(column.to_pylist() for column in fast), strict=True)] == slow


@given(_LINES, st.integers(0, 5))
def test_a_line_changes_nothing_about_others(lines: list[bytes], at: int) -> None:
    whole, counts = fields_of(_column(lines), _FORM, 2)
    for n, line in enumerate(lines):
        alone, count = fields_of(_column([line]), _FORM, 2)
        assert count[0] == counts[n]
        if count[0] == 2:
            assert [column[0].as_py() for column in alone] == [column[n].as_py() for column in whole]


@given(_VALUES)
def test_quoted_texts_come_back(rows: list[list[str | None]]) -> None:
    lines = []
    for row in rows:
        shown = ["\\N" if value is None else '"' + value.replace('"', '""') + '"' for value in row]
        lines.append(",".join(shown).encode("utf-8", "surrogatepass"))
    columns, counts = fields_of(_column(lines), _FORM, 3)
    assert (counts == 3).all()
    read = [
        [v if v is None else v.decode("utf-8", "surrogatepass") for v in row]
        for row in zip(*map(list, (c.to_pylist() for c in columns)), strict=True)
    ]
    assert read == rows
    # Python's own reader knows no NULL, and is the judge of the rest.
    text = "\r\n".join(line.decode("utf-8", "surrogatepass") for line in lines)
    if "\0" not in text:
        judged = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        assert [["\\N" if value is None else value for value in row] for row in read] == judged


@pytest.mark.parametrize("delimiter", ["|", "$^", ","])
@given(rows=_VALUES)
def test_escaped_texts_come_back(delimiter: str, rows: list[list[str | None]]) -> None:
    form = CsvFormat(quote="", delimiter=delimiter)

    def shown(value: str | None) -> str:
        if value is None:
            return "\\N"
        value = value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
        return value.replace(delimiter, "".join(f"\\{mark}" for mark in delimiter))

    lines = [delimiter.join(map(shown, row)).encode("utf-8", "surrogatepass") for row in rows]
    columns, counts = fields_of(_column(lines), form, 3)
    assert (counts == 3).all()
    read = [
        [v if v is None else v.decode("utf-8", "surrogatepass") for v in row]
        for row in zip(*map(list, (c.to_pylist() for c in columns)), strict=True)
    ]
    assert read == rows


@pytest.mark.parametrize(
    ("delimiter", "line", "expected"),
    [
        ("||", b"I||a|||b", None),  # of a| and b, or of a and |b
        ("||", b"I||a||||b", [b"I", b"a", b"", b"b"]),
        ("||", b"I||a||b|", [b"I", b"a", b"b|"]),
        ("||", b"I||a\\|\\||||b", None),
        ("|+|", b"I|+|a|+|+|b", None),
        ("|+|", b"I|+|a|+|b", [b"I", b"a", b"b"]),
        ("$^", b"I$^a$$^^b", [b"I", b"a$", b"^b"]),
    ],
)
def test_a_line_that_can_be_split_in_two_ways_is_not(delimiter: str, line: bytes, expected: list[bytes] | None) -> None:
    columns, counts = fields_of(_column([line]), CsvFormat(quote="", delimiter=delimiter), len(expected or [1, 2, 3]))
    assert counts.tolist() == [len(expected or [])]
    if expected:
        assert [column[0].as_py() for column in columns] == expected


def test_no_line_is_read_as_part_of_another() -> None:
    lines = [b'"I","a', b'"I","b"', b'"I"', b'"I","b","c"', b'"I","x"y', b'"I",\r']
    columns, counts = fields_of(_column(lines), _FORM, 2)
    assert counts.tolist() == [0, 2, 1, 3, 0, 0]
    assert np.array(columns[1].to_pylist(), object).tolist() == [None, b"b", None, None, None, None]


@pytest.mark.parametrize("delimiter", [",", "||"])
def test_a_text_without_quotation_marks_is_none(delimiter: str) -> None:
    """It is NULL by another `null` than the one that is known, or what is no column's value at all."""
    lines = ['"I",1,"a"', '"I",1,NULL', '"I",NULL,"a"', '"I",1,\\N', '"I",1,true', '"I",1,"a",NULL', '"I",1,']
    told = [line.replace(",", delimiter).encode() for line in lines]
    form = CsvFormat(delimiter=delimiter)
    columns, counts = fields_of(_column(told), form, 3, [2])
    assert counts.tolist() == [3, UNMARKED, 3, 3, UNMARKED, 4, UNMARKED]
    assert columns[2].to_pylist() == [b"a", None, b"a", None, None, None, None]
    assert fields_of(_column(told[:1]), form, 3, [2])[0][2].to_pylist() == [b"a"]
    plain = CsvFormat(delimiter=delimiter, quote="")
    assert fields_of(_column([told[4]]), plain, 3, [2])[1].tolist() == [3]
