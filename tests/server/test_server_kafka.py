"""A server, a real broker and a real registry: the documents' command lines, and a schema that is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastavro_reader import by_fastavro
from growing_topic import ID, Clock, GrowingTopic, ddl, row, table, watermark
from running_server import RunningServer, running_server
from servers import KafkaBroker, SchemaRegistry
from servers._process import free_ports
from ticdc_documents import DOCUMENTED, DOCUMENTED_FILE

SQL = "CREATE TABLE `docs`.`t` (`id` INT PRIMARY KEY)"
MUST = {**ID, "name": "must"}


now = Clock()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GrowingTopic:
    return GrowingTopic(tmp_path_factory.mktemp("source") / "log")


@pytest.fixture(scope="module")
def server(source: GrowingTopic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    (port,) = free_ports(1)
    with running_server(source.uri, tmp_path_factory.mktemp("data"), port) as running:
        yield running


@pytest.mark.timeout(900)
def test_the_documents_command_lines_publish(
    server: RunningServer, source: GrowingTopic, broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    """As they stand, but for the addresses."""
    (tmp_path / "changefeed_config.toml").write_text(DOCUMENTED_FILE)
    schema = table(9, ID, database="docs")
    source.grow([ddl(SQL, now(), schema)])
    for line in DOCUMENTED.values():
        line = re.sub(r"(--pd|--server)=http://127\.0\.0\.1:\d+", rf"\1={server.url}", line)
        line = line.replace("127.0.0.1:9092", broker.bootstrap).replace("http://127.0.0.1:8081", registry.url)
        command = [sys.executable, "-m", "tidecast", *shlex.split(line)[1:]]
        made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
        assert made.stdout.startswith("Create changefeed successfully!\n")
        assert made.stderr.count("--pd") == line.count("--pd=") == len(made.stderr.splitlines())
    source.grow([row(now(), 9, database="docs", id=n) for n in range(20)])
    source.grow([row(last := now(), 9, database="docs", kind="DELETE", id=3), watermark(last)])
    for name in DOCUMENTED:
        server.wait(name, state="normal", checkpoint_ts=last)

    messages = broker.messages("topic-name", "tidb_docs_t")
    decoded = [json.loads(value) for part in range(3) for _, value in messages["topic-name", part] if value]
    assert Counter(m["payload"]["op"] for m in decoded) == {"c": 20, "d": 1}
    assert {m["payload"]["source"]["name"] for m in decoded} == {"default"}
    read = by_fastavro(registry.url)
    pairs = [(read(key), read(value)) for part in range(3) for key, value in messages["tidb_docs_t", part]]
    assert Counter(key["id"] for key, _ in pairs) == dict.fromkeys(range(20), 3) | {3: 6}
    assert sum(value is None for _, value in pairs) == 3
    extended = [value for _, value in pairs if value and "_tidb_op" in value]
    assert [(v["_tidb_op"], v["_tidb_commit_ts"] <= last) for v in extended] == [("c", True)] * 20
    for name in DOCUMENTED:
        assert server.changefeed("remove", "-c", name).stdout.startswith("Changefeed remove successfully.\n")


@pytest.mark.timeout(900)
def test_a_rule_that_lacks_the_table_is_refused(
    server: RunningServer, broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(DOCUMENTED_FILE.replace("_{table}", ""))
    sink = f"--sink-uri=kafka://{broker.bootstrap}/topic-name?protocol=avro"
    more = (f"--schema-registry={registry.url}", "--config", str(tmp_path / "c.toml"))
    made = server.changefeed("create", "-c", "lacking", sink, *more)
    assert made.returncode == 1
    assert "CDC:ErrKafkaTopicExprInvalid" in made.stderr
    assert not server.query("lacking")


@pytest.mark.timeout(900)
def test_a_refused_schema_fails_the_changefeed_until_it_is_allowed(
    server: RunningServer, source: GrowingTopic, broker: KafkaBroker, registry: SchemaRegistry
) -> None:
    create = "CREATE TABLE `strict`.`t` (`id` INT PRIMARY KEY)"
    alter = "ALTER TABLE `strict`.`t` ADD COLUMN `must` INT NOT NULL"
    begin = now()
    made = server.changefeed(
        "create", "-c", "strict", f"--sink-uri=kafka://{broker.bootstrap}/strict?protocol=avro&partition-num=1",
        f"--schema-registry={registry.url}", "--no-confirm", f"--start-ts={begin}",
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    before, after = (table(v, *columns, database="strict") for v, columns in ((9, [ID]), (29, [ID, MUST])))
    source.grow([ddl(create, now(), before), *(row(now(), 9, database="strict", id=n) for n in range(5))])
    source.grow([ddl(alter, now(), after), *(row(now(), 29, database="strict", id=10 + n, must=n) for n in range(5))])
    source.grow([watermark(last := now())])
    server.wait("strict", state="failed")
    error = server.query("strict")["error"]
    assert error["code"] == "CDC:ErrChangefeedUnretryable"
    for words in ("CDC:ErrAvroSchemaAPIError", "Incompatible artifact: strict-value", "must at /fields/1"):
        assert words in error["message"]
    read = by_fastavro(registry.url)
    assert {read(key)["id"] for key, _ in broker.messages("strict")["strict", 0]} == set(range(5))

    with registry.without_checks():
        resumed = server.changefeed("resume", "-c", "strict", "--no-confirm")
        assert resumed.stdout == "Resume changefeed successfully! \nID: strict\n"
        server.wait("strict", state="normal", checkpoint_ts=last)
    rows = [(read(key)["id"], read(value).get("must")) for key, value in broker.messages("strict")["strict", 0]]
    assert set(rows) == {*((n, None) for n in range(5)), *((10 + n, n) for n in range(5))}


def java_of(process: int) -> int:
    """Return the id of the Java that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    (java,) = (int(child) for child in children if Path(f"/proc/{child}/exe").resolve().name == "java")
    return java


@pytest.mark.timeout(900)
@pytest.mark.spark
def test_a_server_whose_java_dies_ends_and_says_so(server: RunningServer, source: GrowingTopic, tmp_path: Path) -> None:
    """The last test of this server."""
    sink = f"--sink-uri=file://{tmp_path}/t?protocol=simple"
    assert server.changefeed("create", "-c", "idle", sink, "--no-confirm").returncode == 0
    os.kill(java_of(server.process.pid), signal.SIGKILL)
    assert server.process.wait(60) not in (0, 2)
    log = server.log.read_text()
    assert log.splitlines()[-1].startswith("tidecast: Spark's Java has died, and the server ends with it")
    assert "Traceback" not in log
    kept = json.loads((server.data / "changefeeds" / "idle" / "feed.json").read_text())
    assert (kept["state"], kept["error"]) == ("normal", None)
