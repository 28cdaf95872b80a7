"""`tidecast cli` is TiCDC's `cdc cli`: the documents' command lines, the same calls, output and exit codes."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import pytest
from certificates import Authority
from feed_server import QUICK, until
from memory_runner import MemoryRunner, table
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from ticdc_documents import DOCUMENTED, DOCUMENTED_FILE, REPLICA_CONFIG

from tidecast._errors import SchemaRefused
from tidecast.changefeed import Changefeeds, State
from tidecast.cli._cdc import cdc
from tidecast.model import compose, physical_ms
from tidecast.server import Access, Listener, Service, build_app

SINK = "kafka://127.0.0.1:9092/topic?protocol=simple"
STATUS = "GET /api/v2/status"
TSO = "POST /api/v2/tso"


@dataclass
class Record:
    """Lets requests through to the real application and notes them down."""

    app: ASGIApp
    calls: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    replies: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        query = scope["query_string"].decode()
        call = f"{scope['method']} {scope['path']}" + (f"?{query}" if query else "")
        self.calls.append(call)
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(json.loads(body) if body else None)
        if scope["path"] in self.replies:
            status, kind, text = self.replies[scope["path"]]
            headers = [(b"content-type", kind.encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            return await send({"type": "http.response.body", "body": text.encode()})
        given = iter([{"type": "http.request", "body": body}])

        async def again() -> Message:
            return next(given, None) or await receive()

        return await self.app(scope, again, send)


@dataclass
class Lab:
    """A real server, what was asked of it, and the command line."""

    url: str
    feeds: Changefeeds
    runner: MemoryRunner
    record: Record
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def run(self, line: str, *more: str, exits: int = 0, server: bool = True, answer: str = "") -> str:
        """Run a command line and return what it printed; what it printed as an error is in `error`.

        `answer` is what its user types.
        """
        self.patch.setattr(sys, "stdin", io.StringIO(answer))
        self.record.calls.clear()
        self.record.bodies.clear()
        self.record.headers.clear()
        self.capture.readouterr()
        words = [*shlex.split(line), *more, *([f"--server={self.url}"] if server else [])]
        code = cdc(words)
        out, self.error = self.capture.readouterr()
        assert code == exits, out + self.error
        return out

    @property
    def calls(self) -> list[str]:
        assert self.record.calls[0] == STATUS
        return self.record.calls[1:]

    def create(self, feed_id: str = "up", *more: str) -> None:
        self.run(f"changefeed create --no-confirm -c {feed_id} --sink-uri={SINK}", *more)


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("USER", "PASSWORD", "CA_PATH", "CERT_PATH", "KEY_PATH"):
        monkeypatch.delenv(f"TICDC_{name}", raising=False)
    Path("changefeed_config.toml").write_text(DOCUMENTED_FILE)
    yield from _lab(tmp_path, capsys, monkeypatch, Access())


def _lab(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, access: Access
) -> Iterator[Lab]:
    runner = MemoryRunner()
    listener = Listener.open("127.0.0.1:0", access)
    feeds = Changefeeds(folder / "feeds", runner, timing=QUICK, addr=listener.addr)
    app = build_app(feeds, access, addr=listener.addr)
    record = Record(app.build_middleware_stack())
    app.middleware_stack = record
    service = Service(app, listener)
    thread = Thread(target=service.run)
    thread.start()
    try:
        yield Lab(listener.url, feeds, runner, record, capsys, monkeypatch)
    finally:
        runner.held.set()
        service.stop()
        thread.join(30)
        feeds.close(30)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documents_command_lines_work(lab: Lab, name: str) -> None:
    """As they stand, but for the server's address."""
    line = re.sub(r"(--pd|--server)=http://127\.0\.0\.1:\d+", rf"\1={lab.url}", DOCUMENTED[name])
    words = shlex.split(line)
    assert words[:2] == ["cdc", "cli"]
    out = lab.run(shlex.join(words[2:]), server=False)
    assert out.startswith(f"Create changefeed successfully!\nID: {name}\nInfo: {{")
    assert out.endswith("}\nIneligibleTablesCount: 0\nEligibleTablesCount: 2\nAllTablesCount: 2\n")
    info = json.loads(out.splitlines()[2].removeprefix("Info: "))
    assert info["id"] == name
    assert "\\u0026" in out or "&" not in words[-1]  # `&` as Go writes it
    assert lab.error.count("--pd") == line.count("--pd=")
    assert len(lab.error.splitlines()) == line.count("--pd=")
    feed = lab.feeds.get(name).feed
    assert feed.config["sink"]["protocol"] == ("debezium" if "debezium" in name else "avro")
    if "debezium" not in name:
        assert feed.config["sink"]["schema_registry"] == "http://127.0.0.1:8081"
        assert feed.config["sink"]["dispatchers"] == [{"matcher": ["*.*"], "topic": "tidb_{schema}_{table}"}]


