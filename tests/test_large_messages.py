"""Messages that are too large, and compressed ones: what each option makes of them, and that they read back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from golden_lines import lines
from growing_topic import ID
from pyspark.sql import SparkSession

import tidecast
from tidecast.protocols import simple
from tidecast.sources import read_records
from tidecast.topics import compress

TABLE = {
    "schema": "shop",
    "table": "notes",
    "tableID": 7,
    "version": 400,
    "columns": [
        ID,
        {
            "name": "body",
            "dataType": {"mysqlType": "text", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 65535},
            "nullable": True,
            "default": None,
        },
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}
LIMIT = 900
BODIES = {1: "short", 2: "long " * 400, 3: "é" * 500}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Simple topic with a table and three rows, two of them large."""
    create = {"version": 1, "type": "CREATE", "sql": "CREATE TABLE `shop`.`notes`", "commitTs": 401, "buildTs": 1}
    messages: list[dict[str, Any]] = [{**create, "tableSchema": TABLE}]
    for n, body in BODIES.items():
        row = {"id": str(n), "body": body}
        head = {"version": 1, "database": "shop", "table": "notes", "tableID": 7, "type": "INSERT", "commitTs": 500 + n}
        messages.append({**head, "buildTs": 1, "schemaVersion": 400, "data": row})
    path = tmp_path_factory.mktemp("source") / "notes.jsonl"
    records = (
        {"partition": 0, "key": None, "value": base64.b64encode(json.dumps(m).encode()).decode()} for m in messages
    )
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return f"file://{path}?protocol=simple"


def convert(source: str, folder: Path, encoding: str, config: str, spark: SparkSession) -> tidecast.Published:
    toml = folder / "changefeed.toml"
    toml.write_text(f"[sink.kafka-config.large-message-handle]\n{config}\n")
    sink = f"file://{folder}/out?protocol=simple&encoding-format={encoding}&format=jsonl&partition-num=1"
    return tidecast.convert(source, f"{sink}&max-message-bytes={LIMIT}", config=str(toml), tz="UTC", spark=spark)


def values(folder: Path) -> list[bytes]:
    records = [r for part in sorted((folder / "out").glob("*.jsonl.gz")) for r in lines(part)]
    return [base64.b64decode(r["value"]) for r in sorted(records, key=lambda r: r["offset"])]


def rows(spark: SparkSession, uri: str) -> tuple[dict[int, str], dict[str, int]]:
    """Return the rows that a reader gets, and what it could not read, by reason."""
    with tidecast.read(spark, uri, tz="UTC") as events:
        read = {r["data"]["id"]: r["data"]["body"] for t in events.tables for r in t.good.select("data").collect()}
        return read, {r["reason"]: r["count"] for r in events.dead_letters().groupBy("reason").count().collect()}


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_without_an_option_a_large_row_ends_the_run(
    encoding: str, source: str, tmp_path: Path, spark: SparkSession
) -> None:
    with pytest.raises(tidecast.EncodeError, match=r"length:\d+, maxMessageBytes:900") as stopped:
        convert(source, tmp_path, encoding, "", spark)
    assert stopped.value.code == "CDC:ErrMessageTooLarge"
    assert "large-message-handle-option" in str(stopped.value)
    read, _ = rows(spark, f"file://{tmp_path}/out?protocol=simple")
    assert read == {1: "short"}  # what came before has left


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_the_handle_key_alone_is_sent(encoding: str, source: str, tmp_path: Path, spark: SparkSession) -> None:
    result = convert(source, tmp_path, encoding, 'large-message-handle-option = "handle-key-only"', spark)
    assert result.total == 3
    assert all(len(v) + 36 <= LIMIT for v in values(tmp_path))
    if encoding == "json":
        large = [json.loads(v) for v in values(tmp_path) if b"handleKeyOnly" in v]
        assert [(m["handleKeyOnly"], m["data"]) for m in large] == [(True, {"id": "2"}), (True, {"id": "3"})]
    read, letters = rows(spark, f"file://{tmp_path}/out?protocol=simple")
    assert read == {1: "short"}
    assert letters == {"incomplete-row": 2}


@pytest.mark.parametrize(
    ("encoding", "compression", "raw"),
    [("json", "none", "false"), ("avro", "none", "true"), ("json", "lz4", "false"), ("avro", "snappy", "true")],
)
def test_the_claim_check_keeps_the_whole(
    encoding: str, compression: str, raw: str, source: str, tmp_path: Path, spark: SparkSession
) -> None:
    claims = tmp_path / "claims"
    config = (
        f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{claims}"\n'
        f'claim-check-raw-value = {raw}\nlarge-message-handle-compression = "{compression}"'
    )
    result = convert(source, tmp_path, encoding, config, spark)
    files = sorted(claims.glob("*.json"))
    assert len(files) == result.claims
    if compression == "none":
        assert result.claims == 2
        whole = [json.loads(f.read_bytes()) for f in files] if raw == "false" else []
        assert all(list(w) == ["key", "value"] and w["key"] is None for w in whole)
    here = f"file://{tmp_path}/out?protocol=simple&large-message-handle-compression={compression}"
    read, letters = rows(spark, here)
    assert (set(read), letters) == (({1}, {"incomplete-row": 2}) if result.claims else (set(BODIES), {}))
    read, letters = rows(spark, f"{here}&claim-check-storage-uri=file://{claims}")
    assert (read, letters) == (BODIES, {})


def test_a_claim_check_reads_no_place_but_its_storage(source: str, tmp_path: Path, spark: SparkSession) -> None:
    config = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{tmp_path}/claims"'
    convert(source, tmp_path, "json", config, spark)
    records, _ = read_records(spark, f"file://{tmp_path}/out?protocol=simple")
    located = records.frame.select(simple.claim_check_location(records.frame["value"]).alias("l")).where(
        "l is not null"
    )
    assert {r["l"].rpartition("/")[0] for r in located.collect()} == {f"file://{tmp_path}/claims"}
    other = tmp_path / "elsewhere"
    other.mkdir()
    _, letters = rows(spark, f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{other}")
    assert letters == {"incomplete-row": 2}


@pytest.mark.parametrize(
    "broken", ['{"key":null,"value":5}', '{"key":null,"value":null}', "[]", '"x"', "null", "[" * 9999]
)
def test_a_broken_claim_is_a_dead_letter(broken: str, source: str, tmp_path: Path, spark: SparkSession) -> None:
    claims = tmp_path / "claims"
    config = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{claims}"'
    convert(source, tmp_path, "json", config, spark)
    for file in claims.glob("*.json"):
        file.write_text(broken)
    read, letters = rows(spark, f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{claims}")
    assert (read, sum(letters.values())) == ({1: "short"}, 2)


def test_compressed_values_have_ticdc_s_forms(source: str, tmp_path: Path, spark: SparkSession) -> None:
    assert compress(b"tide" * 50, "lz4").hex().startswith("04224d186470b9")
    assert compress(b"tide" * 50, "snappy")[:2] == bytes([200 & 0x7F | 0x80, 1])  # the length, not a stream's magic
    convert(source, tmp_path, "json", 'large-message-handle-compression = "lz4"', spark)
    assert all(v.startswith(bytes.fromhex("04224d186470b9")) for v in values(tmp_path))
    read, _ = rows(spark, f"file://{tmp_path}/out?protocol=simple&large-message-handle-compression=lz4")
    assert read == BODIES
