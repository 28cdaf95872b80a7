"""Topics, partitions and columns of a changefeed, against TiCDC's own choices."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from golden_data import lines

from tidecast._errors import ConfigError
from tidecast.config import ChangefeedConfig, load_config
from tidecast.model import Column, DataType, Index, Kind, TableSchema
from tidecast.routing import Router, column_selection
from tidecast.values import BYTES, arrow_type, row_type

Event = dict[str, Any]
ZONE = "Asia/Shanghai"
TABLES = {
    *("t_cpk", "t_cpk_nc", "t_pk_mix", "t_pk_str", "t_pk_bin", "t_pk_dec", "t_pk_ubig", "odd té名.1", "t_uk", "t_all"),
    *("t_time", "t_timedef", "t_int", "t_nokey", "t_uk_null", "t_num", "t_bit", "t_zero", "t_enum", "order", "t_range"),
}


def config(tmp_path: Path, rules: str = "", protocol: str = "simple") -> ChangefeedConfig:
    file = tmp_path / "changefeed.toml"
    file.write_text(f"[sink]\n{rules}\n", encoding="utf-8")
    return load_config(f"kafka://127.0.0.1:9092/default-topic?protocol={protocol}", file, "http://127.0.0.1:8081")


def dispatchers(*rules: dict[str, object]) -> str:
    return "dispatchers = [" + ", ".join(map(inline, rules)) + "]"


def inline(rule: dict[str, object]) -> str:
    return "{" + ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in rule.items()) + "}"


def table(name: str, *columns: Column, database: str = "test", indexes: tuple[Index, ...] = ()) -> TableSchema:
    return TableSchema(database, name, 1, 1, columns, indexes)


def ints(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, DataType("int"), nullable=False) for name in names)


def primary(*names: str) -> tuple[Index, ...]:
    return (Index("primary", True, True, False, names),)


def rows_of(schema: TableSchema, rows: Sequence[tuple[Any, ...]]) -> pa.StructArray:
    kinds = [*row_type(schema)]
    values = zip(*rows, strict=True)
    return pa.StructArray.from_arrays([pa.array(v, k.type) for v, k in zip(values, kinds, strict=True)], fields=kinds)


def partition(router: Router, schema: TableSchema, row: tuple[Any, ...], partitions: int, ts: int | None = 1) -> int:
    (found,) = router.partitions(schema, partitions).of(rows_of(schema, [row]), pa.array([ts], pa.int64()))
    return int(found)


# ---- topics


@pytest.mark.parametrize(
    ("rule", "database", "name", "topic"),
    [
        ("{schema}_{table}", "Db-1", "T$x y", "Db-1_T_x_y"),
        ("{schema}_{table}", "你好", "t", "___t"),
        ("{schema}_{table}", "My.DB", "ta ble中", "My.DB_ta_ble_"),
        ("x.{table}", "db", "t", "x.t"),
        ("literal", "db", "t", "literal"),
        ("{schema}{table}", "{table}", "t", "_table_t"),
        ("{schema}", ".", "t", "_"),
        ("{schema}", "..", "t", "__"),
        ("{schema}", "d" * 300, "t", "d" * 249),
        ("", "db", "t", "default-topic"),
    ],
)
def test_a_topic_rule_is_filled_in(tmp_path: Path, rule: str, database: str, name: str, topic: str) -> None:
    router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], "topic": rule})).routing)
    assert router.topic_for(table(name, database=database)) == topic


def test_the_first_dispatcher_that_matches_counts_whatever_the_letter_case(tmp_path: Path) -> None:
    rules = dispatchers({"matcher": ["DB.t1"], "topic": "one"}, {"matcher": ["db.*"], "topic": "two"})
    router = Router(config(tmp_path, "case-sensitive = true\n" + rules).routing)
    assert [router.topic_for(table(t, database="db")) for t in ("T1", "t2")] == ["one", "two"]
    assert router.topic_for(table("t1", database="other")) == "default-topic"


@pytest.mark.parametrize("topic", ["", "fixed"])
def test_two_avro_tables_cannot_share_a_topic_that_names_none(tmp_path: Path, topic: str) -> None:
    rules = dispatchers(
        {"matcher": ["test.routed*"], "topic": "{schema}_{table}"}, {"matcher": ["*.*"], "topic": topic}
    )
    avro = Router(config(tmp_path, rules, "avro").routing)
    one, renamed = (table(name, *ints("id")) for name in ("a", "b"))
    other = replace(renamed, table_id=2)
    avro.check_fixed_topics([one, one, renamed, table("routed1"), replace(other, table="routed2")])
    shared = rf"test\.a and test\.b would share the topic {topic or 'default-topic'}"
    with pytest.raises(ConfigError, match=shared) as caught:
        avro.check_fixed_topics([one, other])
    assert len(str(caught.value).splitlines()) == 1
    Router(config(tmp_path, rules).routing).check_fixed_topics([one, other])


# ---- partitions


@pytest.mark.parametrize(
    ("database", "name", "partitions", "expected"),
    [
        ("test_default1", "table", 16, 14),
        ("test_default2", "table", 16, 0),
        ("test_table", "table", 16, 15),
        ("test", "user", 3, 0),
        ("test", "user", 16, 4),
    ],
)
def test_a_table_goes_to_one_partition(
    tmp_path: Path, database: str, name: str, partitions: int, expected: int
) -> None:
    for rule in ("default", "table", "", "no-such-rule"):
        router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], "partition": rule})).routing)
        assert partition(router, table(name, *ints("a"), database=database), (1,), partitions) == expected


def test_a_row_goes_where_its_key_says(tmp_path: Path) -> None:
    router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], "dispatcher": "Index-Value"})).routing)
    t1 = table("t1", *ints("a"), indexes=primary("a"))
    t2 = table("t2", *ints("a", "b"), indexes=primary("a", "b"))
    assert [partition(router, t1, (v,), 16) for v in (11, 22)] == [2, 11]
    assert [partition(router, t2, row, 16) for row in ((11, 22), (11, 0), (11, 33))] == [5, 14, 2]
    other = table("table1", *ints("a"), database="test_index_value", indexes=primary("a"))
    assert partition(router, other, (11,), 10) == 9


@pytest.mark.parametrize(
    "rule",
    [
        {"partition": "index-value", "index": "INDEX1"},
        {"partition": "rowid", "index": "index1"},
        {"partition": "columns", "columns": ["COL2", "Col1"]},
        {"partition": "columns", "columns": ["col1", "col2"]},
    ],
)
def test_a_row_goes_where_an_index_or_columns_say(tmp_path: Path, rule: dict[str, object]) -> None:
    schema = table(
        "t1",
        *ints("COL2", "Col1", "id"),
        indexes=(*primary("id"), Index("index1", True, False, False, ("COL2", "Col1"))),
    )
    router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], **rule})).routing)
    assert partition(router, schema, (22, 11, 5), 16) == 5


def test_ts_spreads_rows_by_commit_ts(tmp_path: Path) -> None:
    router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], "partition": "ts"})).routing)
    for commit_ts in (464041517000163334, None):  # a row of Avro may have none, and leaves with 0
        assert partition(router, table("t", *ints("a")), (1,), 7, commit_ts) == (commit_ts or 0) % 7


def test_null_and_what_is_no_number(tmp_path: Path) -> None:
    router = Router(
        config(tmp_path, dispatchers({"matcher": ["*.*"], "partition": "columns", "columns": ["d"]})).routing
    )
    schema = table("t", Column("d", DataType("double")))
    partitions = 1009
    zero, nan, infinite, null = (
        partition(router, schema, (v,), partitions) for v in (0.0, float("nan"), float("-inf"), None)
    )
    assert zero == nan == infinite
    default = Router(config(tmp_path).routing)
    assert null == partition(default, schema, (0.0,), partitions) != zero


HASHED: list[tuple[DataType, object, bytes]] = [
    (DataType("tinyint"), -1, b"-1"),
    (DataType("bigint", unsigned=True), 2**64 - 1, b"18446744073709551615"),
    (DataType("year"), 0, b"0"),
    (DataType("bit", length=64), b"\xff" * 8, b"18446744073709551615"),
    (DataType("bit", length=12), b"\x0f\xff", b"4095"),
    (DataType("enum", "utf8mb4", elements=("a,b", "c")), "c", b"2"),
    (DataType("enum", "utf8mb4", elements=("a,b", "c")), "", b"0"),
    (DataType("set", "utf8mb4", elements=("a", "ab", "b")), "a,b", b"5"),
    (DataType("set", "utf8mb4", elements=("a", "ab", "b")), "", b"0"),
    (DataType("set", "utf8mb4", elements=tuple(f"e{n}" for n in range(64))), "e0,e63", b"9223372036854775809"),
    (DataType("float"), 1e10, b"10000000000"),
    (DataType("float"), 16777216.0, b"16777216"),
    (DataType("double"), 2.0**60, b"1152921504606847000"),
    (DataType("double"), 1e-7, b"0.0000001"),
    (DataType("decimal", length=10, decimal=8), Decimal("0E-8"), b"0.00000000"),
    (
        DataType("decimal", length=65, decimal=30),
        "1.500000000000000000000000000000",
        b"1.500000000000000000000000000000",
    ),
    (DataType("varchar", "utf8mb4"), "数据", "数据".encode()),
    (DataType("blob"), b"\x00\xff", b"\x00\xff"),
    (DataType("json", "utf8mb4"), '{"a": 1}', b'{"a": 1}'),
    (DataType("date"), "0000-00-00", b"0000-00-00"),
    (DataType("datetime", decimal=2), "2024-01-01 00:00:00.10", b"2024-01-01 00:00:00.10"),
    (DataType("time"), "-838:59:59", b"-838:59:59"),
    (DataType("timestamp", decimal=1), "2024-01-01 00:00:00.0", b"2024-01-01 08:00:00.0"),
    (DataType("timestamp"), "0000-00-00 00:00:00", b"0000-00-00 00:00:00"),
]


def test_every_kind_of_value_is_hashed_as_its_text(tmp_path: Path) -> None:
    columns = tuple(Column(f"a.b`{n}", data_type) for n, (data_type, _, _) in enumerate(HASHED))
    schema, row = table("t", *columns), tuple(value for _, value, _ in HASHED)
    partitions = 2**31 - 1
    wrong = {}
    for column, (data_type, _, text) in zip(columns, HASHED, strict=True):
        rules = dispatchers({"matcher": ["*.*"], "partition": "columns", "columns": [column.name]})
        found = partition(Router(config(tmp_path, rules).routing, ZONE), schema, row, partitions)
        wanted = (crc32(b"testt") ^ crc32(column.name.encode() + text)) % partitions
        if found != wanted:
            wrong[data_type] = (found, wanted)
    assert wrong == {}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (
            {"partition": "index-value", "index": "nope"},
            "index not found when verify the table, table: test.t, index: nope",
        ),
        (
            {"partition": "index-value", "index": "plain"},
            "index is not unique when verify the table, table: test.t, index: plain",
        ),
        (
            {"partition": "columns", "columns": ["a", "Nope"]},
            "columns not found when dispatch event, table: t, columns: [a Nope], column: nope",
        ),
        (
            {"partition": "columns", "columns": ["V"]},
            "found virtual generated columns when dispatch event, table: t, columns: [V] column: v",
        ),
    ],
)
def test_a_rule_that_does_not_fit_the_table_is_refused(tmp_path: Path, rule: dict[str, object], why: str) -> None:
    schema = table(
        "t",
        *ints("a"),
        Column("v", DataType("int"), virtual=True),
        indexes=(Index("plain", False, False, False, ("a",)),),
    )
    router = Router(config(tmp_path, dispatchers({"matcher": ["*.*"], **rule})).routing)
    with pytest.raises(ConfigError) as caught:
        router.partitions(schema, 3)
    assert str(caught.value) == f"[CDC:ErrDispatcherFailed]{why}"


# ---- golden partitions


def schema_of(info: Event, database: str, name: str) -> TableSchema:
    columns = tuple(
        Column(
            c["name"],
            DataType(
                c["type"], c["charset"], c["collate"], c["flen"], c["decimal"], tuple(c.get("elems", ())), c["unsigned"]
            ),
            nullable=not c["not_null"],
            virtual=c["generated"] == "virtual",
        )
        for c in info["columns"]
    )
    nullable = {c.name for c in columns if c.nullable}
    indexes = [
        Index(
            i["name"],
            i["unique"] or i["primary"],
            i["primary"],
            not nullable.isdisjoint(i["columns"]),
            tuple(i["columns"]),
        )
        for i in info["indexes"] or ()
    ]
    if info["pk_is_handle"]:
        indexes.append(Index("primary", True, True, False, tuple(c["name"] for c in info["columns"] if c["pri"])))
    return TableSchema(database, name, int(info["id"]), int(info["version"]), columns, tuple(indexes))


def to_utc(text: str) -> str:
    if text.startswith("0000"):
        return text
    local = datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(ZONE))
    return local.astimezone(ZoneInfo("UTC")).strftime("%Y-%m-%d %H:%M:%S") + text[19:]


def model_value(column: Column, kind: pa.DataType, value: Any) -> Any:
    """Return a value of the events as the model holds it."""
    if isinstance(value, dict):
        value = base64.b64decode(value["b"]) if "b" in value else value["s"]
    if value is None:
        return None
    if column.data_type.kind is Kind.TIMESTAMP:
        return to_utc(value)
    if kind == BYTES:
        return value if isinstance(value, bytes) else value.encode()
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    return value.decode() if isinstance(value, bytes) else value


def golden_rows(path: Path) -> dict[tuple[str, str, str], tuple[TableSchema, list[tuple[int, int, tuple[Any, ...]]]]]:
    """Return the row changes of the events by table version: number, commit-ts, and the row that is hashed."""
    infos: dict[tuple[str, str, str], Event] = {}
    rows: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
    for event in lines(path):
        if info := event.get("table_info"):
            infos[event["db"], event["table"], info["version"]] = info
        elif event["kind"] == "dml" and event["table"] in TABLES:
            rows[event["db"], event["table"], event["schema_version"]].append(event)
    found = {}
    for key, events in rows.items():
        schema = schema_of(infos[key], key[0], key[1])
        found[key] = (
            schema,
            [
                (
                    e["n"],
                    int(e["commit_ts"]),
                    tuple(
                        model_value(c, arrow_type(c.data_type), (e.get("new") or e["old"]).get(c.name))
                        for c in schema.columns
                    ),
                )
                for e in events
            ],
        )
    return found


@pytest.mark.parametrize("variant", ["simple-json", "avro"])
def test_rows_go_to_the_partitions_that_ticdc_chose(
    tmp_path: Path, golden: Callable[[str], Path], variant: str
) -> None:
    suite = json.loads(golden("suite.json").read_text(encoding="utf-8"))
    options = next(f["options"] for f in suite["files"] if f.get("variant") == variant)
    router = Router(
        config(tmp_path, dispatchers(*options["dispatchers"]), variant.split("-")[0]).routing, suite["time_zone"]
    )
    count = suite["partitions_per_topic"]
    expected = {
        m["n"]: (m["topic"].replace(options["default_topic"], "default-topic"), m["partition"])
        for m in lines(golden(f"{variant}.jsonl.gz"))
        if m["kind"] == "dml" and m["table"] in TABLES
    }
    actual: dict[int, tuple[str, int]] = {}
    for schema, rows in golden_rows(golden("events.jsonl.gz")).values():
        numbers, times, values = zip(*rows, strict=True)
        chosen = router.partitions(schema, count).of(rows_of(schema, values), pa.array(times, pa.int64()))
        actual |= {n: (router.topic_for(schema), int(p)) for n, p in zip(numbers, chosen, strict=True)}
    assert len(expected) > 1200
    assert {n: (actual.get(n), e) for n, e in expected.items() if actual.get(n) != e} == {}


# ---- column selectors


def selectors(*rules: dict[str, object]) -> str:
    return "column-selectors = [" + ", ".join(map(inline, rules)) + "]"


def sold() -> TableSchema:
    return table(
        "t", *ints("id", "keep_a", "drop_b", "UK"), indexes=(*primary("id"), Index("u", True, False, True, ("UK",)))
    )


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["*"], ["id", "keep_a", "drop_b", "UK"]),
        (["*", "!DROP_*"], ["id", "keep_a", "UK"]),
        (["uk"], ["UK"]),
        (["!id", "id"], ["id"]),
        (["/^(id|keep)/"], ["id", "keep_a"]),
    ],
)
def test_columns_are_selected(tmp_path: Path, patterns: list[str], left: list[str]) -> None:
    chosen = config(
        tmp_path, selectors({"matcher": ["TEST.t"], "columns": patterns}, {"matcher": ["*.*"], "columns": ["id"]})
    )
    assert [c.name for c in Router(chosen.routing).select_columns(sold()).columns] == left


def test_a_reader_selects_what_a_writer_may_have_left() -> None:
    select = column_selection(
        '[{"matcher": ["other.*"], "columns": ["x"]}, {"matcher": ["*.*"], "columns": ["*", "!id"]}]'
    )
    left = select(sold())
    assert "id" not in {c.name for c in left.columns}
    assert len(left.columns) == len(sold().columns) - 1


@pytest.mark.parametrize(
    ("patterns", "key"),
    [(["*"], ("a", "b")), (["*", "!b"], ("c",)), (["*", "!b", "!c"], ()), (["*", "!n"], ("a", "b"))],
)
def test_no_part_of_a_key_is_a_key(patterns: list[str], key: tuple[str, ...]) -> None:
    """Rows that only the column which was dropped tells apart would be one."""
    unique = (Index("uc", True, False, False, ("c",)), Index("un", True, False, True, ("n",)))
    schema = table("t", *ints("a", "b", "c", "n"), indexes=(*primary("a", "b"), *unique))
    rules = [{"matcher": ["*.*"], "columns": patterns}]
    assert column_selection(json.dumps(rules))(schema).handle_key == key


def test_a_table_without_a_selector_keeps_its_columns(tmp_path: Path) -> None:
    chosen = config(tmp_path, selectors({"matcher": ["other.*"], "columns": ["id"]}))
    assert Router(chosen.routing).select_columns(sold()) == sold()


@pytest.mark.parametrize("patterns", [["keep_a"], [], ["*", "!id", "!uk"]])
def test_a_key_must_be_left(tmp_path: Path, patterns: list[str]) -> None:
    chosen = config(tmp_path, selectors({"matcher": ["*.*"], "columns": patterns}))
    words = "no primary key columns or unique key columns obtained after filter out, table: test.t"
    with pytest.raises(ConfigError, match=re.escape(f"[CDC:ErrColumnSelectorFailed]{words}")):
        Router(chosen.routing).select_columns(sold())


def test_a_table_without_a_handle_key_has_no_key_to_be_left(tmp_path: Path) -> None:
    chosen = config(tmp_path, selectors({"matcher": ["*.*"], "columns": ["a"]}))
    keyless = table("t", *ints("a", "b"))
    assert [c.name for c in Router(chosen.routing).select_columns(keyless).columns] == ["a"]


def dispatched_by(tmp_path: Path, column: str) -> Router:
    rules = dispatchers({"matcher": ["*.*"], "partition": "columns", "columns": [column]})
    return Router(config(tmp_path, rules + "\n" + selectors({"matcher": ["*.*"], "columns": ["id"]})).routing)


def test_columns_that_dispatch_rows_must_be_left(tmp_path: Path) -> None:
    words = "the filtered out column is used in the column dispatcher, table: test.t, column: keep_a"
    with pytest.raises(ConfigError, match=re.escape(f"[CDC:ErrColumnSelectorFailed]{words}")):
        dispatched_by(tmp_path, "keep_a").select_columns(sold())


def test_a_column_in_another_spelling_dispatches_rows_without_being_left(tmp_path: Path) -> None:
    """TiCDC compares the very names there, and hashes rows before columns are dropped."""
    router, schema = dispatched_by(tmp_path, "KEEP_A"), sold()
    assert router.select_columns(schema).columns == ints("id")
    assert partition(router, schema, (1, 2, 3, 4), 1009) != partition(router, schema, (1, 5, 3, 4), 1009)