def test_create_sends_what_ticdc_s_sends(lab: Lab) -> None:
    line = (
        "changefeed create -c kafka-avro --no-confirm --sink-uri=kafka://127.0.0.1:9092/topic-name?protocol=avro "
        "--schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml"
    )
    lab.run(line, "-v")
    assert lab.calls == [TSO, "POST /api/v2/verify_table?keyspace=", "POST /api/v2/changefeeds?keyspace="]
    files = {"ca_path": "", "cert_path": "", "key_path": ""}
    tso, verify, create = lab.record.bodies[1:]
    assert json.dumps(tso) == json.dumps({"id": 0, **files})
    verified = {k: v for k, v in REPLICA_CONFIG.items() if k != "ignore_ineligible_table"}
    start = create["start_ts"]
    sink = "kafka://127.0.0.1:9092/topic-name?protocol=avro"
    assert json.dumps(verify) == json.dumps(files | {"replica_config": verified, "start_ts": start, "sink_uri": sink})
    assert json.dumps(create) == json.dumps(
        {"keyspace": "", "changefeed_id": "kafka-avro", "start_ts": start, "target_ts": 0, "sink_uri": sink}
        | {"replica_config": REPLICA_CONFIG}
        | files
    )
    assert abs(physical_ms(start) - time.time() * 1000) < 60_000
    for headers in lab.record.headers:
        assert headers["authorization"] == "Basic Og=="
        assert headers["accept"] == "application/json"
    assert lab.record.headers[1]["content-type"] == "application/json"


NOT_ELIGIBLE = """[WARN] Some tables are not eligible to replicate, because they do not have a primary key \
or a not-null unique key: []v2.TableName{v2.TableName{Schema:"test", Table:"log", TableID:100, IsPartition:false}}
"""
IGNORE_THEM = """Could you agree to ignore those tables, and continue to replicate [Y/N]
Note: If you don't want to ignore those tables, please set `force-replicate to` true in the changefeed config file.
"""
FORCED = """[WARN] Force to replicate some ineligible tables, these tables do not have a primary key \
or a not-null unique key: []v2.TableName{v2.TableName{Schema:"test", Table:"log", TableID:100, IsPartition:false}}
[WARN] This may cause data redundancy, please refer to the official documentation for details.
"""
EOF = "Received invalid input: EOF, abort the command.\n"


def test_create_asks_before_what_may_be_unwanted(lab: Lab) -> None:
    lab.runner.known = (table("test.user"), table("test.log", key=False))
    line = f"changefeed create -c up --sink-uri={SINK}"
    for answer, printed in (("n\n", ""), ("yes", ""), ("", EOF)):
        refused = "No changefeed is created because you don't want to ignore some tables.\n"
        assert lab.run(line, answer=answer) == NOT_ELIGIBLE + IGNORE_THEM + printed + refused
        assert lab.calls == [TSO, "POST /api/v2/verify_table?keyspace="]
    out = lab.run(line, "-v", answer="\n  Y\n")
    assert lab.record.bodies[-1]["replica_config"]["ignore_ineligible_table"] is True
    assert out.endswith(
        "IneligibleTablesCount: 1\nEligibleTablesCount: 1\nAllTablesCount: 2\n"
        "EligibleTables: [test.user]\nIneligibleTables: [test.log]\nAllTables: [test.log, test.user]\n"
    )
    Path("forced.toml").write_text("force-replicate = true")
    assert lab.run(f"{line} -c forced --config=forced.toml").startswith(FORCED + "Create changefeed successfully!\n")
    assert lab.record.bodies[-1]["replica_config"]["ignore_ineligible_table"] is False


@pytest.mark.parametrize("command", ["create", "resume"])
def test_going_on_from_long_ago_is_asked_for(lab: Lab, command: str) -> None:
    """TSO 1 is of 1970; the time since then is told as Go tells it."""
    create = f"changefeed create -c up --sink-uri={SINK} --start-ts=1"
    if command == "resume":
        lab.run(f"{create} --target-ts=2 --no-confirm")
        until(lambda: lab.feeds.get("up").feed.state is State.FINISHED)
    line = create if command == "create" else "changefeed resume -c up"
    now = dt.datetime.now(dt.UTC).timestamp() * 1000
    for answer, printed in (("n", ""), ("", EOF)):
        found = re.fullmatch(
            r"Replicate lag \((\d+)h(\d+)m([0-9.]+)s\) is larger than 1 days, large data may cause OOM, "
            rf"confirm to continue at your own risk \[Y/N\]\n{printed}Abort changefeed {command}.\n",
            lab.run(line, answer=answer),
        )
        assert found
        lag = (int(found[1]) * 60 + int(found[2])) * 60 + float(found[3])
        assert abs(lag * 1000 - now) < 60_000
        assert not [call for call in lab.calls if call.endswith(("/resume?keyspace=default", "/changefeeds?keyspace="))]
    assert f"{command.capitalize()} changefeed successfully!" in lab.run(line, answer="y")
    if command == "create":
        assert lab.feeds.get("up").feed.start_ts == 1


