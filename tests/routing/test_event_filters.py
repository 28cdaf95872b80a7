"""Event filters and the split of key updates: which rows and schema changes leave, and as what."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidecast import ConfigError
from tidecast.config import load_config
from tidecast.model import Column, DataType, Ddl, Index, Op, TableSchema
from tidecast.protocols import CHECKSUM, Rows, TableVersion
from tidecast.publish._split import split_key_updates
from tidecast.routing._event_filter import EventFilters, RowFilter, filter_errors
from tidecast.routing._rules import EventFilter
from tidecast.routing._where import condition_of
from tidecast.values import row_type

TABLE = TableSchema(
    "shop",
    "orders",
    1,
    1,
    (
        Column("id", DataType("int"), nullable=False),
        Column("name", DataType("varchar", "utf8mb4", length=20)),
        Column("Price", DataType("decimal", length=10, decimal=2)),
        Column("paid", DataType("timestamp")),
        Column("code", DataType("int")),
    ),
    (
        Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),
        Index("uk_code", unique=True, primary=False, nullable=True, columns=("code",)),
    ),
)

Row = tuple[int, str | None, str | None, str | None, int | None] | None

ROWS: list[tuple[Op, Row, Row]] = [
    (Op.CREATE, None, (1, "apple", "1.50", "2024-01-01 23:30:00", 7)),
    (Op.CREATE, None, (2, None, "20.00", None, None)),
    (Op.UPDATE, (1, "apple", "1.50", "2024-01-01 23:30:00", 7), (1, "pear", "9.00", "2024-01-02 00:30:00", 7)),
    (Op.UPDATE, (1, "pear", "9.00", "2024-01-02 00:30:00", 7), (3, "pear", "9.00", "2024-01-02 00:30:00", 7)),
    (Op.UPDATE, (2, None, "20.00", None, None), (2, None, "20.00", None, 8)),
    (Op.DELETE, (2, None, "20.00", None, 8), None),
]


def struct_of(rows: list[Row]) -> pa.StructArray:
    kind = row_type(TABLE)
    names = [f.name for f in kind]
    told = [None if row is None else dict(zip(names, row, strict=True)) for row in rows]
    for row in filter(None, told):
        row["Price"] = row["Price"] and Decimal(str(row["Price"]))
    return pa.array(told, kind)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Six changes of one table."""
    count = len(ROWS)
    ops, olds, news = zip(*ROWS, strict=True)
    return Rows(
        TableVersion("", TABLE),
        np.arange(count),
        pa.array([str(op) for op in ops], pa.large_string()),
        pa.nulls(count, pa.int64()),
        pa.nulls(count, pa.int64()),
        struct_of([*olds]),
        struct_of([*news]),
        pa.array([{"version": 0, "corrupted": False, "current": 5, "previous": 6}] * count, CHECKSUM),
        pa.nulls(count, pa.large_string()),
        pa.nulls(count, pa.large_string()),
    )


def left(rule: dict[str, object], rows: Rows, zone: str = "UTC") -> list[int]:
    one = EventFilter.model_validate({"matcher": ["shop.*"], **rule})
    found = EventFilters([one], zone).of_rows(TABLE)
    if found is None:
        return [*rows.at]
    return [*rows.at[found.kept(rows.op, rows.old, rows.data, rows.reason)]]


