"""The row checksum is TiDB's, for every type; a flipped bit never passes."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from golden_data import lines
from hypothesis import strategies as st
from strategies import drawn

from tidecast.checksum import Verdicts, explained, row_checksums, verdicts
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, TableSchema
from tidecast.protocols import CHECKSUM
from tidecast.values import BYTES, row_type

Row = dict[str, bytes | None]
"""A row as tests hold it: each value's text in UTF-8, or its bytes where it is binary."""


def table(*columns: TableColumn) -> TableSchema:
    return TableSchema("test", "t", 1, 1, columns)


def model_rows(schema: TableSchema, rows: Sequence[Row | None]) -> pa.StructArray:
    """Return `Row` values as rows of the model, each read as Python reads it."""
    columns = [
        model_values(kind.type, [None if row is None else row[kind.name] for row in rows]) for kind in row_type(schema)
    ]
    missing = pa.array([row is None for row in rows])
    return pa.StructArray.from_arrays(columns, fields=[*row_type(schema)], mask=missing)


def model_values(kind: pa.DataType, raw: Sequence[bytes | None]) -> pa.Array:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        read = int if pa.types.is_integer(kind) else float if pa.types.is_floating(kind) else Decimal
        return pa.array([None if value is None else read(value.decode()) for value in raw], kind)
    return pa.array(raw, BYTES).view(kind)  # which takes damaged text as it is


# --- a second implementation ---


def reference(schema: TableSchema, row: Row) -> int:
    columns = sorted((c for c in schema.columns if not c.virtual), key=lambda c: c.id or 0)
    return zlib.crc32(b"".join(reference_bytes(c.data_type, row[c.name]) for c in columns))


def reference_bytes(data_type: DataType, value: bytes | None) -> bytes:
    if value is None:
        return b""
    match data_type.kind:
        case Kind.INTEGER | Kind.YEAR:
            return (int(value) % 2**64).to_bytes(8, "little")
        case Kind.FLOAT:
            return struct.pack("<d", *struct.unpack("<f", struct.pack("<f", float(value))))
        case Kind.DOUBLE:
            return struct.pack("<d", float(value))
        case Kind.ENUM:
            options = ["", *data_type.elements]
            return struct.pack("<Q", len(options) - 1 - options[::-1].index(value.decode()))
        case Kind.SET:
            chosen = value.decode().split(",") if value else []
            return struct.pack("<Q", sum(1 << data_type.elements.index(e) for e in chosen))
        case Kind.BIT:
            return value.lstrip(b"\0")[::-1].ljust(8, b"\0")
        case Kind.VECTOR:
            numbers = json.loads(value)
            return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)
        case _:
            return struct.pack("<I", len(value)) + value


# --- TiDB's own rows ---


def golden_schema(info: dict[str, Any]) -> TableSchema:
    def column(c: dict[str, Any]) -> TableColumn:
        data_type = DataType(
            mysql_type=c["type"],
            charset=c["charset"],
            length=max(c["flen"], 0),
            decimal=max(c["decimal"], 0),
            elements=tuple(c.get("elems") or ()),
            unsigned=c["unsigned"],
        )
        return TableColumn(c["name"], data_type, not c["not_null"], None, c["id"], c["generated"] == "virtual")

    return table(*map(column, info["columns"]))


def golden_row(schema: TableSchema, row: dict[str, Any], zone: str) -> Row:
    def value(column: TableColumn) -> bytes | None:
        match row.get(column.name):
            case {"b": value}:
                return base64.b64decode(value)
            case {"s": value}:
                return str(value).encode()
            case str(value):
                return (in_utc(value, zone) if column.data_type.kind is Kind.TIMESTAMP else value).encode()
            case nothing:
                assert nothing is None
                return None

    return {c.name: value(c) for c in schema.columns}


def in_utc(text: str, zone: str) -> str:
    if text.startswith("0000"):
        return text
    local = dt.datetime.fromisoformat(text[:19]).replace(tzinfo=ZoneInfo(zone))
    return local.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S") + text[19:]


