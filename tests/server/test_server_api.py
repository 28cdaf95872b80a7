"""The server's API is TiCDC's: bodies, the order of their members, codes, texts and statuses."""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from feed_server import Client, basic, serving, until
from memory_runner import MemoryRunner, table
from raw_http import all_of, connection, drip
from ticdc_documents import REPLICA_CONFIG

import tidecast
from tidecast._errors import ConfigError, SchemaRefused, TerminalError, Unreachable
from tidecast._go import time_text
from tidecast.changefeed import Changefeeds, State, _checks
from tidecast.changefeed._feed import Feed, FeedFolder
from tidecast.config import default_replica_config
from tidecast.model import Index, compose, physical_ms
from tidecast.server import Access, Listener, _access, _app, _limits, read_users

SINK = "kafka://127.0.0.1:9092/topic?protocol=simple"
FEEDS = "/api/v2/changefeeds"
FILES = {"ca_path": "", "cert_path": "", "key_path": ""}

INFO = [
    *("id", "keyspace", "sink_uri", "create_time", "start_ts", "config", "state", "creator_version", "resolved_ts"),
    *("checkpoint_ts", "checkpoint_time", "gid"),
]


@pytest.fixture
def runner() -> MemoryRunner:
    return MemoryRunner()


@pytest.fixture
def served(tmp_path: Path, runner: MemoryRunner) -> Iterator[tuple[Client, Changefeeds]]:
    with serving(tmp_path, runner) as (url, feeds):
        # What TiCDC's command line sends with every call, with and without a user.
        yield Client(url, {"User-Agent": "Go-http-client/1.1", "Authorization": "Basic Og=="}), feeds


@pytest.fixture
def client(served: tuple[Client, Changefeeds]) -> Client:
    return served[0]


@pytest.fixture
def feeds(served: tuple[Client, Changefeeds]) -> Changefeeds:
    return served[1]


def created(client: Client, feed_id: str = "up", **more: object) -> dict[str, Any]:
    answer = client("POST", FEEDS, {"changefeed_id": feed_id, "sink_uri": SINK, **more})
    assert answer.status == 200, answer.text
    made: dict[str, Any] = answer.json
    return made


def test_status_is_what_the_handshake_wants(client: Client) -> None:
    for path in ("/api/v2/status", "/status", "/api/v1/status"):
        answer = client("GET", path)
        assert list(answer.json) == ["version", "git_hash", "id", "cluster_id", "pid", "is_owner", "liveness"]
        assert re.fullmatch(r"v\d+\.\d+\.\d+", answer.json["version"])
        assert (answer.json["is_owner"], answer.json["liveness"]) == (True, 0)
        assert answer.text.startswith('{\n    "version": ')
        assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_the_calls_of_create(client: Client, runner: MemoryRunner) -> None:
    runner.known = (table("test.user"), table("test.log", key=False), table("sys.config"))
    tso = client("POST", "/api/v2/tso", {"id": 0, **FILES}).json
    assert list(tso) == ["timestamp", "logic_time"]
    start = compose(tso["timestamp"], tso["logic_time"])
    assert abs(physical_ms(runner.now()) - tso["timestamp"]) < 5000
    sink = "kafka://127.0.0.1:9092/topic-name?protocol=avro"
    body = {k: v for k, v in REPLICA_CONFIG.items() if k != "ignore_ineligible_table"}
    found = client(
        "POST", "/api/v2/verify_table?keyspace=", {**FILES, "replica_config": body, "start_ts": start, "sink_uri": sink}
    )
    log, user = (
        {"database_name": "test", "table_name": name, "table_id": 100, "is_partition": False}
        for name in ("log", "user")
    )
    assert found.json == {"ineligible_tables": [log], "eligible_tables": [user], "all_tables": [log, user]}
    made = client(
        "POST",
        "/api/v2/changefeeds?keyspace=",
        {"keyspace": "", "changefeed_id": "kafka-avro", "start_ts": start, "target_ts": 0, "sink_uri": sink}
        | {"replica_config": REPLICA_CONFIG, **FILES},
    )
    assert made.status == 200
    assert list(made.json) == INFO
    assert json.dumps(made.json["config"]) == json.dumps(REPLICA_CONFIG)  # members in this order, too
    assert (made.json["id"], made.json["keyspace"], made.json["sink_uri"]) == ("kafka-avro", "default", sink)
    assert (made.json["start_ts"], made.json["checkpoint_ts"], made.json["resolved_ts"]) == (start, start, start)
    moment = dt.datetime.fromtimestamp(tso["timestamp"] / 1000)
    assert made.json["checkpoint_time"] == f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    created_at = made.json["create_time"]
    assert time_text(dt.datetime.fromisoformat(created_at)) == created_at
    assert json.dumps(client("GET", f"{FEEDS}/kafka-avro?keyspace=default").json["config"]) == json.dumps(
        REPLICA_CONFIG
    )


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-01-02T03:04:05.678900+00:00", "2026-01-02T03:04:05.6789Z"),
        ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.000001-03:30", "2026-01-02T03:04:05.000001-03:30"),
    ],
)
def test_times_are_those_of_gos_json(moment: str, text: str) -> None:
    assert time_text(dt.datetime.fromisoformat(moment)) == text


def test_a_changefeed_without_id_gets_one_of_digits(client: Client) -> None:
    made = created(client, "")
    assert made["id"] == f"{made['gid']['low']}{made['gid']['high']}"
    assert client("GET", f"{FEEDS}/{made['id']}").status == 200
    assert "target_ts" not in made
    assert created(client, "to", target_ts=2**62)["target_ts"] == 2**62


def test_what_is_left_out_has_its_default(client: Client) -> None:
    given = {"filter": {"rules": ["test.*"]}, "sync_point_interval": "1h30m", "unheard_of": 1}
    config = created(client, replica_config=given)["config"]
    want = default_replica_config() | {"filter": {"rules": ["test.*"]}, "sync_point_interval": 5400 * 10**9}
    want["sink"] = {"protocol": "simple", **want["sink"]}  # as the sink URI says
    assert json.dumps(config) == json.dumps(want)
    client("POST", f"{FEEDS}/up/pause")
    bare = client("PUT", f"{FEEDS}/up", {"replica_config": {"case_sensitive": True}}).json["config"]
    assert bare["sink"]["protocol"] == "simple"


