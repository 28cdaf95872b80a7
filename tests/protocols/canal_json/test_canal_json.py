"""Canal-JSON as a source: TiCDC's own messages, messages by hand, random values, and whole commands."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from canal_json_reader import Change, changes
from decoded_events import decoded as decode
from differences import assert_messages_equal
from golden_data import lines
from golden_events import ZONE, Decoded, GoldenEvents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from strategies import fixed, plain, texts

import tidecast
from tidecast.model import Events, InvalidSchema, Kind
from tidecast.protocols import guess_protocol
from tidecast.protocols.canal_json import PROTOCOL
from tidecast.protocols.canal_json._columns import CanalDecoder
from tidecast.protocols.canal_json._schema import table_schema
from tidecast.sources import read_records
from tidecast.spark import union

BY_HAND = Path(__file__).parents[2] / "golden" / "canal-json-by-hand.jsonl"


def json_bytes(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def topic(path: Path, values: Iterable[bytes]) -> Path:
    """Write a topic's messages to a file of JSON Lines."""
    records = ({"key": None, "value": base64.b64encode(value).decode()} for value in values)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@contextmanager
def reading(spark: SparkSession, path: Path, **params: str) -> Iterator[Events]:
    query = "".join(f"&{name}={value}" for name, value in params.items())
    records, _ = read_records(spark, f"file://{path}?protocol=canal-json{query}")
    with decode(records.frame, "canal-json", ordered=True, zone=ZONE) as events:
        yield events


def rows_of(events: Events) -> dict[int, list[Change]]:
    """Return the row changes of each message, by its offset."""

    def plainly(row: Any) -> dict[str, Any] | None:
        if row is None:
            return None
        return {name: bytes(v) if isinstance(v, bytearray) else v for name, v in row.asDict().items()}

    found: dict[int, list[Change]] = defaultdict(list)
    for table in events.tables:
        for row in table.good.select("offset", "op", "commit_ts", "old", "data").collect():
            change = (table.schema.name, row["op"], row["commit_ts"], plainly(row["old"]), plainly(row["data"]))
            found[row["offset"]].append(change)
    return found


# ------------------------------------------------------------------------------------------------- messages by hand


