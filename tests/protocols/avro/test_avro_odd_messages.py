"""Avro messages that are broken or rare are judged one by one: no other message suffers from them."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections import Counter
from typing import Any

import fastavro
import pytest
from avro_events import decode_avro
from known_schemas import KnownSchemas
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast import verify
from tidecast._errors import Unreachable
from tidecast.model import RECORD, Column, DataType, Events, Index, TableSchema
from tidecast.protocols import avro
from tidecast.protocols.avro import AvroOptions
from tidecast.registry import RegisteredSchema, SchemaId

OPTIONS = AvroOptions(
    enable_tidb_extension=True, decimal_handling_mode="string", bigint_unsigned_handling_mode="string", checksum=True
)
ELEMENTS = ("a''b", "x\\'y", "plain")  # as MySQL has them, and rows show them


def table(name: str, *columns: Column) -> TableSchema:
    numbered = (Column("id", DataType("int", length=11), False), *columns)
    return TableSchema("d", name, 1, 1, numbered, (Index("PRIMARY", True, True, False, ("id",)),))


class Topic:
    """Messages of a topic, written by another implementation of Avro."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.messages: list[tuple[int, bytes | None, bytes | None]] = []

    def _framed(self, text: str, row: dict[str, Any]) -> bytes:
        number = next((n for n, known in self.schemas.items() if known == text), len(self.schemas) + 1)
        self.schemas[number] = text
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(text)), row)
        return b"\0" + number.to_bytes(4) + body.getvalue()

    def row(self, schema: TableSchema, checksum: str = "", **values: Any) -> None:
        extension = {"_tidb_op": "c", "_tidb_row_level_checksum": checksum}
        value = self._framed(avro.value_schema(schema, OPTIONS), extension | values)
        self.message(self._framed(avro.key_schema(schema, OPTIONS), values), value)

    def message(self, key: bytes | None, value: bytes | None) -> None:
        self.messages.append((len(self.messages), key, value))

    def records(self, spark: SparkSession) -> DataFrame:
        given = spark.createDataFrame(self.messages, "n bigint, k binary, v binary")
        known = {"offset": F.col("n"), "key": F.col("k"), "value": F.col("v"), "topic": F.lit("t")}
        return given.select(*(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD))

    def decode(self, spark: SparkSession) -> Events:
        return decode_avro(self.records(spark), KnownSchemas(self.schemas), ordered=True)


def verdicts(events: Events) -> dict[int, tuple[str, int | None]]:
    return {r["offset"]: (r["verdict"], r["expected"]) for r in verify(events).collect()}


def test_spark_keeps_no_messages_whose_schema_nobody_tells(spark: SparkSession) -> None:
    topic = Topic()
    topic.row(table("t"), id=1)
    records = topic.records(spark)

    class Silent(KnownSchemas):
        def schema(self, schema_id: SchemaId) -> RegisteredSchema | None:
            raise Unreachable(f"the registry does not answer for {schema_id}")

    with pytest.raises(Unreachable):
        decode_avro(records, Silent({}))
    assert records.storageLevel == StorageLevel.NONE


def test_elements_with_quotes_have_their_numbers(session: SparkSession) -> None:
    topic = Topic()
    enum, flags = (DataType(name, "utf8mb4", elements=ELEMENTS) for name in ("enum", "set"))
    schema = table("t", Column("e", enum), Column("s", flags))
    rows = [(e, ",".join({e, "plain"}), n, 4 | 1 << n - 1) for n, e in enumerate(ELEMENTS, 1)]
    sums = [zlib.crc32(struct.pack("<qqq", n, n, mask)) for _, _, n, mask in rows]
    for (e, s, n, _), checksum in zip(rows, sums, strict=True):
        topic.row(schema, str(checksum), id=n, e=e, s=s)
    topic.row(schema, str(sums[0]), id=1, e="a'b", s="other")
    with topic.decode(session) as events:
        assert verdicts(events) == {**{n: ("match", s) for n, s in enumerate(sums)}, 3: ("mismatch", sums[0])}
        kept = events.tables[0].frame.orderBy("offset").select("data.e", "data.s").collect()
    assert [tuple(r) for r in kept] == [*((e, s) for e, s, _, _ in rows), ("a'b", "other")]