def test_the_list_and_its_states(client: Client, feeds: Changefeeds, runner: MemoryRunner) -> None:
    runner.errors = {"bad": [SchemaRefused("Schema being registered is incompatible")]}
    assert client("GET", FEEDS).json == {"total": 0, "items": []}
    for name in ("bad", "ok", "still"):
        created(client, name)
    created(client, "done", start_ts=runner.now() - compose(9000), target_ts=runner.now() - compose(8000))
    client("POST", f"{FEEDS}/still/pause?keyspace=")
    until(lambda: [feeds.get(n).feed.state for n in ("bad", "done")] == [State.FAILED, State.FINISHED])

    def ids(state: str) -> list[str]:
        answer = client("GET", f"{FEEDS}?keyspace=default{state}").json
        assert answer["total"] == len(answer["items"])
        return [item["id"] for item in answer["items"]]

    assert ids("&state=all") == ["bad", "done", "ok", "still"]
    assert ids("") == ids("&state=") == ["bad", "ok", "still"]
    assert (ids("&state=stopped"), ids("&state=finished"), ids("&state=warning")) == (["still"], ["done"], [])
    first = client("GET", f"{FEEDS}?state=failed").json["items"][0]
    assert list(first) == ["upstream_id", "id", "keyspace", "state", "checkpoint_tso", "checkpoint_time", "error"]
    assert list(first["error"]) == ["time", "addr", "code", "message"]
    assert first["error"]["code"] == "CDC:ErrChangefeedUnretryable"
    assert "Schema being registered is incompatible" in first["error"]["message"]
    assert dt.datetime.fromisoformat(first["error"]["time"]).tzinfo
    shown = client("GET", f"{FEEDS}/bad").json
    assert shown["error"] == first["error"]
    assert list(shown)[6:9] == ["state", "error", "creator_version"]
    status = client("GET", f"{FEEDS}/bad/status").json
    assert list(status) == ["state", "resolved_ts", "checkpoint_ts", "last_error"]
    assert client("GET", f"{FEEDS}/still/status").json.keys() == {"state", "resolved_ts", "checkpoint_ts"}


def test_pause_resume_and_remove(client: Client, feeds: Changefeeds, runner: MemoryRunner) -> None:
    created(client)
    path = f"{FEEDS}/up"
    assert client("POST", f"{path}/pause?keyspace=").text == "{}"
    assert client("GET", path).json["state"] == "stopped"
    resume = FILES | {"overwrite_checkpoint_ts": 0}
    assert client("POST", f"{path}/resume?keyspace=default", resume).text == "{}"
    assert client("GET", path).json["state"] == "normal"
    assert client("POST", f"{path}/resume", resume).status == 200  # it runs: silently ignored
    client("POST", f"{path}/pause")
    early = runner.now() - compose(60_000)
    runner.held.clear()
    assert client("POST", f"{path}/resume", FILES | {"overwrite_checkpoint_ts": early}).status == 200
    assert client("GET", path).json["checkpoint_ts"] == early
    runner.held.set()
    client("POST", f"{path}/pause")
    assert client("POST", f"{path}/resume").text == "{}"  # without a body
    assert client("DELETE", f"{path}?keyspace=default").text == "{}"
    assert client("GET", path).status == 400
    gone = client("DELETE", path)
    assert (gone.status, gone.text) == (200, "null")


def test_update_takes_what_it_names_and_defaults_for_the_rest(client: Client, feeds: Changefeeds) -> None:
    before = created(client, replica_config={"filter": {"rules": ["a.*"]}, "mounter": {"worker_num": 5}})
    client("POST", f"{FEEDS}/up/pause")
    path = f"{FEEDS}/up?keyspace=default"
    only_target = client("PUT", path, {"changefeed_id": "", "start_ts": 0, "target_ts": 2**62, "sink_uri": ""}).json
    assert only_target["target_ts"] == 2**62
    assert only_target["config"] == before["config"]
    other = SINK + "&max-message-bytes=1000"
    assert client("PUT", path, {"sink_uri": other}).json["sink_uri"] == other
    # Of the stored configuration nothing stays; a sink or a filter is taken whole.
    new = client("PUT", path, {"replica_config": {"sink": {"protocol": "simple"}, "case_sensitive": True}}).json
    want = default_replica_config() | {"case_sensitive": True, "sink": {"protocol": "simple"}}
    assert json.dumps(new["config"]) == json.dumps(want)
    assert new["target_ts"] == 2**62
    client("PUT", path, {"target_ts": 2**62})  # changes nothing
    assert feeds.get("up").feed.revision == 3


def test_secrets_are_shown_to_nobody_and_survive_an_update(client: Client, feeds: Changefeeds) -> None:
    sink = "kafka://127.0.0.1:9092/topic?sasl-password=pa55word&protocol=avro&sasl-user=ann&sasl-mechanism=PLAIN"
    secret = {"sasl_gssapi_password": "s3cret"}
    pulsar = {"oauth2": {"oauth2-private-key": "s3cret", "oauth2-scope": "all"}}
    config = {
        "sink": {"schema_registry": "http://ann:s3cret@127.0.0.1:8081", "kafka_config": secret, "pulsar_config": pulsar}
    }
    body = {"changefeed_id": "up", "sink_uri": sink, "replica_config": config}
    made = client("POST", FEEDS, body)
    client("POST", f"{FEEDS}/up/pause")
    shown = made.json
    hidden = "kafka://127.0.0.1:9092/topic?protocol=avro&sasl-mechanism=PLAIN&sasl-password=xxxxx&sasl-user=ann"
    assert shown["sink_uri"] == hidden
    assert shown["config"]["sink"]["schema_registry"] == "http://ann:xxxxx@127.0.0.1:8081"
    assert shown["config"]["sink"]["kafka_config"] == {"sasl_gssapi_password": "xxxxx"}
    hidden_oauth2 = {"oauth2-private-key": "xxxxx", "oauth2-scope": "all"}
    assert shown["config"]["sink"]["pulsar_config"] == {"oauth2": hidden_oauth2}
    shown["config"]["case_sensitive"] = True
    put = client("PUT", f"{FEEDS}/up", {"sink_uri": shown["sink_uri"], "replica_config": shown["config"]})
    assert put.json["config"] == shown["config"]
    kept = feeds.get("up").feed
    assert kept.sink_uri == sink
    assert kept.config["sink"]["schema_registry"] == "http://ann:s3cret@127.0.0.1:8081"
    assert kept.config["sink"]["kafka_config"] == {"sasl_gssapi_password": "s3cret"}
    assert kept.config["sink"]["pulsar_config"] == pulsar
    answers = [made, put, client("GET", FEEDS), client("GET", f"{FEEDS}/up"), client("GET", "/page")]
    answers += [client("GET", "/metrics"), client("POST", FEEDS, body | {"changefeed_id": "b", "start_ts": 2**63})]
    for answer in answers:
        assert "pa55word" not in answer.text
        assert "s3cret" not in answer.text


IDS = ["a_b", "-a", "a-", "a--b", "ä", "x" * 129, "a b"]
NO_TOPIC = (
    "sink uri invalid 'kafka://127.0.0.1:9092/?protocol=simple': [CDC:ErrKafkaInvalidConfig]no topic is specified"
)


