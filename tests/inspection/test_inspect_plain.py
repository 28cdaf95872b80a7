"""One message explained alone: as one of a source is, for every protocol, and without Java."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from full import FULL, full
from golden_data import Line, Table, lines, registry_folder
from pyspark.sql import SparkSession

import tidecast
from tidecast.inspection._alone import inspect_alone, inspect_by
from tidecast.model import RECORD
from tidecast.protocols import DecodeOptions, Description, protocol_named
from tidecast.registry import Registry, open_registry

ZONE = "Asia/Shanghai"
NAMES = ("t_all", "t_int", "t_num", "t_str", "t_bin", "t_vec", "t_zero", "t_gen", "t_cpk")
TABLES: frozenset[Table] = frozenset({("o-r c.2", "odd té名.1"), *(("orc", name) for name in NAMES)})
FEW: frozenset[Table] = frozenset({("orc", "t_all")})
NUMBERS: frozenset[Table] = frozenset({("orc", "t_num")})

ROWS = {
    "avro-checksum": TABLES,
    "avro-checksum-corrupt": FEW | NUMBERS,
    "avro": FEW | NUMBERS,
    "canal-json-compatible": TABLES,
    "canal-json-ext": FEW,
    "debezium-ext": TABLES,
    "debezium": FEW | NUMBERS,
    "simple-json": TABLES,
    "simple-avro": TABLES,
    "simple-json-handlekey": FEW | {("orc", "t_long")},
    "simple-avro-handlekey": FEW | {("orc", "t_long")},
}
_LIKE_OTHERS = ("avro", "canal-json-compatible", "canal-json-ext", "debezium", "simple-avro-handlekey")
CONTROL = ("avro-watermark", "canal-json-ext", "debezium-ext", "simple-json", "simple-avro")


class Variant:
    """A golden file's messages, without their keys: one that is given alone has none."""

    def __init__(self, name: str, golden: Callable[[str], Path], folder: Path) -> None:
        self.protocol = "canal-json" if name.startswith("canal-json") else name.partition("-")[0]
        self.messages = [m for m in lines(golden(f"{name}.jsonl.gz")) if m["value"] is not None]
        self._folder = folder
        self._url: str | None = None
        self.registry: Registry | None = None
        if self.protocol == "avro":
            schemas = "avro" if name == "avro-watermark" else name.removesuffix("-corrupt")
            self._url = registry_folder(golden(f"{schemas}.schemas.jsonl.gz"), folder / "schemas")
            self.registry = open_registry(self._url)

    def rows(self, tables: Collection[Table]) -> list[bytes]:
        return [value(m) for m in self.messages if m["kind"] == "dml" and (m["db"], m["table"]) in tables]

    def control(self) -> list[bytes]:
        return [value(m) for m in self.messages if m["kind"] != "dml"]

    def plainly(self, message: bytes) -> dict[str, Any]:
        """Return what is said of a message alone."""
        options = DecodeOptions(ordered=True, registry=self.registry, zone=ZONE)
        (found,) = inspect_alone(message, self.protocol, options)
        return shown(found)

    def by_spark(self, spark: SparkSession, messages: list[bytes]) -> list[dict[str, Any]]:
        """Return what Spark says of messages, which are read together: each by itself would take hours."""
        file = self._folder / "topic.jsonl"
        written = (json.dumps({"topic": "t", "partition": 0, "value": base64.b64encode(m).decode()}) for m in messages)
        file.write_text("".join(f"{line}\n" for line in written))
        source = f"file://{file}?protocol={self.protocol}"
        found = tidecast.inspect(source, limit=len(messages), schema_registry=self._url, tz=ZONE, spark=spark)
        return [shown(one) for one in found]


def value(message: Line) -> bytes:
    return base64.b64decode(message["value"])


def shown(message: tidecast.Inspected) -> dict[str, Any]:
    """Return what is told of a message, but for its place."""
    return {k: v for k, v in asdict(message).items() if k not in ("topic", "partition", "offset")}


def same(mine: list[dict[str, Any]], by_spark: list[dict[str, Any]]) -> None:
    """Check that both tell the same, in parts that a person can read."""
    assert len(mine) == len(by_spark)
    for one, other in zip(mine, by_spark, strict=True):
        for column, by in zip(one["columns"], other["columns"], strict=True):
            assert column == by
        assert one == other