def test_rows_of_tidb_have_tidbs_checksums(golden: Callable[[str], Path]) -> None:
    zone = json.loads(golden("suite.json").read_text())["time_zone"]
    schemas: dict[Any, TableSchema] = {}
    rows: dict[TableSchema, dict[tuple[int, bool], Row]] = {}
    want: dict[tuple[int, bool], int] = {}
    for event in lines(golden("events.jsonl.gz")):
        if "table_info" in event:
            info = event["table_info"]
            schemas[event["db"], event["table"], info["version"]] = golden_schema(info)
        sums = event.get("checksum")
        if event["kind"] != "dml" or not sums or sums["corrupted"]:
            continue
        schema = schemas[event["db"], event["table"], event["schema_version"]]
        for new, row, value in ((True, event.get("new"), sums["current"]), (False, event.get("old"), sums["previous"])):
            if row and value:
                rows.setdefault(schema, {})[event["n"], new] = golden_row(schema, row, zone)
                want[event["n"], new] = value
    found = {
        name: checksum
        for schema, mine in rows.items()
        for name, checksum in zip(mine, checksums(schema, [*mine.values()]), strict=True)
    }
    assert len([key for key in want if key[1]]) > 2000
    assert len([key for key in want if not key[1]]) > 700
    assert found == want


# --- the protocol's own examples ---

ORDERS = table(
    *(
        TableColumn(name, data_type, id=n + 1)
        for n, (name, data_type) in enumerate(
            {
                "id": DataType("bigint", unsigned=True),
                "sku": DataType("varchar", "utf8mb4", length=32),
                "qty": DataType("int", unsigned=True),
                "price": DataType("decimal", length=12, decimal=3),
                "weight": DataType("float"),
                "flags": DataType("bit", length=12),
                "state": DataType("enum", "utf8mb4", elements=("new", "paid,late", "done")),
                "tags": DataType("set", "utf8mb4", elements=("a", "b", "c")),
                "raw": DataType("varbinary", length=8),
                "note": DataType("text", "utf8mb4"),
                "meta": DataType("json"),
                "due": DataType("date"),
                "at": DataType("datetime", decimal=3),
                "ts": DataType("timestamp"),
                "dur": DataType("time", decimal=2),
                "y": DataType("year"),
            }.items()
        )
    )
)
ORDER: Row = {
    "id": b"18446744073709551615",
    "sku": b"A-1",
    "qty": b"3",
    "price": b"-12.500",
    "weight": b"0.1",
    "flags": b"\x0a\x5b",
    "state": b"paid,late",
    "tags": b"a,c",
    "raw": b"\x00\xff",
    "note": None,
    "meta": b'{"k": [1, 2.0]}',
    "due": b"2024-02-29",
    "at": b"2024-02-29 23:59:59.500",
    "ts": b"2024-02-29 04:00:00",
    "dur": b"-01:02:03.45",
    "y": b"2024",
}

SINGLE: list[tuple[DataType, bytes, int]] = [
    (DataType("tinyint"), b"-1", 112581297),
    (DataType("mediumint", unsigned=True), b"16777215", 308952542),
    (DataType("int", unsigned=True), b"4294967295", 3624860242),
    (DataType("bigint", unsigned=True), b"18446744073709551615", 112581297),
    (DataType("float"), b"3.14", 2994847583),
    (DataType("decimal", length=10, decimal=4), b"-1.2345", 2868518322),
    (DataType("decimal"), b"-1.2345", 2868518322),
    (DataType("varchar", "gbk", length=10), "中文".encode(), 1855735167),
    (DataType("binary", length=4), b"ab\0\0", 240147222),
    (DataType("blob"), b"\x00\xff", 746509879),
    (DataType("date"), b"0000-00-00", 627588701),
    (DataType("datetime"), b"2024-02-29 12:34:56", 3162205361),
    (DataType("timestamp"), b"2024-02-29 04:34:56", 318855445),
    (DataType("time", decimal=3), b"12:34:56.789", 1278245335),
    (DataType("year"), b"2024", 3611417246),
    (DataType("bit", length=10), b"\x00\x41", 2816743607),
    (DataType("bit", length=10), b"\x41", 2816743607),
    (DataType("bit", length=64), b"\0\0\0\0\0\0\0\0\0\x41", 2816743607),
    (DataType("json"), '{"a": 1, "aa": "<é\\n&>", "b": [1, 2.0, 1e20, true, null]}'.encode(), 2730247490),
    (DataType("enum", "utf8mb4", elements=("a", "b,c", "it's", "x\\y", "e f")), b"it's", 3428637991),
    (DataType("set", "utf8mb4", elements=("a", "b", "c")), b"a,c", 171168928),
    (DataType("vector"), b"[1,2.5,-3]", 686017853),
]

SHUFFLED = table(
    *(
        TableColumn(name, DataType(mysql_type, "utf8mb4"), id=number)
        for name, number, mysql_type in [
            ("z", 4, "varchar"),
            ("id", 1, "int"),
            ("y", 5, "int"),
            ("a", 2, "varchar"),
            ("b", 3, "int"),
        ]
    )
)