def refusals() -> dict[str, tuple[dict[str, object], int, str, str]]:
    def config(**members: object) -> dict[str, object]:
        return {"replica_config": members}

    def sink(**members: object) -> dict[str, object]:
        return config(sink=members)

    def expression(text: str) -> dict[str, object]:
        return config(filter={"event_filters": [{"matcher": ["shop.*"], "ignore_insert_value_expr": text}]})

    rule = [{"matcher": ["*.*"], "partition": "index-value", "index": "nothing"}]
    return {
        **{
            f"id {i}": ({"changefeed_id": i}, 400, "ErrAPIInvalidParam", f"invalid changefeed_id: {i}, [CDC:ErrInv")
            for i in IDS
        },
        "double": ({"changefeed_id": "there"}, 500, "ErrChangeFeedAlreadyExists", "changefeed already exists, there"),
        "no sink": (
            {"sink_uri": ""},
            400,
            "ErrSinkURIInvalid",
            "sink uri invalid 'sink_uri is empty, cannot create a changefeed without sink_uri'",
        ),
        "no topic": ({"sink_uri": "kafka://127.0.0.1:9092/?protocol=simple"}, 400, "ErrSinkURIInvalid", NO_TOPIC),
        "future": (
            {"start_ts": 2**63},
            400,
            "ErrAPIInvalidParam",
            f"invalid start-ts {2**63}, larger than current tso",
        ),
        "target": (
            {"start_ts": 5, "target_ts": 5},
            400,
            "ErrTargetTsBeforeStartTs",
            "fail to create changefeed because target-ts 5 is earlier than start-ts 5",
        ),
        "protocol": (
            {"sink_uri": "kafka://127.0.0.1:9092/t"},
            500,
            "ErrInvalidReplicaConfig",
            "invalid replica config: [CDC:ErrSinkUnknownProtocol]unknown '' message protocol for sink",
        ),
        "type": (
            config(case_sensitive="yes"),
            400,
            "ErrAPIInvalidParam",
            "invalid api parameter: replica_config: case-sensitive: Input should be a valid boolean",
        ),
        "level": (
            config(integrity={"integrity_check_level": "all"}),
            500,
            "ErrInvalidReplicaConfig",
            "invalid replica config: [CDC:ErrInvalidReplicaConfig]integrity.integrity-check-level",
        ),
        "stuck": (
            config(changefeed_error_stuck_duration="5m"),
            500,
            "ErrInvalidReplicaConfig",
            "invalid replica config",
        ),
        "rules": (config(filter={"rules": ["db"]}), 400, "ErrFilterRuleInvalid", "filter rule is invalid"),
        "matcher": (sink(dispatchers=[{"matcher": ["db"]}]), 400, "ErrFilterRuleInvalid", "filter rule is invalid"),
        "columns": (
            sink(column_selectors=[{"matcher": ["*.*"], "columns": ["["]}]),
            400,
            "ErrFilterRuleInvalid",
            "filter rule is invalid",
        ),
        "topic": (
            sink(dispatchers=[{"matcher": ["*.*"], "topic": "{table}_{schema}"}]),
            500,
            "ErrKafkaTopicExprInvalid",
            "invalid topic expression: {table}_{schema}",
        ),
        "event": (
            config(filter={"event_filters": [{"matcher": ["*.*"], "ignore_event": ["all"]}]}),
            500,
            "ErrInvalidIgnoreEventType",
            "invalid ignore event type: 'all'",
        ),
        "index": (
            sink(dispatchers=rule),
            500,
            "ErrDispatcherFailed",
            "index not found when verify the table, table: shop.orders, index: nothing",
        ),
        "selector": (
            sink(column_selectors=[{"matcher": ["*.*"], "columns": ["v"]}]),
            500,
            "ErrColumnSelectorFailed",
            "no primary key columns or unique key columns obtained after filter out, table: shop.orders",
        ),
        "registry": (
            {"sink_uri": "kafka://127.0.0.1:9092/t?protocol=avro"},
            400,
            "ErrSinkURIInvalid",
            "sink uri invalid 'kafka://127.0.0.1:9092/t?protocol=avro': [CDC:ErrCodecInvalidConfig]Avro protocol",
        ),
        "number": (
            {"sink_uri": SINK + "&partition-num=0"},
            400,
            "ErrSinkURIInvalid",
            f"sink uri invalid '{SINK}&partition-num=0': [CDC:ErrKafkaInvalidPartitionNum]",
        ),
        "version": (
            {"sink_uri": SINK + "&kafka-version=foo"},
            400,
            "ErrSinkURIInvalid",
            f"sink uri invalid '{SINK}&kafka-version=foo': [CDC:ErrKafkaInvalidVersion]invalid kafka version",
        ),
        "expression": (
            expression("id >"),
            500,
            "ErrInvalidFilterExpression",
            "invalid filter expressions. There is a syntax error in: 'id >'",
        ),
        "expression's column": (
            expression("weight > 5"),
            500,
            "ErrExpressionColumnNotFound",
            "invalid filter expression(s). Cannot find column 'weight' from table 'shop.orders' in: weight > 5",
        ),
        "text": ({"start_ts": "5"}, 400, "ErrAPIInvalidParam", "invalid api parameter: start_ts"),
        "word": ({"start_ts": "x"}, 400, "ErrAPIInvalidParam", "invalid api parameter: start_ts"),
        "negative": ({"start_ts": -1}, 400, "ErrAPIInvalidParam", "invalid api parameter: start_ts"),
    }


@pytest.mark.parametrize("name", refusals())
def test_create_refuses(client: Client, name: str) -> None:
    created(client, "there")
    body, status, code, message = refusals()[name]
    answer = client("POST", FEEDS, {"changefeed_id": "up", "sink_uri": SINK, **body})
    assert (answer.status, answer.json["error_code"]) == (status, f"CDC:{code}")
    assert answer.json["error_msg"].startswith(f"[CDC:{code}]{message}")
    assert answer.text.startswith('{\n    "error_msg": ')
    assert list(answer.json) == ["error_msg", "error_code"]
    assert client("GET", f"{FEEDS}?state=all").json["total"] == 1


def test_tables_without_a_key_are_refused_unless_somebody_agrees(client: Client, runner: MemoryRunner) -> None:
    runner.known = (table("test.log", key=False),)
    body: dict[str, Any] = {"changefeed_id": "up", "sink_uri": SINK}
    refused = client("POST", FEEDS, body)
    assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrTableIneligible")
    assert refused.json["error_msg"] == (
        "[CDC:ErrTableIneligible]some tables are not eligible to replicate([test.log]), if you want to ignore these "
        "tables, please set ignore_ineligible_table to true"
    )
    agreed = {"ignore_ineligible_table": True}, {"force_replicate": True}, {"filter": {"rules": ["shop.*"]}}
    for n, config in enumerate(agreed):
        assert client("POST", FEEDS, body | {"changefeed_id": f"up-{n}", "replica_config": config}).status == 200


