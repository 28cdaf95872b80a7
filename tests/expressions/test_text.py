"""Text of numbers and of wall clocks, against Python's own."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from strategies import drawn, fixed

from tidecast.expressions import decimal_text, from_text, shift_zone, unsigned_number
from tidecast.model import DataType


def texts(spark: SparkSession, values: Iterable[object], kind: T.DataType, expression: Column) -> list[Any]:
    """Evaluate an expression over the column `x`."""
    frame = spark.createDataFrame([(v,) for v in values], T.StructType([T.StructField("x", kind)]))
    return [row[0] for row in frame.select(expression).collect()]


@pytest.mark.parametrize(("precision", "scale"), [(10, 0), (10, 2), (6, 6), (10, 7), (10, 10), (38, 19), (38, 30)])
def test_a_decimal_keeps_its_digits_and_has_no_exponent(session: SparkSession, precision: int, scale: int) -> None:
    unit = Decimal(1).scaleb(-scale)
    largest = [Decimal((sign, (9,) * precision, -scale)) for sign in (0, 1)]
    values = largest + [v * s for v in (Decimal(0), unit, 3 * unit, 10 * unit, 1000 * unit) for s in (1, -1)]
    kind = T.DecimalType(precision, scale)
    given = texts(session, values, kind, decimal_text(F.col("x"), precision, scale))
    assert given == [format(v if v else abs(v), f".{scale}f") for v in values]


def test_a_text_is_a_decimal_only_if_its_column_has_all_of_its_digits(session: SparkSession) -> None:
    known = {"1.23": "1.23", "-1.2": "-1.20", "5": "5.00", "1.2300": "1.23", ".5": "0.50", "1.239": None, "x": None}
    read = from_text(DataType("decimal", length=9, decimal=2), F.col("x")).cast("string")
    assert texts(session, list(known), T.StringType(), read) == list(known.values())
    whole = from_text(DataType("decimal", length=5), F.col("x")).cast("string")
    assert texts(session, ["7.0", "7.1", "-0.5"], T.StringType(), whole) == ["7", None, None]


def test_a_decimal_that_the_model_holds_as_text_stays(session: SparkSession) -> None:
    assert texts(session, ["1.50", None], T.StringType(), decimal_text(F.col("x"), 65, 30)) == ["1.50", None]


@pytest.fixture(params=["UTC", "America/New_York", "Europe/Berlin"])
def any_zone(session: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session in time zones that must not matter."""
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", request.param)
    yield session
    session.conf.set("spark.sql.session.timeZone", before or "UTC")