@pytest.mark.parametrize(
    ("sink", "file", "words"),
    [
        ("kafka://127.0.0.1:9092/t", "", "[CDC:ErrSinkUnknownProtocol]unknown '' message protocol for sink"),
        (
            SINK,
            "bar = {x = 1}\n[sink]\nfoo = 1",
            "config file ./f.toml contained unknown configuration options: bar, bar.x, sink.foo",
        ),
        (SINK, "[filter]\nrules = ['db']", "filter rule is invalid"),
        (SINK, "memory-quota = 'x'", "Error: ./f.toml: memory-quota: Input should be a valid integer"),
        (
            SINK,
            "[sink]\ndispatchers = [{matcher = ['a.*', 'b'], dispatcher = 'ts', partition = 'rowid', index = 'i'}]",
            "[CDC:ErrSinkInvalidConfig]sink config invalid: dispatcher and partition cannot be configured both for "
            "rule:&{[a.* b] ts rowid i [] }",
        ),
        (
            SINK,
            "[[filter.event-filters]]\nmatcher = ['*.*']\nignore-event = ['all']",
            "[CDC:ErrInvalidIgnoreEventType]",
        ),
    ],
)
def test_a_wrong_configuration_is_found_before_the_server_is_asked(lab: Lab, sink: str, file: str, words: str) -> None:
    Path("f.toml").write_text(file)
    out = lab.run(f"changefeed create --no-confirm --sink-uri={sink} --config=./f.toml", exits=1)
    assert out == ""
    assert lab.error.startswith("Error: ")
    assert words in lab.error
    assert lab.calls == []


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("-c a_b --sink-uri=" + SINK, "[CDC:ErrAPIInvalidParam]invalid changefeed_id: a_b"),
        ("-c up", "[CDC:ErrSinkURIInvalid]sink uri invalid 'sink_uri is empty"),
        ("--sink-uri=kafka://127.0.0.1:9092/?protocol=simple", "no topic is specified in sink-uri"),
        ("--sink-uri=kafka://127.0.0.1:9092/t?protocol=avro", 'Avro protocol requires parameter "schema-registry"'),
        (f"--start-ts={2**63} --sink-uri={SINK}", "[CDC:ErrAPIInvalidParam]invalid start-ts"),
        (f"--target-ts=5 --sink-uri={SINK}", "[CDC:ErrTargetTsBeforeStartTs]"),
        (f"--sink-uri={SINK}&kafka-version=foo", "[CDC:ErrKafkaInvalidVersion]invalid kafka version: invalid version"),
    ],
)
def test_the_server_says_the_rest(lab: Lab, rest: str, words: str) -> None:
    lab.run(f"changefeed create --no-confirm {rest}", exits=1)
    assert words in lab.error