def test_a_table_goes_by_an_index_whatever_columns_leave_and_a_view_needs_no_key(
    client: Client, runner: MemoryRunner
) -> None:
    user = table("shop.user")
    user = replace(
        user, indexes=(*user.indexes, Index("uk", unique=True, primary=False, nullable=True, columns=("v",)))
    )
    runner.known = (user, replace(table("shop.v", key=False), view=True))
    found = client("POST", "/api/v2/verify_table", {"sink_uri": SINK}).json
    assert [t["table_name"] for t in found["eligible_tables"]] == ["user", "v"]
    assert "ineligible_tables" not in found
    config = {
        "sink": {
            "dispatchers": [{"matcher": ["*.*"], "partition": "index-value", "index": "uk"}],
            "column_selectors": [{"matcher": ["*.*"], "columns": ["*"]}],
        },
        "filter": {"event_filters": [{"matcher": ["shop.*"], "ignore_insert_value_expr": "id > 5"}]},
    }
    created(client, replica_config=config)
    runner.known = (user, table("shop.log", key=False))  # it would leave, too, and has no such index
    answer = client(
        "POST", FEEDS, {"changefeed_id": "all", "sink_uri": SINK, "replica_config": {**config, "force_replicate": True}}
    )
    assert (answer.status, answer.json["error_code"]) == (500, "CDC:ErrDispatcherFailed")
    assert "shop.log" in answer.json["error_msg"]


def test_a_sink_that_cannot_be_used_is_refused(client: Client, runner: MemoryRunner) -> None:
    runner.refuses = Unreachable("no broker answers", where="127.0.0.1:9092")
    answer = client("POST", FEEDS, {"changefeed_id": "up", "sink_uri": SINK})
    assert (answer.status, answer.json["error_code"]) == (400, "CDC:ErrSinkURIInvalid")
    assert answer.json["error_msg"] == (
        f"[CDC:ErrSinkURIInvalid]sink uri invalid '{SINK}': no broker answers, 127.0.0.1:9092"
    )


@pytest.mark.parametrize("body", [b"{", b"[]", b"nothing", b"\xff", b"[" * 200_000, b'{"sink_uri": "\\ud800"}'])
def test_a_body_that_is_no_json_is_refused(client: Client, body: bytes) -> None:
    for method, path in (("POST", FEEDS), ("POST", "/api/v2/verify_table"), ("POST", f"{FEEDS}/up/resume")):
        answer = client(method, path, body)
        assert (answer.status, answer.json["error_code"]) == (400, "CDC:ErrAPIInvalidParam")
        assert answer.json["error_msg"].startswith("[CDC:ErrAPIInvalidParam]invalid api parameter: ")


def test_only_a_resume_may_come_without_a_body(client: Client) -> None:
    created(client)
    client("POST", f"{FEEDS}/up/pause")
    for method, path in (("POST", FEEDS), ("PUT", f"{FEEDS}/up"), ("POST", "/api/v2/get_all_tables")):
        answer = client(method, path)
        assert (answer.status, answer.json["error_msg"]) == (400, "[CDC:ErrAPIInvalidParam]invalid api parameter: EOF")
    assert client("POST", f"{FEEDS}/up/resume").text == "{}"


def test_what_is_not_there_is_named(client: Client) -> None:
    calls = [("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("PUT", ""), ("GET", "/status"), ("GET", "/synced")]
    for method, rest in calls:
        answer = client(method, f"{FEEDS}/nobody{rest}", {} if method != "GET" else None)
        assert answer.status == 400
        message = "[CDC:ErrChangeFeedNotExists]changefeed not exists, nobody"
        assert answer.json == {"error_msg": message, "error_code": "CDC:ErrChangeFeedNotExists"}


@pytest.mark.parametrize("feed_id", ["a_b", "x" * 129])
def test_an_id_that_can_be_none_is_refused_by_every_change(client: Client, feed_id: str) -> None:
    for method, rest in (("POST", "/pause"), ("POST", "/resume"), ("PUT", ""), ("DELETE", "")):
        answer = client(method, f"{FEEDS}/{feed_id}{rest}", {})
        assert (answer.status, answer.json["error_code"]) == (400, "CDC:ErrAPIInvalidParam")
        assert f"invalid changefeed_id: {feed_id}" in answer.json["error_msg"]
    assert client("GET", f"{FEEDS}/{feed_id}").json["error_code"] == "CDC:ErrChangeFeedNotExists"


def test_the_tables_are_verified_against_the_sinks_settings(client: Client) -> None:
    rule = {"matcher": ["*.*"], "partition": "columns", "columns": ["nothing"]}
    body = {"sink_uri": SINK, "replica_config": {"sink": {"dispatchers": [rule]}}}
    answer = client("POST", "/api/v2/verify_table", body)
    assert (answer.status, answer.json["error_code"]) == (500, "CDC:ErrDispatcherFailed")
    assert client("POST", "/api/v2/get_all_tables", body).status == 200


def test_the_error_of_a_changefeed_that_was_stopped_is_in_the_list_alone(client: Client, runner: MemoryRunner) -> None:
    runner.errors = {"up": [SchemaRefused("Schema being registered is incompatible")]}
    created(client)
    until(lambda: client("GET", f"{FEEDS}/up").json["state"] == "failed")
    assert "incompatible" in client("GET", f"{FEEDS}/up").json["error"]["message"]
    client("POST", f"{FEEDS}/up/pause")
    assert "error" not in client("GET", f"{FEEDS}/up").json
    assert "incompatible" in client("GET", FEEDS).json["items"][0]["error"]["message"]


def test_update_and_resume_refuse(client: Client, runner: MemoryRunner) -> None:
    start = runner.now() - compose(1000)
    created(client, start_ts=start)
    path = f"{FEEDS}/up"

    def refusal(method: str, place: str, body: object) -> tuple[int, str]:
        answer = client(method, place, body)
        return answer.status, answer.json["error_msg"]

    assert refusal("PUT", path, {}) == (
        400,
        "[CDC:ErrChangefeedUpdateRefused]changefeed update error: "
        "can only update changefeed config when it is stopped or failed",
    )
    client("POST", f"{path}/pause")
    assert refusal("PUT", path, {"target_ts": start}) == (
        400,
        f"[CDC:ErrChangefeedUpdateRefused]can not update target_ts:{start} less than start_ts:{start}",
    )
    assert refusal("PUT", path, {"start_ts": 5}) == (400, "[CDC:ErrAPIInvalidParam]start_ts can not be updated")
    for config, cause in (
        (
            {"filter": {"rules": ["x"]}},
            "[CDC:ErrFilterRuleInvalid]filter rule is invalid &{[x] [] []}: at <cmdline>:1: wrong table pattern",
        ),
        (
            {"sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value", "index": "i"}]}},
            "[CDC:ErrDispatcherFailed]index not found when verify the table, table: shop.orders, index: i",
        ),
    ):
        refused = client("PUT", path, {"replica_config": config}).json
        assert refused["error_code"] == "CDC:ErrChangefeedUpdateRefused"
        assert refused["error_msg"] == f"[CDC:ErrChangefeedUpdateRefused]changefeed update error: {cause}"
    assert refusal("POST", f"{FEEDS}/nobody/resume", {"overwrite_checkpoint_ts": 2**63}) == (
        400,
        "[CDC:ErrChangeFeedNotExists]changefeed not exists, nobody",
    )
    status, message = refusal("POST", f"{path}/resume", {"overwrite_checkpoint_ts": 2**63})
    assert status == 400
    assert message.startswith(f"[CDC:ErrAPIInvalidParam]invalid checkpoint-ts {2**63}, larger than current tso ")
    assert client("GET", path).json["state"] == "stopped"


