"""The commands against a real broker and a real registry, read back by other people's programs."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlencode

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from fastavro_reader import by_fastavro
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from servers import KafkaBroker, SchemaRegistry
from servers._process import free_ports
from shop import LOG, actual, expected

from tidecast.cli import main

ZONE, ZONE_OFFSET = "Asia/Shanghai", dt.timedelta(hours=8)
ROWS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
QUICKLY = 60.0

pytestmark = pytest.mark.usefixtures("spark")  # the commands find the running session


# ------------------------------------------------------------------------------------------------------ the command


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def output(self) -> Any:
        """What it printed as JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def run(*arguments: str) -> Done:
    """Run the command line in this process. Typer's own runner leaves out `main`, which words the errors."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["tidecast", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


MISMATCH, WRONG_CALL, FAILED = 1, 2, 3


def complaint(done: Done, code: int = FAILED) -> str:
    """Return the one line with which a command failed."""
    assert done.code == code, done
    assert not done.out
    (line,) = done.err.splitlines()
    assert line.startswith("tidecast: ")
    assert "internal error" not in line
    return line


def uri(scheme: str, place: str, **params: str) -> str:
    return f"{scheme}://{place}?{urlencode({n.replace('_', '-'): v for n, v in params.items()})}"


def dispatching(folder: Path, topic: str = "{schema}_{table}", integrity: str = "none") -> str:
    config = folder / "changefeed.toml"
    config.write_text(
        f'[sink]\ndispatchers = [{{matcher = ["*.*"], topic = "{topic}", partition = "index-value"}}]\n'
        f'[integrity]\nintegrity-check-level = "{integrity}"\n'
    )
    return str(config)


# -------------------------------------------------------------------------------------------- other people's programs


class Asked(NamedTuple):
    """A request to the registry, and its answer."""

    method: str
    path: str
    status: int
    answer: bytes


class Recorder(ThreadingHTTPServer):
    """Stands before a registry, passes everything on, and remembers it."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _PassOn)
        self.target = target
        self.asked: list[Asked] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def registrations(self) -> Counter[str]:
        """Count the schemas sent, by subject."""
        return Counter(unquote_plus(a.path.split("/")[2]) for a in self.asked if a.method == "POST")


class _PassOn(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {n: v for n, v in self.headers.items() if n not in ("Host", "Connection", "Content-Length")}
        request = urllib.request.Request(self.server.target + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, answer = error.code, error.read()
        self.server.asked.append(Asked(self.command, self.path, status, answer))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def recorder(registry: SchemaRegistry) -> Iterator[Recorder]:
    """The registry, with its requests written down."""
    with Recorder(registry.url) as running:
        yield running


Lines = dict[tuple[str, int], list[tuple[Any, Any]]]
"""Keys and values by topic and partition, in the order of their offsets."""


def partitions(broker: KafkaBroker) -> dict[str, int]:
    known = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in known.items()}


# ------------------------------------------------------------------------------------------------ what was in the log


@pytest.fixture(scope="module")
def log() -> list[dict[str, Any]]:
    """The shop's log: outer lines, with the message as an object in `value`."""
    with gzip.open(LOG.FILE, "rt", encoding="utf-8") as text:
        lines = [json.loads(line) for line in text]
    return [{**line, "value": json.loads(base64.b64decode(line["value"]))} for line in lines]


def names(mask: int, elements: Sequence[str]) -> str:
    return ",".join(e for n, e in enumerate(elements) if mask >> n & 1)


def same(value: Any, _: dict[str, Any]) -> Any:
    return value


def moved(value: dict[str, str]) -> str:
    assert value["location"] == "UTC"
    there = dt.datetime.fromisoformat(value["value"]) + ZONE_OFFSET
    return there.isoformat(" ", "milliseconds" if "." in value["value"] else "seconds")


WIRE: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "year"), lambda value, _: int(value)),
    "bigint": lambda value, kind: value if kind.get("unsigned") else int(value),
    "float": lambda value, _: struct.unpack("f", struct.pack("f", float(value)))[0],
    "double": lambda value, _: float(value),
    "enum": lambda value, kind: kind["elements"][int(value) - 1],
    "set": lambda value, kind: names(int(value), kind["elements"]),
    "bit": lambda value, kind: int(value).to_bytes((kind["length"] + 7) // 8, "big"),
    "varbinary": lambda value, _: base64.b64decode(value),
    "timestamp": lambda value, _: moved(value),
}
"""How an Avro record shows a value of a Simple message, where it is not the same text."""


def published_rows(log: Sequence[dict[str, Any]]) -> Lines:
    """Return the records that the rows of a log must be in Avro, with the extension and checksums."""
    tables: dict[tuple[str, int], dict[str, Any]] = {}
    found: Lines = defaultdict(list)
    for line in log:
        message = line["value"]
        if "tableSchema" in message:
            tables[message["tableSchema"]["table"], message["tableSchema"]["version"]] = message["tableSchema"]
        if message["type"] not in ROWS:
            continue
        table = tables[message["table"], message["schemaVersion"]]
        kinds = {c["name"]: c["dataType"] for c in table["columns"]}
        (primary,) = (i["columns"] for i in table["indexes"] if i["primary"])
        row = {
            name: value if value is None else WIRE.get(kinds[name]["mysqlType"], same)(value, kinds[name])
            for name, value in (message.get("data") or message["old"]).items()
        }
        value = row | {
            "_tidb_op": ROWS[message["type"]],
            "_tidb_commit_ts": message["commitTs"],
            "_tidb_commit_physical_time": message["commitTs"] >> 18,
            "_tidb_row_level_checksum": str(message["checksum"]["current"]),
            "_tidb_corrupted": False,
            "_tidb_checksum_version": 0,
        }
        place = f"{table['schema']}_{table['table']}", line["partition"]
        found[place].append(({n: row[n] for n in primary}, None if message["type"] == "DELETE" else value))
    return dict(found)