@pytest.fixture(scope="module")
def by_hand() -> list[dict[str, Any]]:
    return [json.loads(line) for line in BY_HAND.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def events(by_hand: list[dict[str, Any]], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    messages = [line["text"].encode() if "text" in line else json_bytes(line["message"]) for line in by_hand]
    with reading(spark, topic(tmp_path_factory.mktemp("canal") / "topic.jsonl", messages)) as events:
        yield events


def test_rows_are_those_that_another_reader_finds(events: Events, by_hand: list[dict[str, Any]]) -> None:
    found = rows_of(events)
    sound = {n: line for n, line in enumerate(by_hand) if "reason" not in line}
    told = {
        n: line["message"] for n, line in sound.items() if line["message"]["type"] in ("INSERT", "UPDATE", "DELETE")
    }
    assert found.keys() == told.keys()
    for n, message in told.items():
        expected = list(changes(message, ZONE))
        assert sorted(found[n], key=repr) == sorted(expected, key=repr), by_hand[n]["about"]


def test_bad_messages_go_to_the_dead_letters_with_the_cause(events: Events, by_hand: list[dict[str, Any]]) -> None:
    letters = {r["offset"]: (r["reason"], r["detail"]) for r in events.dead_letters().collect()}
    expected = {n: (line["reason"], line.get("detail")) for n, line in enumerate(by_hand) if "reason" in line}
    assert letters.keys() == expected.keys()
    for n, cause in expected.items():
        assert letters[n] == cause, by_hand[n]["about"]


def test_schema_changes_and_watermarks_are_events(events: Events, by_hand: list[dict[str, Any]]) -> None:
    sound = [(n, line["message"]) for n, line in enumerate(by_hand) if "reason" not in line]
    place, change = next((n, m) for n, m in sound if m["isDdl"])
    assert [(d.type, d.sql, d.commit_ts, d.position, d.database, d.table) for d in events.ddl] == [
        ("ALTER", change["sql"], change["_tidb"]["commitTs"], place, "shop", "many")
    ]
    (watermark,) = (m["_tidb"]["watermarkTs"] for _, m in sound if m["type"] == "TIDB_WATERMARK")
    assert events.watermark == watermark
    assert events.watermarks is not None
    assert [r["commit_ts"] for r in events.watermarks.collect()] == [watermark]


def test_tables_have_the_key_and_the_order_that_messages_show(events: Events) -> None:
    tables = {t.schema.name: t for t in events.tables if t.upserts_from is not None}
    many = tables["shop.many"]
    assert [c.name for c in many.schema.columns] == ["k2", "k1", "v"]
    assert many.schema.handle_key == ("k2", "k1")
    assert many.rows == 5
    assert tables["shop.heap"].schema.handle_key == ()
    assert not events.has_commit_ts  # one row comes without


def test_a_text_above_twenty_million_characters_is_read(
    by_hand: list[dict[str, Any]], spark: SparkSession, tmp_path: Path
) -> None:
    message = by_hand[0]["message"]
    long = message | {"data": [message["data"][0] | {"t": "x" * 20_000_001}]}
    with reading(spark, topic(tmp_path / "t.jsonl", [json_bytes(long)])) as events:
        (table,) = events.tables
        assert table.good.select(F.length("data.t")).collect() == [(20_000_001,)]


def test_partitions_without_the_extension_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    for tidb in (True, False):
        path = topic(tmp_path / f"{tidb}.jsonl", shop(tidb=tidb))
        records, _ = read_records(spark, f"file://{path}?protocol=canal-json")
        with decode(records.frame, "canal-json", ordered=False, zone=ZONE) as events:
            (table,) = events.tables
            assert (events.position, events.has_commit_ts) == (("commit_ts", True) if tidb else (None, False))
            assert events.ddl[0].position == (events.ddl[0].commit_ts if tidb else None)
        # Where they begin is told all the same: None would say that there are none.
        first = json.loads(shop(tidb=True)[0])["_tidb"]["commitTs"]
        assert (table.rows_from, table.upserts_from) == ((first, first) if tidb else (0, 0))
        assert table.schema.version == first


# ---------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int(11) unsigned", ("int", 11, 0, (), True)),
        ("bigint unsigned zerofill", ("bigint", 0, 0, (), True)),
        ("decimal(10,2)", ("decimal", 10, 2, (), False)),
        ("DECIMAL(5)", ("decimal", 5, 0, (), False)),
        ("bit", ("bit", 64, 0, (), True)),
        ("bit(9)", ("bit", 9, 0, (), True)),
        ("enum('a,b','it''s',')')", ("enum", 0, 0, ("a,b", "it's", ")"), False)),
        ("set('')", ("set", 0, 0, ("",), False)),
        ("enum", ("smallint", 0, 0, (), True)),
        ("set", ("bigint", 0, 0, (), True)),
        ("datetime", ("datetime", 26, 6, (), False)),
        ("time(3)", ("time", 14, 3, (), False)),
        ("vector(3)", ("vector", 3, 0, (), False)),
        ("unsigned bigint", ("bigint", 0, 0, (), True)),  # of old versions of TiCDC
        ("INTEGER(11) unsigned zerofill", ("int", 11, 0, (), True)),  # as a statement has it, of Canal
        ("NUMERIC(10,2)", ("decimal", 10, 2, (), False)),
        ("double precision", ("double", 0, 0, (), False)),
        ("national character varying(5)", ("varchar", 5, 0, (), False)),
        ("bool", ("tinyint", 0, 0, (), False)),
        ("var_string(9)", ("var_string", 9, 0, (), False)),
    ],
)
def test_types_are_read(text: str, expected: tuple[Any, ...]) -> None:
    (column,) = table_schema(("d", "t"), 1, ["c"], {"c": text}, []).columns
    read = column.data_type
    assert (read.mysql_type, read.length, read.decimal, read.elements, read.unsigned) == expected


def test_a_type_without_digits_has_none_where_others_have_their_numbers() -> None:
    schema = table_schema(("d", "t"), 1, ["i", "d"], {"i": "int(11)", "d": "datetime"}, ["i"])
    assert [c.data_type.decimal for c in schema.columns] == [0, 0]
    assert [c.nullable for c in schema.columns] == [False, True]


