"""AWS Glue as the registry: Moto's server, and for what that cannot do, such as refusals, answers told beforehand."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
from botocore.session import Session  # type: ignore[import-untyped]
from differences import assert_messages_equal
from golden_data import lines, toml
from golden_events import GoldenEvents
from pyspark.sql import SparkSession
from servers import S3Server

import tidecast
from tidecast import functions
from tidecast._errors import ConfigError, RegistryError, SchemaRefused, Unreachable
from tidecast.registry import header, open_registry

pytestmark = pytest.mark.kafka

REGION, NAME = "eu-west-1", "ours"
KEYS = "access-key=AKIA1&secret-access-key=hush-hush"
URL = f"glue://{REGION}/{NAME}?{KEYS}"
TABLES = frozenset({("orc", "t_all"), ("orc", "t_evo_pk"), ("orc", "t_cpk")})


def record(*names: str) -> str:
    fields = [{"name": n, "type": {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}} for n in names]
    return json.dumps({"type": "record", "name": "t", "namespace": "default.test", "fields": fields})


def fresh() -> str:
    return f"t_{uuid4().hex}-value"


@pytest.fixture(scope="module")
def glue(s3: S3Server) -> Iterator[Any]:
    """Amazon's own client of a Glue that has our registry; ours goes to the same one."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL_GLUE", s3.url)
        client = Session().create_client("glue", REGION, aws_access_key_id="a", aws_secret_access_key="b")
        client.create_registry(RegistryName=NAME)
        yield client
        client.delete_registry(RegistryId={"RegistryName": NAME})