# ----------------------------------------------------------------------------------- the shop's week, there and back


@dataclass(frozen=True)
class Week:
    """The shop's log as an Avro changefeed in Kafka: what `convert` said, and what came of it."""

    output: dict[str, Any]
    source: str
    topics: list[str]
    messages: Lines


@pytest.fixture(scope="module")
def week(
    broker: KafkaBroker, recorder: Recorder, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Week:
    """The shop's log, published once."""
    folder = tmp_path_factory.mktemp("week")
    modes = {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}
    sink = uri(
        "kafka", f"{broker.bootstrap}/shop", protocol="avro", partition_num="3", enable_tidb_extension="true", **modes
    )
    done = run(
        *("convert", f"file://{LOG.FILE}?protocol=simple", sink, "--json", "--tz", ZONE),
        *("--config", dispatching(folder, integrity="correctness"), "--schema-registry", recorder.url),
        *("--dead-letters", str(folder / "letters")),
    )
    source = uri("kafka", f"{broker.bootstrap}/shop", protocol="avro", topics="shop_.*")
    topics = [f"shop_{table.name}" for table in LOG.Shop().tables]
    return Week(done.output, source, topics, broker.messages(*topics))


def test_other_programs_read_every_row(week: Week, registry: SchemaRegistry, log: list[dict[str, Any]]) -> None:
    want = published_rows(log)
    read = by_fastavro(registry.url)
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserialize = AvroDeserializer(client)
        context = {f: SerializationContext("any", f) for f in (MessageField.KEY, MessageField.VALUE)}
        for place, messages in week.messages.items():
            assert [(read(k), read(v)) for k, v in messages] == want[place], place
            assert [
                (deserialize(k, context[MessageField.KEY]), deserialize(v, context[MessageField.VALUE]))
                for k, v in messages
            ] == want[place], place
            del want[place]
    assert not want
    assert week.output["messages"] == sum(line["value"]["type"] in ROWS for line in log)
    assert not week.output["dead_letters"]


def test_each_topic_has_the_partitions_asked_for(week: Week, broker: KafkaBroker) -> None:
    known = partitions(broker)
    assert {topic: known[topic] for topic in week.topics} == dict.fromkeys(week.topics, 3)


def test_a_delete_is_a_tombstone(week: Week, log: list[dict[str, Any]]) -> None:
    values = [value for messages in week.messages.values() for _, value in messages]
    assert values.count(None) == sum(line["value"]["type"] == "DELETE" for line in log) > 0
    assert b"" not in values


def test_each_new_schema_is_registered_once(week: Week, recorder: Recorder) -> None:
    sent = {subject: n for subject, n in recorder.registrations().items() if subject.startswith("shop_")}
    once = {f"{topic}-{part}": 1 for topic in week.topics for part in ("key", "value")}
    assert sent == once | {"shop_orders-value": 2}  # it got a column
    assert week.output["schemas"] == sum(sent.values())


def test_verify_finds_every_row_right(week: Week, recorder: Recorder, log: list[dict[str, Any]]) -> None:
    before = len(recorder.asked)
    output = run("verify", week.source, "--json", "--tz", ZONE, "--schema-registry", recorder.url).output
    kinds = Counter(line["value"]["type"] for line in log)
    verdicts = {name: count for name, count in output["verdicts"].items() if count}
    assert verdicts == {"match": kinds["INSERT"] + kinds["UPDATE"], "delete": kinds["DELETE"]}
    assert set(output["tables"]) == {topic.replace("_", ".", 1) for topic in week.topics}
    assert not output["dead_letters"]
    asked = Counter(a.path for a in recorder.asked[before:] if "/ids/" in a.path)
    assert set(asked.values()) == {1}  # one look at each schema, however many rows it has
    assert not output["warnings"]


def test_verify_doubts_a_time_zone_with_which_most_rows_do_not_match(week: Week, registry: SchemaRegistry) -> None:
    customers = week.source.replace("shop_.%2A", "shop_customers%7Cshop_shipments")
    done = run("verify", customers, "--tz", "UTC", "--schema-registry", registry.url)
    assert done.code == MISMATCH
    assert [line for line in done.out.splitlines() if line.startswith("warning: ")] == [
        "warning: most rows of shop.customers do not match, and these tables have TIMESTAMP columns: "
        "is UTC the sender's time zone? --tz names another"
    ]


def test_the_tables_are_the_shop_at_the_end(
    week: Week, registry: SchemaRegistry, tmp_path: Path, log: list[dict[str, Any]]
) -> None:
    shop = LOG.Shop()
    shop.run()
    options = ("--tz", ZONE, "--schema-registry", registry.url)
    output = run("replicate", week.source, "--to", str(tmp_path / "tables"), "--json", *options).output
    assert not output["dead_letters"]
    kinds = Counter(line["value"]["type"] for line in log)
    verdicts = sum((Counter(table["checksums"]) for table in output["tables"]), Counter[str]())
    assert verdicts == {"match": kinds["INSERT"] + kinds["UPDATE"], "delete": kinds["DELETE"]}
    for table in shop.tables:
        assert actual(str(tmp_path / "tables" / "shop" / table.name), table.key) == expected(table)


def test_inspect_explains_messages_of_a_topic(week: Week, registry: SchemaRegistry) -> None:
    options = ("--limit", "4", "--tz", ZONE, "--schema-registry", registry.url)
    source = week.source.replace("shop_.%2A", "shop_products")
    output = run("inspect", source, "--json", *options).output
    assert len(output) == 4
    assert {m["protocol"] for m in output} == {"avro"}
    assert {m["type"] for m in output} == {"INSERT"}
    assert {m["verdict"] for m in output} == {"match"}
    first = output[0]
    assert first["table"] == "shop.products"
    assert first["time"].startswith("2025-03-03T08:05:")
    assert first["value_schema_id"] > 0
    assert {"sku", "price"} < {c["name"] for c in first["columns"]}
    shown = run("inspect", source, *options)
    assert shown.code == 0
    for text in ("avro INSERT shop.products", "commit-ts: ", "sku", "checksum: match"):
        assert text in shown.out


# ------------------------------------------------------------------------------------------------------- little logs

INT = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
NAME = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20}