def test_a_checksum_that_is_no_number_fits_no_row(session: SparkSession) -> None:
    topic, right = Topic(), zlib.crc32(struct.pack("<q", 7))
    texts = [str(right), "", "0", "abc", "1.0", "99999999999999999999", "-5", str(right + (1 << 32))]
    for text in texts:
        topic.row(table("t"), text, id=7)
    with topic.decode(session) as events:
        judged = verdicts(events)
    assert list(map(judged.get, range(len(texts)))) == [
        ("match", right),
        ("none", None),
        ("zero", 0),
        *[("mismatch", None)] * 4,
        ("mismatch", right + (1 << 32)),
    ]


def test_columns_that_differ_in_case_alone_do_not_end_the_run(spark: SparkSession) -> None:
    topic, text = Topic(), DataType("text", "utf8mb4")
    topic.row(table("good", Column("a", text)), id=1, a="x")
    topic.row(table("bad", Column("a-b", text), Column("A_b", text)), id=1, a_b="x", A_b="y")
    with topic.decode(spark) as events:
        assert [t.schema.table for t in events.tables] == ["good"]
        (letter,) = events.dead_letters().collect()
    detail = "d.bad has two columns of one name: a_b and A_b"
    assert (letter["offset"], letter["reason"], letter["detail"]) == (1, "foreign-schema", detail)


def test_schemas_that_no_table_can_have_end_no_run(spark: SparkSession) -> None:
    def field(avro: str, tidb: str, name: Any = "c", **more: Any) -> dict[str, Any]:
        return {"name": name, "type": {"type": avro, "connect.parameters": {"tidb_type": tidb, **more}}}

    def decimal(precision: Any, scale: Any) -> dict[str, Any]:
        decimal = field("bytes", "DECIMAL")
        decimal["type"] |= {"logicalType": "decimal", "precision": precision, "scale": scale}
        return decimal

    impossible = "d.bad has a column that no table can have: c "
    foreign = "schema id {} is not one of TiCDC's: field c is of no form that TiCDC writes"
    older = "schema id {} is not one of TiCDC's: field c has no tidb_type in connect.parameters, "
    older += "as of TiCDC 5 and other writers"
    envelope = "schema id {} is not one of TiCDC's: it is Debezium's envelope: read it with protocol=debezium-avro"
    bad: list[tuple[str, list[dict[str, Any]]]] = [
        (impossible + "decimal(10,99999)", [decimal(10, 99999)]),
        (impossible + "decimal(1000000000,0)", [decimal(10**9, 0)]),
        (impossible + "decimal(5,-5)", [decimal(5, -5)]),
        (foreign, [decimal(0, 0)]),
        ("a schema has a member that is not of its type", [decimal(10, "2")]),
        (impossible + "bit(1000000000,0)", [field("bytes", "BIT", length="1000000000")]),
        ("a schema has a member that is not of its type", [field("int", "INT", name=5)]),
        ("d.bad has two columns of one name: c and C", [field("int", "INT"), field("int", "INT", name="C")]),
        (older, [{"name": "c", "type": "[" * 100_000}]),
        (older, [{"name": "c", "type": ["null", "string"]}]),
        (envelope, [{"name": [], "type": "int"}, {"name": "source", "type": {"type": "record", "name": "s"}}]),
    ]
    topic = Topic()
    topic.row(table("good"), id=1)
    for n, (_, fields) in enumerate(bad, 10):
        schema = {"type": "record", "name": "bad", "namespace": "default.d", "fields": fields}
        topic.schemas[n] = json.dumps(schema)
        topic.message(None, b"\0" + n.to_bytes(4) + bytes(20))
    with topic.decode(spark) as events:
        assert [(t.schema.table, t.good.count()) for t in events.tables] == [("good", 1)]
        dead_letters = events.dead_letters().orderBy("offset").collect()
    assert [x["detail"] for x in dead_letters] == [words.format(n) for n, (words, _) in enumerate(bad, 10)]
    assert {x["reason"] for x in dead_letters} == {"foreign-schema"}


def test_a_broken_schema_change_is_set_aside(spark: SparkSession) -> None:
    topic = Topic()
    change = b'\x01{"query":"DROP TABLE `t`","type":4,"commitTs":5}'
    for value in (b'\x01{"query":"drop table', change, change[:-1], b"\x01", b"\x02" + (9).to_bytes(8)):
        topic.message(None, value)
    topic.row(table("t"), id=1)
    with topic.decode(spark) as events:
        dead_letters = {r["offset"]: r["reason"] for r in events.dead_letters().collect()}
        assert events.tables[0].good.count() == 1
    assert dead_letters == dict.fromkeys((0, 2, 3), "bad-message")
    assert [d.sql for d in events.ddl] == ["DROP TABLE `t`"]
    assert events.watermark == 9