class TestRegistry:
    def test_a_schema_is_registered_as_ticdc_does_it(self, glue: Any) -> None:
        subject = fresh()
        ours = open_registry(URL)
        ours.check()
        schema_id = ours.register(subject, record("id"))
        assert isinstance(schema_id, UUID)
        found = glue.get_schema_version(SchemaVersionId=str(schema_id))
        assert (found["SchemaDefinition"], found["VersionNumber"]) == (record("id"), 1)
        made = glue.get_schema(SchemaId={"RegistryName": NAME, "SchemaName": subject})
        assert (made["DataFormat"], made["Compatibility"]) == ("AVRO", "NONE")
        assert header(schema_id) == bytes.fromhex("0300") + schema_id.bytes

    def test_a_text_that_is_there_keeps_its_id_and_another_is_a_new_version(self, glue: Any) -> None:
        subject = fresh()
        first = open_registry(URL).register(subject, record("id"))
        second = open_registry(URL).register(subject, record("other"))
        assert open_registry(URL).register(subject, record("id")) == first != second
        older, newer = (open_registry(URL).schema(i) for i in (first, second))
        assert older
        assert newer
        assert (older.text, newer.text) == (record("id"), record("other"))
        assert older.version < newer.version

    def test_versions_are_in_the_order_of_their_registration_also_across_subjects(self, glue: Any) -> None:
        reader = open_registry(URL)
        ids = [open_registry(URL).register(fresh(), record("id")) for _ in range(3)]
        versions = [found.version for found in map(reader.schema, ids) if found]
        assert sorted(set(versions)) == versions
        physical = datetime.fromtimestamp((versions[0] >> 18) / 1000, UTC)
        assert abs((datetime.now(UTC) - physical).total_seconds()) < 60

    def test_a_schema_that_was_made_anew_is_newer_than_all_its_versions_were(self, glue: Any) -> None:
        subject = fresh()
        old = [open_registry(URL).register(subject, record(f"c{n}")) for n in range(3)]
        before = [found.version for found in map(open_registry(URL).schema, old) if found]
        glue.delete_schema(SchemaId={"RegistryName": NAME, "SchemaName": subject})
        anew = open_registry(URL).schema(open_registry(URL).register(subject, record("id")))
        assert anew
        assert before == sorted(set(before))
        assert anew.version > before[-1]

    def test_an_id_that_nobody_has(self, glue: Any) -> None:
        assert open_registry(URL).schema(uuid4()) is None

    def test_a_registry_that_is_not_there(self, glue: Any) -> None:
        with pytest.raises(RegistryError, match=r"does not exist.*create it") as error:
            open_registry(f"glue://{REGION}/typo?{KEYS}").check()
        assert "hush" not in str(error.value)

    def test_what_the_owner_of_a_schema_set_is_kept(self, glue: Any) -> None:
        subject = fresh()
        glue.create_schema(
            RegistryId={"RegistryName": NAME},
            SchemaName=subject,
            DataFormat="AVRO",
            Compatibility="BACKWARD_ALL",
            SchemaDefinition=record("id"),
        )
        ours = open_registry(URL)
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(ours.refusal(subject, record("id", "more")))
        assert ours.refusal(subject, record("id")) is None
        assert ours.refusal(fresh(), record("id")) is None

    def test_without_keys_those_of_the_environment_are_used(self, glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, "/nowhere")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        bare = f"glue://{REGION}/{NAME}"
        with pytest.raises(RegistryError, match="Unable to locate credentials"):
            open_registry(bare).check()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        open_registry(bare).check()


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("glue:///ours", "its host is no region"),
        ("glue://eu-west-1", "it names no registry"),
        ("glue://eu-west-1/ours?access-key=AKIA1", "one key is given without the other"),
        ("glue://eu-west-1/ours?token=hush", "a token is given without its keys"),
        ("glue://eu-west-1/ours?access-key=&secret-access-key=hush", "a parameter is empty"),
        ("glue://[/ours", "its host is no region"),
        ("glue://eu-west-1℀/ours", "its host is no region"),
        ("glue://eu-west-1/our%20s", "no registry has such a name"),
        ("glue://eu-west-1/ours?access-key=A&secret-access-key=hush%0A", "a parameter has a blank, a line break or"),
        ("glue://eu-west-1/ours?hush=1", "a parameter is none of access-key, secret-access-key, token"),
    ],
)
def test_a_url_that_is_none(url: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        open_registry(url)
    assert "hush" not in str(error.value)


Told = tuple[int, Any]


def fault(code: str, words: str = "") -> Told:
    return (503 if "Unavailable" in code else 400), {"__type": code, "Message": words}


VERSION = str(uuid4())
NO_SUCH = fault("EntityNotFoundException", "Schema is not found.")
MADE: Told = 200, {"SchemaVersionId": VERSION, "SchemaVersionStatus": "AVAILABLE"}


@contextmanager
def telling(
    monkeypatch: pytest.MonkeyPatch, told: Sequence[Told], signed: list[str] | None = None
) -> Iterator[list[str]]:
    """A server that gives these answers in turn; yields the operations that it was asked for.

    It adds to `signed` how each request was.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = told[len(asked)]
            asked.append(self.headers["X-Amz-Target"].partition(".")[2])
            if signed is not None:
                signed.append(self.headers["Authorization"])
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "kind", "words"),
        [
            (fault("AccessDeniedException", "not authorized"), RegistryError, "does not allow it: not authorized"),
            (fault("UnrecognizedClientException"), RegistryError, "refuses the AWS credentials"),
            (fault("ExpiredTokenException"), RegistryError, "refuses the AWS credentials"),
            (fault("ThrottlingException", "Rate exceeded"), Unreachable, "Rate exceeded"),
            (fault("ServiceUnavailable"), Unreachable, "ServiceUnavailable"),
            (fault("GlueEncryptionException"), RegistryError, "GlueEncryptionException"),
        ],
    )
    def test_faults(self, monkeypatch: pytest.MonkeyPatch, answer: Told, kind: type[Exception], words: str) -> None:
        with telling(monkeypatch, [answer]), pytest.raises(kind, match=words):
            open_registry(URL).check()

    def test_what_was_signed_is_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        quoted = fault("InvalidSignatureException", "The Canonical String should have been x-amz-security-token:hush")
        with telling(monkeypatch, [quoted]), pytest.raises(RegistryError) as error:
            open_registry(URL).check()
        assert "hush" not in str(error.value)

    def test_a_plus_in_a_key_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        signed: list[str] = []
        with telling(monkeypatch, [(200, {"Status": "AVAILABLE"})], signed):
            open_registry(f"glue://{REGION}/{NAME}?access-key=AK+A&secret-access-key=hu+s/h&token=a+b").check()
        assert "Credential=AK+A/" in signed[0]
        assert "x-amz-security-token" in signed[0]

    @pytest.mark.parametrize(
        "answer", [{}, {"SchemaVersionId": "zz", "Status": "AVAILABLE"}, {"SchemaVersionId": 1, "Status": 2}, [1], 1]
    )
    def test_answers_that_are_none(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        with telling(monkeypatch, [(200, {}), (200, answer)]), pytest.raises(RegistryError, match="gives an "):
            open_registry(URL).register("t-value", record("id"))
        with telling(monkeypatch, [(200, answer)]), pytest.raises(RegistryError, match="gives an answer"):
            open_registry(URL).schema(uuid4())

    def test_an_endpoint_that_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "localhost:5000")
        with pytest.raises(ConfigError, match="Invalid endpoint"):
            open_registry(URL).check()

    def test_a_time_that_nobody_reads_orders_nothing(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        version = {"SchemaDefinition": "{}", "VersionNumber": 7, "SchemaArn": "arn:aws:glue:eu-west-1:1:schema/ours/t"}
        with telling(monkeypatch, [(200, version), (200, {"CreatedTime": "yesterday"})]):
            assert open_registry(URL).schema(uuid4()) == ("{}", 7)
        assert "nothing tells when schema arn:aws:glue" in caplog.text

    def test_nobody_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
        with pytest.raises(Unreachable, match="Could not connect"):
            open_registry(URL).check()

    def test_one_that_has_too_much_to_do_is_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = [fault("ThrottlingException"), NO_SUCH, fault("ThrottlingException"), MADE]
        with telling(monkeypatch, told) as asked:
            assert open_registry(URL).register("t-value", record("id")) == UUID(VERSION)
        assert asked == ["GetSchemaVersion", "GetSchemaVersion", "CreateSchema", "CreateSchema"]

    def test_two_may_register_the_first_version_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: Told = 200, {"SchemaVersionId": VERSION, "Status": "AVAILABLE", "VersionNumber": 1}
        with telling(monkeypatch, [NO_SUCH, fault("AlreadyExistsException"), made]) as asked:
            assert open_registry(URL).register("t-value", record("id")) == UUID(VERSION)
        assert asked == ["GetSchemaVersion", "CreateSchema", "RegisterSchemaVersion"]

    def test_a_version_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pending: Told = 200, {"SchemaVersionId": VERSION, "Status": "PENDING", "VersionNumber": 2}
        ready: Told = 200, {"SchemaVersionId": VERSION, "Status": "AVAILABLE"}
        with telling(monkeypatch, [ready, pending, pending, ready]) as asked:
            assert open_registry(URL).register("t-value", record("id")) == UUID(VERSION)
        assert asked == ["GetSchemaVersion", "RegisterSchemaVersion", "GetSchemaVersion", "GetSchemaVersion"]

    @pytest.mark.parametrize(
        ("told", "words"),
        [
            ([(200, {}), (200, {"SchemaVersionId": VERSION, "Status": "FAILURE"})], "the version is FAILURE"),
            ([NO_SUCH, fault("InvalidInputException", "Schema definition is not valid")], "definition is not valid"),
        ],
    )
    def test_a_schema_that_is_refused(self, monkeypatch: pytest.MonkeyPatch, told: list[Told], words: str) -> None:
        with telling(monkeypatch, told), pytest.raises(SchemaRefused, match=words) as error:
            open_registry(URL).register("t-value", record("id"))
        assert error.value.where == "subject t-value"


def read_from(folder: Path) -> str:
    return f"{(folder / 'shop').as_uri()}?protocol=avro&topics=.*"


@pytest.fixture(scope="module")
def folder(
    glue: Any,
    golden: Callable[[str], Path],
    decoded: GoldenEvents,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The golden rows of some tables as topics, written with a changefeed file that names the registry."""
    folder = tmp_path_factory.mktemp("glue")
    suite = json.loads(golden("suite.json").read_text())
    options = next(f["options"] for f in suite["files"] if f.get("variant") == "avro-checksum")
    own = f'registry-name = "{NAME}"\nregion = "{REGION}"\naccess-key = "AKIA1"\nsecret-access-key = "hush-hush"\n'
    config = folder / "changefeed.toml"
    config.write_text(f"{toml(options)}[sink.kafka-config.glue-schema-registry-config]\n{own}")
    parameters = "&".join(f"{name}={value}" for name, value in options["uri_params"].items())
    sink = f"file://{folder}/topics/shop?protocol=avro&format=jsonl&partition-num=3&{parameters}"
    events = decoded("simple-json-checksum", TABLES).events
    result = tidecast.convert(events, sink, config=str(config), tz=suite["time_zone"])
    assert not result.dead_letters
    return folder / "topics"


class TestMessages:
    def test_they_are_ticdc_s_behind_another_framing(
        self, folder: Path, glue: Any, golden: Callable[[str], Path]
    ) -> None:
        golden_schemas = {s["id"]: s["schema"] for s in lines(golden("avro-checksum.schemas.jsonl.gz"))}

        def of_glue(text: str | None) -> tuple[str, bytes] | None:
            if text is None:
                return None
            data = base64.b64decode(text)
            assert data[:2] == b"\3\0"
            found = glue.get_schema_version(SchemaVersionId=str(UUID(bytes=data[2:18])))
            return found["SchemaDefinition"], data[18:]

        def of_confluent(text: str | None) -> tuple[str, bytes] | None:
            data = base64.b64decode(text) if text else None
            return (golden_schemas[int.from_bytes(data[1:5])], data[5:]) if data else None

        files = sorted(folder.glob("*/*.jsonl.gz"))
        got = [(m["topic"], m["partition"], of_glue(m["key"]), of_glue(m["value"])) for f in files for m in lines(f)]
        messages = [m for m in lines(golden("avro-checksum.jsonl.gz")) if (m["db"], m["table"]) in TABLES]
        messages.sort(key=lambda m: (m["topic"], m["partition"]))
        want = [(m["topic"], m["partition"], of_confluent(m["key"]), of_confluent(m["value"])) for m in messages]
        assert_messages_equal(dict(enumerate(got)), dict(enumerate(want)), dict(enumerate(messages)))

    def test_they_are_read_and_applied(
        self, folder: Path, spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
    ) -> None:
        topics = read_from(folder)
        zone = json.loads(golden("suite.json").read_text())["time_zone"]
        options: dict[str, Any] = {"schema_registry": URL, "tz": zone, "spark": spark}
        verified = tidecast.verify(topics, **options)
        assert verified.verdicts["match"] > 0
        assert verified.verdicts["mismatch"] == verified.corrupted > 0  # the golden stream has some on purpose
        assert not verified.dead_letters
        replicated = tidecast.replicate(topics, str(tmp_path / "tables"), **options)
        assert replicated.dead_letters == {"checksum-mismatch": verified.corrupted}
        evolved = spark.read.format("delta").load(str(tmp_path / "tables/orc/t_evo_pk"))
        with tidecast.read(spark, topics, schema_registry=URL, tz=zone) as events:
            versions = {t.schema.version: t.schema for t in events.tables if t.schema.table == "t_evo_pk"}
        assert len(versions) > 1
        assert evolved.columns == [c.name for c in versions[max(versions)].columns]

    def test_one_is_explained_and_read_by_a_function(self, folder: Path, spark: SparkSession) -> None:
        (file, *_) = sorted(folder.glob("*t_cpk*/*.jsonl.gz"))
        value = next(base64.b64decode(m["value"]) for m in lines(file) if m["value"])
        (shown,) = tidecast.inspect(hex=value.hex(), schema_registry=URL, tz="UTC")
        schema_id = UUID(bytes=value[2:18])
        assert (shown.table, shown.value_schema_id, shown.verdict) == ("orc.t_cpk", str(schema_id), "match")
        found = open_registry(URL).schema(schema_id)
        assert found
        given = spark.createDataFrame([(value,)], "value binary")
        rows = {
            of: given.select(functions.from_ticdc_avro("value", found.text, schema_id=of, tz="UTC")["op"]).first()
            for of in (schema_id, uuid4(), 1)
        }
        assert [row and row[0] for row in rows.values()] == ["c", None, None]

    def test_another_registry_s_messages_are_refused(self, folder: Path, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "confluent").mkdir()
        registry = (tmp_path / "confluent").as_uri()
        with tidecast.read(spark, read_from(folder), schema_registry=registry, tz="UTC") as events:
            causes = events.rejected.select("reason", "detail").distinct().collect()
        assert [tuple(row) for row in causes] == [("bad-magic-byte", "begins with 03, not with 00")]