@pytest.mark.parametrize(
    ("mysql_type", "kind"),
    [("varbinary(3)", Kind.BINARY), ("longblob", Kind.BINARY), ("char(3)", Kind.TEXT), ("longtext", Kind.TEXT)],
)
def test_bytes_are_told_from_text(mysql_type: str, kind: Kind) -> None:
    (column,) = table_schema(("d", "t"), 1, ["c"], {"c": mysql_type}, []).columns
    assert column.data_type.kind is kind


@pytest.mark.parametrize("text", ["", "geometry", "int(x)", "enum(a)", "int signed", "int\n", "decimal(70,2)"])
def test_other_types_are_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match=r"type|column"):
        table_schema(("d", "t"), 1, ["c"], {"c": text}, [])


def test_the_year_0_may_have_all_its_digits() -> None:
    shown = {"database": "d", "table": "t", "pkNames": ["y"], "type": "INSERT", "es": 1, "mysqlType": {"y": "year"}}
    values = [json_bytes(shown | {"data": [{"y": year}]}) for year in ("0000", "0", "2155")]
    (rows,) = CanalDecoder().decode(pa.RecordBatch.from_pydict({"value": values})).rows
    assert rows.data
    assert rows.data.to_pylist() == [{"y": 0}, {"y": 0}, {"y": 2155}]


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidSchema, match="two columns of one name"):
        table_schema(("d", "t"), 1, ["c", "C"], {"c": "int", "C": "int"}, [])


# -------------------------------------------------------------------------------------------------- random values

