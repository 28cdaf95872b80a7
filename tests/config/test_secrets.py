"""Secrets by reference: looked up for whoever runs the program, refused to clients of the server, never shown."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from feed_server import QUICK, until
from memory_runner import MemoryRunner

from tidecast._errors import ConfigError, TerminalError, TidecastError
from tidecast._secrets import check_reference, resolved_uri, without_looked_up
from tidecast._uri import masked_sink_uri, parse_place, redact_uri
from tidecast.api import TopicSource, serve
from tidecast.changefeed import Changefeeds, ChangefeedSpec, State
from tidecast.config import load_config
from tidecast.replica import Settings
from tidecast.server import Access

VALUE = "s3 cret/+%@:é"
CODED = "s3%20cret%2F%2B%25%40%3A%C3%A9"
KAFKA = "kafka://127.0.0.1:9092/t?protocol=simple&sasl-mechanism=plain&sasl-user=alice"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that holds the secret, as the variable SECRET does."""
    monkeypatch.setenv("SECRET", VALUE)
    path = tmp_path / "password"
    path.write_text(f"{VALUE}\n")
    return path


def test_where_a_uri_may_have_references(file: Path) -> None:
    for before, after in (
        (f"{KAFKA}&sasl-password=env:SECRET", f"{KAFKA}&sasl-password={CODED}"),
        (f"{KAFKA}&sasl-password=file%3A{file}#x", f"{KAFKA}&sasl-password={CODED}#x"),
        (f"{KAFKA}&sasl-password=file://{file}&x=env:SECRET", f"{KAFKA}&sasl-password={CODED}&x=env:SECRET"),
        ("http://alice:env:SECRET@host:8081/path", f"http://alice:{CODED}@host:8081/path"),
        (f"http://al%40ce:file:{file}@host", f"http://al%40ce:{CODED}@host"),
        ("http://env:SECRET:env%3ASECRET@host", f"http://{CODED}:{CODED}@host"),
        ("https://host?bearer-token=env:SECRET&ca=env:SECRET", f"https://host?bearer-token={CODED}&ca=env:SECRET"),
        ("mysql://root:env:SECRET@host/shop", f"mysql://root:{CODED}@host/shop"),
        (
            "file:///t?protocol=avro&schema-registry=http%3A%2F%2Fcdc%3Aenv%3ASECRET%40host",
            f"file:///t?protocol=avro&schema-registry=http%3A%2F%2Fcdc%3A{CODED.replace('%', '%25')}%40host",
        ),
    ):
        assert resolved_uri(before) == after
        assert VALUE not in redact_uri(after)
        assert resolved_uri(after) == after  # a value is no reference
        for shown in (redact_uri(before), masked_sink_uri(before)):
            assert "/password" not in shown
    for unchanged in (
        "file:/t/topic",
        "t/topic?protocol=simple",
        "http://cdc:p@ss%zz@host:1",
        "https://env:SECRET@host",
        f"{KAFKA}&sasl-oauth-token-url=file:{file}&claim-check-storage-uri=s3://a:env:SECRET@b",
    ):
        assert resolved_uri(unchanged) == unchanged


def test_a_secret_that_is_not_there_is_named_and_none_is_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    (binary := file.with_name("binary")).write_bytes(b"\xff")
    (large := file.with_name("large")).write_bytes(b"x" * 65_537)
    for reference, words in (
        ("env:NO_SUCH", "sasl-password: the environment variable NO_SUCH is not set"),
        ("env:EMPTY", "sasl-password=env:EMPTY: .*is empty"),
        ("env:hu-sh", "sasl-password: what follows env: is no name"),
        ("file:hush", "sasl-password: what follows file: is no absolute path"),
        ("file:/no/such", "sasl-password, /no/such: .*No such file"),
        (f"file:{file.parent}", "directory"),
        (f"file:{binary}", "not UTF-8"),
        (f"file:{large}", "at most 65,536 bytes"),
    ):
        with pytest.raises(ConfigError, match=words) as error:
            load_config(f"{KAFKA}&sasl-password={reference}")
        assert "hush" not in str(error.value)
        assert "hu-sh" not in str(error.value)
    with pytest.raises(ConfigError, match="--allow-secret: this is no reference"):
        check_reference("hush", "--allow-secret")


