"""Messages that are too large, and compressed ones: what each option makes of them, and that they read back."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lz4.frame
import pytest
from full import full
from golden_data import lines
from growing_topic import ID
from plans import explained
from pyspark.sql import SparkSession
from servers import S3Server
from servers._process import free_ports

import tidecast
from tidecast import ConfigError, Unreachable
from tidecast.config import load_config
from tidecast.protocols import simple
from tidecast.publish import check_publishable
from tidecast.sources import read_records
from tidecast.sources._unpack import unpacked
from tidecast.storage import entries, storage_path
from tidecast.topics import _packing, check_storage, claim_location, compress
from tidecast.topics._packing import _in_pieces, _un_snappy

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


@pytest.fixture
def on_s3(spark: SparkSession, s3: S3Server) -> Iterator[SparkSession]:
    """The Spark session of the run, told of a store."""
    told = {name.removeprefix("spark.hadoop."): value for name, value in s3.spark.items()}
    for name, value in told.items():
        spark.conf.set(name, value)
    yield spark
    for name in told:
        spark.conf.unset(name)


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
    assert stopped.value.message.startswith("message is too large. table:")
    assert "large-message-handle-option" in str(stopped.value)
    read, _ = rows(spark, f"file://{tmp_path}/out?protocol=simple")
    assert read == {1: "short"}  # what came before has left


def test_the_schema_of_a_debezium_message_counts(source: str, tmp_path: Path, spark: SparkSession) -> None:
    """It is most of a message, and joined to it late."""

    def publish(folder: str, limit: int) -> list[int]:
        sink = f"file://{tmp_path}/{folder}?protocol=debezium&format=jsonl&partition-num=1&max-message-bytes={limit}"
        tidecast.convert(source, sink, tz="UTC", spark=spark)
        records = [r for part in sorted((tmp_path / folder).glob("*.jsonl.gz")) for r in lines(part)]
        assert all(b'"schema":' in base64.b64decode(r[part]) for r in records for part in ("key", "value"))
        return [36 + sum(len(base64.b64decode(r[part])) for part in ("key", "value")) for r in records]

    sizes = publish("all", 1 << 20)
    assert publish("fits", max(sizes)) == sizes
    with pytest.raises(tidecast.EncodeError, match=f"length:{max(sizes)}, maxMessageBytes:{max(sizes) - 1}"):
        publish("short", max(sizes) - 1)


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_the_handle_key_alone_is_sent(encoding: str, source: str, tmp_path: Path, spark: SparkSession) -> None:
    result = convert(source, tmp_path, encoding, 'large-message-handle-option = "handle-key-only"', spark)
    assert result.total == 3
    assert all(len(v) + 36 <= LIMIT for v in values(tmp_path))
    if encoding == "json":
        large = [json.loads(v) for v in values(tmp_path) if b"handleKeyOnly" in v]
        assert [(m["handleKeyOnly"], m["data"]) for m in large] == [(True, {"id": "2"}), (True, {"id": "3"})]
    read, dead_letters = rows(spark, f"file://{tmp_path}/out?protocol=simple")
    assert read == {1: "short"}
    assert dead_letters == {"incomplete-row": 2}


@pytest.mark.parametrize(
    ("encoding", "compression", "raw", "scheme"),
    [
        ("json", "none", "false", "file"),
        ("avro", "none", "true", "s3a"),
        ("json", "lz4", "false", "file"),
        pytest.param("avro", "snappy", "true", "file", marks=full),
        pytest.param("json", "none", "true", "s3", marks=full),
    ],
)
def test_the_claim_check_keeps_the_whole(
    encoding: str,
    compression: str,
    raw: str,
    scheme: str,
    source: str,
    tmp_path: Path,
    on_s3: SparkSession,
    s3: S3Server,
) -> None:
    spark, store = on_s3, f"file://{tmp_path}" if scheme == "file" else f"{scheme}://{S3Server.bucket}"
    folder = f"{store}/claims-{encoding}"
    claims = storage_path(folder, "claims")
    key = f"?access-key={s3.key}&secret-access-key={s3.secret}&endpoint={s3.url}" if scheme == "s3" else ""
    config = (
        f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "{folder}{key}"\n'
        f'claim-check-raw-value = {raw}\nlarge-message-handle-compression = "{compression}"'
    )
    result = convert(source, tmp_path, encoding, config, spark)
    files = [one.path for one in entries(claims) if one.name.endswith(".json")]
    assert len(files) == result.claims
    if compression == "none":
        assert result.claims == 2
        whole = [json.loads(f.read_bytes()) for f in files] if raw == "false" else []
        assert all(list(w) == ["key", "value"] and w["key"] is None for w in whole)
    here = f"file://{tmp_path}/out?protocol=simple&large-message-handle-compression={compression}"
    read, dead_letters = rows(spark, here)
    assert (set(read), dead_letters) == (({1}, {"incomplete-row": 2}) if result.claims else (set(BODIES), {}))
    read, dead_letters = rows(spark, f"{here}&claim-check-storage-uri={quote(folder + key, '')}")
    assert (read, dead_letters) == (BODIES, {})


@pytest.mark.parametrize(
    ("storage", "folder"),
    [
        ("file:///claims/", "file:///claims"),
        ("file:///my%20claims", "file:///my claims"),
        ("/claims", "file:///claims"),
        ("s3://AKID:secret@bucket/claims?region=x&secret-access-key=secret", "s3://bucket/claims"),
        ("s3a://bucket/my%20claims/", "s3://bucket/my claims"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/claims", "gcs://bucket/claims"),
        ("azblob://files/claims?account-name=account&account-key=secret", "azure://files/claims"),
        ("abfss://files@account.dfs.core.windows.net/a", "abfss://files@account.dfs.core.windows.net/a"),
        ("hdfs://host:9000/a@b", "hdfs://host:9000/a@b"),
    ],
)
def test_a_message_tells_its_claim_s_place_without_credentials(storage: str, folder: str) -> None:
    assert re.fullmatch(re.escape(folder) + r"/[0-9a-f-]{36}\.json", claim_location(storage, b"row"))


@pytest.mark.parametrize(("path", "named"), [("/my%20claims/", "/my claims"), ("", ""), ("/", "")])
def test_a_claim_check_is_opened_with_the_parameters_of_ticdc(path: str, named: str, s3: S3Server) -> None:
    key = f"access-key={s3.key}&secret_access_key={s3.secret}&endpoint={s3.url}/"
    storage = f"s3://{s3.bucket}{path}?{key}"
    check_storage(storage)
    system, folder = _packing._opened(storage)
    assert folder == f"{s3.bucket}{named}"
    system.open_output_stream(f"{folder}/a").close()


def test_parameters_of_ticdc_that_a_claim_check_cannot_have_are_refused() -> None:
    storage = "s3://bucket/claims?access-key=a&secret-access-key=b"
    with pytest.raises(ConfigError, match="sse has no effect here"):
        check_storage(f"{storage}&sse=AES256")
    with pytest.raises(ConfigError, match="access-key and secret-access-key belong together"):
        check_storage("s3://bucket/claims?access-key=a")


@pytest.mark.parametrize(("path", "folder"), [("/a%20b", "files/a b"), ("", "files"), ("/", "files")])
def test_a_claim_check_may_be_a_container_of_azure(path: str, folder: str) -> None:
    assert _packing._opened(f"azblob://files{path}?account-name=account&account-key=YQ==")[1] == folder


def test_a_claim_check_reads_no_place_but_its_storage(source: str, tmp_path: Path, spark: SparkSession) -> None:
    config = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{tmp_path}/claims"'
    convert(source, tmp_path, "json", config, spark)
    records, _ = read_records(spark, f"file://{tmp_path}/out?protocol=simple")
    located = simple.claim_check_locations(records.frame.toArrow()["value"].combine_chunks()).drop_null().to_pylist()
    assert {location.rpartition("/")[0] for location in located} == {f"file://{tmp_path}/claims"}
    other = tmp_path / "elsewhere"
    other.mkdir()
    _, dead_letters = rows(spark, f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{other}")
    assert dead_letters == {"incomplete-row": 2}
    names = sorted(file.name for file in (tmp_path / "claims").glob("*.json"))
    for name, taken in zip(names, reversed(names), strict=True):
        (other / name).write_bytes((tmp_path / "claims" / taken).read_bytes())
    read, dead_letters = rows(spark, f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{other}")
    assert (read, dead_letters) == ({1: "short"}, {"incomplete-row": 2})  # a file of another message's


def test_the_plan_of_claim_checks_may_be_shared_by_threads(source: str, spark: SparkSession) -> None:
    """Spark evaluates the options of `from_avro`, a map, wherever it compares plans: not two threads' at a time."""
    records, _ = read_records(spark, source)
    frame = unpacked(records, "simple", {"claim-check-storage-uri": "file:///claims"}).frame
    assert "from_avro" not in explained(frame, "extended")


