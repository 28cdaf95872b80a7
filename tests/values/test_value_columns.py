"""Values on Arrow columns: each rule beside another program's, or Python's own numbers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_numbers import doubles, shortest_double, shortest_single, singles
from strategies import fixed, moments, plain, texts

from tidecast.model import DataType
from tidecast.values import (
    BYTES,
    TEXT,
    bit_bytes,
    bit_number,
    decimal_bytes,
    decimal_of_bytes,
    decimal_text,
    enum_number,
    from_text,
    gather,
    joined,
    json_object,
    json_string,
    set_mask,
    shift_zone,
    shortest_text,
    text_of_bytes,
)

ELEMENTS = ("small", "it's", "中", "x y")


def column(values: list[object], kind: pa.DataType) -> pa.Array:
    """Return a column that begins within a longer one, as a batch of a batch does."""
    return pa.array([values[0] if values else None, *values], kind).slice(1)


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (DataType("int"), "-2147483648", -2147483648),
        (DataType("int"), "2147483648", None),
        (DataType("int"), "007", None),
        (DataType("int"), "-0", None),
        (DataType("int"), "1\n", None),
        (DataType("int"), "", None),
        (DataType("bigint"), "9223372036854775807", 9223372036854775807),
        (DataType("bigint"), "9223372036854775808", None),
        (DataType("bigint", unsigned=True), "18446744073709551615", 18446744073709551615),
        (DataType("bigint", unsigned=True), "18446744073709551616", None),
        (DataType("bigint", unsigned=True), "-1", None),
        (DataType("double"), "1e308", 1e308),
        (DataType("double"), "1e309", None),
        (DataType("double"), "NaN", None),
        (DataType("float"), "0.1", 0.10000000149011612),
        (DataType("float"), "1e39", None),
        (DataType("decimal", length=5, decimal=2), "-999.99", Decimal("-999.99")),
        (DataType("decimal", length=5, decimal=2), "1.5", Decimal("1.50")),
        (DataType("decimal", length=5, decimal=2), "1.500", Decimal("1.50")),
        (DataType("decimal", length=5, decimal=2), "1.501", None),
        (DataType("decimal", length=5, decimal=2), "1000", None),
        (DataType("decimal", length=65, decimal=2), "9" * 63 + ".99", "9" * 63 + ".99"),
        (DataType("bit", length=10), "1023", b"\x03\xff"),
        (DataType("bit", length=10), "65536", None),
        (DataType("bit", length=64), "18446744073709551615", b"\xff" * 8),
        (DataType("enum", elements=ELEMENTS), "0", ""),
        (DataType("enum", elements=ELEMENTS), "3", "中"),
        (DataType("enum", elements=ELEMENTS), "5", None),
        (DataType("set", elements=ELEMENTS), "0", ""),
        (DataType("set", elements=ELEMENTS), "11", "small,it's,x y"),
        (DataType("set", elements=ELEMENTS), "16", None),
        (DataType("date"), "0000-00-00", "0000-00-00"),
    ],
)
def test_a_text_becomes_a_value_or_none(data_type: DataType, text: str, value: object) -> None:
    # Good and null neighbours are not touched by it.
    good = "1" if data_type.mysql_type != "date" else "2024-02-29"
    found = from_text(data_type, column([good, text, None, good], TEXT)).to_pylist()
    assert found[1:3] == [value, None]
    assert found[0] == found[3]
    assert found[0] is not None


def unscaled(number: Decimal) -> int:
    """Return the number without its point."""
    return int(plain(number).replace(".", ""))


def shortest_bytes(number: int) -> bytes:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


@given(st.lists(fixed(38, 30) | st.none(), max_size=8))
def test_narrow_decimals_are_what_python_says(numbers: list[Decimal | None]) -> None:
    decimals = column(list(numbers), pa.decimal128(38, 30))
    assert decimal_text(decimals).to_pylist() == [n if n is None else plain(n if n else abs(n)) for n in numbers]
    data = decimal_bytes(decimals, 30)
    assert data.to_pylist() == [n if n is None else shortest_bytes(unscaled(n)) for n in numbers]
    assert decimal_of_bytes(data, 38, 30).to_pylist() == numbers


@given(st.lists(fixed(65, 30), max_size=8))
def test_wide_decimals_are_what_python_says(numbers: list[Decimal]) -> None:
    written = [format(n, "f") for n in numbers]
    data = decimal_bytes(column(list(written), TEXT), 30)
    assert [int.from_bytes(d, "big", signed=True) for d in data.to_pylist()] == [*map(unscaled, numbers)]
    assert [Decimal(t) for t in decimal_of_bytes(data, 65, 30).to_pylist()] == numbers


def test_numbers_with_more_digits_than_their_column_are_none() -> None:
    data = column([b"\x63", b"\x64", b"\x9d", b"\x9c", b"", b"\0" * 20, None], BYTES)
    assert decimal_of_bytes(data, 2, 0).to_pylist() == [Decimal(99), None, Decimal(-99), None, None, None, None]
    assert decimal_of_bytes(column([(10**65).to_bytes(28), b"\x05"], BYTES), 65, 0).to_pylist() == [None, "5"]


def test_reals_have_the_shortest_digits_and_no_exponent() -> None:
    numbers = doubles()
    assert shortest_text(column(list(numbers), pa.float64())).to_pylist() == [
        shortest_double(n) if n else "0" for n in numbers
    ]
    small = singles()
    assert shortest_text(column(list(small), pa.float32())).to_pylist() == [
        shortest_single(n) if n else "0" for n in small
    ]


ZONES = ("Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Monrovia", "+05:30")


@pytest.mark.parametrize("zone", ZONES)
@given(st.lists(moments, min_size=1, max_size=20))
def test_times_move_between_zones_as_python_moves_them(zone: str, times: list[dt.datetime]) -> None:
    info = dt.timezone(dt.timedelta(hours=5, minutes=30)) if zone == "+05:30" else ZoneInfo(zone)
    utc = [t.strftime("%Y-%m-%d %H:%M:%S.%f") for t in times]
    local = [t.replace(tzinfo=dt.UTC).astimezone(info).strftime("%Y-%m-%d %H:%M:%S.%f") for t in times]
    assert shift_zone(column(list(utc), TEXT), "UTC", zone).to_pylist() == local
    # A wall clock shows one hour twice in a year.
    back = [dt.datetime.fromisoformat(t) for t in shift_zone(column(list(local), TEXT), zone, "UTC").to_pylist()]
    assert all(abs(b - t) <= dt.timedelta(hours=2) for b, t in zip(back, times, strict=True))
    assert (
        shift_zone(pa.array([b.isoformat(" ", "microseconds") for b in back], TEXT), "UTC", zone).to_pylist() == local
    )


def test_what_is_no_time_stays_as_it_is() -> None:
    odd = ["0000-00-00 00:00:00", "2023-02-29 00:00:00", "2024-01-01 24:00:00", "2024-01-01", "", "x", None]
    odd += ["2024-13-01 00:00:00", "0000-01-01 00:00:00", "2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00\n"]
    assert shift_zone(column(list(odd), TEXT), "Asia/Shanghai", "UTC").to_pylist() == odd
    # Clocks that skip an hour: as Go's time.Date has it.
    gap = column(["2024-03-10 02:30:00", "2024-03-10 02:30:00.5"], TEXT)
    assert shift_zone(gap, "America/New_York", "UTC").to_pylist() == ["2024-03-10 06:30:00", "2024-03-10 06:30:00.5"]


@given(st.lists(st.binary(max_size=8).map(lambda b: b.rjust(8, b"\0")) | st.none(), max_size=8))
def test_bits_are_numbers(bits: list[bytes | None]) -> None:
    numbers = bit_number(column(list(bits), BYTES))
    assert numbers.to_pylist() == [None if b is None else int.from_bytes(b) for b in bits]
    assert bit_bytes(DataType("bit", length=64), numbers).to_pylist() == bits


def test_more_bits_than_a_number_has() -> None:
    assert bit_number(pa.array([b"\0" * 9 + b"\5", b"\1" + b"\0" * 8, b""], BYTES)).to_pylist() == [5, None, 0]


def test_elements_are_found_as_rows_or_schemas_spell_them() -> None:
    enum = DataType("enum", elements=ELEMENTS)
    assert enum_number(enum, column(["small", "it''s", "it\\'s", "", "no", None], TEXT)).to_pylist() == [
        1,
        2,
        2,
        0,
        None,
        None,
    ]
    flags = DataType("set", elements=ELEMENTS)
    assert set_mask(flags, column(["", "x y,small", "it''s", "small,no", None], TEXT)).to_pylist() == [
        0,
        9,
        2,
        None,
        None,
    ]


@given(st.lists(texts | st.none() | st.sampled_from(['"', "\\", "a\nb", "\0", "\u2028"]), max_size=8))
def test_json_strings_are_those_of_another_writer(values: list[str | None]) -> None:

    assert json_string(column(list(values), TEXT)).to_pylist() == [
        v if v is None else orjson.dumps(v).decode() for v in values
    ]
    objects = json_object(["a", 'b"'], [column(list(values), TEXT), pa.array([2**64 - 1] * len(values), pa.uint64())])
    assert [orjson.loads(o) for o in objects.to_pylist()] == [{"a": v, 'b"': 2**64 - 1} for v in values]


@given(st.lists(st.binary(max_size=5) | st.none(), max_size=9))
def test_bytes_that_are_no_text_change_nothing_about_the_others(values: list[bytes | None]) -> None:
    def decoded(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    assert text_of_bytes(column(list(values), BYTES)).to_pylist() == [decoded(v) for v in values]


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4), st.booleans()), max_size=9))
def test_spans_are_gathered_from_between_others(parts: list[tuple[bytes, bytes, bool]]) -> None:
    data, start, length = b"", [], []
    for gap, content, _ in parts:
        start.append(len(data) + len(gap))
        length.append(len(content))
        data += gap + content
    there = np.array([kept for *_, kept in parts], bool)
    buffer = np.frombuffer(data or b"\0", np.uint8)
    found = gather(buffer, np.array(start, np.int64), np.array(length, np.int64), there)
    assert found.to_pylist() == [content if kept else None for _, content, kept in parts]


def test_rows_in_which_all_is_null_are_joined_to_nothing() -> None:
    one, other = column([None, "a", None], TEXT), column([None, None, "b"], TEXT)
    assert joined([one, other], TEXT).to_pylist() == ["", "a", "b"]


def test_the_empty_set_is_no_element() -> None:
    kind = DataType("set", "utf8mb4", elements=("", "a"))
    assert set_mask(kind, pa.array(["", "a", ",a"], TEXT)).to_pylist() == [0, 2, 3]