def test_list_shows_what_there_is(lab: Lab) -> None:
    assert lab.run("changefeed list") == "[]\n"
    assert lab.calls == ["GET /api/v2/changefeeds?keyspace=default&state=all"]
    lab.runner.errors = {"bad": [SchemaRefused("Schema being registered is incompatible")]}
    for name in ("bad", "up"):
        lab.create(name)
    now = lab.runner.now()
    lab.create("done", f"--start-ts={now - compose(9000)}", f"--target-ts={now - compose(8000)}")
    until(lambda: [lab.feeds.get(n).feed.state for n in ("bad", "done")] == [State.FAILED, State.FINISHED])
    out = lab.run("changefeed list")
    shown = json.loads(out)
    assert [item["id"] for item in shown] == ["bad", "up"]
    assert [item["id"] for item in json.loads(lab.run("changefeed list -a"))] == ["bad", "done", "up"]
    assert out.startswith(
        '[\n  {\n    "id": "bad",\n    "keyspace": "default",\n    "summary": {\n      "state": "failed",'
    )
    assert [list(item["summary"]) for item in shown] == [["state", "tso", "checkpoint", "error"]] * 2
    assert shown[1]["summary"]["error"] is None
    assert "Schema being registered is incompatible" in shown[0]["summary"]["error"]["message"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", shown[0]["summary"]["checkpoint"])
    # TiCDC's server tells an old error of a changefeed that is well again.
    item = {"id": "up", "state": "normal", "checkpoint_tso": 1, "checkpoint_time": "", "error": {"message": "old"}}
    lab.record.replies = {"/api/v2/changefeeds": (200, "application/json", json.dumps({"items": [item]}))}
    assert json.loads(lab.run("changefeed list"))[0]["summary"]["error"] is None


def test_query_shows_one(lab: Lab) -> None:
    lab.runner.errors = {"bad": [SchemaRefused("Schema being registered is incompatible")]}
    lab.create()
    lab.create("bad")
    until(lambda: lab.feeds.get("bad").feed.state is State.FAILED)
    shown = json.loads(lab.run("changefeed query -c up"))
    assert lab.calls == ["GET /api/v2/changefeeds/up?keyspace=default"]
    assert list(shown) == [
        *("upstream_id", "id", "keyspace", "sink_uri", "config", "create_time", "start_ts", "resolved_ts", "target_ts"),
        *("checkpoint_tso", "checkpoint_time", "state", "creator_version"),
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", shown["create_time"])
    bad = json.loads(lab.run("changefeed query --changefeed-id=bad"))
    assert bad["state"] == "failed"
    assert "Schema being registered is incompatible" in bad["error"]["message"]
    simple = json.loads(lab.run("changefeed query -s -c bad"))
    assert lab.calls == ["GET /api/v2/changefeeds?keyspace=default&state=all"]
    assert list(simple) == ["upstream_id", "id", "keyspace", "state", "checkpoint_tso", "checkpoint_time", "error"]
    for flag in ("", "-s"):
        assert lab.run(f"changefeed query {flag} -c nobody", exits=1) == ""
        assert lab.error == "Error: [CDC:ErrChangeFeedNotExists]changefeed not exists, nobody\n"


def test_pause_prints_nothing_and_resume_a_line(lab: Lab) -> None:
    lab.create()
    assert lab.run("changefeed pause -c up") == ""
    assert lab.calls == ["POST /api/v2/changefeeds/up/pause?keyspace="]
    assert lab.record.headers[-1]["content-length"] == "0"
    assert lab.run("changefeed resume -c up") == "Resume changefeed successfully! \nID: up\n"
    get, resume = "GET /api/v2/changefeeds/up?keyspace=default", "POST /api/v2/changefeeds/up/resume?keyspace=default"
    assert lab.calls == [get, TSO, resume]
    files = {"ca_path": "", "cert_path": "", "key_path": ""}
    assert json.dumps(lab.record.bodies[-1]) == json.dumps(files | {"overwrite_checkpoint_ts": 0})
    lab.run("changefeed pause -c up")
    earlier = lab.runner.now() - compose(60_000)
    line = f"changefeed resume -c up --overwrite-checkpoint-ts={earlier}"
    asked = (
        f"You are overwriting the checkpoint of changefeed(up) to {earlier}, which may lead to data loss or data "
        "duplication.\nConfirm that you know what this command will do and use it at your own risk [Y/N]"
    )
    for answer, printed in (("n\n", ""), ("", EOF)):
        assert lab.run(line, answer=answer) == f"{asked}{printed}Abort changefeed resume.\n"
        assert lab.calls == [get, TSO]
    assert lab.feeds.get("up").feed.state is State.STOPPED
    done = (
        "Resume changefeed successfully! \nID: up\n"
        "IneligibleTablesCount: 0\nEligibleTablesCount: 2\nAllTablesCount: 2\nWarning: %!s(<nil>)\n"
    )
    assert lab.run(line, answer="y\n") == asked + done
    assert lab.calls == [get, TSO, get, "POST /api/v2/get_all_tables?keyspace=default", resume]
    assert lab.record.bodies[-1]["overwrite_checkpoint_ts"] == earlier
    for now in ("now", "NOW", "Now"):
        lab.run("changefeed pause -c up")
        assert lab.run(f"changefeed resume -c up --no-confirm --overwrite-checkpoint-ts {now}") == done
        assert abs(physical_ms(lab.record.bodies[-1]["overwrite_checkpoint_ts"]) - time.time() * 1000) < 60_000
    future = 2**63
    for wrong, words in (
        *((w, f"[CDC:ErrCliInvalidCheckpointTs]invalid overwrite-checkpoint-ts {w}, ") for w in ("then", "-5", "0")),
        (str(2**64), "[CDC:ErrCliInvalidCheckpointTs]"),
        (str(future), f"[CDC:ErrCliCheckpointTsIsInFuture]the overwrite-checkpoint-ts {future} must be smaller"),
    ):
        assert lab.run(f"changefeed resume -c up --overwrite-checkpoint-ts={wrong}", exits=1) == ""
        assert lab.error.startswith(f"Error: {words}")
        assert lab.calls == [get, TSO]


def test_update_shows_the_difference_and_sends_all(lab: Lab) -> None:
    secret = SINK + "&sasl-user=ann&sasl-password=pa55word&sasl-mechanism=PLAIN"
    lab.run("changefeed create --no-confirm -c up", f"--sink-uri={secret}", "--schema-registry=http://ann:s3cret@h:1")
    lab.run("changefeed update -c up --no-confirm --target-ts=5", exits=1)
    assert "can only update changefeed config when it is stopped or failed" in lab.error
    lab.run("changefeed pause -c up")
    assert lab.run("changefeed update -c up") == "changefeed config is the same with the old one, do nothing\n"
    get = "GET /api/v2/changefeeds/up?keyspace=default"
    assert lab.calls == [get]
    Path("new.toml").write_text(
        "sync-point-interval = '90m'\n[filter]\nrules = ['test.*', '!test.x']\n"
        "[[filter.event-filters]]\nmatcher = ['test.*']\nignore-event = ['drop table']\n"
        "[mounter]\nworker-num = 5\n[sink.csv]\nnull = ''\n"
        "[sink.kafka-config]\nsasl-gssapi-password = 'wh1sper'\n"
    )
    other = secret.replace("topic", "other").replace("pa55word", "n3w")
    line = f"changefeed update -c up --no-confirm --target-ts={2**62} --config new.toml"
    out = lab.run(line, f"--sink-uri={other}", "-v")
    put = "PUT /api/v2/changefeeds/up?keyspace=default"
    assert lab.calls == [get, "POST /api/v2/get_all_tables?keyspace=default", put]
    shown, _, rest = out.partition("Update changefeed config successfully! \nID: up\nInfo: {")
    assert shown.splitlines() == [
        "Diff of changefeed config:",
        f"{{Type:update Path:[SinkURI] From:{masked(secret)} To:{masked(other)}}}",
        f"{{Type:update Path:[TargetTs] From:0 To:{2**62}}}",
        "{Type:update Path:[Config SyncPointInterval duration] From:10m0s To:1h30m0s}",
        "{Type:update Path:[Config Filter Rules 0] From:*.* To:test.*}",
        "{Type:create Path:[Config Filter Rules 1] From:<nil> To:!test.x}",
        "{Type:create Path:[Config Filter EventFilters 0 Matcher 0] From:<nil> To:test.*}",
        "{Type:create Path:[Config Filter EventFilters 0 IgnoreEvent 0] From:<nil> To:drop table}",
        "{Type:update Path:[Config Mounter WorkerNum] From:16 To:5}",
        "{Type:update Path:[Config Sink CSVConfig NullString] From:\\N To:}",
        "{Type:update Path:[Config Sink KafkaConfig] From:<nil> To:{SASLGssAPIPassword:xxxxx}}",
    ]
    assert rest.endswith(
        "}\nIneligibleTablesCount: 0\nEligibleTablesCount: 1\nAllTablesCount: 1\nWarning: %!s(<nil>)\n"
        "EligibleTables: [test.user]\nIneligibleTables: []\nAllTables: [test.user]\n"
    )
    body = lab.record.bodies[-1]
    assert (body["changefeed_id"], body["start_ts"], body["target_ts"]) == ("", 0, 2**62)
    assert body["replica_config"]["ignore_ineligible_table"] is True
    feed = lab.feeds.get("up").feed
    assert feed.sink_uri == other
    assert feed.config["sink"]["schema_registry"] == "http://ann:s3cret@h:1"  # came back masked, and was put right
    assert feed.config["mounter"] == {"worker_num": 5}
    assert "pa55word" not in out + lab.error
    assert "s3cret" not in out + lab.error
    for answer, printed in (("n\n", ""), ("", EOF)):
        out = lab.run("changefeed update -c up --target-ts=77", answer=answer)
        assert out.endswith(f"changes above to changefeed [Y/N]\n{printed}No update to changefeed.\n")
        assert lab.calls == [get]
    Path("less.toml").write_text("[filter]\nrules = ['!test.x', 'b.*']\n")
    assert lab.run("changefeed update -c up --config less.toml", answer="n").startswith(
        "Diff of changefeed config:\n{Type:delete Path:[Config Filter Rules 0] From:test.* To:<nil>}\n"
        "{Type:create Path:[Config Filter Rules 1] From:<nil> To:b.*}\nCould you agree"
    )


def test_update_asks_for_tables_that_cannot_be_replicated(lab: Lab) -> None:
    lab.create()
    lab.run("changefeed pause -c up")
    lab.runner.known = (table("test.user"), table("test.log", key=False))
    line = "changefeed update -c up --config new.toml"
    Path("new.toml").write_text("[mounter]\nworker-num = 5\n")
    assert lab.run(line, answer="y\nn\n").endswith(
        f"[Y/N]\n{NOT_ELIGIBLE}{IGNORE_THEM}No changefeed is created because you don't want to ignore some tables.\n"
    )
    assert not [call for call in lab.calls if call.startswith("PUT")]
    assert "IneligibleTablesCount: 1" in lab.run(line, answer="y\ny\n")
    assert lab.record.bodies[-1]["replica_config"]["ignore_ineligible_table"] is True
    Path("new.toml").write_text("force-replicate = true\n")
    assert FORCED in lab.run(line, answer="y")
    assert lab.record.bodies[-1]["replica_config"]["ignore_ineligible_table"] is False


def test_update_shows_the_difference_before_the_server_refuses_it(lab: Lab) -> None:
    lab.create()
    lab.run("changefeed pause -c up")
    wrong = SINK.replace("simple", "nothing")
    out = lab.run(f"changefeed update -c up --no-confirm --sink-uri={wrong}", exits=1)
    assert out == f"Diff of changefeed config:\n{{Type:update Path:[SinkURI] From:{SINK} To:{wrong}}}\n"
    assert "unknown 'nothing' message protocol for sink" in lab.error
    lab.record.replies = {"/api/v2/get_all_tables": (500, "application/json", '{"error_msg":"[CDC:ErrX]no"}')}
    out = lab.run(f"changefeed update -c up --no-confirm --sink-uri={SINK.replace('simple', 'debezium')} --sort-dir=/a")
    assert re.match(
        r"\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d\] \[WARN\] \[<unknown>\] "
        r'\["this flag cannot be updated and will be ignored"\] \[flagName=sort-dir\]\nDiff of',
        out,
    )
    assert out.endswith("IneligibleTablesCount: 0\nEligibleTablesCount: 0\nAllTablesCount: 0\nWarning: [CDC:ErrX]no\n")
    assert lab.feeds.get("up").feed.config["sink"]["protocol"] == "debezium"


def masked(uri: str) -> str:
    query = re.sub("(sasl-password=)[^&]*", r"\1xxxxx", uri.partition("?")[2])
    return uri.partition("?")[0] + "?" + "&".join(sorted(query.split("&")))


def test_remove_makes_sure(lab: Lab) -> None:
    lab.create()
    lab.run("changefeed pause -c up")
    checkpoint = lab.feeds.get("up").checkpoint_ts
    out = lab.run("changefeed remove -c up")
    assert out == f"Changefeed remove successfully.\nID: up\nCheckpointTs: {checkpoint}\nSinkURI: {SINK}\n"
    get = "GET /api/v2/changefeeds/up?keyspace=default"
    assert lab.calls == [get, "DELETE /api/v2/changefeeds/up?keyspace=default", get]
    assert lab.run("changefeed remove -c up") == "Changefeed not found.\nID: up\n"
    lab.create()
    for strange in ("up?really", "up#1", "é up"):
        assert lab.run(f"changefeed remove -c '{strange}'") == f"Changefeed not found.\nID: {strange}\n"
    assert lab.feeds.get("up")
    lab.record.replies = {"/api/v2/changefeeds/up": (500, "application/json", '{"error_msg":"[CDC:ErrX]no"}')}
    assert lab.run("changefeed remove -c up", exits=1) == "Changefeed remove failed.\nID: up\nError: [CDC:ErrX]no\n"


def test_capture_and_tso(lab: Lab) -> None:
    shown = json.loads(lab.run("capture list"))
    assert [list(item) for item in shown] == [["id", "is-owner", "address", "cluster-id"]]
    assert shown[0]["address"] == lab.url.removeprefix("http://")
    out = lab.run(f"tso query --pd={lab.url}", server=False)
    assert lab.calls == [TSO]
    assert abs(physical_ms(int(out)) - time.time() * 1000) < 60_000
    assert len(lab.error.splitlines()) == 1
    assert lab.run("tso query", exits=1) == ""
    assert lab.error == (
        "Error: [CDC:ErrInvalidServerOption]Empty PD address. Please use --pd to specify PD cluster addresses\n"
    )
    assert lab.record.calls == []


def test_files_that_are_not_there_are_named_as_go_does(lab: Lab) -> None:
    lab.run("changefeed create --config missing.toml --sink-uri file:///t?protocol=simple", exits=1)
    assert lab.error == "Error: open missing.toml: no such file or directory\n"
    for flag, words in (
        ("--ca=/nope", "could not read ca certificate: open /nope: no such file or directory"),
        ("--cert=/nope", "could not load client key pair: open /nope: no such file or directory"),
    ):
        lab.run("changefeed list", flag, exits=1)
        assert lab.error == f"Error: [CDC:ErrToTLSConfigFailed]generate tls config failed: {words}\n"


@pytest.mark.parametrize(("interval", "times"), [(100_000, 1), (1, 2)])
def test_statistics_begin_at_once_and_go_on_until_they_are_ended(lab: Lab, interval: int, times: int) -> None:
    lab.create()
    program = [sys.executable, "-m", "tidecast", "cli", "changefeed", "statistics", "-c", "up", "-I", str(interval)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [*program, f"--server={lab.url}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as running:
        assert running.stdout
        hanging = Timer(90, running.kill)
        hanging.start()
        lines = [running.stdout.readline() for _ in range(4 * times)]
        running.send_signal(signal.SIGTERM)
        _, error = running.communicate(timeout=10)
        hanging.cancel()
    one = r'\{\n  "sink_gap": "0ms",\n  "replication_gap": "\d+ms"\n\}\n'
    assert re.fullmatch(f"({one}){{{times}}}", "".join(lines))
    assert (running.returncode, error) == (1, "Error: context canceled\n")


def test_both_addresses_are_one_too_many(lab: Lab) -> None:
    assert lab.run(f"changefeed list --pd={lab.url}", exits=1) == ""
    assert lab.error == (
        "Error: Parameter --pd is deprecated, please use parameter --server instead. "
        "These two parameters cannot be specified at the same time.\n"
    )
    assert lab.record.calls == []


def invalid(text: str, flag: str, parser: str, why: str = "invalid syntax") -> str:
    shown = json.dumps(text)
    return f'invalid argument {shown} for "{flag}" flag: strconv.{parser}: parsing {shown}: {why}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("changefeed pause", 'required flag(s) "changefeed-id" not set'),
        ("changefeed move-table -c up", 'required flag(s) "table-id", "target-node-id" not set'),
        ("changefeed list --nothing", "unknown flag: --nothing"),
        ("changefeed list --namespace=other", "unknown flag: --namespace"),
        ("changefeed list --=", "bad flag syntax: --="),
        ("changefeed list -x", "unknown shorthand flag: 'x' in -x"),
        ("changefeed list -ax", "unknown shorthand flag: 'x' in -x"),
        ("changefeed list nothing", 'unknown command "nothing" for "tidecast cli changefeed list"'),
        ("changefeed list -- -a", 'unknown command "-a" for "tidecast cli changefeed list"'),
        ("changefeed list --all false", 'unknown command "false" for "tidecast cli changefeed list"'),
        ("changefeed pause -c", "flag needs an argument: 'c' in -c"),
        ("changefeed pause --changefeed-id", "flag needs an argument: --changefeed-id"),
        ("changefeed create --start-ts=x", invalid("x", "--start-ts", "ParseUint")),
        ("changefeed create --start-ts -v", invalid("-v", "--start-ts", "ParseUint")),
        (f"changefeed create --start-ts={2**64}", invalid(str(2**64), "--start-ts", "ParseUint", "value out of range")),
        ("changefeed create --no-confirm=maybe", invalid("maybe", "--no-confirm", "ParseBool")),
        ("changefeed list -a='\"'", invalid('"', "-a, --all", "ParseBool")),
        ("changefeed statistics -c up -I 0", invalid("0", "-I, --interval", "ParseUint")),
        ("changefeed merge-table -c up -t x", invalid("x", "-t, --table-id", "ParseInt")),
        # What is no flag comes before what is missing, and both before a command's other words.
        ("changefeed pause --nothing", "unknown flag: --nothing"),
        ("changefeed pause other --nothing", "unknown flag: --nothing"),
        ("changefeed pause other", 'unknown command "other" for "tidecast cli changefeed pause"'),
        ("changefeed list --help --nothing", "unknown flag: --nothing"),
        ("--nothing=1 changefeed list", "unknown flag: --nothing"),
    ],
)
def test_a_wrong_command_line_is_explained(lab: Lab, line: str, words: str) -> None:
    out = lab.run(line, exits=1, server=False)
    command = " ".join(re.findall("changefeed [a-z-]+", line))
    assert out.startswith(f"Usage:\n  tidecast cli {command} [flags]\n\nFlags:\n")
    assert lab.error == f"Error: {words}\n{words}\n"
    assert lab.record.calls == []


@pytest.mark.parametrize(
    ("line", "group"), [("--nothing", ""), ("-x changefeed list", ""), ("changefeed --nothing pause", "changefeed ")]
)
def test_an_unknown_flag_takes_the_word_after_it_for_its_value(lab: Lab, line: str, group: str) -> None:
    out = lab.run(line, exits=1, server=False)
    assert out.startswith(f"Usage:\n  tidecast cli {group}[command]\n\nAvailable Commands:\n")
    assert lab.error.startswith("Error: unknown ")


@pytest.mark.parametrize(
    ("line", "group"),
    [
        ("", ""),
        ("nothing", ""),
        ("help", ""),
        ("-h", ""),
        ("changefeed", "changefeed "),
        ("changefeed nothing at all", "changefeed "),
        ("unsafe nothing", "unsafe "),
        ("capture nothing", "capture "),
        ("tso", "tso "),
    ],
)
def test_an_unknown_word_gets_help(lab: Lab, line: str, group: str) -> None:
    out = lab.run(line, server=False)
    assert f".\n\nUsage:\n  tidecast cli {group}[command]\n\nAvailable Commands:\n" in out
    assert (lab.error, lab.record.calls) == ("", [])
    assert "unsafe" not in lab.run("", server=False)  # hidden, as in TiCDC's


def test_help_lists_the_flags(lab: Lab) -> None:
    out = lab.run("changefeed pause --help", server=False)
    assert out.startswith(
        """Pause a changefeed.

Usage:
  tidecast cli changefeed pause [flags]

Flags:
  -c, --changefeed-id string   the changefeed's ID (required)
  -k, --keyspace string        accepted for compatibility; has no effect
  -h, --help                   show this help

Global Flags:
      --server string      the server's address (default http://127.0.0.1:8300)
"""
    )
    assert "sort-dir" not in lab.run("changefeed create -h", server=False)
    assert lab.run("changefeed list --help=false") == "[]\n"


def test_tables_are_not_moved(lab: Lab) -> None:
    lab.create()
    one = "the only one: its tables cannot be moved, split or merged"
    for name, more, query in (
        ("move-table", "-d n -t 100", "mode=0&tableID=100&targetNodeID=n"),
        ("move-split-table", "--target-node-id n --table-id=100 --mode 1", "mode=1&tableID=100&targetNodeID=n"),
        ("split-table-by-region-count", "-t 100", "mode=0&tableID=100"),
        ("merge-table", "-t 100", "mode=0&tableID=100"),
    ):
        refused = json.loads(lab.run(f"changefeed {name} -c up {more}"))
        path = f"/api/v2/changefeeds/up/{name.replace('-', '_')}"
        assert lab.calls == [f"POST {path}?keyspace=default&{query}"]
        assert list(refused) == ["success", "error"]
        assert refused["success"] is False
        assert refused["error"].startswith("[CDC:ErrSchedulerRequestFailed]scheduler request failed, ")
        assert refused["error"].endswith(one)
    lost = json.loads(lab.run("changefeed merge-table -c nobody -t 1"))
    assert lost == {"success": False, "error": "[CDC:ErrChangeFeedNotExists]changefeed not exists, nobody"}


def test_unsafe_commands_look_and_refuse(lab: Lab) -> None:
    lab.run(
        "changefeed create --no-confirm -c up", f"--sink-uri={SINK}&sasl-user=a&sasl-password=pa55&sasl-mechanism=PLAIN"
    )
    lines = lab.run("unsafe show-metadata").splitlines()
    assert lab.calls == ["GET /api/v2/unsafe/metadata"]
    key, info = lines[0].removeprefix("Key: ").split(", Value: ")
    assert key == "/tidb/cdc/default/default/changefeed/info/up"
    assert json.loads(info)["id"] == "up"
    assert "pa55" not in info
    assert lines[-1] == f"Show {len(lines) - 1} KVs"
    asked = "Confirm that you know what this command will do and use it at your own risk [Y/N]\n"
    for command, answer, printed, error in (
        ("reset", "n", asked, "abort meta command"),
        ("reset", "", asked + EOF, "abort meta command"),
        ("reset", "y", asked, "[CDC:ErrInvalidServerOption]Empty PD address. Please use --pd to specify PD cluster"),
        ("delete-service-gc-safepoint", "n", asked, "abort meta command"),
        ("delete-service-gc-safepoint", "y", asked, "[CDC:ErrAPIGetPDClientFailed]failed to get PDClient"),
        ("delete-service-gc-safepoint --no-confirm", "", "", "[CDC:ErrAPIGetPDClientFailed]failed to get PDClient"),
        ("resolve-lock --region 1", "", "", "[CDC:ErrAPIGetPDClientFailed]failed to get PDClient"),
        ("resolve-lock --region 1 --ts=5", "", "", "[CDC:ErrAPIGetPDClientFailed]failed to get PDClient"),
    ):
        assert lab.run(f"unsafe {command}", answer=answer, exits=1) == printed
        assert lab.error.startswith(f"Error: {error}")
    assert lab.calls == ["POST /api/v2/unsafe/resolve_lock?keyspace="]
    assert json.dumps(lab.record.bodies[-1]) == json.dumps(
        {"region_id": 1, "ts": 5, "ca_path": "", "cert_path": "", "key_path": ""}
    )
    assert lab.feeds.get("up")


def test_flags_stand_where_go_takes_them(lab: Lab) -> None:
    host = lab.url.removeprefix("http://")
    for line in (
        f"--server {host} changefeed list",
        f"changefeed --server={host} list",
        f"changefeed list --server {host} -k default --all=false --log-level=info",
        f"changefeed -k default list --server {host} -a --",
    ):
        assert lab.run(line, server=False) == "[]\n"
    lab.create()
    for line in ("-cup", "-c=up", "--changefeed-id up", "-c down -c up"):
        assert lab.run(f"changefeed pause {line}") == ""
    assert lab.feeds.get("up").feed.config["check_gc_safe_point"] is True
    lab.run(f"changefeed create -c b --sink-uri={SINK} --no-confirm --sort-engine=unified --disable-gc-check")
    verified, made = (body["replica_config"] for body in lab.record.bodies[-2:] if body)
    assert (verified["check_gc_safe_point"], made["check_gc_safe_point"]) == (False, False)
    out = lab.run(f"changefeed create -c c --sink-uri={SINK} --no-confirm --tz=UTC --sort-engine=rocks")
    lines = out.splitlines()
    assert lines[0].endswith('["invalid sort-engine, use Unified Sorter by default"] [invalidSortEngine=rocks]')
    assert lines[1:3] == ["[WARN] --tz is deprecated in changefeed settings.", "Create changefeed successfully!"]
    out = lab.run(f"changefeed create -c d --sink-uri={SINK} --sort-dir=/tmp", exits=1)
    assert out == (
        "[WARN] --sort-dir is deprecated in changefeed settings. Please use `cdc server --data-dir` to start the cdc "
        "server if possible, sort-dir will be set automatically. The --sort-dir here will be no-op\n"
    )
    assert lab.error == "Error: creating changefeed with `--sort-dir`, it's invalid\n"
    assert lab.calls == []


def test_the_upstream_that_is_named_goes_along(lab: Lab) -> None:
    flags = (
        "--upstream-pd=http://pd1:2379,http://pd2:2379 --upstream-ca=ca.pem --upstream-cert=c.pem --upstream-key=k.pem"
    )
    told: dict[str, Any] = {"pd_addrs": ["http://pd1:2379", "http://pd2:2379"]}
    told |= {"ca_path": "ca.pem", "cert_path": "c.pem", "key_path": "k.pem"}
    lab.run(f"changefeed create -c up --sink-uri={SINK} --no-confirm {flags}")
    sent = [body for body in lab.record.bodies if body]
    assert len(sent) == 3
    lab.run("changefeed pause -c up")
    lab.run(f"changefeed update -c up --no-confirm --target-ts={1 << 62} {flags}")
    sent.append(lab.record.bodies[-1] or {})
    lab.run(f"changefeed resume -c up --no-confirm {flags}")
    sent.append(lab.record.bodies[-1] or {})
    assert all({name: body.get(name) for name in told} == told for body in sent)
    lab.run("changefeed resume -c up --no-confirm --upstream-ca=ca.pem")
    assert lab.record.bodies[-1] == {"ca_path": "", "cert_path": "", "key_path": "", "overwrite_checkpoint_ts": 0}


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v8.5.4", None),
        ("9.0.0-alpha-12-gabcdef", None),
        ("", None),
        ("None", "[CDC:ErrNewSemVersion]create sem version: invalid CDC cluster version: None is not in dotted-tri"),
        (
            "v6.1.0",
            "Error: Can’t operate the TiCDC cluster, the cluster version is too old. Only the version of this cluster "
            "larger or equal than v6.2.0 can be operated, please make sure the server version and the cli-tools "
            "version are matched.\n",
        ),
    ],
)
def test_the_handshake(lab: Lab, version: str, words: str | None) -> None:
    lab.record.replies = {"/api/v2/status": (200, "application/json", json.dumps({"version": version}))}
    lab.run("changefeed list", exits=1 if words else 0)
    assert (words or "") in lab.error