@pytest.mark.parametrize("name", [pytest.param(name, marks=full if name in _LIKE_OTHERS else ()) for name in ROWS])
def test_rows_are_explained_as_spark_does(
    name: str, spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    variant = Variant(name, golden, tmp_path)
    messages = variant.rows(ROWS[name])
    assert len(messages) > 3
    same([variant.plainly(m) for m in messages], variant.by_spark(spark, messages))


@pytest.mark.parametrize("name", CONTROL)
def test_what_is_no_row_is_explained_as_spark_does(
    name: str, spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    variant = Variant(name, golden, tmp_path)
    # What a schema change or a bootstrap shows is for the rows that follow: each is explained by itself.
    messages = variant.control()[:60]
    assert len(messages) > 10
    same([variant.plainly(m) for m in messages], variant.by_spark(spark, messages))


@pytest.mark.parametrize(
    "name", ["avro", "avro-checksum", "canal-json-ext", "debezium-ext", "simple-json", "simple-avro"]
)
def test_golden_messages_of_all_tables_are_explained_without_spark(
    name: str, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of rows each fifth: tests of the protocols decode all of them, many at once."""
    variant = Variant(name, golden, tmp_path)
    rows = [value(m) for m in variant.messages if m["kind"] == "dml"]
    make = protocol_named(variant.protocol).reader
    assert make is not None
    options = DecodeOptions(ordered=True, registry=variant.registry, zone=ZONE)
    of_all = make(options) if variant.registry else None  # a folder of schemas is listed for each reader
    for message in (*variant.control(), *rows[:: 1 if FULL else 5]):
        (found,) = inspect_by(of_all or make(options), message, variant.protocol)
        assert found.type


@pytest.mark.parametrize(
    "name",
    ["avro-checksum", "canal-json-ext", pytest.param("debezium-ext", marks=full), "simple-json", "simple-avro"],
)
def test_damaged_messages_are_explained_as_spark_does(
    name: str, spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    variant, r = Variant(name, golden, tmp_path), random.Random(7)
    messages = variant.rows(FEW)
    damaged: list[bytes] = []
    said: list[dict[str, Any]] = []
    for n in range(400):
        message = bytearray(messages[n % len(messages)])
        # In JSON most flips make another name or type, which is a table of its own to Spark.
        at = r.randrange(5, len(message)) if name == "avro-checksum" else r.randrange(len(message) - 60, len(message))
        message[at] ^= 1 << r.randrange(8)
        said.append(variant.plainly(bytes(message)))
        damaged.append(bytes(message))
        if len(damaged) == (200 if name == "avro-checksum" else 8):
            break
    same(said, variant.by_spark(spark, damaged))


def test_one_message_takes_no_java(golden: Callable[[str], Path], tmp_path: Path) -> None:
    variant = Variant("avro-checksum", golden, tmp_path)
    message = variant.rows(FEW)[0]
    program = f"""
import atexit, sys
def told():
    from pyspark import SparkContext
    print('Java:', SparkContext._gateway, *({{'sqlglot', 'tidecast.api'}} & sys.modules.keys()))
atexit.register(told)
from tidecast.cli import main
sys.argv = ['tidecast', 'inspect', '--hex', '{message.hex()}', '--schema-registry', '{variant._url}', '--tz', '{ZONE}']
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "avro INSERT orc.t_all" in done.stdout
    assert "checksum: match" in done.stdout
    assert done.stdout.splitlines()[-1] == "Java: None"


def test_a_row_whose_table_nothing_tells(spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path) -> None:
    variant = Variant("debezium-noschema", golden, tmp_path)
    message = variant.rows(FEW)[3]  # alone: of several Spark tells the commit-ts of the first
    same([variant.plainly(message)], variant.by_spark(spark, [message]))
    assert variant.plainly(message)["problem"].startswith("unknown-table: no schema of orc.t_all before commit-ts ")


WATERMARK = '"database":"","table":"","isDdl":false,"type":"TIDB_WATERMARK","es":1,"ts":1,"_tidb":{"watermarkTs":1}}'


def test_a_member_that_nobody_reads_may_come_twice() -> None:
    twice = f'{{"id":0,"id":0,{WATERMARK}'.encode()
    (said,) = tidecast.inspect(hex=twice.hex(), protocol="canal-json", tz="UTC")
    assert (said.type, said.problem) == ("WATERMARK", None)


@pytest.mark.parametrize("name", ["avro-checksum", "simple-json"])
def test_a_small_source_is_explained_here_as_spark_does(
    name: str, spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    variant = Variant(name, golden, tmp_path)
    few = [m for m in variant.messages if m["kind"] != "dml" or (m["db"], m["table"]) in FEW | NUMBERS][:300]
    rows = [
        ("t", m["partition"], n, dt.datetime.fromtimestamp(n, dt.UTC), b"", value(m), None) for n, m in enumerate(few)
    ]
    topic = tmp_path / "topic"
    spark.createDataFrame(rows, RECORD).coalesce(1).write.parquet(str(topic))
    source = f"file://{topic}?protocol={variant.protocol}"
    tables = sorted({f"{m['db']}.{m['table']}" for m in few if m["kind"] == "dml"})
    last = max(m["commit_ts"] for m in few if m["kind"] == "dml")
    asked: list[dict[str, Any]] = [
        {"limit": 20},
        {"last": 3},
        {"partition": 1, "limit": 5},
        {"offset": len(few) // 2},
        {"table": tables[0], "limit": 4},
        {"key": ["id=2"], "limit": 3},
        {"commit_ts": last, "limit": 5},
        {"table": "no.table"},
    ]
    for options in asked:
        here, by_spark = (
            [asdict(one) for one in tidecast.inspect(source, schema_registry=variant._url, tz=ZONE, spark=s, **options)]
            for s in (None, spark)
        )
        assert here == by_spark, options


def test_the_files_of_a_storage_sink_say_what_they_are() -> None:
    made = {
        "Table": "t",
        "Schema": "shop",
        "Version": 1,
        "TableVersion": 456389768021278724,
        "Query": "TRUNCATE TABLE `t`",
        "Type": 11,
        "TableColumns": [{"ColumnName": "id", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnIsPk": "true"}],
        "TableColumnsTotal": 1,
    }
    key = b"shop/t/meta/schema_456389768021278724_0000000000.json"
    for name in ("csv", "canal-json"):
        describe = protocol_named(name).describe
        said = describe(key, json.dumps(made).encode())
        assert (said.type, said.table, said.commit_ts) == ("TRUNCATE", "shop.t", 456389768021278724)
        assert (said.sql, said.columns) == ("TRUNCATE TABLE `t`", [("id", "int")])
        said = describe(key, json.dumps(made | {"Query": "", "Type": 0}).encode())
        assert (said.type, said.table, said.sql) == ("SCHEMA", "shop.t", None)
        said = describe(b"metadata", b'{"checkpoint-ts":456536988057600000}')
        assert (said.type, said.commit_ts) == ("WATERMARK", 456536988057600000)
        assert describe(key, b"{") == describe(b"metadata", b"[]") == Description()


def test_each_row_of_a_message_is_explained(spark: SparkSession, tmp_path: Path) -> None:
    """Canal of other makers sends several rows at once."""
    message = json.dumps(
        {
            "id": 0,
            "database": "d",
            "table": "t",
            "pkNames": None,
            "isDdl": False,
            "type": "INSERT",
            "sql": "",
            "es": 1,
            "ts": 1,
            "sqlType": {"n": 4},
            "mysqlType": {"n": "int"},
            "old": None,
            "data": [{"n": "1"}, {"n": "2"}, {"n": "3"}],
        }
    ).encode()
    wanted = [(1, "INSERT", "1"), (2, "INSERT", "2"), (3, "INSERT", "3")]
    found = tidecast.inspect(hex=message.hex(), protocol="canal-json")
    assert [(m.row, m.type, m.columns[0].new) for m in found] == wanted
    (tmp_path / "t").mkdir()
    line = json.dumps({"topic": "t", "partition": 0, "offset": 5, "value": base64.b64encode(message).decode()})
    (tmp_path / "t" / "one.jsonl").write_text(line + "\n")
    source = f"file://{tmp_path}/t/one.jsonl?protocol=canal-json"
    for options in ({}, {"spark": spark}, {"table": "d.t"}, {"table": "d.t", "spark": spark}):
        found = tidecast.inspect(source, **options)
        assert [(m.row, m.type, m.columns[0].new) for m in found] == wanted
        assert {(m.partition, m.offset) for m in found} == {(0, 5)}