@pytest.mark.parametrize(
    "broken", ['{"key":null,"value":5}', '{"key":null,"value":null}', "[]", '"x"', "null", "[" * 9999]
)
def test_a_broken_claim_is_a_dead_letter(broken: str, source: str, tmp_path: Path, spark: SparkSession) -> None:
    claims = tmp_path / "claims"
    config = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{claims}"'
    convert(source, tmp_path, "json", config, spark)
    for file in claims.glob("*.json"):
        file.write_text(broken)
    read, dead_letters = rows(spark, f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{claims}")
    assert (read, sum(dead_letters.values())) == ({1: "short"}, 2)


def test_compressed_values_have_ticdc_s_forms(source: str, tmp_path: Path, spark: SparkSession) -> None:
    assert compress(b"tide" * 50, "lz4").hex().startswith("04224d186470b9")
    assert compress(b"tide" * 50, "snappy")[:2] == bytes([200 & 0x7F | 0x80, 1])  # the length, not a stream's magic
    convert(source, tmp_path, "json", 'large-message-handle-compression = "lz4"', spark)
    assert all(v.startswith(bytes.fromhex("04224d186470b9")) for v in values(tmp_path))
    read, _ = rows(spark, f"file://{tmp_path}/out?protocol=simple&large-message-handle-compression=lz4")
    assert read == BODIES


@pytest.mark.parametrize("compression", ["lz4", pytest.param("snappy", marks=full)])
def test_debezium_s_keys_and_values_are_each_compressed(
    compression: str, source: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Those of rows, of schema changes, and of watermarks."""
    watermark = base64.b64encode(b'{"version":1,"type":"WATERMARK","commitTs":600,"buildTs":1}').decode()
    topic = tmp_path / "source.jsonl"
    topic.write_text(Path(source[7 : source.index("?")]).read_text() + json.dumps({"partition": 0, "value": watermark}))
    toml = tmp_path / "changefeed.toml"

    def publish(folder: str, chosen: str) -> list[tuple[bytes, bytes]]:
        toml.write_text(f'[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression = "{chosen}"\n')
        sink = f"file://{tmp_path}/{folder}?protocol=debezium&enable-tidb-extension=true&format=jsonl&partition-num=1"
        tidecast.convert(f"file://{topic}?protocol=simple", sink, config=str(toml), tz="UTC", spark=spark)
        records = [r for part in sorted((tmp_path / folder).glob("*.jsonl.gz")) for r in lines(part)]
        records.sort(key=lambda r: r["offset"])
        return [(base64.b64decode(r["key"]), base64.b64decode(r["value"])) for r in records]

    def unpacked(data: bytes) -> bytes:
        frame = lz4.frame.decompress(data) if compression == "lz4" else _un_snappy(data)
        return re.sub(rb'"ts_ms":\d{13},"(transaction|databaseName)', rb'"\1', frame)

    def plain(data: bytes) -> bytes:
        return unpacked(compress(data, compression))

    whole = publish("plain", "none")
    assert len(whole) == 5
    packed = publish("packed", compression)
    assert [(unpacked(k), unpacked(v)) for k, v in packed] == [(plain(k), plain(v)) for k, v in whole]

    broken = {"partition": 0, "key": "e30=", "value": base64.b64encode(packed[1][1][:-9]).decode()}
    with (tmp_path / "odd.jsonl").open("w") as file:
        for key, value in packed:
            file.write(json.dumps({"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}))
            file.write("\n")
        file.write(json.dumps(broken) + "\n")
    uri = f"file://{tmp_path}/odd.jsonl?protocol=debezium&large-message-handle-compression={compression}"
    read, dead_letters = rows(spark, uri)
    assert read == BODIES
    assert dead_letters == {"undecodable" if compression == "lz4" else "bad-json": 1}


def lying_frame(message: bytes) -> bytes:
    """A frame of LZ4 whose header announces 64 TiB."""
    with lz4.frame.LZ4FrameCompressor() as frame:
        return bytes(frame.begin(1 << 46) + frame.compress(message))


def test_what_unpacks_to_too_much_or_to_nothing_is_a_dead_letter(
    source: str, tmp_path: Path, spark: SparkSession
) -> None:
    written = Path(source[7 : source.index("?")]).read_text().splitlines()
    create, *messages = (base64.b64decode(json.loads(line)["value"]) for line in written)
    large, small = bytes((1 << 27) + 1), compress(messages[1], "lz4")
    cases = {
        "lz4": [
            (compress(large, "lz4"), "too-large", "holds more, and a message may have 134,217,728 bytes"),
            (lying_frame(messages[1]), "too-large", "the LZ4 frame's header announces 70,368,744,177,664 bytes"),
            (small[:-5], "undecodable", "cut off"),
            (small + b"x", "undecodable", "more behind it"),
            (small[:30] + b"!" + small[31:], "undecodable", "a broken LZ4 frame"),
            (b"no frame", "bad-json", "not an LZ4 frame"),
        ],
        "snappy": [
            (compress(large, "snappy"), "too-large", "announces 134,217,729 bytes"),
            (b"\x80\x80\x80\x20" + compress(messages[1], "snappy")[2:], "bad-json", "cannot hold the 67,108,864"),
            (b"no block", "bad-json", "not a snappy block"),
        ],
    }
    for compression, odd in cases.items():
        good = [compress(create, compression), compress(messages[0], compression), messages[2]]  # the last as it is
        topic = tmp_path / f"{compression}.jsonl"
        with topic.open("w") as file:
            for value in [*good, *(value for value, _, _ in odd)]:
                file.write(json.dumps({"partition": 0, "value": base64.b64encode(value).decode()}) + "\n")
        # What cannot be unpacked has its reason also where claims may be fetched afterwards.
        claims = f"&claim-check-storage-uri=file://{tmp_path}" if compression == "lz4" else ""
        uri = f"file://{topic}?protocol=simple&large-message-handle-compression={compression}{claims}"
        with tidecast.read(spark, uri, tz="UTC") as events:
            read = [r["data"]["id"] for t in events.tables for r in t.good.select("data").collect()]
            dead_letters = events.dead_letters().orderBy("offset").select("reason", "detail", "value").collect()
        assert sorted(read) == [1, 3]
        assert [letter["reason"] for letter in dead_letters] == [reason for _, reason, _ in odd]
        assert all(words in letter["detail"] for letter, (_, _, words) in zip(dead_letters, odd, strict=True))
        assert [bytes(letter["value"]) for letter in dead_letters] == [value for value, _, _ in odd]


def test_a_batch_of_large_messages_goes_on_in_pieces() -> None:
    sizes = [len(piece) for piece in _in_pieces((bytes(6 << 20), None, None) for _ in range(7))]
    assert sizes == [3, 3, 1]  # 16 MiB end a piece


def test_each_dead_letter_comes_once_whatever_is_wrong_with_it(
    source: str, tmp_path: Path, spark: SparkSession
) -> None:
    written = Path(source[7 : source.index("?")]).read_text().splitlines()
    create, row, *_ = (base64.b64decode(json.loads(line)["value"]) for line in written)
    broken = json.dumps(json.loads(create) | {"tableSchema": {"schema": "shop"}}).encode()
    values = [compress(create, "lz4"), compress(row, "lz4")[:-5], compress(broken, "lz4"), compress(row, "lz4")]
    topic = tmp_path / "topic.jsonl"
    records = ({"partition": 0, "value": base64.b64encode(value).decode()} for value in values)
    topic.write_text("".join(json.dumps(record) + "\n" for record in records))
    uri = f"file://{topic}?protocol=simple&large-message-handle-compression=lz4"
    with tidecast.read(spark, uri, tz="UTC") as events:
        dead_letters = [(r["offset"], r["reason"]) for r in events.dead_letters().orderBy("offset").collect()]
        assert [changes.rows for changes in events.tables] == [1]
    assert dead_letters == [(1, "undecodable"), (2, "bad-message")]


def test_a_claim_of_too_many_bytes_is_a_dead_letter(source: str, tmp_path: Path, spark: SparkSession) -> None:
    claims = tmp_path / "claims"
    config = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{claims}"'
    convert(source, tmp_path, "json", config, spark)
    first, second = sorted(claims.glob("*.json"))
    os.truncate(first, 1 << 40)
    second.unlink()
    uri = f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri=file://{claims}"
    with tidecast.read(spark, uri, tz="UTC") as events:
        dead_letters = {(r["reason"], r["detail"]) for r in events.dead_letters().collect()}
    assert dead_letters == {
        ("too-large", f"the claim check's file {first.name} has more, and a message may have 134,217,728 bytes"),
        ("incomplete-row", f"the claim check's file {second.name} cannot be read: FileNotFoundError"),
    }


def test_a_storage_of_claims_that_does_not_answer_makes_no_dead_letters(
    source: str, tmp_path: Path, spark: SparkSession
) -> None:
    claims = f'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "file://{tmp_path}/claims"'
    convert(source, tmp_path, "json", claims, spark)
    (port,) = free_ports(1)
    storage = quote(f"s3://AKID:hush-hush@bucket/claims?endpoint_override=127.0.0.1:{port}&scheme=http&region=x", "")
    uri = f"file://{tmp_path}/out?protocol=simple&claim-check-storage-uri={storage}"
    with pytest.raises(Unreachable, match=r"the claim check's storage does not answer: .*NETWORK") as raised:
        tidecast.verify(uri, tz="UTC", spark=spark)
    assert "hush-hush" not in str(raised.value)


def test_a_storage_of_claims_that_does_not_answer_stops_a_changefeed_for_a_while(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Silent:
        def create_dir(self, folder: str, *, recursive: bool) -> None:
            raise OSError("AWS Error NETWORK_CONNECTION during HeadBucket operation")

    monkeypatch.setattr(_packing, "_opened", lambda storage: (Silent(), "bucket/claims"))
    file = tmp_path / "feed.toml"
    large = 'large-message-handle-option = "claim-check"\nclaim-check-storage-uri = "s3://bucket/claims"'
    file.write_text(f"[sink.kafka-config.large-message-handle]\n{large}\n")
    config = load_config(f"file://{tmp_path}/out?protocol=simple", file)
    with pytest.raises(Unreachable, match="the claim check's storage does not answer: AWS Error NETWORK_CONNECTION"):
        check_publishable(config)
