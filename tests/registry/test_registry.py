"""The Schema Registry: one set of expectations for the folder and for a real server, then what only one of them has."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import multiprocessing
import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from certificates import Authority
from servers import SchemaRegistry
from servers._process import free_ports

from tidecast._errors import ConfigError, RegistryError, SchemaRefused, TidecastError, Unreachable
from tidecast.registry import RegisteredSchema, open_registry, subject_for
from tidecast.registry._folder import FolderRegistry
from tidecast.registry._http import HttpRegistry

LONG = {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}
TEXT = {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}
ID = {"name": "id", "type": LONG}


def record(*fields: dict[str, Any], name: str = "t") -> str:
    return json.dumps(
        {"type": "record", "name": name, "namespace": "default.test", "fields": fields},
        separators=(",", ":"),
        ensure_ascii=False,
    )


def fresh(part: str = "value") -> str:
    """Return a subject that no other test uses: the server is shared."""
    return f"t_{uuid.uuid4().hex}-{part}"


class Place:
    """A registry's URL, and the way in which its owner sets a level."""

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self, **options: float) -> HttpRegistry | FolderRegistry:
        registry = open_registry(self.url, **options)
        assert isinstance(registry, (HttpRegistry, FolderRegistry))
        return registry

    def level(self, subject: str, level: str) -> None:
        if self.url.startswith("file:"):
            path = Path(urlsplit(self.url).path, "subjects", subject, "config.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"compatibility": level}))
        elif level == "NONE":  # under Apicurio NONE takes a level away, so that a subject gets the level of all
            self.put("/config", "BACKWARD")
            self.put("/config", level)
        else:
            self.put(f"/config/{subject}", level)

    def put(self, path: str, level: str) -> None:
        body = json.dumps({"compatibility": level}).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"}, method="PUT")
        with urlopen(request, timeout=30) as answer:
            assert answer.status == 200


@pytest.fixture(params=["folder", pytest.param("server", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield Place((tmp_path / "registry").as_uri())
    else:
        server = Place(request.getfixturevalue("registry").url)
        yield server
        server.put("/config", "BACKWARD")


def text(found: RegisteredSchema | None) -> str | None:
    return found and found.text


class TestEveryRegistry:
    def test_a_schema_is_found_by_its_id(self, place: Place) -> None:
        subject = fresh()
        ours = place.open()
        ours.check()
        schema_id = ours.register(subject, record(ID))
        assert subject in ours.subjects()
        assert ours.versions(subject) == [1]
        assert text(place.open().schema(schema_id)) == record(ID)

    def test_registering_twice_changes_nothing(self, place: Place) -> None:
        subject = fresh()
        first = place.open().register(subject, record(ID))
        assert place.open().register(subject, record(ID)) == first
        assert place.open().versions(subject) == [1]

    def test_a_changed_schema_is_a_new_version_with_a_higher_id(self, place: Place) -> None:
        subject = fresh()
        ours = place.open()
        older, newer = record(ID), record(ID, {"default": None, "name": subject[:20], "type": ["null", TEXT]})
        ids = [ours.register(subject, older), ours.register(subject, newer)]
        assert int(ids[0]) < int(ids[1])
        assert ours.versions(subject) == [1, 2]
        assert [text(place.open().schema(i)) for i in ids] == [older, newer]
        assert place.open().register(subject, older) == ids[0]
        assert ours.versions(subject) == [1, 2]

    def test_one_text_has_one_id_in_all_subjects(self, place: Place) -> None:
        ours, one, other = place.open(), fresh(), fresh()
        assert ours.register(one, record(ID)) == ours.register(other, record(ID))
        assert ours.versions(other) == [1]

    def test_an_unknown_id_or_subject_is_no_error(self, place: Place) -> None:
        ours = place.open()
        ours.register(fresh(), record(ID))
        assert ours.schema(2_000_000_000) is None
        assert ours.versions(fresh()) == []

    def test_an_id_that_was_unknown_is_found_once_it_is_there(self, place: Place) -> None:
        writer, reader, subject = place.open(), place.open(), fresh()
        newest = writer.register(subject, record({"name": subject[:20], "type": LONG}))
        later = range(int(newest) + 1, int(newest) + 50)
        assert {reader.schema(i) for i in later} == {None}
        schema = record({"default": 0, "name": f"{subject[:20]}x", "type": LONG})
        schema_id = writer.register(subject, schema)
        assert schema_id in later
        assert text(reader.schema(schema_id)) == schema

    def test_a_not_null_column_needs_a_default(self, place: Place) -> None:
        subject = fresh()
        ours = place.open()
        place.level(subject, "BACKWARD")
        ours.register(subject, record(ID))
        refused = record(ID, {"name": "note", "type": TEXT})
        assert ours.refusal(subject, refused)
        with pytest.raises(SchemaRefused, match=r"note.*fields/1|field 'note'.*no default value") as error:
            ours.register(subject, refused)
        assert error.value.code == "CDC:ErrAvroSchemaAPIError"
        assert error.value.where is not None
        assert subject in error.value.where
        assert ours.versions(subject) == [1]
        taken = record(ID, {"default": "", "name": "note", "type": TEXT})
        assert ours.refusal(subject, taken) is None
        assert ours.versions(subject) == [1]
        ours.register(subject, taken)
        assert ours.versions(subject) == [1, 2]

    def test_another_type_is_refused_in_words(self, place: Place) -> None:
        subject = fresh()
        place.level(subject, "BACKWARD")
        place.open().register(subject, record(ID))
        with pytest.raises(SchemaRefused, match=r"(?i)reader type: string not compatible with writer type: long"):
            place.open().register(subject, record({"name": "id", "type": TEXT}))

    def test_none_takes_everything_but_nonsense(self, place: Place) -> None:
        subject = fresh()
        place.level(subject, "NONE")
        ours = place.open()
        assert ours.compatibility(subject) == "NONE"
        ours.register(subject, record(ID))
        ours.register(subject, record({"name": "id", "type": "string"}, {"name": "b", "type": "bytes"}, name="u"))
        assert ours.versions(subject) == [1, 2]
        for nonsense in ('{"type":"rec', record(ID, ID), '"nothing"'):
            with pytest.raises(SchemaRefused):
                ours.register(subject, nonsense)
        assert ours.versions(subject) == [1, 2]

    @pytest.mark.parametrize(
        ("level", "added", "removed", "removed_default"),
        [
            ("BACKWARD", False, True, True),
            ("FORWARD", True, False, True),
            ("FULL", False, False, True),
            ("NONE", True, True, True),
        ],
    )
    def test_a_level_says_which_change_passes(
        self, place: Place, level: str, added: bool, removed: bool, removed_default: bool
    ) -> None:
        plain, default = {"name": "b", "type": TEXT}, {"default": "x", "name": "b", "type": TEXT}
        changes = [
            (record(ID), record(ID, plain), added),
            (record(ID, plain), record(ID), removed),
            (record(ID, default), record(ID), removed_default),
        ]
        for before, after, taken in changes:
            subject = fresh()
            place.level(subject, level)
            place.open().register(subject, before)
            assert (place.open().refusal(subject, after) is None) is taken
            if taken:
                place.open().register(subject, after)
            else:
                with pytest.raises(SchemaRefused):
                    place.open().register(subject, after)

    @pytest.mark.parametrize(("level", "taken"), [("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)])
    def test_transitive_levels_look_at_all_versions(self, place: Place, level: str, taken: bool) -> None:
        subject = fresh()
        place.level(subject, level)
        ours = place.open()
        ours.register(subject, record(ID))
        ours.register(subject, record(ID, {"default": "", "name": "b", "type": TEXT}))
        third = record(ID, {"name": "b", "type": TEXT})
        assert (ours.refusal(subject, third) is None) is taken

    def test_defaults_that_do_not_fit_their_type_are_no_obstacle(self, place: Place) -> None:
        subject = fresh()
        place.level(subject, "BACKWARD")
        odd: list[dict[str, Any]] = [
            {"default": "AO+/vQ==", "name": "b", "type": [{"type": "bytes"}, "null"]},
            {"default": "CURRENT_TIMESTAMP", "name": "ts", "type": TEXT},
            {"default": 24, "name": "y", "type": [{"type": "int"}, "null"]},
            {"default": None, "name": "w", "type": ["null", decimal(65, 30)]},
            {"default": "x", "name": "g", "type": {"type": "string", "logicalType": "never-heard-of"}},
        ]
        ours = place.open()
        ours.register(subject, record(ID))
        ours.register(subject, record(ID, *odd))
        ours.register(subject, record(ID, *odd, {"default": "x", "name": "z", "type": decimal(0, 9)}))
        assert ours.versions(subject) == [1, 2, 3]

    def test_the_text_arrives_byte_for_byte(self, place: Place) -> None:
        escaped = (
            '{"type":"record","name":"t","namespace":"default.test","fields":[{"default":"\\u003c<&>\\u0026/'
            '\\\\ \\"\\n\\u001f 中文 é\x7f","name":"a","type":{"type":"string","connect.parameters":{"allowed":'
            '"a,b\\\\,c,it\'s","tidb_type":"SET"}}}]}'
        )
        schema_id = place.open().register(fresh(), escaped)
        assert text(place.open().schema(schema_id)) == escaped

    @pytest.mark.parametrize("topic", ["a", "Mixed.Case-1_2", "..", ".hidden", "_", "config", "x" * 240])
    def test_every_topic_gives_a_subject(self, place: Place, topic: str) -> None:
        key, value = f"{subject_for(topic, 'key')}", f"{subject_for(topic, 'value')}"
        ours = place.open()
        ours.register(key, record(ID))
        ours.register(value, record(ID))
        assert {key, value} <= set(ours.subjects())
        assert ours.versions(key) == ours.versions(value) == [1]

    def test_two_processes_at_once(self, place: Place) -> None:
        subject = fresh()
        place.level(subject, "NONE")
        spawn = multiprocessing.get_context("spawn")
        start = spawn.Barrier(2)
        workers = [spawn.Process(target=register_many, args=(place.url, subject, start, n)) for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        assert [worker.exitcode for worker in workers] == [0, 0]
        ours = place.open()
        assert ours.versions(subject) == list(range(1, 2 * EACH + 1))
        ids = {ours.register(subject, numbered(subject, n, i)) for n, i in itertools.product(range(2), range(EACH))}
        assert len(ids) == 2 * EACH
        assert ours.versions(subject)[-1] == 2 * EACH


EACH = 20


def numbered(subject: str, worker: int, i: int) -> str:
    return record(ID, {"default": 0, "name": f"c{worker}_{i}_{subject[2:10]}", "type": LONG})


def register_many(url: str, subject: str, start: Barrier, worker: int) -> None:
    ours = open_registry(url)
    start.wait(60)
    for i in range(EACH):
        ours.register(subject, numbered(subject, worker, i))


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {
        "type": "bytes",
        "connect.parameters": {"tidb_type": "DECIMAL"},
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def test_subjects_have_no_dots() -> None:
    assert subject_for("My.DB_ta_ble_", "key") == "My_DB_ta_ble_-key"
    assert subject_for("a.b", "value") == "a_b-value"


@pytest.mark.parametrize(
    "url", ["", "registry", "ftp://h/x", "kafka://h/t", "http://", "http://h:port", "file://relative/dir", "file:dir"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        open_registry(url)


def test_a_broken_url_does_not_betray_the_password() -> None:
    with pytest.raises(ConfigError) as error:
        open_registry("http://cdc:hush/hush@registry:8081")
    assert "hush" not in str(error.value)


class TestFolder:
    def test_files_are_readable_and_as_documented(self, tmp_path: Path) -> None:
        ours = open_registry(tmp_path.as_uri())
        ours.register("t-key", record(ID))
        ours.register("t-value", record(ID, {"default": "ü<", "name": "b", "type": TEXT}))
        names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json"))
        assert names == ["subjects/t-key/1.json", "subjects/t-value/1.json"]
        text = (tmp_path / "subjects/t-value/1.json").read_text()
        assert "ü<" in text
        assert json.loads(text) == {
            "id": 2,
            "version": 1,
            "schema": record(ID, {"default": "ü<", "name": "b", "type": TEXT}),
        }

    def test_a_folder_written_by_hand(self, tmp_path: Path) -> None:
        home = tmp_path / "subjects" / "t-value"
        home.mkdir(parents=True)
        (tmp_path / "README").write_text("ours")
        (tmp_path / "subjects" / "notes.txt").write_text("ours")
        (home / "draft.json").write_text("not yet")
        (home / "7.json").write_text(json.dumps({"id": 41, "schema": record(ID), "comment": "no version member"}))
        (home / "12.json").write_text(json.dumps({"id": 40, "version": 12, "schema": record(ID) + " "}))
        (tmp_path / "config.json").write_text('{"compatibility": "none"}')
        ours = Place(tmp_path.as_uri()).open()
        ours.check()
        assert ours.subjects() == ["t-value"]
        assert ours.versions("t-value") == [7, 12]
        assert text(ours.schema(41)) == record(ID)
        assert ours.compatibility("t-value") == "NONE"
        assert ours.register("u-key", record(ID)) == 41
        assert ours.register("t-value", record(name="other")) == 42
        assert ours.versions("t-value") == [7, 12, 13]

    def test_the_default_level_is_backward_and_a_subject_s_own_wins(self, tmp_path: Path) -> None:
        ours = Place(tmp_path.as_uri()).open()
        assert ours.compatibility("t-value") == "BACKWARD"
        ours.register("t-value", record(ID))
        with pytest.raises(SchemaRefused):
            ours.register("t-value", record(name="other"))
        (tmp_path / "config.json").write_text('{"compatibility": "FULL"}')
        (tmp_path / "subjects/t-value/config.json").write_text('{"compatibility": "NONE"}')
        assert ours.compatibility("t-value") == "NONE"
        assert ours.compatibility("u-value") == "FULL"
        ours.register("t-value", record(name="other"))

    @pytest.mark.parametrize(
        "subject", ["../../escape-value", "/etc/x", "..", ".", "a/../../b", "t x/y.z-value", "a%2Fb"]
    )
    def test_no_subject_leads_out_of_the_folder(self, tmp_path: Path, subject: str) -> None:
        root = tmp_path / "registry"
        ours = Place(root.as_uri()).open()
        schema_id = ours.register(subject, record(ID))
        assert [path.name for path in tmp_path.iterdir()] == ["registry"]
        assert len(list((root / "subjects").glob("*/1.json"))) == 1
        assert ours.subjects() == [subject]
        assert ours.versions(subject) == [1]
        assert text(open_registry(root.as_uri()).schema(schema_id)) == record(ID)

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[]",
            '{"id": 1}',
            '{"id": "1", "schema": "{}"}',
            '{"id": 1, "schema": {"type": "long"}}',
            '{"id": 4294967296, "schema": "{}"}',
            '{"id": 1, "schema": "{}", "more": ' + "[" * 200 + "]" * 200 + "}",
            '{"id": 1, "schema": "{}", "more": ' + "[" * 200_000,
            '{"id": 1, "schema": "{}"}' + " " * (16 << 20),
        ],
        ids=range(9),
    )
    def test_a_broken_file_is_named(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "subjects/t-value/1.json"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        with pytest.raises(RegistryError, match=r"t-value/1\.json"):
            open_registry(tmp_path.as_uri()).schema(1)

    def test_a_broken_level_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"compatibility": "SIDEWAYS"}')
        with pytest.raises(RegistryError, match=r"config\.json.*BACKWARD_TRANSITIVE"):
            open_registry(tmp_path.as_uri()).register("t-value", record(ID))

    def test_a_schema_nested_too_deeply_is_refused_in_words(self, tmp_path: Path) -> None:
        deep = '{"type":"array","items":' * 2000 + '"long"' + "}" * 2000
        ours = open_registry(tmp_path.as_uri())
        assert "nested too deeply" in str(ours.refusal("t-value", deep))
        home = tmp_path / "subjects" / "t-value"
        home.mkdir(parents=True)
        (home / "1.json").write_text(json.dumps({"id": 1, "schema": deep}))
        assert "Version 1 of the subject" in str(ours.refusal("t-value", record(ID)))

    def test_looking_up_in_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        ours = open_registry((tmp_path / "typo").as_uri())
        with pytest.raises(RegistryError, match="typo"):
            ours.schema(1)
        assert not (tmp_path / "typo").exists()

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        ours = Place((tmp_path / "file").as_uri()).open()
        for use in (ours.check, lambda: ours.register("t-value", record(ID)), ours.subjects, lambda: ours.schema(1)):
            with pytest.raises(RegistryError, match=r"Not a directory|File exists"):
                use()

    def test_every_reason_is_told(self, tmp_path: Path) -> None:
        ours = open_registry(tmp_path.as_uri())
        ours.register("t-value", record(ID, {"name": "a", "type": ["null", TEXT]}))
        words = ours.refusal("t-value", record({"name": "id", "type": "int"}, {"name": "z", "type": LONG}, name="t"))
        assert words is not None
        assert (
            "field 'id' of the new schema: TYPE_MISMATCH: reader type: int not compatible with writer type: long"
            in words
        )
        assert "field 'z' of the new schema: READER_FIELD_MISSING_DEFAULT_VALUE" in words
        assert "(earlier version: 1, compatibility: BACKWARD)" in words
        words = ours.refusal("t-value", record(ID, {"name": "a", "type": TEXT}, name="t"))
        assert words is not None
        assert "field 'a'" in words
        assert "null" in words
        assert "NAME_MISMATCH" in str(ours.refusal("t-value", record(ID, name="other")))


class Relay:
    """Stands before a real registry: notes every request, and first answers what it was told to."""

    def __init__(self, target: str, *, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.times: list[float] = []
        self.first: list[tuple[int, dict[str, str], str]] = []
        relay, parts = self, urlsplit(target)

        class Handler(BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                relay.seen.append((self.command, self.path, dict(self.headers), body))
                relay.times.append(time.monotonic())
                if relay.first:
                    status, headers, text = relay.first.pop(0)
                    self.answer(status, headers, text.encode())
                    return
                upstream = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
                upstream.request(self.command, parts.path + self.path, body or None, dict(self.headers))
                response = upstream.getresponse()
                self.answer(response.status, {}, response.read())
                upstream.close()

            do_GET = do_POST = handle_one  # noqa: N815

            def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def relay(registry: SchemaRegistry) -> Iterator[Callable[..., Relay]]:
    started: list[Relay] = []

    def start(tls: ssl.SSLContext | None = None) -> Relay:
        started.append(Relay(registry.url, tls=tls))
        return started[-1]

    yield start
    for one in started:
        one.stop()


class TestServer:
    def test_the_request_is_ticdc_s(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        schema = (
            '{"type":"record","name":"t","namespace":"default.test",'
            '"fields":[{"default":"\\u003c<&","name":"a","type":"string"}]}'
        )
        before.first = [(200, {}, '{"id":77}')]
        ours = open_registry(before.url + "/")
        assert ours.register("t x/y.z-value", schema) == 77
        method, path, headers, body = before.seen[0]
        assert (method, path) == ("POST", "/subjects/t+x%2Fy.z-value/versions")
        assert body == (
            rb'{"schema":"{\"type\":\"record\",\"name\":\"t\",\"namespace\":\"default.test\",'
            rb'\"fields\":[{\"default\":\"\\u003c\u003c\u0026\",\"name\":\"a\",\"type\":\"string\"}]}"}'
        )
        assert headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
        assert "Authorization" not in headers
        subject = fresh()
        ours.schema(ours.register(subject, schema))
        assert [request[1] for request in before.seen[1:]] == [
            f"/subjects/{subject}/versions",
            f"/schemas/ids/{ours.register(subject, schema)}",
        ]

    def test_one_object_asks_once(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        ours, subject = open_registry(before.url), fresh()
        for _ in range(100):
            ours.schema(ours.register(subject, record(ID)))
        assert len(before.seen) == 2

    def test_credentials_are_decoded_and_sent_with_every_request(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        ours = open_registry(before.url.replace("://", "://us%40er:p%2Fw%3Ad@"))
        ours.check()
        ours.schema(ours.register(fresh(), record(ID)))
        assert {headers["Authorization"] for _, _, headers, _ in before.seen} == {"Basic dXNAZXI6cC93OmQ="}
        assert "p/w" not in repr(ours)
        assert "p%2Fw" not in repr(ours)

    def test_a_failing_server_is_asked_again(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        before.first = [(500, {}, "oops"), (503, {}, "")]
        assert int(open_registry(before.url).register(fresh(), record(ID))) > 0
        assert len(before.seen) == 3
        pauses = [after - before for before, after in itertools.pairwise(before.times)]
        assert 0.25 <= pauses[0] <= 1.0
        assert 0.375 <= pauses[1] <= 1.5

    def test_a_server_that_keeps_failing_is_given_up(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        before.first = [(500, {}, '{"error_code":50001,"message":"Error in the\\nbackend data store"}')] * 100
        with pytest.raises(Unreachable, match="fails with 500: Error in the backend data store"):
            open_registry(before.url, retry_for=1.5).register(fresh(), record(ID))
        assert len(before.seen) > 1

    @pytest.mark.parametrize(
        ("status", "kind"),
        [(409, SchemaRefused), (422, SchemaRefused), (401, RegistryError), (403, RegistryError)]
        + [(status, RegistryError) for status in (400, 404, 418, 429, 201, 204)],
    )
    def test_another_answer_is_final(self, relay: Callable[..., Relay], status: int, kind: type[Exception]) -> None:
        before = relay()
        before.first = [(status, {}, "" if status == 204 else '{"error_code":1,"message":"no, because"}')]
        words = f"HTTP {status}" if status in (401, 403, 204) else "no, because"
        with pytest.raises(kind, match=words) as error:
            open_registry(before.url).register(fresh(), record(ID))
        assert type(error.value) is kind
        assert len(before.seen) == 1

    @pytest.mark.parametrize("text", ["", "<html>", "[]", "{}", '{"id":0}', '{"id":"1"}', "null", '{"id":4294967296}'])
    def test_what_is_no_registry_is_said_so(self, relay: Callable[..., Relay], text: str) -> None:
        before = relay()
        before.first = [(200, {}, text)] * 2
        with pytest.raises(RegistryError, match="cannot be used"):
            open_registry(before.url).register(fresh(), record(ID))
        with pytest.raises(RegistryError, match="cannot be used"):
            open_registry(before.url).schema(1)

    @pytest.mark.parametrize("text", ['["a", null]', '[{"a": 1}]', "[1]", "[[]]", "[" * 200_000, "[" * 200 + "]" * 200])
    def test_lists_of_something_else_are_said_so(self, relay: Callable[..., Relay], text: str) -> None:
        before = relay()
        before.first = [(200, {}, text)]
        with pytest.raises(RegistryError, match="cannot be used"):
            Place(before.url).open().subjects()

    def test_a_page_is_no_registry(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        before.first = [(200, {}, "<html>Welcome</html>"), (404, {}, "<html>Nothing here</html>")]
        with pytest.raises(RegistryError, match=r"HTTP 404.*Nothing here"):
            open_registry(before.url).check()

    def test_the_check_that_ticdc_makes_is_enough(self, relay: Callable[..., Relay]) -> None:
        before = relay()
        before.first = [(200, {}, "{}")]
        open_registry(before.url).check()
        assert [path for _, path, _, _ in before.seen] == ["/"]

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_this_machine_is_asked_without_a_proxy(
        self, host: str, relay: Callable[..., Relay], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = relay()
        before.first = [(200, {}, "{}")]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_ports(1)[0]}")
        monkeypatch.delenv("no_proxy", raising=False)
        open_registry(before.url.replace("127.0.0.1", host)).check()

    def test_a_redirect_is_followed_without_credentials_elsewhere(self, relay: Callable[..., Relay]) -> None:
        first, second = relay(), relay()
        subject = fresh()
        elsewhere = second.url.replace("127.0.0.1", "localhost")
        path = f"/subjects/{subject}/versions"
        first.first = [
            (308, {"Location": f"{first.url}{path}"}, ""),
            (307, {"Location": f"{elsewhere}{path}"}, ""),
        ]
        open_registry(first.url.replace("://", "://cdc:hush@")).register(subject, record(ID))
        assert [request[0] for request in first.seen + second.seen] == ["POST"] * 3
        assert first.seen[0][3] == first.seen[1][3] == second.seen[0][3] != b""
        hush = "Basic " + base64.b64encode(b"cdc:hush").decode()
        assert [r[2].get("Authorization") for r in first.seen + second.seen] == [hush, hush, None]

    def test_credentials_go_to_no_other_port(self, relay: Callable[..., Relay]) -> None:
        first, second = relay(), relay()
        first.first = [(307, {"Location": f"{second.url}/subjects"}, "")]
        Place(first.url.replace("://", "://cdc:hush@")).open().subjects()
        assert ["Authorization" in request[2] for request in first.seen + second.seen] == [True, False]

    @pytest.mark.parametrize("elsewhere", ["https://127.0.0.1:1/x", "ftp://127.0.0.1:1/x"])
    def test_a_redirect_to_another_scheme_is_not_followed(self, relay: Callable[..., Relay], elsewhere: str) -> None:
        before = relay()
        before.first = [(302, {"Location": elsewhere}, "")]
        with pytest.raises(RegistryError, match=f"redirects from http:// to {elsewhere[:5].rstrip(':')}"):
            open_registry(before.url).schema(1)

    def test_redirects_share_the_time_of_one_request(self) -> None:
        def round_and_round(n: int) -> Iterator[bytes]:
            time.sleep(0.4)
            yield b"HTTP/1.1 307 Round\r\nContent-Length: 0\r\nLocation: /%d\r\n\r\n" % n

        with speaking(round_and_round) as (url, asked), pytest.raises(Unreachable, match="timed out"):
            open_registry(url, timeout=1.0, retry_for=0).schema(1)
        assert len(asked) == 3

    @pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
    def test_an_answer_that_drips_times_out_as_a_whole(self, head: bytes) -> None:
        sent = 0

        def drip(n: int) -> Iterator[bytes]:
            nonlocal sent
            yield head
            while sent < 100:  # ten seconds, of which each read takes a tenth
                time.sleep(0.1)
                sent += 1
                yield b" "

        with speaking(drip) as (url, _), pytest.raises(Unreachable, match="timed out"):
            open_registry(url, timeout=0.5, retry_for=0).schema(1)
        assert sent < 50

    def test_an_answer_without_end_is_cut(self) -> None:
        sent = 0

        def pour(n: int) -> Iterator[bytes]:
            nonlocal sent
            yield b"HTTP/1.1 200 OK\r\n\r\n"
            while sent < 200:
                sent += 1
                yield b" " * (1 << 20)

        with speaking(pour) as (url, _), pytest.raises(RegistryError, match="more than 16,777,216 bytes"):
            open_registry(url).schema(1)
        assert 16 <= sent < 100

    def test_an_answer_that_breaks_off_is_asked_for_again(self) -> None:
        def answer(n: int) -> Iterator[bytes]:
            yield b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n"
            yield b'{"schema": "long"}'[: 10 if n == 0 else 18]

        with speaking(answer) as (url, asked):
            assert text(open_registry(url).schema(1)) == "long"
        assert len(asked) == 2

    def test_wrong_credentials(self, secured_registry: SchemaRegistry) -> None:
        ours = open_registry(secured_registry.login_url)
        ours.check()
        assert text(open_registry(secured_registry.login_url).schema(ours.register(fresh(), record(ID)))) == record(ID)
        nobody, stranger = secured_registry.url, secured_registry.url.replace("://", "://alice:hush@")
        for url, words in ((nobody, "asks for credentials"), (stranger, "refuses the user or the password")):
            ours = open_registry(url)
            uses: list[Callable[[], object]] = [
                ours.check,
                partial(ours.register, fresh(), record(ID)),
                partial(ours.schema, 1),
            ]
            for use in uses:
                with pytest.raises(RegistryError, match=words) as error:
                    use()
                assert "hush" not in str(error.value)
                assert "\n" not in str(error.value)

    @pytest.mark.parametrize("status", [422, 500])
    @pytest.mark.parametrize(
        ("login", "parameter", "sent"),
        [("cdc:hu%2Fsh@", "", "Basic Y2RjOmh1L3No of hu/sh"), ("", "?bearer-token=tok3n", "Bearer tok3n")],
    )
    @pytest.mark.parametrize("form", ['{"message": "no: %s"}', "no: %s"])
    def test_a_registry_that_quotes_the_request_tells_no_secret(
        self, status: int, login: str, parameter: str, sent: str, form: str
    ) -> None:
        said = (form % sent).encode()

        def answer(_: int) -> Iterator[bytes]:
            yield b"HTTP/1.1 %d Oops\r\nContent-Length: %d\r\n\r\n%s" % (status, len(said), said)

        with speaking(answer) as (url, _), pytest.raises(TidecastError, match=r"no: (Basic|Bearer) xxxxx") as error:
            open_registry(url.replace("://", f"://{login}") + parameter, retry_for=0).register("t-value", record(ID))
        assert not re.search("Y2RjOmh1L3No|hu/sh|tok3n", str(error.value))

    def test_nobody_there(self) -> None:
        url = f"http://cdc:hush@127.0.0.1:{closed_port()}/path"
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer: Connection refused") as error:
            open_registry(url).check()
        assert time.monotonic() - began < 5
        assert "hush" not in str(error.value)
        assert "\n" not in str(error.value)
        with pytest.raises(Unreachable):
            open_registry(url, retry_for=1.0).register(fresh(), record(ID))
        assert 0.2 < time.monotonic() - began < 10

    def test_a_server_that_says_nothing_times_out(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(Unreachable, match="timed out"):
                open_registry(url, timeout=0.5, retry_for=0).register(fresh(), record(ID))

    def test_tls_trusts_what_the_system_trusts(
        self, relay: Callable[..., Relay], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority = Authority(tmp_path)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*authority.issue("registry"))
        before = relay(tls=tls)
        with pytest.raises(RegistryError, match="certificate is not trusted"):
            open_registry(before.url).check()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        trusting = open_registry(before.url.replace("://", "://cdc:p%40ss@"))
        trusting.check()
        trusting.register(fresh(), record(ID))
        assert before.seen[-1][2]["Authorization"] == "Basic " + base64.b64encode(b"cdc:p@ss").decode()

    def test_a_bearer_token_and_a_client_s_certificate(self, relay: Callable[..., Relay], tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*authority.issue("registry"))
        tls.load_verify_locations(authority.ca)
        tls.verify_mode = ssl.CERT_REQUIRED
        before = relay(tls=tls)
        cert, key = authority.issue("client")
        trusting = f"{before.url}?ca={authority.ca}"
        ours = open_registry(f"{trusting}&cert={cert}&key={key}&bearer-token=a.b%2Bc%3D")
        ours.check()
        schema_id = ours.register(fresh(), record(ID))
        assert text(open_registry(f"{trusting}&cert={cert}&key={key}").schema(schema_id)) == record(ID)
        assert [seen[2].get("Authorization") for seen in before.seen] == ["Bearer a.b+c="] * (len(before.seen) - 1) + [
            None
        ]
        assert not any("hush" in seen[1] or "?" in seen[1] for seen in before.seen)
        # The server's word that it wants a certificate may be lost when it ends the connection right behind it.
        with pytest.raises((RegistryError, Unreachable), match=r"(refuses the TLS|does not answer: ).*cert="):
            open_registry(trusting, retry_for=0).check()
        before.first = [(401, {}, "")]
        with pytest.raises(RegistryError, match="refuses the bearer token") as error:
            open_registry(f"{trusting}&cert={cert}&key={key}&bearer-token=hush").check()
        assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("hush=1", "none of bearer-token, ca, cert, key"),
        ("hush", "none of bearer-token, ca, cert, key"),
        ("cert=hush", "cert and key go together"),
        ("bearer-token=", "is empty"),
        ("bearer-token=hu%0Ash", "blank"),
        ("ca=/nowhere/ca.pem", "No such file"),
        ("cert=/nowhere/cert.pem&key=/nowhere/key.pem", "No such file"),
        (f"ca={__file__}", "not PEM"),
    ],
)
def test_parameters_of_a_registry_that_cannot_be(parameters: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        open_registry(f"https://registry.example.org/path?{parameters}")
    assert "hush" not in str(error.value)
    for url in ("https://cdc:hush@registry.example.org?bearer-token=hush", "http://registry.example.org?ca=/ca.pem"):
        with pytest.raises(ConfigError, match=r"to be sent|for https"):
            open_registry(url)


@contextmanager
def speaking(answer: Callable[[int], Iterator[bytes]]) -> Iterator[tuple[str, list[bytes]]]:
    """Answer each connection, by its number, with bytes as they are: what no HTTP server would say.

    Gives the URL and the requests.
    """
    asked: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    asked.append(connection.recv(1 << 16))
                    for part in answer(len(asked) - 1):
                        connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
