"""Storages by the URIs that TiCDC's documents show: names of schemes, credentials, endpoints."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from pyspark.sql import SparkSession
from servers import S3Server

from tidecast._errors import ConfigError
from tidecast._uri import parse_place, redact_uri
from tidecast.config import build_config
from tidecast.storage import RemotePath, path_of, replace_file, spark_output, storage_path
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
        ("gcs://b/f", "gs://b", {}, {}),
        (
            "gs://b/f?credentials-file=/k.json",
            "gs://b",
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/k.json",
            },
            {"token": "/k.json"},
        ),
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
    secrets = {*place.params.values()} & {"A", "S", "T", "K", "/k.json"}
    assert not [text for text in secrets if f"={text}" in redact_uri(uri).replace("credentials-file=/k.json", "")]
    assert not [text for text in secrets if f"'{text}'" in repr(said)]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://b/f?access-key=SECRET", "access-key and secret-access-key belong together"),
        ("s3://b/f?role-arn=arn:aws:iam::1:role/r", "role-arn has no effect here"),
        ("s3://b/f?use-accelerate-endpoint=true", "use-accelerate-endpoint has no effect here"),
    ],
)
def test_what_cannot_be_had_is_refused(uri: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        path_of(parse_place(uri))
    assert caught.value.code == "CDC:ErrStorageSinkInvalidConfig"
    assert "SECRET" not in str(caught.value)


@pytest.mark.unit
def test_places_that_are_none_are_refused() -> None:
    for uri in ("azure://c/f?protocol=csv", "gcs:///f?protocol=csv", "azblob:///f?account-name=a"):
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


def test_credentials_of_a_uri_reach_the_store_and_spark(
    spark: SparkSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    uri = f"s3://{s3.bucket}/{uuid.uuid4().hex}?protocol=csv&endpoint={s3.url}"
    path = path_of(parse_place(f"{uri}&access-key={s3.key}&secret-access-key={s3.secret}"))
    assert isinstance(path, RemotePath)
    replace_file(path / "file", b"1")
    assert (path / "file").read_bytes() == b"1"
    assert s3.secret not in repr(path)
    of_bucket = f"fs.s3a.bucket.{s3.bucket}"
    try:
        assert spark_output(path) == f"s3a://{s3.bucket}{path.path}"
        told = {name: spark.conf.get(f"{of_bucket}.{name}", None) for name in ("endpoint", "access.key", "secret.key")}
        assert told == {"endpoint": s3.url, "access.key": s3.key, "secret.key": s3.secret}
    finally:
        for name in path.store.hadoop:
            spark.conf.unset(name)