@pytest.mark.parametrize(
    ("status", "kind", "text", "words"),
    [
        (502, "text/html", "<p>no</p>", "code=502, contentType=text/html, response=<p>no</p>"),
        (500, "application/json", "{}", "Error: \n"),
        (200, "application/json", "", "[CDC:ErrZeroLengthResponseBody]0-length response with status code: 200"),
        (200, "text/html", "<p>hi</p>", "contentType=text/html, response=<p>hi</p>"),
    ],
)
def test_strange_answers(lab: Lab, status: int, kind: str, text: str, words: str) -> None:
    lab.record.replies = {"/api/v2/captures": (status, kind, text)}
    lab.run("capture list", exits=1)
    assert words in lab.error


def test_nobody_answers(lab: Lab) -> None:
    lab.capture.readouterr()
    assert cdc(["changefeed", "list", "--server", "http://127.0.0.1:9/prefix/"]) == 1
    refused = "dial tcp 127.0.0.1:9: connect: connection refused"
    assert lab.capture.readouterr().err == f'Error: Get "http://127.0.0.1:9/prefix/api/v2/status": {refused}\n'
    assert cdc(["changefeed", "list", "--server", "http://[::1"]) == 1
    assert "http://[::1 is not a server address" in lab.capture.readouterr().err