def test_whoever_runs_the_program_may_refer(file: Path, tmp_path: Path) -> None:
    toml = tmp_path / "feed.toml"
    toml.write_text(
        f"""
        [sink]
        schema-registry = "http://cdc:env:SECRET@host"
        [sink.kafka-config]
        sasl-password = "file:{file}"
        large-message-handle = {{ claim-check-storage-uri = "file:{tmp_path}" }}
        """
    )
    config = load_config(KAFKA.replace("simple", "avro"), toml)
    assert (
        config.kafka.sasl_password == parse_place(f"file:///t?sasl-password={CODED}").params["sasl-password"] == VALUE
    )
    assert config.schema_registry == f"http://cdc:{CODED}@host"
    assert config.large_message_handle.claim_check_storage_uri.get_secret_value() == f"file:{tmp_path}"
    flag = load_config(KAFKA.replace("simple", "avro"), schema_registry="http://cdc:env:SECRET@flag")
    assert flag.schema_registry == f"http://cdc:{CODED}@flag"
    source = TopicSource.check(f"{KAFKA}&sasl-password=env:SECRET", schema_registry=None, tz="UTC")
    assert parse_place(source.uri).params["sasl-password"] == VALUE
    assert VALUE not in repr(config)
    assert CODED not in redact_uri(source.uri)
    assert without_looked_up(f"no {VALUE} here") == "no xxxxx here"

    said = """[[mask]]
    matcher = ["*.*"]
    columns = ["*"]
    action = "hash"
    salt = "SALT"
    """
    masks = [tmp_path / name for name in ("one.toml", "other.toml")]
    for path, salt in zip(masks, ("env:SECRET", VALUE), strict=True):
        path.write_text(said.replace("SALT", salt), encoding="utf-8")
    texts = [[rule.text for rule in Settings.read(path).masks._rules] for path in masks]
    assert texts[0] == texts[1]

    (users := tmp_path / "users.toml").write_text(f'ann = "file:{file}"')
    assert Access.of({"bob": "env:SECRET"}, str(users), ca=None, cert=None, key=None).users == {
        "ann": VALUE,
        "bob": VALUE,
    }


def test_clients_of_a_server_may_refer_to_nothing_but_what_is_allowed(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidecast")
    (shown := tmp_path / "shown").write_text("hush")
    sink = "kafka://127.0.0.1:9092/topic?protocol=simple"
    avro = sink.replace("simple", "avro")

    def kafka(**settings: str) -> dict[str, object]:
        return {"sink": {"kafka_config": {"sasl_mechanism": "PLAIN", "sasl_user": "alice", **settings}}}

    refused = [
        ChangefeedSpec("up", f"{KAFKA}&sasl-password=file:{shown}"),
        ChangefeedSpec("up", f"{KAFKA}&sasl-password=env:PATH"),
        ChangefeedSpec("up", f"{KAFKA}&sasl-password=file:{file}x"),
        ChangefeedSpec("up", sink, kafka(sasl_password=f"file:{shown}")),
        ChangefeedSpec("up", avro, {"sink": {"schema_registry": f"http://cdc:file:{shown}@host"}}),
        ChangefeedSpec("up", avro, {"sink": {"schema_registry": "http://env:PATH:x@host"}}),
        ChangefeedSpec("up", f"{avro}&schema-registry=http%3A%2F%2Fhost%3Fbearer-token%3Denv%3APATH"),
    ]
    iam = "&sasl-mechanism=AWS_MSK_IAM&enable-tls=true"  # the server's own identity is such a secret
    not_amazon = [
        ChangefeedSpec("up", sink.replace("127.0.0.1", host) + iam)
        for host in ("b-1.c.kafka.us-east-1.amazonaws.com.example.org", "x:1,b-1.c.kafka.us-east-1.amazonaws.com")
    ]
    amazon = sink.replace("127.0.0.1", "b-1.c.kafka.us-east-1.amazonaws.com")
    for secrets in ((), ("env:SECRET", f"file:{file}")):
        feeds = Changefeeds(tmp_path / "feeds", MemoryRunner(), timing=QUICK, secrets=secrets)
        for spec in refused:
            for ask in (partial(feeds.create, spec), partial(feeds.verify, spec.sink_uri, spec.config)):
                with pytest.raises(TidecastError, match="may not use this reference") as caught:
                    ask()
                assert caught.value.code == "CDC:ErrAPIInvalidParam"
                assert "hush" not in str(caught.value)
        for spec in [*not_amazon, ChangefeedSpec("up", amazon + iam.replace("true", "false"))]:
            with pytest.raises(TidecastError, match="with brokers of Amazon MSK alone"):
                feeds.create(spec)
        feeds.verify(amazon + iam, None)
        feeds.close(30)
    runner = MemoryRunner()
    feeds = Changefeeds(tmp_path / "feeds", runner, timing=QUICK, secrets=("env:SECRET", f"file:{file}"))
    feeds.create(ChangefeedSpec("up", f"{KAFKA}&sasl-password=env:SECRET"))
    feeds.create(ChangefeedSpec("file", sink, kafka(sasl_password=f"file:{file}")))
    stored = (tmp_path / "feeds" / "up" / "feed.json").read_text()
    assert "sasl-password=env:SECRET" in json.loads(stored)["sink_uri"]
    feeds.pause("up")
    with pytest.raises(TidecastError, match="may not use this reference"):
        feeds.update("up", replace(refused[0], id=""))
    runner.errors["up"] = [TerminalError(f"refused {VALUE}")]
    feeds.resume("up")
    until(lambda: feeds.get("up").feed.state is State.FAILED)
    problem = feeds.get("up").error
    assert problem
    assert "refused xxxxx" in problem.message
    feeds.close(30)
    assert VALUE not in caplog.text
    feeds = Changefeeds(tmp_path / "feeds", MemoryRunner(), timing=QUICK)  # allowed no longer
    until(lambda: feeds.get("file").feed.state is State.FAILED)
    problem = feeds.get("file").error
    assert problem
    assert "--allow-secret" in problem.message
    feeds.close(30)
    with pytest.raises(ConfigError, match="--allow-secret: the environment variable NO_SUCH is not set"):
        serve("file:///t?protocol=simple", data_dir=str(tmp_path / "d"), allow_secret=["env:NO_SUCH"])
