"""Storages by the URIs that TiCDC's documents show: names of schemes, credentials, endpoints."""

from __future__ import annotations

import os
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.request import Request, urlopen

import pytest
from pyspark.sql import SparkSession
from servers import S3Server

from tidecast._errors import ConfigError, Unreachable
from tidecast._uri import parse_place, redact_uri
from tidecast.config import build_config
from tidecast.runtime import command_settings
from tidecast.sources._progress import may_be_same, source_name
from tidecast.storage import RemotePath, _open, path_of, replace_file, spark_output, storage_path
from tidecast.storage._uri_settings import UriSettings

_HOST = "acc.dfs.core.windows.net"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("uri", "root", "hadoop", "driver"),
    [
        ("s3://b/f", "s3://b", {}, {}),
        (
            "s3://b?access-key=A&secret-access-key=S&session-token=T&region=eu-west-1",
            "s3://b",
            {"access.key": "A", "secret.key": "S", "session.token": "T", "endpoint.region": "eu-west-1"},
            {},
        ),
        (
            "s3a://b/f?endpoint=http://h:9000",
            "s3a://b",
            {"endpoint": "http://h:9000", "path.style.access": "true", "endpoint.region": "us-east-1"},
            {},
        ),
        (
            "s3://b/f?endpoint=https://h&force-path-style=false&region=",
            "s3://b",
            {"endpoint": "https://h", "path.style.access": "false", "endpoint.region": "us-east-1"},
            {},
        ),
        (
            "s3://b/f?Access_Key=A&SECRET-ACCESS-KEY=a%2Fb+c&force-path-style=1",
            "s3://b",
            {"access.key": "A", "secret.key": "a/b+c", "session.token": "", "path.style.access": "true"},
            {},
        ),
        ("gcs://b/f", "gs://b", {}, {}),
        (
            "azblob://c/f?account-name=acc&account-key=K",
            f"abfss://c@{_HOST}",
            {f"fs.azure.account.key.{_HOST}": "K"},
            {"account_key": "K"},
        ),
        (
            "azure://c/f?account-name=acc&sas-token=S",
            f"abfss://c@{_HOST}",
            {f"fs.azure.account.auth.type.{_HOST}": "SAS", f"fs.azure.sas.fixed.token.{_HOST}": "S"},
            {"sas_token": "S"},
        ),
        ("hdfs://name:8020/f?access-key=A", "hdfs://name:8020", {}, {}),
    ],
)
def test_what_a_uri_says(uri: str, root: str, hadoop: dict[str, str], driver: dict[str, Any]) -> None:
    place = parse_place(uri)
    said = UriSettings.of(place.root, place.params)
    of_bucket = {name.removeprefix("fs.s3a.bucket.b."): value for name, value in said.hadoop.items()}
    assert (place.root, of_bucket, said.driver) == (root, hadoop, driver)
    secrets = {*place.params.values()} & {"A", "S", "T", "K", "a/b+c"}
    assert not [text for text in secrets if f"={text}" in redact_uri(uri)]
    assert "a%2F" not in redact_uri(uri)
    assert not [text for text in secrets if f"'{text}'" in repr(said)]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://b/f?access-key=SECRET", "access-key and secret-access-key belong together"),
        ("s3://b/f?role-arn=arn:aws:iam::1:role/r", "role-arn has no effect here"),
        ("s3://b/f?use-accelerate-endpoint=true", "use-accelerate-endpoint has no effect here"),
        ("s3://b/f?force-path-style=maybe", "force-path-style: 'maybe' is no truth value"),
        ("s3://b/f?endpoint=127.0.0.1:9000", "endpoint is no address of a store"),
        ("s3://b/f?endpoint=http://u:SECRET@h", "endpoint is no address of a store"),
        ("azblob://c/f?account-name=acc&endpoint=http://h", "endpoint has no effect here"),
        ("gs://b/f?credentials-file=/k.json", "credentials-file has no effect here"),
    ],
)
def test_what_cannot_be_had_is_refused(uri: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        path_of(parse_place(uri))
    assert caught.value.code == "CDC:ErrStorageSinkInvalidConfig"
    assert "SECRET" not in str(caught.value)


@pytest.mark.unit
def test_places_that_are_none_are_refused() -> None:
    for uri in ("azure://c/f", "gcs:///f", "azblob:///f?account-name=acc", "azure://c/f?account-name=a@evil/"):
        with pytest.raises(ConfigError, match="this is no place on a storage"):
            parse_place(uri)
    with pytest.raises(ConfigError, match="abfss://container@ACCOUNT"):
        storage_path("azblob://c/folder", "--to")


@pytest.mark.unit
def test_a_sink_says_what_it_does_not_do() -> None:
    for name in ("sse=AES256", "storage-class=STANDARD_IA", "acl=private"):
        with pytest.raises(ConfigError, match=f"{name.partition('=')[0]} has no effect here"):
            build_config(f"s3://b/f?protocol=csv&{name}", {})


@pytest.mark.unit
def test_a_whole_bucket_is_a_sink_of_files_alone() -> None:
    assert build_config("s3://b?endpoint=http://h:9000", {"sink": {"protocol": "csv"}}).storage_sink
    for uri in ("s3://b?protocol=simple", "s3://b?protocol=canal-json&layout=topics"):
        with pytest.raises(ConfigError, match="no topic is specified in sink-uri"):
            build_config(uri, {})


@pytest.mark.unit
def test_no_other_token_belongs_to_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_open, "running_session", lambda: None)
    with command_settings({"spark.hadoop.fs.s3a.session.token": "TTTT", "spark.hadoop.fs.s3a.endpoint": "http://h:1"}):
        plain, keyed = (
            path_of(parse_place(f"s3://{uuid.uuid4().hex}/f?{said}"))
            for said in ("", "access-key=AAAA&secret-access-key=SSSS")
        )
    assert isinstance(plain, RemotePath)
    assert isinstance(keyed, RemotePath)
    found = [{name: one.store.options.get(name) for name in ("token", "endpoint_url")} for one in (plain, keyed)]
    assert found == [{"token": "TTTT", "endpoint_url": "http://h:1"}, {"token": None, "endpoint_url": "http://h:1"}]