_INT64 = st.integers(-(2**63), 2**63 - 1).map(str)
_TYPES: dict[str, st.SearchStrategy[str]] = {
    "bigint": _INT64,
    "int(10) unsigned": st.integers(0, 2**32 - 1).map(str),
    "bigint(20) unsigned": st.integers(0, 2**64 - 1).map(str),
    "decimal(38,10)": fixed(38, 10).map(plain),
    "decimal(65,30)": fixed(65, 30).map(plain),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda f: plain(Decimal(repr(f)))),
    "bit(17)": st.integers(0, 2**17 - 1).map(str),
    "varbinary(20)": st.binary(max_size=20).map(lambda b: b.decode("latin-1")),
    "varchar(20)": texts,
    "enum('a','b''c','d,e')": st.integers(0, 3).map(str),
    "set('a','b''c','d')": st.integers(0, 7).map(str),
    "timestamp(3)": st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2030, 12, 31)).map(
        lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S.123")
    ),
}
_NAMES = {f"c{n}": mysql_type for n, mysql_type in enumerate(_TYPES)}
_ROW = st.fixed_dictionaries({name: st.none() | _TYPES[mysql_type] for name, mysql_type in _NAMES.items()})


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(pairs=st.lists(st.tuples(_ROW, _ROW), min_size=20, max_size=20))
def test_random_rows_are_those_that_another_reader_finds(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]], spark: SparkSession, tmp_path: Path
) -> None:
    def message(n: int, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        kind = ("INSERT", "UPDATE", "DELETE")[n % 3]
        key = {"id": str(n)}
        shown = {name: text for name, text in old.items() if n % 2 or text != new[name]}
        return {
            "id": 0,
            "database": "d",
            "table": "t",
            "pkNames": ["id"],
            "isDdl": False,
            "type": kind,
            "es": 1,
            "ts": 1,
            "sql": "",
            "sqlType": {"id": -5, **dict.fromkeys(_NAMES, 12)},
            "mysqlType": {**dict(sorted(_NAMES.items(), key=lambda item: str(n) in item[0])), "id": "bigint"},
            "old": [shown] if kind == "UPDATE" else None,
            "data": [key | new],
            "_tidb": {"commitTs": n + 1},
        }

    messages = [message(n, old, new) for n, (old, new) in enumerate(pairs)]
    with reading(spark, topic(tmp_path / "random.jsonl", map(json_bytes, messages))) as events:
        assert len(events.tables) == 1  # whatever the order of mysqlType
        assert events.dead_letters().count() == 0
        found = rows_of(events)
    assert found == {n: list(changes(m, ZONE)) for n, m in enumerate(messages)}


# --------------------------------------------------------------------------------------------- TiCDC's own messages


def texts_of(source: Decoded) -> dict[int, Any]:
    """Return operation, old and new row of each event by its number, as text; virtual columns have no value."""

    def side(table: Any, name: str) -> Any:
        binary = (Kind.BINARY, Kind.BIT)
        stored = [c for c in table.schema.columns if not c.virtual]
        values = ((c, F.col(name)[c.name]) for c in stored)
        texts = ((F.lit(c.name), F.hex(v) if c.data_type.kind in binary else v.cast("string")) for c, v in values)
        return F.when(F.col(name).isNotNull(), F.create_map(*(part for pair in texts for part in pair)))

    frames = [
        t.frame.select(
            "offset",
            F.lit(t.schema.name).alias("table"),
            "op",
            "commit_ts",
            *(side(t, name).alias(name) for name in ("old", "data")),
            "detail",
        )
        for t in source.events.tables
    ]
    assert source.events.rejected.count() == 0
    return {source.numbers[r["offset"]]: r.asDict() | {"offset": None} for r in union(frames).collect()}


def test_golden_messages_decode_to_the_rows_of_their_twins(decoded: GoldenEvents) -> None:
    source = decoded("canal-json-compatible")
    messages = dict(zip(source.numbers, source.messages, strict=True))
    assert_messages_equal(texts_of(source), texts_of(decoded("simple-json")), messages)


def test_golden_messages_whose_types_have_no_numbers_decode_too(
    golden: Callable[[str], Path], spark: SparkSession, tmp_path: Path
) -> None:
    """One table for each kind of type; the other reader tells what their values are."""
    names = ("t_int", "t_bit", "t_enum", "t_all", "t_time")
    chosen = [line for line in lines(golden("canal-json-ext.jsonl.gz")) if line["table"] in names]
    values = [base64.b64decode(line["value"]) for line in chosen]
    with reading(spark, topic(tmp_path / "bare.jsonl", values)) as events:
        found = rows_of(events)
        assert len(events.ddl) == sum(line["kind"] == "ddl" for line in chosen)
    rows = {n: list(changes(json.loads(values[n]), ZONE)) for n, m in enumerate(chosen) if m["kind"] == "dml"}
    assert len(rows) > 200
    assert_messages_equal(found, rows, dict(enumerate(chosen)))


def test_golden_deletes_that_show_the_key_alone_are_read(golden: Callable[[str], Path], spark: SparkSession) -> None:
    path = golden("canal-json-deletekey.jsonl.gz")
    with reading(spark, path) as events:
        found = rows_of(events)
    messages = [json.loads(base64.b64decode(line["value"])) for line in lines(path)]
    assert {m["type"] for m in messages} == {"DELETE"}
    assert found == {n: list(changes(m, ZONE)) for n, m in enumerate(messages)}


# ------------------------------------------------------------------------------------------------- whole commands


def shop(*, tidb: bool) -> list[bytes]:
    """A few changes of a table, and a watermark where there is TiDB's extension."""

    def message(n: int, kind: str, data: Any, old: Any = None) -> dict[str, Any]:
        ts = (1_700_000_000_000 + n) << 18
        said = {
            "id": 0,
            "database": "shop",
            "table": "orders",
            "pkNames": ["id"],
            "isDdl": False,
            "type": kind,
            "es": ts >> 18,
            "ts": 0,
            "sql": "",
            "sqlType": {"id": -5, "name": 12, "at": 93},
            "mysqlType": {"id": "bigint unsigned", "name": "varchar", "at": "timestamp"},
            "old": old,
            "data": data,
        }
        return said | ({"_tidb": {"commitTs": ts}} if tidb else {})

    big = str(2**64 - 1)
    first = {"id": big, "name": "tea", "at": "2024-01-01 08:00:00"}
    rows = [
        message(1, "INSERT", [first]),
        message(2, "INSERT", [{"id": "2", "name": None, "at": None}]),
        message(3, "UPDATE", [first | {"name": "green tea"}], [first]),
        message(4, "DELETE", [{"id": "2", "name": None, "at": None}]),
    ]
    ddl = message(5, "TRUNCATE", None) | {"isDdl": True, "sql": "TRUNCATE TABLE `shop`.`orders`", "mysqlType": None}
    return [json_bytes(m) for m in [*rows, ddl]]


@pytest.mark.parametrize("tidb", [True, False], ids=["extension", "plain"])
def test_a_topic_is_replicated_and_verified(tidb: bool, spark: SparkSession, tmp_path: Path) -> None:
    bad = b'{"id":0,"type":"NOTHING"}'
    source = f"file://{topic(tmp_path / 'orders.jsonl', [*shop(tidb=tidb), bad])}?protocol=canal-json"
    done = tidecast.replicate(source, str(tmp_path / "tables"), tz=ZONE, spark=spark)
    assert done.dead_letters == {"bad-message": 1}
    assert [w for w in done.warnings if "TRUNCATE" in w]
    rows = spark.read.format("delta").load(str(tmp_path / "tables" / "shop" / "orders")).collect()
    assert [(r["id"], r["name"]) for r in rows] == [(Decimal(2**64 - 1), "green tea")]
    said = tidecast.verify(source, tz=ZONE, spark=spark)
    assert isinstance(said, tidecast.Verified)
    assert (said.verdicts, said.dead_letters) == ({"none": 3, "delete": 1}, {"bad-message": 1})


def test_a_topic_is_converted_and_explained(spark: SparkSession, tmp_path: Path) -> None:
    *rows, change = shop(tidb=True)
    secret = change.replace(b"orders", b"secret")
    source = f"file://{topic(tmp_path / 'orders.jsonl', [*rows, change, secret])}?protocol=canal-json"
    sink = f"file://{tmp_path}/out/orders?protocol=simple&partition-num=1&format=jsonl"
    (tmp_path / "feed.toml").write_text('[filter]\nrules = ["*.*", "!shop.secret"]\n')
    done = tidecast.convert(source, sink, config=str(tmp_path / "feed.toml"), tz=ZONE, spark=spark)
    assert (done.total, done.ddl, done.skipped, done.dead_letters) == (4, 1, {}, {})
    before, after = (
        [(m.type, m.table, m.commit_ts, {c.name: (c.old, c.new) for c in m.columns}) for m in found if m.columns]
        for found in (
            tidecast.inspect(source, tz=ZONE, spark=spark),
            [m for m in tidecast.inspect(sink, tz=ZONE, spark=spark) if m.type != "BOOTSTRAP"],
        )
    )
    assert len(before) == 4
    assert before == after


def test_claim_checks_and_compressed_values_are_read(spark: SparkSession, tmp_path: Path) -> None:
    whole, *_ = shop(tidb=True)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "1.json").write_text(
        json.dumps({"key": None, "value": base64.b64encode(whole).decode()}), encoding="utf-8"
    )
    reduced = json.loads(whole)
    reduced["_tidb"]["claimCheckLocation"] = f"file://{tmp_path}/claims/1.json"
    path = topic(tmp_path / "orders.jsonl", [json_bytes(reduced)])
    with reading(spark, path) as events:
        assert [r["reason"] for r in events.dead_letters().collect()] == ["incomplete-row"]
    storage = f"file://{tmp_path}/claims"
    with reading(spark, path, **{"claim-check-storage-uri": storage}) as events:
        assert rows_of(events) == {0: list(changes(json.loads(whole), ZONE))}


# ------------------------------------------------------------------------------------------------- for people


def test_messages_are_explained_without_spark(by_hand: list[dict[str, Any]]) -> None:
    insert, watermark = (
        next(line["message"] for line in by_hand if "message" in line and line["message"]["type"] == kind)
        for kind in ("INSERT", "TIDB_WATERMARK")
    )
    assert guess_protocol(json_bytes(insert)) is PROTOCOL
    told = PROTOCOL.describe(None, json_bytes(insert))
    assert (told.type, told.table, told.commit_ts) == ("INSERT", "shop.every", insert["_tidb"]["commitTs"])
    assert told.columns[:2] == [("id", "bigint"), ("ti", "tinyint")]
    assert PROTOCOL.describe(None, json_bytes(watermark)).commit_ts == watermark["_tidb"]["watermarkTs"]
    assert PROTOCOL.describe(None, b"[]").type == PROTOCOL.describe(None, None).type == ""