def test_the_smaller_endpoints(client: Client, runner: MemoryRunner) -> None:
    created(client)
    captures = client("GET", "/api/v2/captures").json
    assert captures["total"] == 1
    assert list(captures["items"][0]) == ["id", "is_owner", "address", "cluster_id"]
    assert f"http://{captures['items'][0]['address']}" == client.url
    assert client("GET", "/api/v2/health").text == "{}"
    assert client("GET", "/api/v2/processors").json == {"total": 0, "items": []}
    assert client("GET", "/api/v2/processors/up/x").json == {"table_ids": None}
    assert client("POST", "/api/v2/owner/resign").text == "{}"
    assert client("POST", "/api/v2/log", {"log_level": "warn"}).text == "{}"
    assert client("POST", "/api/v2/log", {"log_level": "loud"}).status == 400
    assert client("POST", "/api/v2/log", {"log_level": "notset"}).status == 400
    for level in ({"log_level": "Panic"}, {"log_level": ""}, {"log_level": "info"}, {}):
        assert client("POST", "/api/v2/log", level).text == "{}"
    config = {"filter": {"rules": ["shop.*"]}}
    body = {"replica_config": config, "start_ts": 5, "sink_uri": ""}
    found = client("POST", "/api/v2/get_all_tables?keyspace=default", body).json
    assert [t["table_name"] for t in found["eligible_tables"]] == ["orders"]
    assert client("POST", "/api/v2/verify_table", body).json == found
    runner.known = ()
    assert client("POST", "/api/v2/get_all_tables", body).json == {}
    synced = client("GET", f"{FEEDS}/up/synced").json
    members = ["synced", "sink_checkpoint_ts", "puller_resolved_ts", "last_synced_ts", "now_ts", "info"]
    assert list(synced) == members
    assert synced["synced"] is False
    assert synced["now_ts"].endswith(".000")


def test_a_changefeed_is_synced_when_it_has_been_quiet(client: Client, runner: MemoryRunner) -> None:
    created(client, start_ts=runner.now() - compose(301_000))
    until(lambda: client("GET", f"{FEEDS}/up/synced").json["synced"])
    # An interval of 0 says nothing, and neither does the one beside it.
    zero = {"synced_status": {"synced_check_interval": 400, "checkpoint_interval": 0}}
    created(client, "zero", start_ts=runner.now() - compose(301_000), replica_config=zero)
    until(lambda: client("GET", f"{FEEDS}/zero/synced").json["synced"])


def test_what_is_nowhere_is_answered_in_text(client: Client) -> None:
    paths = [
        ("GET", "/api/v2/nothing"),
        ("GET", "/nothing"),
        ("PATCH", FEEDS),
        ("GET", FEEDS + "/"),
        ("GET", "/page/x"),
    ]
    for method, path in paths:
        answer = client(method, path)
        assert (answer.status, answer.text) == (404, "404 page not found")
        assert answer.headers["content-type"].startswith("text/plain")


def test_what_is_a_cluster_s_is_shown_or_refused(client: Client) -> None:
    created(client, sink_uri=SINK + "&sasl-user=a&sasl-password=pa55&sasl-mechanism=PLAIN")
    found = client("GET", "/api/v2/unsafe/metadata")
    place = "/tidb/cdc/default/default/changefeed"
    assert [list(item) for item in found.json] == [["key", "value"]] * 2
    assert [item["key"] for item in found.json] == [f"{place}/info/up", f"{place}/status/up"]
    info = client("GET", f"{FEEDS}/up").json
    assert json.loads(found.json[0]["value"])["sink_uri"] == info["sink_uri"]
    assert json.loads(found.json[1]["value"])["checkpoint-ts"] <= info["checkpoint_ts"]
    debug = client("GET", "/debug/info")
    assert debug.status == 200
    parts = re.split(r"\n\n\*\*\* (\w+) info \*\*\*:\n\n", debug.text)
    assert parts[1::2] == ["owner", "processors", "etcd"]
    assert client("GET", "/api/v2/captures").json["items"][0] == json.loads(parts[2])
    assert parts[4].endswith("changefeedID: default/up\n")
    assert parts[6].startswith(f"{place}/info/up\n\t{{")
    assert "pa55" not in found.text + debug.text
    for method, path in (("POST", "resolve_lock"), ("DELETE", "service_gc_safepoint")):
        refused = client(method, f"/api/v2/unsafe/{path}", {})
        assert (refused.status, refused.json["error_code"]) == (500, "CDC:ErrAPIGetPDClientFailed")
    for name in ("move_table", "move_split_table", "split_table_by_region_count", "merge_table"):
        refused = client("POST", f"{FEEDS}/up/{name}?tableID=1&targetNodeID=n")
        assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrSchedulerRequestFailed")
        refused = client("POST", f"{FEEDS}/nobody/{name}?tableID=1")
        assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrChangeFeedNotExists")
        refused = client("POST", f"{FEEDS}/up/{name}?tableID=x")
        assert (refused.status, refused.json["error_code"]) == (500, "")
        assert refused.json["error_msg"] == 'strconv.ParseInt: parsing "x": invalid syntax'


def test_the_older_api_moves_no_table(client: Client) -> None:
    created(client)
    path = "/api/v1/changefeeds/up/tables"
    refused = client("POST", f"{path}/move_table", {"table_id": 1, "target_capture_id": "n"})
    assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrSchedulerRequestFailed")
    balanced = client("POST", f"{path}/rebalance_table")
    assert (balanced.status, balanced.text) == (202, "")