def test_credentials_and_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    authority = Authority(tmp_path)
    cert, key = map(str, authority.issue("server"))
    labs = _lab(tmp_path, capsys, monkeypatch, Access({"ann": "pa55word"}, None, cert, key))
    lab = next(labs)
    try:
        lab.run("changefeed list", exits=1)
        assert "CERTIFICATE_VERIFY_FAILED" in lab.error.upper()
        ca = f"--ca={authority.ca}"
        lab.run("changefeed list", ca, exits=1)
        assert "[CDC:ErrCredentialNotFound]" in lab.error
        assert "TICDC_USER" in lab.error
        lab.run("changefeed list", ca, "--user=ann", "--password=wrong", exits=1)
        assert "[CDC:ErrUnauthorized]user ann unauthorized, error: " in lab.error
        lab.run("changefeed list", ca, "--user=ann", "--password=pa55word")
        monkeypatch.setenv("TICDC_USER", "ann")
        monkeypatch.setenv("TICDC_PASSWORD", "pa55word")
        monkeypatch.setenv("TICDC_CA_PATH", str(authority.ca))
        lab.run("changefeed list")
        for name in ("USER", "PASSWORD", "CA_PATH"):
            monkeypatch.delenv(f"TICDC_{name}")
        (tmp_path / ".ticdc").mkdir()
        file = tmp_path / ".ticdc" / "credentials"
        file.write_text(f'ticdc_user = "ann"\nticdc_password = "pa55word"\nca_path = "{authority.ca}"\n')
        lab.run("changefeed list")
        file.write_text("ticdc_password = pa55word")
        lab.run("changefeed list", exits=1)
        assert "pa55word" not in lab.error
    finally:
        next(labs, None)


def test_the_program_has_the_command(lab: Lab) -> None:
    program = [sys.executable, "-m", "tidecast", "cli", "changefeed", "list", f"--server={lab.url}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    done = subprocess.run([*program, "--nothing"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