def checksums(schema: TableSchema, rows: Sequence[Row | None]) -> list[int | None]:
    """Return the checksum of each row, in order."""
    found: list[int | None] = row_checksums(schema, model_rows(schema, rows)).to_pylist()
    return found


def test_examples_of_the_protocol() -> None:
    number = TableColumn("id", DataType("int"), id=1)
    for data_type, value, want in SINGLE:
        schema = table(number, TableColumn("c", data_type, id=2))
        assert checksums(schema, [{"id": b"1", "c": value}]) == [want], data_type
    assert checksums(ORDERS, [ORDER, None]) == [4269808325, None]


def test_columns_count_by_id_and_null_counts_for_nothing() -> None:
    row: Row = {"z": b"zz", "id": b"1", "y": b"2", "a": b"aa", "b": b"3"}
    empty: Row = {"z": None, "id": b"2", "y": None, "a": None, "b": None}
    assert checksums(SHUFFLED, [row, empty, dict.fromkeys(row)]) == [655044708, 654825492, 0]
    by_position = table(*(TableColumn(c.name, c.data_type) for c in SHUFFLED.columns))
    assert checksums(by_position, [row]) == [2525954454]
    virtual = table(*(TableColumn(c.name, c.data_type, id=c.id, virtual=c.name in "yz") for c in SHUFFLED.columns))
    assert checksums(virtual, [row]) == [2782784711]


# --- any row ---

FLAGS = tuple(f"v{n}" for n in range(64))
ANY = table(
    *(
        TableColumn(f"c{n}", data_type, id=100 - n)
        for n, data_type in enumerate(
            [
                DataType("tinyint"),
                DataType("smallint", unsigned=True),
                DataType("int"),
                DataType("int", unsigned=True),
                DataType("bigint"),
                DataType("bigint", unsigned=True),
                DataType("float"),
                DataType("double"),
                DataType("decimal", length=12, decimal=2),
                DataType("decimal", length=30, decimal=20),
                DataType("decimal", length=65, decimal=30),
                DataType("varchar", "utf8mb4"),
                DataType("longtext", "utf8mb4"),
                DataType("varbinary"),
                DataType("bit", length=9),
                DataType("bit", length=64),
                DataType("enum", "utf8mb4", elements=("new", "paid,late", "", "done")),
                DataType("set", "utf8mb4", elements=("a", "b", "c")),
                DataType("set", "utf8mb4", elements=FLAGS),
                DataType("json"),
                DataType("vector"),
                DataType("datetime"),
                DataType("year"),
            ]
        )
    )
)


def random_value(rng: random.Random, data_type: DataType) -> bytes:
    match data_type.kind:
        case Kind.INTEGER | Kind.YEAR:
            low, high = limits(data_type)
            near = rng.choice([0, 1, 255, 256, 2**32 - 1, 2**53 - 1, 2**53, 2**63, -1, -(2**32), low, high])
            return b"%d" % rng.choice([rng.randint(low, high), min(max(near, low), high)])
        case Kind.FLOAT:
            return repr(struct.unpack("<f", struct.pack("<f", rng.choice([0.0, -0.0, rng.gauss(0, 1e9)])))[0]).encode()
        case Kind.DOUBLE:
            return repr(rng.choice([0.0, -0.0, 5e-324, 1.7976931348623157e308, rng.gauss(0, 1)])).encode()
        case Kind.DECIMAL:
            digits = rng.choice([rng.randrange(10**data_type.length), rng.randrange(100)])
            return b"%s%d.%0*d" % (rng.choice([b"", b"-"]) if digits else b"", *decimal_parts(digits, data_type))
        case Kind.BIT:
            return rng.randrange(2**data_type.length).to_bytes((data_type.length + 7) // 8, "big")
        case Kind.ENUM:
            return rng.choice(data_type.elements).encode()
        case Kind.SET:
            return ",".join(e for e in data_type.elements if rng.random() < 0.5).encode()
        case Kind.VECTOR:
            return json.dumps([rng.randrange(-99, 99) / 4 for _ in range(rng.randrange(4))]).replace(" ", "").encode()
        case Kind.DATETIME:
            return b"2024-02-%02d 10:%02d:00" % (rng.randint(1, 29), rng.randrange(60))
        case _:
            return rng.randbytes(rng.choice([0, 1, 20, 255, 256, 5000]))


def limits(data_type: DataType) -> tuple[int, int]:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "year": 11}[data_type.mysql_type]
    return (0, 2**bits - 1) if data_type.unsigned or bits == 11 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimal_parts(digits: int, data_type: DataType) -> tuple[int, int, int]:
    whole, fraction = divmod(digits, 10**data_type.decimal)
    return whole, data_type.decimal, fraction