def test_the_log_hides_more_and_never_less(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def redact(mode: str) -> tuple[int, dict[str, str]]:
        answer = client("POST", "/api/v2/log/redact", {"redact_info_log": mode})
        return answer.status, answer.json

    def shown() -> str:
        try:
            raise ValueError("hush")
        except ValueError:
            logging.getLogger("tidecast.changefeed").exception("row %d of %r", 5, "a‹b", exc_info=True)
        logging.getLogger("other").error("row %d", 6)
        return log.getvalue()

    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(log), logging.StreamHandler(log)])
    assert redact("off") == (200, {"previous_mode": "OFF", "current_mode": "OFF"})
    assert shown().startswith("row 5 of 'a‹b'\nTraceback")
    assert redact(" Marker ") == (200, {"previous_mode": "OFF", "current_mode": "MARKER"})
    log.seek(log.truncate(0))
    assert shown().count("row ‹5› of ‹a‹‹b›\nTraceback") == 2
    assert redact("TRUE") == (200, {"previous_mode": "MARKER", "current_mode": "ON"})
    assert redact("on") == (200, {"previous_mode": "ON", "current_mode": "ON"})
    log.seek(log.truncate(0))
    assert shown() == "row ? of ?\n" * 2 + "row 6\n" * 2
    for mode, words in (
        ("off", "cannot transition from 'ON' to 'off': only transitions to more restrictive modes are allowed "),
        ("", "missing required field 'redact_info_log': must be 'off', 'on', or 'marker'"),
        ("half", "invalid redact mode 'half': must be 'off', 'on', or 'marker'"),
    ):
        status, answer = redact(mode)
        assert (status, answer["error_code"]) == (400, "CDC:ErrAPIInvalidParam")
        assert answer["error_msg"].startswith(f"[CDC:ErrAPIInvalidParam]{words}")


def test_the_older_api_lists_bare_arrays_and_accepts(client: Client) -> None:
    old = "/api/v1/changefeeds"
    assert client("GET", old).json == []
    assert client("POST", old, {"changefeed_id": "up", "sink_uri": SINK}).status == 202
    assert [item["id"] for item in client("GET", old).json] == ["up"]
    assert client("POST", f"{old}/up/pause").status == 202
    assert client("POST", f"{old}/up/resume").status == 202
    assert len(client("GET", "/api/v1/captures").json) == 1
    assert client("DELETE", f"{old}/up").status == 202
    assert client("POST", "/api/v1/log", {"log_level": "info"}).status == 200
    drained = client("PUT", "/api/v1/captures/drain", {"capture_id": "n"})
    assert (drained.status, drained.text) == (202, '{"current_table_count":0}')


def test_the_older_api_has_a_body_of_its_own(client: Client) -> None:
    old = "/api/v1/changefeeds"
    dispatchers = [{"matcher": ["test.*"], "dispatcher": "index-value"}]
    body = {
        "changefeed_id": "up",
        "sink_uri": "kafka://127.0.0.1:9092/topic",
        "timezone": "system",
        "filter_rules": ["test.*"],
        "ignore_ineligible_table": True,
        "mounter_worker_num": 3,
        "sink_config": {
            "protocol": "simple",
            "dispatchers": dispatchers,
            "delete-only-output-handle-key-columns": True,
        },
    }
    made = client("POST", old, body)
    assert made.status == 202, made.text
    config = made.json["config"]
    assert (config["filter"], config["mounter"]) == ({"rules": ["test.*"]}, {"worker_num": 3})
    assert (config["ignore_ineligible_table"], config["case_sensitive"]) == (True, False)
    assert config["sink"]["dispatchers"] == [{"matcher": ["test.*"], "partition": "index-value"}]
    assert config["sink"]["delete_only_output_handle_key_columns"] is True
    assert config["sink"]["encoder_concurrency"] == 32

    client("POST", f"{old}/up/pause")
    changed = client("PUT", f"{old}/up", {"target_ts": 2**62, "mounter_worker_num": 5})
    assert (changed.status, changed.json["target_ts"]) == (202, 2**62)
    assert changed.json["config"] == config | {"mounter": {"worker_num": 5}}  # what it does not name stays
    changed = client("PUT", f"{old}/up", {"filter_rules": ["shop.*"], "sink_config": {"protocol": "debezium"}})
    assert changed.json["config"]["filter"] == {"rules": ["shop.*"]}
    assert changed.json["config"]["sink"] == {"protocol": "debezium"}

    for wrong, words in (
        ({"replica_config": {"filter": {"rules": ["test.*"]}}}, "replica_config is of /api/v2"),
        ({"sink_config": {"column_selectors": []}}, "sink.column_selectors"),
        ({"sink_config": {"protocol": 5}}, "sink.protocol: Input should be a valid string"),
        ({"filter_rules": "test.*"}, "filter_rules: Input should be a valid list"),
    ):
        refused = client("POST", old, {**body, "changefeed_id": "other", **wrong})
        assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrAPIInvalidParam")
        assert words in refused.json["error_msg"]
    assert [item["id"] for item in client("GET", old).json] == ["up"]


def test_a_defect_is_no_secret_and_tells_none(client: Client, runner: MemoryRunner) -> None:
    created(client)
    runner.known = None  # type: ignore[assignment]
    answer = client("POST", "/api/v2/get_all_tables", {})
    assert (answer.status, answer.json) == (500, {"error_msg": "internal error: TypeError", "error_code": ""})


def test_a_disk_that_takes_nothing_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    created(client)

    def full(folder: FeedFolder, feed: Feed) -> None:
        raise OSError(28, "No space left on device", "feed.json")

    monkeypatch.setattr(FeedFolder, "save", full)
    answer = client("POST", f"{FEEDS}/up/pause")
    assert (answer.status, answer.json["error_msg"]) == (
        500,
        "the server cannot keep its changefeeds: feed.json: No space left on device",
    )