@pytest.mark.unit
def test_a_whole_bucket_is_one_source() -> None:
    name = source_name(parse_place("s3://b?protocol=csv&endpoint=http://h:9000"))
    assert name == source_name(parse_place("s3a://b/?protocol=csv")) == "s3a://b"
    assert not may_be_same(name, source_name(parse_place("s3://b/other?protocol=csv")))


@pytest.mark.unit
def test_a_folder_is_in_another_however_the_scheme_is_written() -> None:
    inner, outer = storage_path("s3://b/f/g", "--to"), storage_path("s3a://b/f", "--to")
    assert isinstance(inner, RemotePath)
    assert isinstance(outer, RemotePath)
    assert inner.is_relative_to(outer)
    assert inner.relative_to(outer) == "g"
    assert not inner.is_relative_to(storage_path("s3a://bb/f", "--to"))


class _Locked(BaseHTTPRequestHandler):
    """A store that lets nobody in."""

    def do_HEAD(self) -> None:
        self.send_error(403)

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.unit
def test_a_sink_that_lets_nobody_in_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server = HTTPServer(("127.0.0.1", 0), _Locked)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"endpoint=http://127.0.0.1:{server.server_port}&access-key=AAAA&secret-access-key=SSSS"
        sink = build_config(f"s3://b/f?protocol=csv&{place}", {}).open_sink()
        with pytest.raises(ConfigError, match="the folder cannot be read") as caught:
            sink.ensure("f")
        assert "SSSS" not in str(caught.value)
        server.shutdown()
    with pytest.raises(Unreachable, match="does not answer"):
        sink.ensure("f")


def test_a_bucket_has_one_identity(spark: SparkSession) -> None:
    """Hadoop keeps to what it is told first: nobody reads or writes with another one's credentials."""
    base = f"s3://{uuid.uuid4().hex}"
    first = path_of(parse_place(f"{base}/f?endpoint=http://h:1&access-key=AAAA&secret-access-key=SSSS"))
    again = path_of(parse_place(f"{base}/g?secret-access-key=SSSS&access-key=AAAA&endpoint=http://h:1"))
    other = path_of(parse_place(f"{base}/f?endpoint=http://h:1&access-key=BBBB&secret-access-key=SSSS"))
    assert spark_output(first).startswith("s3a://")
    assert spark_output(again).endswith("/g")
    plain = storage_path(f"{base}/f", "--to")
    assert isinstance(plain, RemotePath)
    assert not plain.store.options.keys() & {"key", "secret", "endpoint_url"}
    for path in (other, plain):
        with pytest.raises(ConfigError, match="other credentials or another endpoint") as caught:
            spark_output(path)
        assert "SSSS" not in str(caught.value)
    assert isinstance(first, RemotePath)
    for name in first.store.hadoop:
        spark.conf.unset(name)


def test_credentials_of_a_uri_reach_the_store_and_spark(
    spark: SparkSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    bucket = uuid.uuid4().hex
    urlopen(Request(f"{s3.url}/{bucket}", method="PUT")).close()
    uri = f"s3://{bucket}/folder?protocol=csv&endpoint={s3.url}"
    path = path_of(parse_place(f"{uri}&access-key={s3.key}&secret-access-key={s3.secret}"))
    assert isinstance(path, RemotePath)
    replace_file(path / "file", b"1")
    assert (path / "file").read_bytes() == b"1"
    assert s3.secret not in repr(path)
    of_bucket = f"fs.s3a.bucket.{bucket}"
    try:
        assert spark_output(path) == f"s3a://{bucket}{path.path}"
        told = {name: spark.conf.get(f"{of_bucket}.{name}", None) for name in ("endpoint", "access.key", "secret.key")}
        assert told == {"endpoint": s3.url, "access.key": s3.key, "secret.key": s3.secret}
    finally:
        for name in path.store.hadoop:
            spark.conf.unset(name)