def random_rows(count: int) -> list[Row]:
    rng = random.Random(20240229)
    return [
        {c.name: None if rng.random() < 0.1 else random_value(rng, c.data_type) for c in ANY.columns}
        for _ in range(count)
    ]


def flipped(rng: random.Random, data_type: DataType, value: bytes) -> bytes | None:
    """Return a value with one bit of its model's form turned over, None where that is no value."""
    match data_type.kind:
        case Kind.INTEGER | Kind.YEAR:
            low, high = limits(data_type)
            turned = (int(value) - low) ^ 1 << rng.randrange((high - low).bit_length())
            return b"%d" % (turned + low)
        case Kind.DOUBLE | Kind.FLOAT:
            form = "<d" if data_type.kind is Kind.DOUBLE else "<f"
            bits = bytearray(struct.pack(form, float(value)))
            bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
            number = struct.unpack(form, bits)[0]
            return repr(number).encode() if abs(number) < float("inf") else None
        case Kind.DECIMAL if data_type.length <= 38:
            digits = abs(int(value.replace(b".", b""))) ^ 1 << rng.randrange(30)
            sign = b"-" if value.startswith(b"-") and digits else b""
            return b"%s%d.%0*d" % (sign, *decimal_parts(digits % 10**data_type.length, data_type))
        case _:
            if not value:
                return None
            turned_bytes = bytearray(value)
            turned_bytes[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
            return bytes(turned_bytes)


def test_any_row_has_the_checksum_of_the_second_implementation() -> None:
    rows = random_rows(300)
    assert checksums(ANY, rows) == [reference(ANY, row) for row in rows]


INTEGERS = table(
    *(
        TableColumn(f"c{n}", data_type)
        for n, data_type in enumerate(
            [
                DataType("int"),
                DataType("int", unsigned=True),
                DataType("bigint"),
                DataType("bigint", unsigned=True),
                DataType("double"),
                DataType("text", "utf8mb4"),
            ]
        )
    )
)
NEAR_POWERS = st.tuples(st.integers(0, 64), st.integers(-1, 1)).map(lambda one: (1 << one[0]) + one[1])
WHOLE = st.tuples(
    *(
        (st.integers(low, high) | NEAR_POWERS.filter(high.__ge__)).map(lambda n: b"%d" % n)
        for low, high in (limits(column.data_type) for column in INTEGERS.columns[:4])
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: repr(x).encode()),
    st.integers(0, 300).map(lambda length: b"x" * length),
)


def test_numbers_have_the_bytes_that_python_gives_them() -> None:
    values = drawn(WHOLE, 300)
    names = [c.name for c in INTEGERS.columns]
    shown = explained(INTEGERS, model_rows(INTEGERS, [dict(zip(names, row, strict=True)) for row in values]))
    kinds = [column.data_type for column in INTEGERS.columns]
    for n, row in enumerate(values):
        want = [reference_bytes(kind, value) for kind, value in zip(kinds, row, strict=True)]
        assert [column[n].as_py() for column in shown.values()] == want, row


def test_a_flipped_bit_in_any_column_changes_the_checksum() -> None:
    rng = random.Random(4)
    rows = random_rows(200)
    damaged: list[tuple[int, str, Row]] = []
    for n, row in enumerate(rows):
        for column in ANY.columns:
            value = row[column.name]
            turned = flipped(rng, column.data_type, value) if value is not None else None
            if turned is not None:
                if column.data_type.kind not in (Kind.BINARY, Kind.BIT):
                    turned = turned.decode(errors="replace").encode()  # no text of the model is damaged
                damaged.append((n, column.name, row | {column.name: turned}))
    assert min(Counter(name for _, name, _ in damaged).values()) > 100
    right, *wrong = checksums(ANY, [rows[0], *(row for _, _, row in damaged)])
    assert right == reference(ANY, rows[0])
    unseen = [
        (name, rows[n][name], row[name])
        for (n, name, row), checksum in zip(damaged, wrong, strict=True)
        if checksum == reference(ANY, rows[n])
    ]
    assert unseen == []


def test_values_outside_of_their_type_fit_no_checksum() -> None:
    """No checksum of a row whose only value is out of its type is that of any value near it, or of NULL."""
    cases: list[tuple[DataType, bytes, list[bytes | None]]] = [
        *(
            (DataType("vector"), wrong, [None, b"[]", b"[1]"])
            for wrong in (b'""', b"{}", b"[true]", b"[1]\n", b'["1"]')
        ),
        (DataType("enum", "utf8mb4", elements=("a", "b")), b"A", [None, b"", b"a", b"b"]),
        (DataType("set", "utf8mb4", elements=("a", "b")), b"a,x", [None, b"", b"a", b"b", b"a,b"]),
        (DataType("bit", length=64), b"\1" + bytes(8), [None, bytes(8), b"\1" + bytes(7)]),
        (DataType("tinyint"), b"300", [None, b"44"]),
        (DataType("smallint"), b"-65537", [None, b"-1"]),
        (DataType("vector"), b"[1, 2]", [None, b"[]", b"[1,2]", b"[1]"]),
        (DataType("vector"), b"[1,,2]", [None, b"[1,2]"]),
        (DataType("vector"), b"[1.]", [None, b"[1]"]),
    ]
    for data_type, wrong, others in cases:
        schema = table(TableColumn("c", data_type))
        got = checksums(schema, [{"c": value} for value in [wrong, *others]])
        assert got[0] not in got[1:], (data_type, wrong)
        assert got[1:] == [reference(schema, {"c": value}) for value in others]


def test_vector_of_the_most_dimensions() -> None:
    schema = table(TableColumn("v", DataType("vector")))
    row: Row = {"v": f"[{','.join(f'-{n}.5e-3' for n in range(16383))}]".encode()}
    assert checksums(schema, [row]) == [reference(schema, row)]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_count_as_zero(number: str) -> None:
    schema = table(TableColumn("f", DataType("float")), TableColumn("d", DataType("double")))
    rows: list[Row] = [{"f": number.encode(), "d": number.encode()}, {"f": b"0.0", "d": b"0.0"}]
    got = checksums(schema, rows)
    assert got[0] == got[1] == zlib.crc32(bytes(16))


# --- verdicts and explanations ---


def test_verdicts() -> None:
    schema = table(TableColumn("id", DataType("int")))
    right = reference(schema, {"id": b"7"})
    rows: list[tuple[Row | None, tuple[int, bool | None, int | None, int] | None]] = [
        ({"id": b"7"}, (2, False, right, 0)),
        ({"id": b"7"}, (2, True, right, 0)),
        ({"id": b"7"}, (0, False, right ^ 1, 0)),
        ({"id": b"7"}, (0, False, 0, 0)),
        ({"id": b"7"}, None),
        (None, (0, False, right, 0)),
        ({"id": b"7"}, (0, None, None, right)),
        ({"id": None}, (0, False, right, right)),
        ({"id": None}, (0, False, 0, 0)),
    ]
    of = model_rows(schema, [row for row, _ in rows])
    fields = [f.name for f in CHECKSUM]
    sums = pa.array([given and dict(zip(fields, given, strict=True)) for _, given in rows], CHECKSUM)
    nothing, text = pa.nulls(len(rows), of.type), pa.nulls(len(rows), pa.large_string())

    def judged(old: pa.Array, data: pa.Array) -> Verdicts:
        ops = pa.array(["u"] * len(rows), pa.large_string())
        return verdicts(schema, op=ops, old=old, data=data, checksum=sums, reason=text)

    now, before = judged(nothing, of), judged(of, nothing)
    shown = zip(*(c.to_pylist() for c in (now.verdict, now.expected, now.actual, now.corrupted)), strict=True)
    got = dict(enumerate(zip(shown, before.verdict.to_pylist(), strict=True), 1))
    assert got == {
        1: (("match", right, right, False), "none"),
        2: (("match", right, right, True), "none"),
        3: (("mismatch", right ^ 1, right, False), "none"),
        4: (("zero", 0, right, False), "none"),
        5: (("none", None, right, False), "none"),
        6: (("none", right, None, False), "none"),
        7: (("none", None, right, False), "match"),
        8: (("mismatch", right, 0, False), "mismatch"),
        9: (("zero", 0, 0, False), "none"),
    }


def test_an_explanation_shows_each_columns_bytes_in_order() -> None:
    rows = [*random_rows(20), dict.fromkeys(c.name for c in ANY.columns)]
    shown = explained(ANY, model_rows(ANY, rows))
    assert [*shown] == [c.name for c in reversed(ANY.columns)]
    kinds = {c.name: c.data_type for c in ANY.columns}
    for n, row in enumerate(rows):
        for name, column in shown.items():
            value = row[name]
            assert column[n].as_py() == (None if value is None else reference_bytes(kinds[name], value)), name