def test_the_api_describes_itself(client: Client) -> None:
    paths = client("GET", "/openapi.json").json["paths"]
    assert {"get", "post"} == set(paths["/api/v2/changefeeds"])
    body = paths["/api/v2/changefeeds"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "sink_uri" in body["properties"]
    assert not any(path.startswith("/api/v1") for path in paths)
    assert "swagger" in client("GET", "/docs").text


def test_metrics_have_ticdc_s_names(client: Client, feeds: Changefeeds, runner: MemoryRunner) -> None:
    start = runner.now() - compose(5_000)
    runner.events = [(start + n, "test.user") for n in range(1, 6)]
    runner.errors = {"bad": [SchemaRefused("no")]}
    created(client, start_ts=start)
    created(client, "bad")
    until(lambda: feeds.get("up").messages and feeds.get("bad").feed.state is State.FAILED)
    client("POST", f"{FEEDS}/up/pause")
    runner.held.clear()
    created(client, "late", start_ts=runner.now() - compose(3_600_000))
    text = client("GET", "/metrics").text
    values = {
        m[1]: float(m[2]) for m in re.finditer(r'^(\w+)\{changefeed="up",namespace="default"\} (\S+)$', text, re.M)
    }
    assert values["ticdc_owner_status"] == 3
    assert values["ticdc_sink_total_flushed_rows_count"] == 5
    assert values["tidecast_rows_per_second"] == 0.5
    checkpoint = feeds.get("up").checkpoint_ts
    assert values["ticdc_owner_checkpoint_ts"] == values["ticdc_owner_resolved_ts"] == physical_ms(checkpoint)
    late = re.search(r'^ticdc_owner_checkpoint_ts_lag\{changefeed="late",namespace="default"\} (\S+)$', text, re.M)
    assert late
    assert 3600 <= float(late[1]) < 3660
    assert 'ticdc_owner_status{changefeed="bad",namespace="default"} 2.0' in text


def test_a_changefeed_at_its_source_s_end_has_no_lag(client: Client, feeds: Changefeeds, runner: MemoryRunner) -> None:
    hour = compose(3_600_000)
    runner.end = runner.now() - hour
    runner.errors = {"ill": [Unreachable("no")] * 1000}
    for name, more in {"up": {}, "ill": {}, "done": {"target_ts": runner.end}, "still": {}}.items():
        created(client, name, start_ts=runner.end - hour, **more)
    until(lambda: feeds.get("still").caught_up)
    client("POST", f"{FEEDS}/still/pause")
    until(lambda: feeds.get("done").feed.state is State.FINISHED and feeds.get("ill").feed.state is State.WARNING)
    until(lambda: feeds.get("up").caught_up)

    def values(metric: str) -> dict[str, float]:
        found = re.finditer(rf'^{metric}\{{changefeed="(\w+)",.*\}} (\S+)$', client("GET", "/metrics").text, re.M)
        return {m[1]: float(m[2]) // 3600 for m in found}

    assert values("ticdc_owner_checkpoint_ts_lag") == {"up": 0, "ill": 2, "still": 1}
    assert values("ticdc_owner_resolved_ts_lag") == {"up": 0, "ill": 2, "still": 1}
    assert values("tidecast_source_age_seconds") == {"up": 1}
    page = {one["id"]: one for one in client("GET", "/page").json["changefeeds"]}
    assert (page["up"]["lag_seconds"], page["done"]["lag_seconds"]) == (0, None)
    assert (page["up"]["source_age_seconds"] // 3600, page["done"]["source_age_seconds"]) == (1, None)


def test_users_and_tls_guard_every_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_access, "_DELAY_S", 0)
    authority = Authority(tmp_path)
    cert, key = map(str, authority.issue("server"))
    access = Access({"ann": "pa55word"}, cert=cert, key=key)
    trusting = ssl.create_default_context(cafile=str(authority.ca))
    with serving(tmp_path / "feeds", MemoryRunner(), access) as (url, _):
        assert url.startswith("https://")
        stranger = Client(url, context=trusting)
        for path in ("/", "/page", "/page/page.js", "/metrics", "/docs", "/openapi.json", "/status", FEEDS, "/x"):
            refused = stranger("GET", path)
            assert refused.status == 401
            assert refused.json["error_code"] == "CDC:ErrCredentialNotFound"
            assert refused.headers["www-authenticate"].startswith("Basic ")
        for user, password in (("ann", "wrong"), ("bob", "pa55word"), ("bob", ""), ("", "")):
            refused = stranger("GET", FEEDS, Authorization=basic(user, password))
            code = "CDC:ErrUnauthorized" if user else "CDC:ErrCredentialNotFound"
            assert (refused.status, refused.json["error_code"]) == (401, code)
            assert f"user {user} unauthorized" in refused.json["error_msg"] or not user
        for garbage in ("Basic", "Basic %%%", "Bearer x", "Basic /w=="):
            assert stranger("GET", FEEDS, Authorization=garbage).status == 401
        assert stranger("GET", FEEDS, Authorization=basic("ann", "pa55word")).status == 200
        distrusting = Client(url, context=ssl.create_default_context())
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            distrusting("GET", "/status")


def test_wrong_passwords_are_told_and_cost_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_access, "_DELAY_S", 0.2)
    monkeypatch.setattr(_access, "_MOST_WAITING", 6)
    with serving(tmp_path, MemoryRunner(), Access({"ann": "pa55word"})) as (url, _):
        client = Client(url)

        def ask(password: str) -> int:
            return client("GET", FEEDS, Authorization=basic("ann", password)).status

        with ThreadPoolExecutor(20) as pool:
            began = time.monotonic()
            assert set(pool.map(ask, map(str, range(5)))) == {401}  # one after the other, though all at once
            assert time.monotonic() - began >= 5 * 0.2
            assert caplog.text.count("wrong user or password from 127.0.0.1") == 5
            asked = Counter(pool.map(ask, map(str, range(20))))
            assert (asked[401] + asked[429], asked[401] >= 6, asked[429] > 0) == (20, True, True)
        assert ask("pa55word") == 200
        caplog.clear()
        for nobody in ({}, {"Authorization": "Basic Og=="}):
            assert client("GET", FEEDS, **nobody).status == 401
        assert "wrong" not in caplog.text
        assert "pa55word" not in caplog.text


def test_a_head_that_does_not_come_ends_the_connection(
    client: Client, runner: MemoryRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_limits, "HEAD_S", 0.3)
    whole = b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for sent in (b"", b"GET /status HTTP/1.1\r\nHost: 127"):
        with connection(client.url) as held:
            held.sendall(sent)
            assert all_of(held) == b""
    with connection(client.url) as held:  # nor may the second one be late
        held.sendall(whole)
        assert held.recv(65536).startswith(b"HTTP/1.1 200 ")
        held.sendall(b"GET")
        all_of(held)
    with connection(client.url) as held:  # a byte now and then is no head
        dripping = threading.Thread(target=drip, args=(held,))
        dripping.start()
        dripping.join(20)
        assert not dripping.is_alive()
    created(client)
    runner.held.clear()
    until(lambda: runner.at_once)
    threading.Timer(0.8, runner.held.set).start()
    assert client("POST", f"{FEEDS}/up/pause").status == 200  # who has asked may wait for longer


def test_a_body_has_a_size_and_a_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    large = client("POST", FEEDS, b" " * 10_000_001)
    assert (large.status, large.json["error_msg"]) == (413, "the body is larger than 10000000 bytes")
    head = b"POST /api/v2/changefeeds HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    with connection(client.url) as held:  # without telling its length before
        held.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(11):
            held.sendall(b"f4240\r\n" + b" " * 1_000_000 + b"\r\n")
        held.sendall(b"0\r\n\r\n")
        assert held.recv(100).startswith(b"HTTP/1.1 413 ")
    monkeypatch.setattr(_limits, "BODY_S", 0.2)
    with connection(client.url) as held:
        held.sendall(head + b"Content-Length: 5\r\n\r\n{")
        assert b"the body did not come within" in all_of(held)
    many = client("POST", FEEDS, b'{"replica_config": [' + b"{}," * 300_000 + b"1]}")
    assert (many.status, "more than 300000 values" in many.json["error_msg"]) == (400, True)


def test_what_is_echoed_has_a_limit(client: Client) -> None:
    long = "x" * 1_000_000
    for method, path, body in (
        ("POST", FEEDS, {"changefeed_id": long, "sink_uri": SINK}),
        ("POST", FEEDS, {"changefeed_id": "up", "sink_uri": f"{long}://h/t"}),
        ("POST", FEEDS, {"changefeed_id": "up", "sink_uri": SINK, "replica_config": {"filter": {"rules": [long]}}}),
        ("POST", FEEDS, {"changefeed_id": "up", "sink_uri": "kafka://h/t?" + "a=b&" * 10_000}),
        ("POST", "/api/v2/log", {"log_level": long}),
        ("POST", "/api/v1/changefeeds", {"sink_uri": SINK, "sink_config": {long: 1}}),
        ("GET", f"{FEEDS}/{long[:10_000]}", None),
    ):
        refused = client(method, path, body)
        assert refused.status >= 400
        assert refused.json["error_msg"]
        assert len(refused.text) < 5_000


def test_a_body_is_read_beside_other_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(content: bytes) -> object:
        entered.set()
        go_on.wait(60)  # longer than the client does
        return {}

    monkeypatch.setattr(_app, "read_json", slow)
    asking = threading.Thread(target=client, args=("POST", FEEDS, {}))
    asking.start()
    assert entered.wait(20)
    try:
        assert client("GET", "/status").status == 200
    finally:
        go_on.set()
        asking.join()


def test_patterns_take_some_seconds_at_most(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checks, "_PATTERNS_S", 0.1)
    heavy = [rf"/(\pL{{{n % 100 + 100}}})/.x" for n in range(20_000)]  # minutes, if all of them were read
    matcher = {"matcher": heavy}
    for config in (
        {"filter": {"rules": heavy}},
        {"filter": {"event_filters": [matcher | {"ignore_event": ["insert"]}]}},
        {"filter": {"event_filters": [{"matcher": ["*.*"], "ignore_sql": [r[1:-3] for r in heavy]}]}},
        {"sink": {"dispatchers": [matcher]}},
        {"sink": {"column_selectors": [matcher | {"columns": ["*"]}]}},
    ):
        for path in (FEEDS, "/api/v2/verify_table"):
            refused = client("POST", path, {"changefeed_id": "up", "sink_uri": SINK, "replica_config": config})
            assert (refused.status, refused.json["error_code"]) == (400, "CDC:ErrFilterRuleInvalid")
            assert "take too long" in refused.json["error_msg"]
    monkeypatch.undo()
    names = [f"shop.orders_{n}" for n in range(5_000)]
    created(client, replica_config={"filter": {"rules": names}})  # plain names are no burden


def test_an_authority_for_clients_turns_strangers_away(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = map(str, authority.issue("server"))
    with serving(tmp_path / "feeds", MemoryRunner(), Access({}, str(authority.ca), cert, key)) as (url, _):
        known = ssl.create_default_context(cafile=str(authority.ca))
        known.load_cert_chain(*authority.issue("client"))
        assert Client(url, context=known)("GET", "/status").status == 200
        stranger = Client(url, context=ssl.create_default_context(cafile=str(authority.ca)))
        with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|broken pipe|closed connection"):
            stranger("GET", "/status")


def test_other_addresses_take_users_and_tls(tmp_path: Path) -> None:
    cert, key = map(str, Authority(tmp_path).issue("server"))
    users = {"ann": "pa55word"}
    for host in ("0.0.0.0", "[::]", "192.0.2.1", "example.org"):
        for access in (Access(), Access(users), Access({}, None, cert, key)):
            with pytest.raises(ConfigError, match="takes TLS and users"):
                Listener.open(f"{host}:0", access)
    with Listener.open("0.0.0.0:0", Access(users, None, cert, key)).socket:
        pass
    for wrong in (Access({}, None, cert), Access({}, cert), Access({}, None, key, key), Access({}, None, "/no", "/no")):
        with pytest.raises(ConfigError):
            wrong.check("127.0.0.1")
    for addr in ("8300", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", ":8300"):
        with pytest.raises(ConfigError, match="is not an address"):
            Listener.open(addr, Access())
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TerminalError, match="already in use"):
        Listener.open(f"127.0.0.1:{taken.getsockname()[1]}", Access())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"addr": "0.0.0.0:0"}, "takes TLS and users"),
        ({"users_file": "/nowhere/users.toml"}, "the users cannot be read: No such file"),
        ({"cluster_id": "owner"}, "bad cluster-id 'owner'"),
        ({"cluster_id": "a_b"}, "bad cluster-id 'a_b'"),
        ({"source": "ftp://h/t"}, "unknown scheme"),
        ({"source": "nothing"}, "the source names no protocol"),
    ],
)
def test_a_server_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path: Path, options: dict[str, str], words: str
) -> None:
    source = options.pop("source", f"file://{tmp_path}/topic?protocol=simple")
    with pytest.raises(ConfigError, match=words):
        tidecast.serve(source, data_dir=str(tmp_path / "data"), **{"addr": "127.0.0.1:0", **options})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_users_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text('ann = "pa55word"\nbob = "other"\n')
    assert read_users(path) == {"ann": "pa55word", "bob": "other"}
    for text in ("ann = pa55word", "", 'ann = ""', "ann = 5", "[ann]\npassword = 'pa55word'"):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_users(path)
        assert "pa55word" not in str(caught.value)
    assert "pa55word" not in repr(Access({"ann": "pa55word"}))


def test_pages_of_other_origins_are_turned_away(client: Client) -> None:
    created(client)
    pause = f"{FEEDS}/up/pause"
    assert client("POST", pause, Origin="http://evil.example").status == 403
    assert client("POST", pause, Origin="null").status == 403
    assert client("POST", pause, Origin="http://[").status == client("POST", pause, Host="[").status == 403
    # A name of the page's own that leads to this machine: its pages would have the same origin.
    assert client("POST", pause, Host="evil.example", Origin="http://evil.example").status == 403
    assert client("GET", f"{FEEDS}/up").json["state"] == "normal"
    assert client("POST", pause, Origin=client.url).status == 200


def test_many_ask_at_once_while_a_pause_waits(client: Client, runner: MemoryRunner) -> None:
    created(client)
    runner.held.clear()
    steps = runner.steps["up"]
    until(lambda: runner.steps["up"] > steps)
    pausing = threading.Thread(target=client, args=("POST", f"{FEEDS}/up/pause"))
    pausing.start()
    time.sleep(0.1)
    assert client("GET", f"{FEEDS}/up").status == 200
    assert pausing.is_alive()
    runner.held.set()
    pausing.join(5)
    assert not pausing.is_alive()