@pytest.mark.parametrize(
    ("rule", "left_over"),
    [
        ({"ignore-event": ["delete"]}, [0, 1, 2, 3, 4]),
        ({"ignore-event": ["all dml"]}, []),
        ({"ignore-event": ["insert", "all ddl"]}, [2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "price > 10 and id = 2"}, [0, 2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "name = 'apple' or name is null"}, [2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "name <> 'apple'"}, [0, 1, 2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "id - 1"}, [0, 2, 3, 4, 5]),
        ({"ignore-delete-value-expr": "code = 8"}, [0, 1, 2, 3, 4]),
        ({"ignore-update-new-value-expr": "name like 'pe%'"}, [0, 1, 4, 5]),
        ({"ignore-update-old-value-expr": "name = 'apple'"}, [0, 1, 3, 4, 5]),
        ({"ignore-update-only-columns": ["PRICE", "paid", "name"]}, [0, 1, 3, 4, 5]),
        ({"ignore-update-only-columns": ["Price", "weight"]}, [0, 1, 2, 3, 4, 5]),
        ({"ignore-update-only-columns": ["id", "code"]}, [0, 1, 2, 3, 4, 5]),
        ({"ignore-update-only-columns": []}, [0, 1, 2, 3, 4, 5]),
        ({"matcher": ["other.*"], "ignore-update-only-columns": ["price", "paid", "name"]}, [0, 1, 2, 3, 4, 5]),
        # In the server's zone the order was paid on the second of January.
        ({"ignore-insert-value-expr": "substr(paid, 1, 10) = '2024-01-02'"}, [1, 2, 3, 4, 5]),
        ({"matcher": ["other.*"], "ignore-event": ["all dml"]}, [0, 1, 2, 3, 4, 5]),
        ({"matcher": ["SHOP.*"], "ignore-event": ["all dml"]}, []),
        ({"matcher": ["SHOP.*"], "ignore-insert-value-expr": "1 = 1"}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_filters_leave_out_what_they_say(rule: dict[str, object], left_over: list[int], rows: Rows) -> None:
    assert left(rule, rows, "Asia/Shanghai") == left_over


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_an_update_of_minor_columns_alone_does_not_leave(case_sensitive: bool, rows: Rows) -> None:
    def minor(column: str) -> RowFilter | None:
        one = EventFilter.model_validate({"matcher": ["shop.*"], "ignore-update-only-columns": [column]})
        return EventFilters([one], case_sensitive=case_sensitive).of_rows(TABLE)

    update = rows.at_places(np.array([2]))
    (row,) = update.data.to_pylist()
    unpriced, unknown = (pa.array([before], update.data.type) for before in (row | {"Price": None}, None))
    chosen = minor("Price")
    assert chosen
    assert (minor("price") is None) is case_sensitive
    before = [(unpriced, False), (update.data, False), (update.old, True), (unknown, True)]
    for old, stays in before:
        assert chosen.kept(update.op, old, update.data, update.reason).tolist() == [stays]


def test_rows_that_cannot_be_read_stay_and_are_not_looked_at(rows: Rows) -> None:
    reason = pa.array(["bad-value", None, None, None, None, "bad-value"], pa.large_string())
    unread = replace(rows, reason=reason)
    assert left({"ignore-event": ["insert", "delete"]}, unread) == [0, 2, 3, 4, 5]
    assert left({"ignore-insert-value-expr": "id + 9223372036854775806 > 0"}, rows.take(rows.at == 0)) == []
    assert left({"ignore-insert-value-expr": "id + 9223372036854775807 > 0"}, unread.take(rows.at == 0)) == [0]


_BIN, _CI = ("utf8mb4", "utf8mb4_bin"), ("utf8mb4", "utf8mb4_general_ci")

SORTS: dict[str, tuple[DataType, object]] = {
    "big": (DataType("decimal", length=65, decimal=30), "5.5"),
    "low": (DataType("decimal", length=65, decimal=30), "-0.5"),
    "price": (DataType("decimal", length=10, decimal=2), "12.30"),
    "at": (DataType("datetime", decimal=3), "2024-05-01 10:00:00.678"),
    "d": (DataType("date"), "2024-05-01"),
    "zero": (DataType("datetime"), "0000-00-00 00:00:00"),
    "t": (DataType("time"), "09:30:00"),
    "ago": (DataType("time"), "-01:02:03"),
    "y": (DataType("year"), 2024),
    "st": (DataType("enum", *_BIN, elements=("new", "paid")), "paid"),
    "se": (DataType("set", *_BIN, elements=("a", "b", "c")), "a,c"),
    "name": (DataType("varchar", *_BIN, length=20), "5.5abc"),
    "city": (DataType("varchar", *_BIN, length=20), "Müller"),
    "ci": (DataType("varchar", *_CI, length=20), "Ann"),
    "raw": (DataType("varbinary", length=9), b"ab\x00"),
    "flags": (DataType("bit", length=4, unsigned=True), b"\x05"),
    "isok": (DataType("tinyint", length=1), 1),
    "two": (DataType("tinyint"), 2),
    "five": (DataType("bigint"), 5),
    "i": (DataType("int"), 2147483647),
    "ui": (DataType("int", unsigned=True), 4294967295),
    "b": (DataType("bigint"), 9007199254740993),
    "ub": (DataType("bigint", unsigned=True), "18446744073709551615"),
    "f": (DataType("float"), 0.1),
    "doc": (DataType("json"), '{"a": 1}'),
    "filled": (DataType("int", unsigned=True, zerofill=True), 5),
    "nothing": (DataType("datetime"), None),
    "no": (DataType("int"), None),
}
SORTED = TableSchema("shop", "sorts", 1, 1, tuple(Column(name, data_type) for name, (data_type, _) in SORTS.items()))

TRUE = r"""
big + 0 = 5.5 ; big > price / 3
big > 5 ; big = '5.5' ; big = 5.500 ; low < 0 ; low > -0.51 ; low <> 0.5 ; low = -.5 ; price = 12.3 ; price = '12.30'
at = '2024-05-01 10:00:00.678' ; at between '2024-05-01' and '2024-05-01 10:00:01' ; at >= 20240501100000
at like '2024-05-01%' ; d > 20240430 ; d < at ; d in ('2024-04-30', '2024-5-1') ; zero = 0 ; zero < '1000-01-01'
zero = '0000-00-00 00:00:00' ; t > '9:00:00' ; t > '-10:00:00' and t < '10:00' ; ago = -10203 ; ago < 0 ; ago < t
y = 2024 ; y = '2024' ; st = 2 ; st = 'paid' ; st > 1 ; st in (2, 3) ; st in ('new', 'paid') ; st < 'q' ; se = 5
se = 'a,c' ; se & 4 = 4 ; find_in_set('c', se) > 0 ; name > 5 ; name = '5.5abc' ; name + 1 = 6.5 ; name = 5.5
city = 'Müller  ' ; city <> 'müller' ; city like 'M_ller' ; city not like 'Müller '
(city like 'M|_ller' escape '|') is false ; city > 'A' ; city regexp '^M.ll' ; city rlike 'l+er$'
city not regexp '^m' ; raw = X'616200' ; raw = 0x616200 ; raw <> 'ab' ; raw like 'ab%' ; flags = 5 ; flags & 4 = 4
flags = b'101' ; flags = 0x5 ; isok ; not (isok and two = 1) ; two and big > 5 or st = 9 ; nothing is null
not no is not null ; (no > 1) is null ; (no > 1) is not true ; no <=> null ; five <=> 5 ; i + 1 > 0 ; i * 2 > 0
-i - 2 < 0 ; i + 1 > i ; ui + 1 = 4294967296 ; two * 100 = 200 ; ub > 18446744073709551614
ub = '18446744073709551615' ; b = '9007199254740993' ; b <> '9007199254740992' ; b <> 9007199254740992 ; ub - 1 > 0
five + 0.5 = '5.5' ; five = '5abc' ; five = '5.0' ; five in ('4', '5') ; five between '1' and '9' ; five not in (1, 2)
f between 0 and 1e3 ; d between '2024-05-01' and at ; (no between 1 and null) is null
five and 1 ; no || five ; (five xor 0) ; (five xor no) is null ; !five = 0 ; five is true ; five is not false
not five is null ; ~five > 0 ; ~five = 18446744073709551610 ; ~0 = ub ; five & 1 = 1 ; -1 & ub = ub ; five << 1 = 10
ub >> 63 = 1 ; 1 << 64 = 0 ; five ^ 1 = 4 ; 2 ^ 1 + 1 = 4 ; 1 | 2 & 2 = 3 ; bit_count(-1) = 64 ; five / 2 = 2.5
1 / 3 = 0.333333333 ; price / 3 = 4.1 ; five / 0 is null ; five % 0 is null ; five div 0 is null ; five div 2 = 2
-7 div 2 = -3 ; -7 % 3 = -1 ; mod(five, 3) = 2 ; 7.5 % 2 = 1.5 ; f <> 0.1 ; f > 0.05 ; f / 0 is null ; true ; 1e1 = 10
0.1 + 0.2 = 0.3 ; price * 100 = 1230 ; price > 12 ; length(city) = 7 ; octet_length(city) = 7 ; char_length(city) = 6
length(raw) = 3 ; upper(city) = 'MÜLLER' ; lower('ÀẞΣ') = 'àßσ' ; upper('ßŉᾳ') = 'ßŉᾼ' ; substring(city, 0) = ''
substring(city, -2) = 'er' ; substring(city, -9) = '' ; substr(city, 2, 2) = 'ül' ; left(city, 1) = 'M'
right(city, 2) = 'er' ; right(city, 9) = city ; reverse(city) = 'rellüM' ; lpad(two, 3, '0') = '002'
rpad(city, 2, '-') = 'Mü' ; trim('  a ') = 'a' ; replace(city, 'l', '') = 'Müer' ; locate('l', city) = 3
instr(city, 'er') = 5 ; concat(city, null) is null ; concat('a', five, price) = 'a512.30'
concat_ws('-', no, five, 'x') = '5-x' ; strcmp(city, 'A') = 1 ; strcmp(city, null) is null ; hex(raw) = '616200'
hex(255) = 'FF' ; md5('7') = '8f14e45fceea167a5a36dedd4bea2543' ; crc32('a') = 3904355907 ; abs(-five) = 5
sign(-price) = -1 ; floor(-price) = -13 ; ceil(price) = 13 ; round(price) = 12 ; round(2.5) = 3
round(-2.45, 1) = -2.5 ; truncate(2.59, 1) = 2.5 ; truncate(-2.59, 1) = -2.5 ; greatest(five, 3) = 5
greatest(five, no) is null ; least(1.5, two) = 1.5 ; if(five > 3, 1, 0) ; if(no, 1, 2) = 2 ; ifnull(no, 5) = 5
coalesce(null, no, 7.5) = 7.5 ; nullif(five, 5) is null ; isnull(no) ; case when five = 5 then 1 else 0 end
case five when 4 then 'a' when 5 then 'b' end = 'b' ; case when no then 1 end is null ; shop.sorts.five = 5
5. = Sorts.`FIVE` ; year(at) = 2024 ; month(d) = 5 ; day(at) = 1 ; year(zero) = 0 ; hour(ago) = 1 ; minute(ago) = 2
second(ago) = 3 ; hour(at) = 10 ; second(at) = 0 ; hour(d) = 0 ; date(at) = d ; date(at) = '2024-05-01'
date(zero) is null ; time_to_sec(ago) = -3723 ; dayofweek(d) = 4 ; weekday(d) = 2
d + interval 1 month = '2024-06-01' ; d - interval 1 day < '2024-05-01' ; interval 2 hour + d = '2024-05-01 02:00:00'
date_sub(at, interval 1 year) = '2023-05-01 10:00:00.678' ; date_add(d, interval -1 day) = '2024-04-30'
date_add(date_add(d, interval -1 day), interval 1 month) = '2024-05-30'
at + interval 61 second = '2024-05-01 10:01:01.678' ; at - interval 1 second = '2024-05-01 09:59:59.678'
date_sub(date_add(d, interval 30 day), interval 1 quarter) = '2024-02-29' ; zero + interval 1 day is null
d + interval 8000 year is null ; year(d - interval 5 month) = 2023 ; nothing + interval 1 day is null
dayofyear(d) = 122 ; datediff(at, '2024-04-30') = 1 ; weekday(zero) is null ; doc is not null ; ci is not null
length(ci) = 3 ; "it's" = 'it\'s' ; 'a\_b' like 'a\\\_b' ; '${env:HOME}' = "${env:HOME}"
flags - 6 = -1 ; flags / 3 > 1.666666666 ; flags div 2 = 2 ; -flags = -5 ; flags % 2 = 1 ; abs(flags) = 5
flags >> 2 = 1 ; floor(flags) - 4
d = '2024-05-01' -- the first
"""
FALSE = r"""
big > 5.6 ; big > '5.50000000000000000000000000001' ; low > 0 ; low < -0.5 ; at = '2024-05-01 10:00:00' ; d = at
at > '2024-05-01 10:00:00.678' ; two ; five ; not isok ; not (isok and flags) ; nothing > '2024-01-01' ; no ; null
no = no ; st > 'q' ; name > 6 ; city = 'müller' ; city like 'm%' ; city regexp 'r.' ; raw = 'ab' ; five is false
five = 6 or no ; i + 1 < 0 ; ~five < 0 ; 1 / 3 = 0.3333 ; five / 2 = 2 ; five in (1, null) ; five not in (1, null)
f = 0.1 ; false
"""


def test_expressions_say_what_mysql_says() -> None:
    kind = row_type(SORTED)
    row = {name: value for name, (_, value) in SORTS.items()}
    row |= {"price": Decimal(str(row["price"])), "ub": int(str(row["ub"]))}
    rows = pa.array([row], kind)
    expected = {
        expression.strip(): holds
        for text, holds in ((TRUE, True), (FALSE, False))
        for expression in re.split(r" ; |\n", text)
        if expression.strip()
    }
    found = {e: bool(condition_of(e, SORTED).holds(rows, "UTC")[0]) for e in expected}
    assert {e: holds for e, holds in found.items() if holds is not expected[e]} == {}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("nofunction(price)", "the function nofunction is not supported"),
        ("sum(price) > 1", "the function sum is not supported"),
        ("now() > at", "the function now is not supported"),
        ("truncate(price, 1, 2) > 1", "the function truncate has too few or too many arguments"),
        ("if(five, 1)", "too few or too many arguments"),
        ("price", "it gives a number, not a condition"),
        ("name", "it gives text, not a condition"),
        ("ci = 'ann'", "text of the collation utf8mb4_general_ci is compared"),
        ("ci like 'a%'", "text of the collation utf8mb4_general_ci is compared"),
        ("ci = city", "texts of several collations"),
        ("st = se", "an ENUM or SET is compared with an ENUM or SET"),
        ("at = 'tomorrow'", "a date is compared with 'tomorrow'"),
        ("d > '2024-02-30'", "a date is compared with '2024-02-30', which no calendar has"),
        ("at > five", "a date is compared with a number that is no literal"),
        ("date(at) > 20240501", "a date that is no column is compared with 20240501"),
        ("coalesce(t) > '10:00'", "a TIME that is no column is compared with '10:00'"),
        ("concat(filled) = '5'", "a number of which MySQL's text is not known"),
        ("city regexp ''", "its regular expression is no plain one"),
        ("t > 99", "a TIME is compared with 99, which is none"),
        ("y = 24", "a YEAR is compared with a number of fewer than four digits"),
        ("y <= 99.5", "a YEAR is compared with a number of fewer than four digits"),
        ("y = '24.00'", "a YEAR is compared with a number of fewer than four digits"),
        ("name between 1 and 'b'", "BETWEEN has values of several sorts: a number, text"),
        ("big between 0 and 1e3", "BETWEEN has values of several sorts: a FLOAT or DOUBLE, a number"),
        ("at between 20240501 and 20240502", "BETWEEN has values of several sorts: a date, a number"),
        ("'10:00' between t and ago", "BETWEEN has values of several sorts: a TIME, text"),
        ("doc = '{}'", "a value of this type is compared with text"),
        ("doc -> '$.a' = 1", "not supported: ->"),
        ("concat(d + interval 1 day) = '2024-05-02'", "a date of which MySQL's text is not known"),
        ("d + interval five day > 0", "an INTERVAL has something else than a literal whole number"),
        ("d + interval '1:2' minute_second > 0", "an INTERVAL has something else than a literal whole number"),
        ("t + interval 1 hour > 0", "only a date"),
        ("'2024-05-01' + interval 1 day > d", "only a date"),
        ("(five, two) = (5, 2)", "not supported: a row"),
        ("cast(five as char) = '5'", "the function cast is not supported"),
        ("city collate utf8mb4_bin = 'x'", "not supported: COLLATE"),
        ("five = 5 > two", "it compares a comparison"),
        ("flags", "it gives a BIT, not a condition"),
        ("flags % 2", "it gives a FLOAT or DOUBLE, not a condition"),
        ("flags like '5'", "a number of which MySQL's text is not known"),
        ("concat(flags) = '5'", "a number of which MySQL's text is not known"),
        ("price & 1", "a number that is not whole stands where bits belong"),
        ("big * big > 0", "more than 65 digits"),
        ("low * 0.1 > 0", "more than 30 digits after the point"),
        ("city regexp '(?i)m'", "its regular expression is no plain one"),
        ("city regexp '(m'", "its regular expression is none"),
        ("city like name", "the pattern of LIKE is no literal text"),
        ("five /*!50000 + 1 */ = 6", "it has a comment that MySQL runs"),
        ("if(five, at, 1) = 1", "its values are of several sorts"),
        ("length(" * 31 + "five" + ")" * 31, "nested too deep"),
    ],
)
def test_expressions_that_might_say_otherwise_are_refused(expression: str, words: str) -> None:
    one = EventFilter.model_validate({"matcher": ["*.*"], "ignore-insert-value-expr": expression})
    with pytest.raises(ConfigError) as refused:
        EventFilters([one]).check(SORTED)
    assert refused.value.code == "CDC:ErrInvalidFilterExpression"
    assert words in str(refused.value)
    assert f"invalid filter expression '{expression}'" in str(refused.value)
    assert "shop.sorts" in str(refused.value)


def test_a_number_out_of_range_stops(rows: Rows) -> None:
    with pytest.raises(ConfigError, match="BIGINT value is out of range") as stopped, filter_errors():
        left({"ignore-insert-value-expr": "code + 9223372036854775807 > 0"}, rows)
    assert stopped.value.code == "CDC:ErrInvalidFilterExpression"


@pytest.mark.parametrize("column", ["weight", "other.id", "x.orders.id"])
def test_a_column_that_there_is_not_is_refused(column: str) -> None:
    one = EventFilter.model_validate({"matcher": ["*.*"], "ignore-insert-value-expr": f"{column} > 5"})
    with pytest.raises(ConfigError) as refused:
        EventFilters([one]).check(TABLE)
    assert refused.value.code == "CDC:ErrExpressionColumnNotFound"
    words = f"invalid filter expression(s). Cannot find column '{column}' from table 'shop.orders' in: {column} > 5"
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("rule", "sql", "dropped"),
    [
        ({"ignore-event": ["alter table"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN `x` INT", True),
        ({"ignore-event": ["alter table"]}, "CREATE INDEX `i` ON `shop`.`orders` (`name`)", True),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` DROP COLUMN `name`", False),
        ({"ignore-event": ["all ddl"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-event": ["truncate table"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-sql": ["^truncate"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-sql": ["^drop", "orders$"]}, "TRUNCATE TABLE `shop`.`orders`", False),
        ({"matcher": ["a.b"], "ignore-event": ["all ddl"]}, "TRUNCATE TABLE `shop`.`orders`", False),
        ({"ignore-event": ["alter ttl info"]}, "ALTER TABLE `shop`.`orders` TTL_ENABLE = 'OFF'", True),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN (`a` INT, `b` INT)", False),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN (`a` DECIMAL(5,2))", True),
        (
            {"ignore-event": ["create view"]},
            "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `shop`.`v` AS SELECT 1",
            True,
        ),
    ],
)
def test_schema_changes_are_left_out_by_type_and_text(rule: dict[str, object], sql: str, dropped: bool) -> None:
    one = EventFilter.model_validate({"matcher": ["shop.*"], **rule})
    assert EventFilters([one]).drops_ddl(Ddl("ALTER", sql, 1, TABLE)) is dropped


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [
        ({"ignore-event": ["all ddl"]}, True),
        ({"ignore-event": ["alter table", "multi schema change"]}, False),
        ({"ignore-sql": ["foreign key", "fulltext"]}, True),
    ],
)
@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("DINDEX", "ALTER TABLE `shop`.`orders` DROP FOREIGN KEY `f`"),
        ("CINDEX", "ALTER TABLE `shop`.`orders` ADD CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `shop`.`t`(`id`)"),
        ("QUERY", "ALTER TABLE `shop`.`orders` ADD FULLTEXT INDEX (`name`) WITH PARSER standard"),
    ],
)
def test_foreign_keys_and_fulltext_indexes_are_no_alters_of_tables(
    rule: dict[str, object], dropped: bool, kind: str, sql: str
) -> None:
    one = EventFilter.model_validate({"matcher": ["shop.*"], **rule})
    assert EventFilters([one]).drops_ddl(Ddl(kind, sql, 1, TABLE)) is dropped


@pytest.mark.parametrize(("matcher", "dropped"), [("shop.was", True), ("shop.orders", False)])
@pytest.mark.parametrize("rule", [{"ignore-event": ["rename table"]}, {"ignore-sql": ["^rename"]}])
def test_a_rename_goes_by_the_name_before(rule: dict[str, object], matcher: str, dropped: bool) -> None:
    one = EventFilter.model_validate({"matcher": [matcher], **rule})
    renamed = Ddl("RENAME", "RENAME TABLE `shop`.`was` TO `shop`.`orders`", 1, TABLE)
    assert EventFilters([one]).drops_ddl(renamed) is dropped


def test_a_schema_s_changes_go_by_the_schema() -> None:
    one = EventFilter.model_validate({"matcher": ["shop.orders"], "ignore-event": ["create schema"]})
    assert EventFilters([one]).drops_ddl(Ddl("QUERY", "CREATE DATABASE `shop`", 1))
    assert not EventFilters([one]).drops_ddl(Ddl("QUERY", "CREATE DATABASE `other`", 1))


@pytest.mark.parametrize("definer", ["CURRENT_USER", "`root`@`%`", "`the (VIEW`@`h`"])
def test_a_view_is_told_from_a_table(definer: str) -> None:
    head = f"CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = {definer} SQL SECURITY DEFINER"
    assert Ddl("CREATE", f"{head} VIEW `d`.`v` (`id`) AS SELECT `id` FROM `d`.`t`", 1).is_view
    assert Ddl("ERASE", "DROP VIEW `d`.`v`", 1).is_view
    assert (Ddl("ERASE", "DROP TABLE `d`.`t`", 1).database, Ddl("ERASE", "DROP TABLE `d`.`t`", 1).table) == ("d", "t")
    renamed = Ddl("RENAME", "RENAME TABLE `d`.`t` TO `e`.`u`", 1)
    assert (renamed.database, renamed.table, renamed.renamed_from) == ("e", "u", ("d", "t"))
    for clause in ("RENAME TO e.u", "RENAME AS e.u", "RENAME e.u"):
        altered = Ddl("RENAME", f"ALTER TABLE d.t {clause}", 1)
        assert (altered.database, altered.table) == ("e", "u")
    assert not Ddl("CREATE", "CREATE TABLE `d`.`view` (`view` INT COMMENT 'VIEW')", 1).is_view


@pytest.mark.parametrize(
    ("event", "code", "words"),
    [
        ("all", "CDC:ErrInvalidIgnoreEventType", "invalid ignore event type: 'all'"),
        ("INSERT", "CDC:ErrInvalidIgnoreEventType", "invalid ignore event type: 'INSERT'"),
        ("add foreign key", "CDC:ErrFilterRuleInvalid", "event type add foreign key not valid"),
        ("create hybrid index", "CDC:ErrFilterRuleInvalid", "event type create hybrid index not valid"),
    ],
)
def test_an_event_that_cannot_be_left_out_is_refused(tmp_path: Path, event: str, code: str, words: str) -> None:
    config = tmp_path / "f.toml"
    config.write_text(f'[[filter.event-filters]]\nmatcher = ["*.*"]\nignore-event = ["insert", "{event}"]\n')
    with pytest.raises(ConfigError, match=words) as refused:
        load_config("kafka://127.0.0.1:9092/t?protocol=simple", config)
    assert refused.value.code == code


def test_a_key_update_becomes_a_delete_and_an_insert(rows: Rows) -> None:
    rows, moved = split_key_updates(rows, TABLE)
    offsets = rows.at.tolist()
    sides = [[side and side["id"] for side in column.to_pylist()] for column in (rows.old, rows.data)]
    shown = list(zip(offsets, rows.op.to_pylist(), moved.tolist(), *sides, strict=True))
    assert shown == [
        (0, "c", False, None, 1),
        (1, "c", False, None, 2),
        (2, "u", False, 1, 1),
        (3, "d", False, 1, None),
        (3, "c", True, None, 3),
        (4, "d", False, 2, None),  # the unique key came to have a value
        (4, "c", True, None, 2),
        (5, "d", False, 2, None),
    ]
    checksums = [(c["current"], c["previous"]) for c in rows.checksum.to_pylist()]
    sums = dict(zip(zip(offsets, rows.op.to_pylist(), strict=True), checksums, strict=True))
    assert (sums[3, "d"], sums[3, "c"], sums[2, "u"]) == ((0, 6), (5, 0), (5, 6))