@dataclass
class Little:
    """A recorded topic of the Simple protocol with tables of an integer key and a name."""

    database: str
    lines: list[str] = field(default_factory=list)
    ts: int = 456389767987200000
    versions: dict[str, int] = field(default_factory=dict)

    def message(self, kind: str, **members: Any) -> dict[str, Any]:
        self.ts += 1000 << 18
        message = {"version": 1, "type": kind, "commitTs": self.ts, "buildTs": self.ts >> 18, **members}
        self.raw(json.dumps(message).encode())
        return message

    def raw(self, value: bytes, key: bytes | None = None) -> None:
        text = {"topic": "little", "partition": 0, "key": key and base64.b64encode(key).decode()}
        self.lines.append(json.dumps({**text, "value": base64.b64encode(value).decode()}))

    def table(self, name: str, *added: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        """Create a table, or add columns that are NOT NULL and have no default."""
        kind = "ALTER" if name in self.versions else "CREATE"
        self.versions[name] = self.ts + (1000 << 18)
        columns = [("id", INT, False), ("name", NAME, True), *((*a, False) for a in added)]
        described = {
            "schema": self.database,
            "table": name,
            "tableID": 100 + list(self.versions).index(name),
            "version": self.versions[name],
            "columns": [{"name": n, "dataType": t, "nullable": null, "default": None} for n, t, null in columns],
            "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
        }
        return self.message(kind, sql=f"{kind} TABLE `{name}`", tableSchema=described)

    def row(self, table: str, key: int, **values: str) -> dict[str, Any]:
        row = {"id": str(key), "name": f"n{key}", **values}
        version = self.versions.get(table, 1)
        named = {"database": self.database, "table": table, "tableID": 1, "schemaVersion": version}
        return self.message("INSERT", **named, data=row)

    def write(self, folder: Path) -> str:
        """Write the log down; return its URI."""
        (folder / "little.jsonl").write_text("".join(f"{line}\n" for line in self.lines))
        return f"file://{folder}/little.jsonl?protocol=simple"


def two_rows(database: str) -> Little:
    little = Little(database)
    little.table("t")
    little.row("t", 1)
    little.row("t", 2)
    return little


def test_a_refused_schema_stops_the_changefeed_before_its_first_row(
    broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    little = Little("refused")
    little.table("grows")
    little.table("stays")
    for key in range(1, 8):
        little.row("grows", key)
        little.row("stays", key)
    little.table("grows", ("strict", INT))
    little.row("stays", 8)
    little.row("grows", 8, strict="1")
    little.row("stays", 9)
    little.row("grows", 9, strict="2")
    little.row("stays", 10)
    sink = uri("kafka", f"{broker.bootstrap}/refused", protocol="avro", partition_num="3")

    with Recorder(registry.url) as recorder:
        done = run(
            *("convert", little.write(tmp_path), sink, "--json", "--schema-registry", recorder.url),
            *("--config", dispatching(tmp_path), "--dead-letters", str(tmp_path / "letters")),
        )

    (refusal,) = [a for a in recorder.asked if a.status == 409]
    words = json.loads(refusal.answer)["message"]
    assert " ".join(words.split()) in complaint(done)
    assert "refused_grows-value" in done.err
    assert "CDC:ErrAvroSchemaAPIError" in done.err
    read = by_fastavro(registry.url)
    found: dict[str, list[int]] = defaultdict(list)
    for (topic, _), messages in broker.messages("refused_grows", "refused_stays").items():
        found[topic] += [read(value)["id"] for _, value in messages]
    assert {topic: sorted(keys) for topic, keys in found.items()} == {
        "refused_grows": [1, 2, 3, 4, 5, 6, 7],
        "refused_stays": [1, 2, 3, 4, 5, 6, 7, 8],
    }
    assert not (tmp_path / "letters").exists()


# ------------------------------------------------------------------------------------------------------- credentials


def test_with_the_right_passwords_everything_works(
    broker: KafkaBroker, secured_registry: SchemaRegistry, tmp_path: Path
) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_user": broker.user, "sasl_password": broker.password}
    place = uri("kafka", f"{broker.sasl_bootstrap}/let_in", protocol="avro", **login)
    registry = ("--schema-registry", secured_registry.login_url)
    converted = run("convert", two_rows("let_in").write(tmp_path), place, *registry)
    assert (converted.code, len(broker.messages("let_in"))) == (0, 3)
    verified = run("verify", place, *registry, "--json")
    assert verified.output["verdicts"]["none"] == 2
    for secret in (secured_registry.password, broker.password):
        assert secret not in converted.out + converted.err + verified.out + verified.err


@pytest.mark.parametrize("as_parameter", [False, True], ids=["option", "parameter"])
def test_a_wrong_password_of_the_registry(
    as_parameter: bool, broker: KafkaBroker, secured_registry: SchemaRegistry, tmp_path: Path
) -> None:
    wrong = secured_registry.url.replace("http://", "http://alice:not-hers-7@")
    params = {"schema_registry": wrong} if as_parameter else {}
    sink = uri("kafka", f"{broker.bootstrap}/not_let_in", protocol="avro", **params)
    option = () if as_parameter else ("--schema-registry", wrong)
    line = complaint(run("convert", two_rows("x").write(tmp_path), sink, *option, "--json"))
    assert "the schema registry refuses the user or the password" in line
    assert secured_registry.url in line
    assert "not-hers-7" not in line


def test_no_password_for_the_registry(broker: KafkaBroker, secured_registry: SchemaRegistry, tmp_path: Path) -> None:
    sink = uri("kafka", f"{broker.bootstrap}/not_let_in", protocol="avro")
    source = two_rows("x").write(tmp_path)
    line = complaint(run("convert", source, sink, "--schema-registry", secured_registry.url, "--json"))
    assert "the schema registry asks for credentials" in line


@pytest.mark.parametrize("as_source", [False, True], ids=["sink", "source"])
def test_a_wrong_password_of_the_broker(
    as_source: bool, broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_user": broker.user, "sasl_password": "not-hers-7"}
    place = uri("kafka", f"{broker.sasl_bootstrap}/not_let_in", protocol="avro", **login)
    command = ("verify", place) if as_source else ("convert", two_rows("x").write(tmp_path), place)
    line = complaint(run(*command, "--schema-registry", registry.url, "--json"), WRONG_CALL)
    assert "Kafka does not let us in" in line
    assert "sasl-password" in line
    assert "not-hers-7" not in line


# --------------------------------------------------------------------------------------------------------- bad input


class Letter(NamedTuple):
    """A message that must go to the dead letters."""

    reason: str
    topic: str
    partition: int | None
    offset: int
    key: bytes | None
    value: bytes | None


def dead_letters(folder: Path) -> list[Letter]:
    found = [json.loads(line) for part in folder.glob("*.jsonl") for line in part.read_text().splitlines()]
    assert all(line["detail"] or line["reason"] == "bad-json" for line in found)
    plain = [
        Letter(
            *(line[n] for n in ("reason", "topic", "partition", "offset")),
            *(None if line[n] is None else base64.b64decode(line[n]) for n in ("key", "value")),
        )
        for line in found
    ]
    return sorted(plain, key=lambda letter: letter.offset)


@dataclass(frozen=True)
class Mixed:
    """A topic with bad messages among good rows of one table: `t` of `database`."""

    source: str
    registry: str
    database: str
    good: list[int]
    bad: list[Letter]


def schema_folder(folder: Path) -> str:
    folder.mkdir()
    return f"file://{folder}"


def simple_mixed(folder: Path) -> Mixed:
    little = Little("s")
    bad: list[Letter] = []

    def last(reason: str, partition: int | None = 0) -> None:
        value = base64.b64decode(json.loads(little.lines[-1])["value"])
        bad.append(Letter(reason, "little", partition, len(little.lines) - 1, None, value))

    little.table("t")
    little.row("t", 1)
    little.raw(b"{this is no JSON", key=b"k")
    bad.append(Letter("bad-json", "little", 0, len(little.lines) - 1, b"k", b"{this is no JSON"))
    little.row("t", 2)
    for line in ("neither is this", "[]", '[{"partition":0,"value":"e30="},{"partition":1}]', '"text"', "7", "null"):
        little.lines.append(line)
        bad.append(Letter("bad-json", "little", None, len(little.lines) - 1, None, line.encode()))
    little.row("never_seen", 3)
    last("unknown-table")
    little.row("t", 4, id="four")
    last("bad-value")
    little.row("t", 5)
    return Mixed(little.write(folder), schema_folder(folder / "registry"), "s", [1, 2, 5], bad)


def avro_mixed(folder: Path) -> Mixed:
    """Take what `convert` publishes, and damage some of it."""
    little = Little("a")
    little.table("t")
    for number in range(1, 11):
        little.row("t", number)
    registry = schema_folder(folder / "registry")
    place = f"{folder}/topics/damaged"
    sink = uri("file", place, protocol="avro", partition_num="1", format="jsonl", enable_tidb_extension="true")
    assert run("convert", little.write(folder), sink, "--schema-registry", registry).code == 0
    foreign = {"type": "record", "name": "x", "fields": [{"name": "a", "type": "string"}]}
    (folder / "registry" / "subjects" / "foreign-value").mkdir()
    (folder / "registry" / "subjects" / "foreign-value" / "1.json").write_text(
        json.dumps({"id": 77, "version": 1, "schema": json.dumps(foreign)})
    )
    damage: dict[int, tuple[str, Callable[[bytes], bytes]]] = {
        2: ("undecodable", lambda value: value[:-3]),
        3: ("truncated", lambda value: value[:3]),
        4: ("bad-magic-byte", lambda value: b"\x07" + value[1:]),
        6: ("unknown-schema-id", lambda value: struct.pack(">bI", 0, 4242) + value[5:]),
        7: ("foreign-schema", lambda _: struct.pack(">bI", 0, 77) + b"\x02a"),
        9: ("undecodable", lambda value: value + b"more"),
    }
    (file,) = (folder / "topics" / "damaged").glob("*.jsonl.gz")
    with gzip.open(file, "rt") as text:
        records = [json.loads(line) for line in text]
    file.unlink()
    bad = []
    for record in records:
        record["offset"] += 100
        key, value = base64.b64decode(record["key"]), base64.b64decode(record["value"])
        number = record["offset"] - 99
        if number in damage:
            reason, change = damage[number]
            record["value"] = base64.b64encode(change(value)).decode()
            bad.append(Letter(reason, "damaged", 0, record["offset"], key, change(value)))
    with gzip.open(file, "wt") as text:
        text.writelines(f"{json.dumps(record)}\n" for record in records)
    return Mixed(uri("file", place, protocol="avro"), registry, "a", [1, 5, 8, 10], bad)


@pytest.fixture(scope="module", params=[simple_mixed, avro_mixed], ids=["simple", "avro"])
def mixed(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    """A topic with every kind of bad message."""
    make: Callable[[Path], Mixed] = request.param
    return make(tmp_path_factory.mktemp("mixed"))


def test_convert_sets_bad_messages_aside(mixed: Mixed, tmp_path: Path) -> None:
    sink = uri("file", f"{tmp_path}/topics/out", protocol="avro", partition_num="1", format="jsonl")
    options = ("--source-schema-registry", mixed.registry, "--schema-registry", schema_folder(tmp_path / "registry"))
    output = run("convert", mixed.source, sink, *options, "--json", "--dead-letters", str(tmp_path / "letters")).output
    assert output["messages"] == len(mixed.good)
    assert output["dead_letters"] == Counter(letter.reason for letter in mixed.bad)
    assert dead_letters(tmp_path / "letters") == mixed.bad


def test_replicate_sets_bad_messages_aside(mixed: Mixed, tmp_path: Path) -> None:
    options = ("--schema-registry", mixed.registry, "--dead-letters", str(tmp_path / "letters"))
    for _ in range(2):  # the second time, which reads all of it again, nothing is new
        output = run("replicate", mixed.source, "--to", str(tmp_path / "tables"), *options, "--json").output
        assert output["dead_letters"] == Counter(letter.reason for letter in mixed.bad)
        assert dead_letters(tmp_path / "letters") == mixed.bad
    rows = DeltaTable(str(tmp_path / "tables" / mixed.database / "t")).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == mixed.good


def test_verify_counts_bad_messages(mixed: Mixed, tmp_path: Path) -> None:
    options = ("--schema-registry", mixed.registry, "--dead-letters", str(tmp_path / "letters"))
    output = run("verify", mixed.source, *options, "--json").output
    assert output["verdicts"]["none"] == len(mixed.good)
    assert output["warnings"] == ["nothing was checked: no row carries a checksum that can be checked"]
    assert output["dead_letters"] == Counter(letter.reason for letter in mixed.bad)
    assert dead_letters(tmp_path / "letters") == mixed.bad


def test_inspect_tells_what_is_wrong(mixed: Mixed) -> None:
    output = run("inspect", mixed.source, "--limit", "30", "--schema-registry", mixed.registry, "--json").output
    problems = {m["offset"]: m["problem"].partition(":")[0] for m in output if m["problem"]}
    assert problems == {letter.offset: letter.reason for letter in mixed.bad}
    assert sum(m["type"] == "INSERT" and not m["problem"] for m in output) == len(mixed.good)


@pytest.mark.parametrize("command", ["convert", "replicate"])
def test_fail_stops_at_a_bad_message(command: str, mixed: Mixed, tmp_path: Path) -> None:
    registry = schema_folder(tmp_path / "registry") if command == "convert" else mixed.registry
    to = {
        "convert": (uri("file", f"{tmp_path}/to/out", protocol="avro"), "--source-schema-registry", mixed.registry),
        "replicate": ("--to", f"{tmp_path}/to"),
    }
    options = ("--schema-registry", registry, "--on-error", "fail", "--json")
    line = complaint(run(command, mixed.source, *to[command], *options))
    named = [
        letter
        for letter in mixed.bad
        if f"topic {letter.topic} partition {letter.partition} offset {letter.offset}: {letter.reason}" in line
    ]
    assert len(named) == 1
    assert not (tmp_path / "to").exists()


# ----------------------------------------------------------------------------------------------- what cannot be done


@dataclass(frozen=True)
class Parts:
    """What a command line may be made of."""

    simple: str
    kafka: str
    nobody: str
    registry: str
    folder: Path


@pytest.fixture
def parts(broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path) -> Parts:
    little = two_rows("parts")
    little.table("u")
    little.row("u", 1)
    (port,) = free_ports(1)
    return Parts(little.write(tmp_path), broker.bootstrap, f"127.0.0.1:{port}", registry.url, tmp_path)


Command = Callable[[Parts], tuple[str, ...]]
FAILURES: dict[str, tuple[Command, str]] = {
    "no broker to read": (lambda p: ("verify", f"kafka://{p.nobody}/t?protocol=simple"), "Kafka does not answer"),
    "no broker to write": (
        lambda p: ("convert", p.simple, f"kafka://{p.nobody}/t?protocol=avro", "--schema-registry", p.registry),
        "Kafka does not answer",
    ),
    "no registry to publish": (
        lambda p: (
            *("convert", p.simple, f"kafka://{p.kafka}/t?protocol=avro"),
            *("--schema-registry", f"http://{p.nobody}"),
        ),
        "the schema registry does not answer: Connection refused",
    ),
    "no registry to read": (
        lambda p: ("verify", f"kafka://{p.kafka}/parts?protocol=avro", "--schema-registry", f"http://{p.nobody}"),
        "the schema registry does not answer: Connection refused",
    ),
    "no topic": (lambda p: ("verify", f"kafka://{p.kafka}/absent?protocol=simple"), "there is no topic 'absent'"),
    "a file of another kind": (lambda p: ("verify", f"file://{__file__}?protocol=simple"), "no records to read"),
    "no file": (lambda p: ("verify", f"file://{p.folder}/absent?protocol=simple"), "no records to read"),
    "no such scheme": (lambda p: ("verify", "pulsar://h/t?protocol=simple"), "unknown scheme 'pulsar'"),
    "a port too high": (lambda p: ("verify", "kafka://h:99999/t?protocol=simple"), "every broker is host:port"),
    "no such protocol to read": (
        lambda p: ("verify", f"kafka://{p.kafka}/t?protocol=maxwell"),
        "unknown 'maxwell' message protocol",
    ),
    "no protocol": (lambda p: ("verify", f"kafka://{p.kafka}/t"), "CDC:ErrSinkUnknownProtocol"),
    "no such protocol to write": (
        lambda p: ("convert", p.simple, f"kafka://{p.kafka}/t?protocol=maxwell2"),
        "unknown 'maxwell2' message protocol",
    ),
    "no registry named to publish": (
        lambda p: ("convert", p.simple, f"kafka://{p.kafka}/t?protocol=avro"),
        "CDC:ErrCodecInvalidConfig",
    ),
    "no registry named to read": (
        lambda p: ("verify", f"kafka://{p.kafka}/parts?protocol=avro"),
        "CDC:ErrCodecInvalidConfig",
    ),
    "no such time zone": (lambda p: ("verify", p.simple, "--tz", "Mars/Olympus"), "Mars/Olympus"),
    "no such configuration": (
        lambda p: ("convert", p.simple, f"kafka://{p.kafka}/t?protocol=avro", "--config", "absent.toml"),
        "absent.toml",
    ),
    "a topic rule without {table}": (
        lambda p: (
            *("convert", p.simple, f"kafka://{p.kafka}/t?protocol=avro", "--schema-registry", p.registry),
            *("--config", dispatching(p.folder, topic="cdc_{schema}")),
        ),
        "CDC:ErrKafkaTopicExprInvalid",
    ),
    "two tables in the default topic": (
        lambda p: ("convert", p.simple, f"kafka://{p.kafka}/both?protocol=avro", "--schema-registry", p.registry),
        "CDC:ErrKafkaTopicExprInvalid",
    ),
    "checksums without their modes": (
        lambda p: (
            *("convert", p.simple, f"kafka://{p.kafka}/t?protocol=avro", "--schema-registry", p.registry),
            *("--config", dispatching(p.folder, integrity="correctness")),
        ),
        "enable-tidb-extension=true",
    ),
    "tables in no place": (
        lambda p: ("replicate", p.simple, "--to", "ftp://host/x"),
        "--to: ftp: is not a storage that is supported",
    ),
    "a catalog that is none": (
        lambda p: ("replicate", p.simple, "--to", "tables", "--dead-letters", "letters"),
        "Spark has no catalog 'tables'",
    ),
    "tables in a file's place": (
        lambda p: ("replicate", p.simple, "--to", f"{__file__}/tables"),
        "test_end_to_end.py: --to: this is a file, and no folder",
    ),
    "dead letters in a file's place": (
        lambda p: ("verify", p.simple, "--dead-letters", __file__),
        "test_end_to_end.py: --dead-letters: this is a file, and no folder",
    ),
    "a message that is no hexadecimal": (lambda p: ("inspect", "--hex", "xyz"), "the message is not hexadecimal"),
}


@pytest.fixture(scope="module", autouse=True)
def _a_topic_to_name(broker: KafkaBroker) -> None:
    broker.create_topic("parts")


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_done_is_told_in_a_line(name: str, parts: Parts) -> None:
    command, words = FAILURES[name]
    start = time.monotonic()
    line = complaint(run(*command(parts), "--json"), FAILED if "does not answer" in words else WRONG_CALL)
    assert time.monotonic() - start < QUICKLY
    assert words in line


def test_two_tables_in_the_default_topic_publish_nothing(parts: Parts, broker: KafkaBroker) -> None:
    sink = f"kafka://{parts.kafka}/nothing?protocol=avro"
    line = complaint(run("convert", parts.simple, sink, "--schema-registry", parts.registry, "--json"), WRONG_CALL)
    assert "parts.t and parts.u" in line
    assert not any(broker.messages("nothing").values())


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("publish",),
        ("convert", "file:///a.jsonl?protocol=simple"),
        ("verify", "--nonsense"),
        ("replicate", "file:///a.jsonl?protocol=simple"),
        ("replicate", "file:///a.jsonl?protocol=simple", "--to", "/x", "--on-error", "shrug"),
        ("replicate", "file:///a.jsonl?protocol=simple", "--to", "/x", "--on-mismatch", "shrug"),
        ("prove",),
        ("compare", "./x"),
        ("compare", "./x", "./y", "--limit", "-1"),
        ("inspect",),
        ("inspect", "file:///a.jsonl?protocol=simple", "--hex", "00"),
        ("inspect", "file:///a.jsonl?protocol=simple", "--limit", "0"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).code == 2


SIMPLE = "file:///t.parquet?protocol=simple"
WRONG_CALLS = {
    "no protocol": (("verify", "/t"), "the source names no protocol (write ?protocol=…"),
    "another protocol": (("verify", "file:///t?protocol=maxwell"), "unknown 'maxwell' message protocol"),
    "a broker that is none": (("plan", "kafka://h:99999/t?protocol=simple", SIMPLE), "every broker is host:port"),
    "a start that is none": (("verify", "kafka://h/t?protocol=simple&start=noon"), "start cannot be 'noon'"),
    "a pattern that is none": (("verify", "/t?protocol=simple&topics=["), "'[' is no regular expression"),
    "a number that is none": (("verify", "/t?protocol=simple&partition-num=x"), "partition-num cannot be 'x'"),
    "no file": (("replicate", "/absent.jsonl?protocol=simple", "--to", "/x"), "there is no such file"),
    "no registry": (("verify", "/t?protocol=avro"), 'requires parameter "schema-registry"'),
    "another registry": (("verify", "/t?protocol=avro", "--schema-registry", "ftp://h"), "is an http://, https://"),
    "no time zone": (("verify", "/t?protocol=simple", "--tz", "Mars/Olympus"), "unknown time zone 'Mars/Olympus'"),
    "a parameter misspelt": (("verify", "/t?protocal=simple"), "unknown parameter protocal (did you mean protocol?)"),
    "another sink": (("convert", "/t?protocol=simple", "out/t?protocol=avro"), "CDC:ErrSinkURIInvalid"),
    "no configuration": (
        ("convert", "/t?protocol=simple", "file:///o?protocol=simple", "--config", "/absent.toml"),
        "/absent.toml: the file cannot be read",
    ),
    "a target elsewhere": (("replicate", "/t?protocol=simple", "--to", "ftp://host/x"), "not a storage"),
    "a database": (("compare", "mysql://root:secret@h", "./x"), "mysql://root:xxxxx@h: this names no database"),
    "half a name": (("compare", "a.b", "./x"), "this names no table and no catalog"),
    "no address": (("server", "--source", "/t?protocol=simple", "--addr", "8300"), "'8300' is not an address"),
    "no hexadecimal": (("inspect", "--hex", "xyz"), "the message is not hexadecimal"),
    "no protocol of a message": (("inspect", "--hex", "00", "--protocol", "x"), "unknown 'x' message protocol"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_ends_with_2_before_spark_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidecast.api._source.spark_session", lambda **_: pytest.fail("Spark was started"))
    arguments, words = WRONG_CALLS[name]
    assert words in complaint(run(*arguments), WRONG_CALL)  # alone: no line says that reading began


def test_a_path_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a b#c"
    home.mkdir()
    two_rows("paths").write(home)
    monkeypatch.chdir(tmp_path)
    output = run("verify", "a b#c/little.jsonl?protocol=simple", "--json").output
    assert list(output["tables"]) == ["paths.t"]
    assert run("verify", "./a b#c?protocol=simple&topics=none", "--json").code == WRONG_CALL


def test_parameters_that_nobody_knows_are_told(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    sink = f"file://{parts.folder}/out/t?protocol=simple&encoding-fromat=avro&novel=1"
    assert run("plan", f"{parts.simple}&novel=2", sink, "--json").code == 0
    assert sorted(record.getMessage() for record in caplog.records) == [
        "sink URI: unknown parameter encoding-fromat is ignored: did you mean encoding-format?",
        "source URI: unknown parameter novel is ignored",
    ]


@pytest.mark.parametrize("command", ["convert", "plan", "verify", "replicate", "inspect", "server"])
def test_help_shows_every_word(command: str) -> None:
    assert "http(s)://[user:password@]host:port" in run(command, "--help").out


def no_number(java: Any) -> None:
    java.java.lang.Integer.parseInt("seven")


def no_memory(java: Any) -> None:
    java.java.util.ArrayList(0x7FFFFFFF)


def no_java(java: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ClientServer(JavaParameters(port=port), PythonParameters(port=0, eager_load=False)).jvm.java.lang.System.gc()


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (no_number, r'internal error: NumberFormatException: .* string: "seven" \(set TIDECAST_DEBUG=1 to see where\)'),
        (
            no_memory,
            r"Spark's Java ran out of memory: .*OutOfMemoryError.* \(raise it with --conf spark.driver.memory=8g, .*\)",
        ),
        (
            no_java,
            r"Spark's Java stopped, perhaps out of memory: .* \(raise it with --conf spark.driver.memory=8g, .*\)",
        ),
    ],
    ids=["another", "no memory", "no Java"],
)
def test_an_error_that_nobody_expected_shows_its_cause(
    parts: Parts, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, fails: Callable[[Any], None], told: str
) -> None:
    monkeypatch.setattr("tidecast.verify", lambda *args, **options: fails(spark._jvm))
    done = run("verify", parts.simple)
    assert done.code == FAILED
    assert re.fullmatch(f"tidecast: {told}\n", done.err)


# --------------------------------------------------------------------------------------------------- single messages


def test_inspect_explains_an_avro_message(week: Week, registry: SchemaRegistry) -> None:
    message = next(v for _, v in week.messages["shop_orders", 0] if v)
    row = by_fastavro(registry.url)(message)
    options = ("--schema-registry", registry.url, "--tz", ZONE)
    (output,) = run("inspect", "--hex", message.hex(), *options, "--json").output
    (again,) = run("inspect", "--base64", base64.b64encode(message).decode(), *options, "--json").output
    assert output == again
    assert (output["protocol"], output["type"], output["table"]) == ("avro", "INSERT", "shop.orders")
    assert (output["commit_ts"], output["verdict"]) == (row["_tidb_commit_ts"], "match")
    assert output["value_schema_id"] == int.from_bytes(message[1:5], "big")
    assert output["expected"] == output["actual"] == int(row["_tidb_row_level_checksum"])
    shown = {c["name"]: c["new"] for c in output["columns"]}
    assert shown["id"] == row["id"]
    assert shown["status"] == row["status"]
    text = run("inspect", "--hex", message.hex(), *options)
    assert text.code == 0
    assert "avro INSERT shop.orders" in text.out


def test_inspect_explains_avro_messages_that_are_no_rows(tmp_path: Path) -> None:
    options = ("--protocol", "flat-avro", "--schema-registry", schema_folder(tmp_path / "registry"), "--json")
    (output,) = run("inspect", "--hex", "0206378f24821c0012", *options).output
    assert (output["type"], output["commit_ts"]) == ("WATERMARK", 447984074911121426)
    assert output["time"] == "2024-02-26T05:00:25.607+00:00"
    ddl = b'{"query":"create table t(id int)","type":3,"schema":"s","table":"t","commitTs":470618533209047040}'
    (output,) = run("inspect", "--hex", (b"\x01" + ddl).hex(), *options).output
    assert (output["type"], output["sql"]) == ("DDL", ddl.decode())


def test_inspect_explains_simple_messages() -> None:
    little = two_rows("told")
    ddl, _, insert = (base64.b64decode(json.loads(line)["value"]) for line in little.lines)
    watermark = json.dumps({"version": 1, "type": "WATERMARK", "commitTs": little.ts, "buildTs": 1}).encode()

    def inspected(message: bytes) -> dict[str, Any]:
        (one,) = run("inspect", "--hex", message.hex(), "--json").output
        shown = run("inspect", "--hex", message.hex())
        assert shown.code == 0
        assert f"simple {one['type']}" in shown.out
        assert isinstance(one, dict)
        return one

    found = inspected(watermark)
    assert (found["type"], found["commit_ts"], found["time"]) == (
        "WATERMARK",
        little.ts,
        "2025-03-03T08:00:03.000+00:00",
    )
    assert found["problem"] is None
    found = inspected(ddl)
    assert (found["type"], found["table"], found["sql"]) == ("CREATE", "told.t", "CREATE TABLE `t`")
    assert [c["name"] for c in found["columns"]] == ["id", "name"]
    found = inspected(insert)  # it comes without its table's schema
    assert (found["type"], found["table"], found["commit_ts"]) == ("INSERT", "told.t", little.ts)
    assert found["problem"].startswith("unknown-table")


# -------------------------------------------------------------------------------------------------- as its own process


def program(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    return subprocess.run(
        [sys.executable, "-m", "tidecast", *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_program_publishes(broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path) -> None:
    sink = uri("kafka", f"{broker.bootstrap}/program", protocol="avro", partition_num="1")
    source = two_rows("program").write(tmp_path)
    done = program("convert", source, sink, "--schema-registry", registry.url, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["messages"] == 2
    read = by_fastavro(registry.url)
    assert [(read(k)["id"], read(v)["name"]) for k, v in broker.messages("program")["program", 0]] == [
        (1, "n1"),
        (2, "n2"),
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["little.jsonl"]  # it leaves nothing behind


def test_the_program_fails_in_a_line(tmp_path: Path) -> None:
    done = program("verify", "pulsar://h/t?protocol=simple", cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("tidecast: ")]
    assert (done.returncode, done.stdout, len(lines)) == (WRONG_CALL, "", 1)
    assert "Traceback" not in done.stderr