def in_go(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment of a wall clock's time, by the rule of Go's `time.Date`."""
    utc = wall.replace(tzinfo=ZoneInfo("UTC"))
    near = utc - (utc.astimezone(zone).utcoffset() or timedelta())
    return utc - (near.astimezone(zone).utcoffset() or timedelta())


def test_a_wall_clock_moves_between_zones(any_zone: SparkSession) -> None:
    r = random.Random(5)
    zones = ["Asia/Shanghai", "Europe/Berlin", "America/New_York", "UTC"]
    moments = [datetime.fromtimestamp(r.randint(1, 2**31 - 1), tz=ZoneInfo("UTC")) for _ in range(300)]
    # The hours around clock changes of 2024, by the quarter.
    changes = [
        datetime(2024, month, day, tzinfo=ZoneInfo("UTC")) for month, day in ((3, 31), (10, 27), (3, 10), (11, 3))
    ]
    moments += [datetime.fromtimestamp(c.timestamp() + 900 * q, tz=ZoneInfo("UTC")) for c in changes for q in range(48)]
    for start, end in ((zones[3], zones[0]), (zones[0], zones[3]), (zones[3], zones[1]), (zones[1], zones[2])):
        local = [m.astimezone(ZoneInfo(start)) for m in moments]
        # Text does not tell which of two equal hours it is: Go takes the first or the second.
        taken = [in_go(m, ZoneInfo(start)).astimezone(ZoneInfo(end)) for m in local]
        wanted = [m.strftime("%Y-%m-%d %H:%M:%S.120") for m in taken]
        values = [m.strftime("%Y-%m-%d %H:%M:%S.120") for m in local]
        assert texts(any_zone, values, T.StringType(), shift_zone(F.col("x"), start, end)) == wanted


@pytest.mark.parametrize(
    ("zone", "wall", "utc"),
    [
        ("Asia/Shanghai", "1991-09-15 01:30:00", "1991-09-14 17:30:00"),
        ("Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 01:30:00"),
        ("America/New_York", "2023-11-05 01:30:00", "2023-11-05 05:30:00"),
        ("Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31 01:30:00"),
        ("America/New_York", "2024-03-10 02:30:00", "2024-03-10 06:30:00"),
    ],
)
def test_an_hour_that_comes_twice_or_never_is_that_of_go(
    zone: str, wall: str, utc: str, any_zone: SparkSession
) -> None:
    """The moments are those of a Go program."""
    assert texts(any_zone, [wall], T.StringType(), shift_zone(F.col("x"), zone, "UTC")) == [utc]


def test_fractions_keep_their_digits(any_zone: SparkSession) -> None:
    values = [
        "2024-01-01 00:00:00",
        "2024-01-01 00:00:00.1",
        "2024-01-01 00:00:00.100000",
        "2024-01-01 00:00:00.000001",
    ]
    wanted = [v.replace(" 00:", " 08:") for v in values]
    assert texts(any_zone, values, T.StringType(), shift_zone(F.col("x"), "UTC", "+08:00")) == wanted


def test_any_other_text_stays(any_zone: SparkSession) -> None:
    values = [
        None,
        "",
        "0000-00-00 00:00:00",
        "0000-00-00 00:00:00.000000",
        "2024-02-30 00:00:00",
        "2024-1-1 00:00:00",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 24:00:00",
        "2024-01-01 00:00:00.",
        "2024-01-01 00:00:00.1234567",
        "2024-01-01 00:00:00Z",
        "2024-01-01 00:00:00\n",
        " 2024-01-01 00:00:00",
    ]
    assert texts(any_zone, values, T.StringType(), shift_zone(F.col("x"), "UTC", "Asia/Shanghai")) == values


def test_equal_zones_need_no_expression() -> None:
    column = object()
    assert shift_zone(column, "UTC", "UTC") is column  # type: ignore[arg-type]


def test_unsigned_numbers_of_any_length_are_exact(spark: SparkSession) -> None:
    numbers = [0, 7, 10**17, 10**18 - 1, 10**18, 2**63 - 1, 2**63, 2**64 - 1]
    said = [*map(str, numbers), "", "x", "x" * 30, "1" * 21, None]
    frame = spark.createDataFrame([(text,) for text in said], "x string")
    read = [row[0] for row in frame.select(unsigned_number(F.col("x"))).collect()]
    assert read == [*map(Decimal, numbers), *[None] * 5]


DIGITS = (st.integers(0, 2**65) | st.integers(2**63 - 9, 10**19) | st.integers(2**64 - 9, 2**64 + 9)).map(
    str
) | st.integers(0, 200).map(str)
FORMS = (
    DIGITS
    | st.tuples(st.sampled_from(["0", "+", "-", " ", "1e"]), DIGITS).map("".join)
    | st.text("01.e ٣", max_size=22)
)


def test_unsigned_numbers_are_those_that_python_reads(spark: SparkSession) -> None:
    forms = drawn(FORMS, 300)

    def number(text: str) -> Decimal | None:
        return Decimal(text) if re.fullmatch("0|[1-9][0-9]*", text) and int(text) < 2**64 else None

    assert texts(spark, forms, T.StringType(), unsigned_number(F.col("x"))) == list(map(number, forms))


def test_decimals_are_as_python_formats_them(session: SparkSession) -> None:
    numbers = drawn(fixed(38, 30) | fixed(8, 30), 300)
    shown = texts(session, numbers, T.DecimalType(38, 30), decimal_text(F.col("x"), 38, 30))
    assert shown == [format(n if n else abs(n), ".30f") for n in numbers]


ODD = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\n\\]^-\"'\xff\u0100\u2028\U0001f600")