def test_thousands_of_odd_messages_end_no_run(spark: SparkSession) -> None:
    topic, many = Topic(), 3000
    topic.row(table("t"), id=1)
    for number in range(many):
        topic.message(None, b"\0" + (1000 + number).to_bytes(4) + b"x")
        topic.message(number.to_bytes(3), None)
        topic.message(b"\x07" + number.to_bytes(4), None)
    topic.message(None, None)
    with topic.decode(spark) as events:
        dead_letters = [tuple(r) for r in events.dead_letters().orderBy("offset").select("reason", "detail").collect()]
        assert events.tables[0].good.count() == 1
    assert dead_letters[:3] == [
        ("unknown-schema-id", "the registry knows no schema id 1000"),
        ("truncated", "shorter than the 5 bytes that tell the schema id"),
        ("bad-magic-byte", "begins with 07, not with 00"),
    ]
    assert dead_letters[-1] == ("bad-message", "neither key nor value")
    assert Counter(reason for reason, _ in dead_letters) == {
        **dict.fromkeys(("unknown-schema-id", "truncated", "bad-magic-byte"), many),
        "bad-message": 1,
    }
    assert dead_letters[-4][1] == f"the registry knows no schema id {1000 + many - 1}"


def test_a_length_that_lies_takes_no_memory(spark: SparkSession) -> None:
    topic = Topic()
    schema = table("t", Column("s", DataType("text", "utf8mb4")), Column("b", DataType("blob")))
    topic.row(schema, id=1, s="x", b=b"x")
    _, key, value = topic.messages[0]
    assert value
    two_gigabytes = b"\x80\xd0\xac\xf3\x0e"  # below what Java refuses of itself, which is 2^31 - 9
    for before in (len(value) - value[::-1].index(b"\x78\x02\x02") - 2, value.index(b"\x02\x02\x78") + 1):
        topic.message(key, value[:before] + two_gigabytes + value[before + 1 :])
    with topic.decode(spark) as events:
        dead_letters = {r["offset"]: r["reason"] for r in events.dead_letters().collect()}
    assert dead_letters == {1: "undecodable", 2: "undecodable"}


def test_damaged_values_are_dead_letters(session: SparkSession) -> None:
    text, number, amount = (
        DataType("text", "utf8mb4"),
        DataType("bigint", unsigned=True),
        DataType("decimal", length=20, decimal=2),
    )
    schema = table("t", Column("s", text), Column("u", number), Column("d", amount))
    good: dict[str, Any] = {"id": 1, "s": "é", "u": "18446744073709551615", "d": "-0.50", "_tidb_commit_ts": 4 << 50}
    topic = Topic()
    topic.row(schema, **good)
    damages: list[tuple[str, Any]] = [
        *(("u", value) for value in ("12x", "-1", "18446744073709551616", " 7", "1.0", "", "007")),
        *(("d", value) for value in ("1,5", "NaN", "1e3", "", "1.", "1.5\n")),
        *(("_tidb_commit_ts", value) for value in (-1, 1 << 62)),
    ]
    for name, value in damages:
        topic.row(schema, **good | {name: value})
    _, key, value = topic.messages[0]
    assert value
    topic.message(key, value.replace("é".encode(), b"\xc3("))
    topic.message(key, value.replace(b"\x02c", b"\x02x"))
    keyed = TableSchema("d", "k", 1, 1, (Column("u", number, False),), (Index("PRIMARY", True, True, False, ("u",)),))
    for value in ("7", "7x"):
        topic.row(keyed, u=value)
        _, key, _ = topic.messages.pop()
        topic.message(key, None)
    with topic.decode(session) as events:
        dead_letters = {r["offset"]: (r["reason"], r["detail"]) for r in events.dead_letters().collect()}
        assert sum(t.good.count() for t in events.tables) == 2
    names = [*(name for name, _ in damages), "s", "_tidb_op"]
    expected = {n: ("bad-value", f"not of its column's type: {name}") for n, name in enumerate(names, 1)}
    assert dead_letters == expected | {len(names) + 2: ("bad-value", "not of its column's type: u")}
