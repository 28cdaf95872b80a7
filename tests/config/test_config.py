"""A changefeed's configuration: file and sink URI, precedence, checks, and secrets that stay secret."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

import tidecast
from tidecast._errors import ConfigError
from tidecast._uri import SINK_PARAMETERS, local_path, masked_sink_uri, parse_place, redact_uri
from tidecast.config import (
    ChangefeedConfig,
    build_config,
    completed_replica_config,
    default_replica_config,
    file_content,
    ignored_parameters,
    load_config,
    merge_replica_configs,
    read_replica_config,
    without_effect,
)
from tidecast.config._build import _PARAMETERS
from tidecast.model import TableSchema
from tidecast.routing import Router
from tidecast.topics._write_sink import StorageSinkWriter

SIMPLE = "kafka://127.0.0.1:9092/topic?protocol=simple"
AVRO = "kafka://127.0.0.1:9092/topic?protocol=avro&schema-registry=http://127.0.0.1:8081"
IN_GLUE = "kafka://127.0.0.1:9092/topic?protocol=avro"
LOG = "file:///log.jsonl?protocol=simple"
CHECKSUMS = "[integrity]\nintegrity-check-level = 'correctness'\n"

EVERY_KEY = """
performance-mode = "throughput"
memory-quota = 1073741824
case-sensitive = true
force-replicate = true
ignore-ineligible-table = false
check-gc-safe-point = true
enable-sync-point = false
enable-table-monitor = false
bdr-mode = false
sync-point-interval = "5m"
sync-point-retention = "1h"
changefeed-error-stuck-duration = "30m"
sql-mode = "ONLY_FULL_GROUP_BY"
[filter]
ignore-txn-start-ts = [1, 2]
rules = ['*.*', '!test.*']
[[filter.event-filters]]
matcher = ["test.worker"]
ignore-event = ["insert"]
ignore-sql = ["^drop"]
ignore-delete-value-expr = "name = 'john'"
[mounter]
worker-num = 16
[integrity]
integrity-check-level = "none"
corruption-handle-level = "error"
[scheduler]
enable-table-across-nodes = true
region-threshold = 100000
write-key-threshold = 30000
[sink]
protocol = "simple"
schema-registry = "http://127.0.0.1:8081"
dispatchers = [
  {matcher = ['a.*'], topic = "x-{schema}", partition = "index-value"},
  {matcher = ['b.*'], dispatcher = "ts", index = "i", columns = ["c"], target-schema = "s", target-table = "{table}"},
]
column-selectors = [{matcher = ['a.*'], columns = ['a', '!b']}]
transaction-atomicity = "none"
encoder-concurrency = 32
enable-kafka-sink-v2 = false
terminator = "\\r\\n"
date-separator = "day"
enable-partition-separator = true
file-index-digit = 6
only-output-updated-columns = false
delete-only-output-handle-key-columns = false
content-compatible = false
advance-timeout-in-sec = 150
send-bootstrap-interval-in-sec = 120
send-bootstrap-in-msg-count = 10000
send-bootstrap-to-all-partition = true
send-all-bootstrap-at-start = true
debezium-disable-schema = true
[sink.csv]
delimiter = ","
include-commit-ts = true
[sink.debezium]
output-old-value = false
[sink.open]
output-old-value = false
[sink.cloud-storage-config]
worker-count = 8
flush-interval = "2s"
file-size = 67108864
file-expiration-days = 0
file-cleanup-cron-spec = "0 0 2 * * *"
flush-concurrency = 1
output-column-id = false
output-raw-change-event = false
[sink.mysql-config]
max-multi-update-row = 40
[sink.pulsar-config]
basic-password = "hush"
[sink.pulsar-config.oauth2]
oauth2-private-key = "hush"
[sink.kafka-config]
partition-num = 5
replication-factor = 2
kafka-version = "2.4.0"
max-message-bytes = 1000000
compression = "lz4"
kafka-client-id = "me"
auto-create-topic = false
dial-timeout = "5s"
write-timeout = "5s"
read-timeout = "5s"
required-acks = 1
sasl-user = "alice"
sasl-password = "se+cr/et"
sasl-mechanism = "plain"
sasl-oauth-scopes = ["a"]
output-raw-change-event = true
[sink.kafka-config.codec-config]
enable-tidb-extension = true
max-batch-size = 32
avro-enable-watermark = false
avro-decimal-handling-mode = "string"
avro-bigint-unsigned-handling-mode = "string"
encoding-format = "avro"
[sink.kafka-config.large-message-handle]
large-message-handle-option = "claim-check"
large-message-handle-compression = "lz4"
claim-check-storage-uri = "s3://bucket?secret-access-key=hush"
claim-check-raw-value = true
[consistent]
level = "eventual"
storage = "s3://redo?secret-access-key=hush"
flush-concurrency = 4
[consistent.memory-usage]
memory-quota-percentage = 50
[synced-status]
synced-check-interval = 300
"""


def load(tmp_path: Path, text: str, uri: str = SIMPLE, schema_registry: str | None = None) -> ChangefeedConfig:
    file = tmp_path / "changefeed.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(uri, file, schema_registry)


def refusal(tmp_path: Path, text: str, uri: str = SIMPLE) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, uri)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


# ---- defaults, names


def glue(settings: str) -> str:
    return f"[sink.kafka-config.glue-schema-registry-config]\n{settings}"


def test_defaults() -> None:
    config = load_config(SIMPLE)
    assert config.protocol == "simple"
    assert config.default_topic == "topic"
    assert config.kafka.partition_num is None
    assert config.kafka.replication_factor == 1
    assert config.max_message_bytes == 10485760
    assert config.kafka.required_acks == -1
    assert config.kafka.auto_create_topic
    assert not config.codec_options().enable_tidb_extension
    assert config.codec_options().avro_decimal_handling_mode == "precise"
    assert config.codec_options().avro_bigint_unsigned_handling_mode == "long"
    assert config.codec_options().encoding_format == "json"
    integrity = config.file.integrity
    assert (integrity.integrity_check_level, integrity.corruption_handle_level) == ("none", "warn")
    assert not config.force_replicate
    assert not config.file.case_sensitive
    assert not config.codec_options().debezium_disable_schema
    assert config.codec_options().debezium_output_old_value
    assert not config.sink.kafka_config.output_raw_change_event
    assert config.large_message_handle.large_message_handle_option == "none"
    assert config.file.filter.rules == ("*.*",)
    assert (len(config.sink.dispatchers), len(config.sink.column_selectors)) == (0, 0)
    assert config.schema_registry is None
    assert config.codec.max_batch_size == 16
    assert config.sink.encoder_concurrency == 32


def test_every_documented_key_is_accepted_and_read(tmp_path: Path) -> None:
    config = load(tmp_path, EVERY_KEY, "kafka://127.0.0.1:9092/topic")
    assert config.protocol == "simple"
    assert config.codec_options().encoding_format == "avro"
    assert (config.kafka.partition_num, config.kafka.replication_factor, config.max_message_bytes) == (5, 2, 1000000)
    assert (config.kafka.required_acks, config.kafka.auto_create_topic, config.kafka.dial_timeout) == (1, False, 5.0)
    assert (config.kafka.sasl_user, config.kafka.sasl_password) == ("alice", "se+cr/et")
    assert config.place.params["partition-num"] == "5"
    assert config.force_replicate
    assert config.file.case_sensitive
    assert config.codec_options().enable_tidb_extension
    assert config.file.integrity.corruption_handle_level == "error"
    assert config.sink.kafka_config.output_raw_change_event
    assert not config.codec_options().debezium_output_old_value
    assert [d.topic for d in config.sink.dispatchers] == ["x-{schema}", ""]
    assert config.sink.column_selectors[0].columns == ("a", "!b")
    assert config.file.filter.event_filters[0].ignore_event == ("insert",)


@pytest.mark.parametrize(
    ("spelling", "protocol"),
    [
        ("Simple", "simple"),
        ("AVRO", "avro"),
        ("flat-avro", "avro"),
        ("debezium", "debezium"),
        ("canal-json", "canal-json"),
        ("default", "open-protocol"),
        ("open-protocol", "open-protocol"),
    ],
)
def test_protocols_whatever_the_letter_case(spelling: str, protocol: str) -> None:
    config = load_config(f"kafka://127.0.0.1:9092/t?protocol={spelling}", schema_registry="http://127.0.0.1:8081")
    assert config.protocol == protocol


@pytest.mark.parametrize("protocol", ["", "maxwell", "canal", "craft", "csv", "nope"])
def test_other_protocols_are_refused(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown '{protocol}' message protocol for sink") as caught:
        load_config(f"kafka://127.0.0.1:9092/t?protocol={protocol}")
    assert caught.value.code == "CDC:ErrSinkUnknownProtocol"


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("[sink]\ndispatcher = []", "sink.dispatcher", "dispatchers"),
        ("[sink.kafka-config]\npartition-nums = 3", "sink.kafka-config.partition-nums", "partition-num"),
        ("case_sensitive = true", "case_sensitive", "case-sensitive"),
        ("[sink]\ndispatchers = [{matchr = ['*.*']}]", "sink.dispatchers.matchr", "matcher"),
        ("[filters]\nrules = []", "filters", "filter"),
        ("[sink.csv]\ndelimitr = ','", "sink.csv.delimitr", "delimiter"),
        ("[sink.cloud-storage-config]\nfile-sise = 1", "sink.cloud-storage-config.file-sise", "file-size"),
        ("[sink.pulsar-config.oauth2]\noauth2-scopes = ''", "sink.pulsar-config.oauth2.oauth2-scopes", "oauth2-scope"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_one(tmp_path: Path, text: str, key: str, nearest: str) -> None:
    message = str(refusal(tmp_path, text))
    assert f"config file changefeed.toml contained unknown configuration options: {key}" in message
    assert f"{key}: did you mean {nearest}?" in message


def test_ignored_parameters_of_a_sink_uri_are_told() -> None:
    sink = "kafka://h/t?protocol=debezium&debezium-decimal-handling-mode=string&output-old-valu=1&partition-nums=2&x=1"
    assert [*ignored_parameters(sink)] == [
        "sink URI: debezium-decimal-handling-mode has no effect on messages that are written here",
        "sink URI: unknown parameter partition-nums is ignored: did you mean partition-num?",
    ]


def test_all_unknown_keys_are_named_at_once(tmp_path: Path) -> None:
    text = "bar = {x = 1, y = [{z = 1}]}\n[sink]\nzzz = 2"
    assert "options: bar, bar.x, bar.y, bar.y.z, sink.zzz" in str(refusal(tmp_path, text))


def test_what_another_protocol_reads_is_not_looked_at(tmp_path: Path) -> None:
    load_config(f"{SIMPLE}&avro-decimal-handling-mode=exact&avro-bigint-unsigned-handling-mode=int")
    load_config(f"{AVRO}&encoding-format=xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sink", "this is not TOML"),
        ("sink = 3", "sink must be a table"),
        ("[sink]\nencoder-concurrency = 'many'", "sink.encoder-concurrency"),
        ("[sink]\nencoder-concurrency = -1", "sink.encoder-concurrency"),
        ("[sink.kafka-config]\npartition-num = '3'", "sink.kafka-config.partition-num"),
        ("force-replicate = 1", "force-replicate"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in str(refusal(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: the file cannot be read"):
        load_config(SIMPLE, tmp_path / "nowhere.toml")


# ---- precedence


def test_the_uri_wins_over_the_file_also_with_false_and_zero(tmp_path: Path) -> None:
    text = """
    [sink]
    protocol = "avro"
    debezium-disable-schema = true
    [sink.kafka-config]
    auto-create-topic = true
    required-acks = 1
    partition-num = 9
    [sink.kafka-config.codec-config]
    enable-tidb-extension = true
    """
    uri = SIMPLE + "&debezium-disable-schema=F&auto-create-topic=false&required-acks=0&enable-tidb-extension=0"
    config = load(tmp_path, text, uri + "&partition-num=4")
    assert config.protocol == "simple"
    assert (config.kafka.auto_create_topic, config.kafka.required_acks, config.kafka.partition_num) == (False, 0, 4)
    assert not config.codec_options().enable_tidb_extension
    assert not config.codec_options().debezium_disable_schema


def test_what_the_uri_does_not_say_the_file_says(tmp_path: Path) -> None:
    text = "[sink.kafka-config]\npartition-num = 9\n[sink.kafka-config.codec-config]\nenable-tidb-extension = true"
    config = load(tmp_path, text, SIMPLE + "&enable-tidb-extension=&partition-num=")
    assert config.codec_options().enable_tidb_extension
    assert config.kafka.partition_num == 9


def test_the_registry_flag_wins_over_the_file_and_the_uri_over_both(tmp_path: Path) -> None:
    text = "[sink]\nschema-registry = 'http://file'"
    avro = "kafka://127.0.0.1:9092/t?protocol=avro"
    assert load(tmp_path, text, avro).schema_registry == "http://file"
    assert load(tmp_path, text, avro, "http://flag").schema_registry == "http://flag"
    assert load(tmp_path, text, avro + "&schema-registry=http://uri", "http://flag").schema_registry == "http://uri"


def test_a_registry_in_glue_is_told_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_SECRET", "hush/+&")
    keys = "access-key = 'AKIA1'\nsecret-access-key = 'env:GLUE_SECRET'\ntoken = 't'"
    config = load(tmp_path, glue(f"registry-name = 'a#b'\nregion = 'eu-west-1'\n{keys}"), IN_GLUE)
    given = "access-key=AKIA1&secret-access-key=hush%2F%2B%26&token=t"
    assert config.schema_registry == f"glue://eu-west-1/a%23b?{given}"
    assert "hush" not in repr(config)
    bare = load(tmp_path, glue("registry-name = 'n'\nregion = 'eu-west-1'"), IN_GLUE)
    assert bare.schema_registry == "glue://eu-west-1/n"


def test_oauth_is_told_in_the_file_or_in_the_uri(tmp_path: Path) -> None:
    id_and_url = 'sasl-oauth-client-id = "id"\nsasl-oauth-token-url = "https://sso/token"\n'
    told = f'[sink.kafka-config]\nsasl-mechanism = "OAUTHBEARER"\n{id_and_url}sasl-oauth-client-secret = "c2VjcmV0"\n'
    file = load(tmp_path, told + 'sasl-oauth-scopes = ["a", "b"]')
    named = "&sasl-mechanism=OAUTHBEARER&sasl-oauth-client-id=id&sasl-oauth-token-url=https://sso/token"
    uri = load(tmp_path, "", f"{SIMPLE}{named}&sasl-oauth-client-secret=c2VjcmV0&sasl-oauth-scopes=a%20b")
    assert file.kafka == uri.kafka
    assert file.kafka.for_spark()["kafka.sasl.jaas.config"].endswith('clientSecret="secret" scope="a b";')
    assert "c2VjcmV0" not in repr(file)


def test_unknown_parameters_are_ignored() -> None:
    assert load_config(SIMPLE + "&no-such-thing=1&format=jsonl").place.params["format"] == "jsonl"


# ---- checks


@pytest.mark.parametrize(
    ("parameters", "code", "message"),
    [
        ("partition-num=0", "CDC:ErrKafkaInvalidPartitionNum", "invalid partition num 0"),
        ("partition-num=abc", "CDC:ErrSinkURIInvalid", "partition-num cannot be 'abc'"),
        ("enable-tidb-extension=yes", "CDC:ErrSinkURIInvalid", "enable-tidb-extension cannot be 'yes'"),
        ("required-acks=2", "CDC:ErrKafkaInvalidRequiredAcks", "invalid required acks 2"),
        ("kafka-client-id=a%20b", "CDC:ErrKafkaInvalidClientID", "invalid kafka client ID"),
        ("kafka-version=foo", "CDC:ErrKafkaInvalidVersion", "invalid kafka version: invalid version `foo`"),
        ("kafka-version=2.4", "CDC:ErrKafkaInvalidVersion", "invalid kafka version: invalid version `2.4`"),
        ("kafka-version=0.11.0", "CDC:ErrKafkaInvalidVersion", "invalid kafka version: invalid version `0.11.0`"),
        ("max-message-bytes=0", "CDC:ErrCodecInvalidConfig", "invalid max-message-bytes 0"),
        ("max-batch-size=0", "CDC:ErrCodecInvalidConfig", "invalid max-batch-size 0"),
        ("ca=/a&cert=/b", "CDC:ErrKafkaInvalidConfig", "ca, cert and key files should all be supplied"),
        ("sasl-mechanism=nope", "CDC:ErrKafkaInvalidConfig", "sasl-mechanism nope is not supported"),
        ("transaction-atomicity=table", "CDC:ErrSinkURIInvalid", "table level atomicity is not supported by kafka"),
        ("partition-num=2147483648", "CDC:ErrSinkURIInvalid", "partition-num cannot be '2147483648'"),
        ("required-acks=-32769", "CDC:ErrSinkURIInvalid", "required-acks cannot be '-32769'"),
        (f"max-message-bytes={1 << 63}", "CDC:ErrSinkURIInvalid", "write a whole number of 64 bits"),
        (f"max-batch-size={'1' * 5000}", "CDC:ErrSinkURIInvalid", "write a whole number of 64 bits"),
        ("encoding-format=xml", "CDC:ErrCodecInvalidConfig", "unsupported encoding format type: xml for the"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(parameters: str, code: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(f"{SIMPLE}&{parameters}")
    assert caught.value.code == code
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "uri", "code", "message"),
    [
        ("", "kafka://127.0.0.1/t?protocol=avro", "CDC:ErrCodecInvalidConfig", 'requires parameter "schema-registry"'),
        (
            "",
            "kafka://127.0.0.1/t?protocol=debezium-avro",
            "CDC:ErrCodecInvalidConfig",
            'Debezium Avro protocol requires parameter "schema-registry"',
        ),
        (
            "",
            AVRO.replace("avro", "debezium-avro") + "&avro-decimal-handling-mode=double",
            "CDC:ErrCodecInvalidConfig",
            'avro-decimal-handling-mode value could only be "string" or "precise"',
        ),
        (
            "force-replicate = true",
            AVRO.replace("avro", "debezium-avro"),
            "CDC:ErrCodecInvalidConfig",
            "force-replicate must be disabled, when using debezium-avro",
        ),
        (
            glue("region = 'r'"),
            IN_GLUE,
            "CDC:ErrInvalidGlueSchemaRegistryConfig",
            "registry-name is empty, is must",
        ),
        (
            glue("registry-name = 'n'"),
            IN_GLUE,
            "CDC:ErrInvalidGlueSchemaRegistryConfig",
            "region is empty, is must",
        ),
        (
            glue("registry-name = 'n'\nregion = 'r'\naccess-key = 'hush'"),
            IN_GLUE,
            "CDC:ErrInvalidGlueSchemaRegistryConfig",
            "access-key is set, but access-key-secret is empty, they must be set together",
        ),
        (
            glue("registry-name = 'n'\nregion = 'EU'"),
            IN_GLUE,
            "CDC:ErrInvalidGlueSchemaRegistryConfig",
            "its host is no region",
        ),
        (
            glue("registry-name = 'n'\nregion = 'r'"),
            AVRO,
            "CDC:ErrInvalidReplicaConfig",
            "cannot be set at the same time",
        ),
        (
            "force-replicate = true",
            AVRO,
            "CDC:ErrCodecInvalidConfig",
            "force-replicate must be disabled, when using avro",
        ),
        (
            "[sink.kafka-config]\nreplication-factor = 32768",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "sink.kafka-config.replication-factor: 32768 is no whole number of 16 bits",
        ),
        ("", f"{AVRO}&avro-decimal-handling-mode=exact", "CDC:ErrCodecInvalidConfig", 'only be "string" or "precise"'),
        ("", f"{AVRO}&avro-bigint-unsigned-handling-mode=int", "CDC:ErrCodecInvalidConfig", '"string" or "long"'),
        (CHECKSUMS, AVRO, "CDC:ErrCodecInvalidConfig", "enable-tidb-extension=true and avro-decimal"),
        (
            CHECKSUMS,
            AVRO + "&enable-tidb-extension=true&avro-decimal-handling-mode=string",
            "CDC:ErrCodecInvalidConfig",
            "needs avro-bigint-unsigned-handling-mode=string",
        ),
        (
            CHECKSUMS + "[sink]\ncolumn-selectors = [{matcher = ['*.*'], columns = ['*']}]",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "integrity check enabled and column selector set, not allowed",
        ),
        ("performance-mode = 'fast'", SIMPLE, "CDC:ErrInvalidReplicaConfig", "performance-mode: "),
        ("[integrity]\nintegrity-check-level = 'all'", SIMPLE, "CDC:ErrInvalidReplicaConfig", "integrity-check-level"),
        (
            "[integrity]\ncorruption-handle-level = 'x'",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "corruption-handle-level",
        ),
        (
            "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'handle-key-only'",
            AVRO,
            "CDC:ErrInvalidReplicaConfig",
            "protocol is avro, it's not supported",
        ),
        (
            "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'handle-key-only'",
            SIMPLE.replace("simple", "canal-json"),
            "CDC:ErrInvalidReplicaConfig",
            "protocol is canal-json, but enable-tidb-extension is false (Simple has it, and Canal-JSON",
        ),
        (
            "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'claim-check'",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "claim-check-storage-uri is empty",
        ),
        (
            "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'claim_check'",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "unknown large-message-handle-option claim_check (write one of none, handle-key-only, claim-check)",
        ),
        (
            "[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression = 'gzip'",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "large-message-handle-compression",
        ),
        (
            "enable-sync-point = true",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "invalid replica config, The SyncPoint",
        ),
        (
            "force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true",
            SIMPLE,
            "CDC:ErrCodecInvalidConfig",
            "force-replicate must be disabled",
        ),
        (
            "force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true",
            "kafka://127.0.0.1:9092/topic?protocol=debezium",
            "CDC:ErrCodecInvalidConfig",
            'force-replicate must be disabled when configuration "delete-only-output-handle-key-columns" is true.',
        ),
        ("[filter]\nrules = ['db']", SIMPLE, "CDC:ErrFilterRuleInvalid", "at <cmdline>:1: wrong table pattern"),
        (
            "enable-active-active = true",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "only supports tidb sink and",
        ),
        (
            "event-collector-batch-bytes = -1",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "batch-bytes must be set not",
        ),
        (
            "[scheduler]\nenable-table-across-nodes = true\nregion-count-per-span = 0",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "region-count-per-span must be larger than 0",
        ),
        (
            "[scheduler]\nenable-table-across-nodes = true\nmin-traffic-percentage = 1",
            SIMPLE,
            "CDC:ErrInvalidReplicaConfig",
            "min-traffic-percentage must be between 0 and 1",
        ),
        (
            "",
            f"{SIMPLE}&transaction-atomicity=table",
            "CDC:ErrSinkURIInvalid",
            "sink uri invalid 'table level",
        ),
        ("", "file:///f?protocol=csv&transaction-atomicity=row", "CDC:ErrSinkURIInvalid", "row level atomicity is not"),
        ("", f"{SIMPLE}&write-timeout=soon", "CDC:ErrSinkURIInvalid", "write-timeout cannot be 'soon'"),
        ("[sink]\ndispatchers = [{matcher = ['a']}]", SIMPLE, "CDC:ErrFilterRuleInvalid", "wrong table pattern"),
        (
            "[sink]\ncolumn-selectors = [{matcher = ['*.*'], columns = ['a.b']}]",
            SIMPLE,
            "CDC:ErrFilterRuleInvalid",
            "unexpected special character '.'",
        ),
        (
            "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'ts', dispatcher = 'ts'}]",
            SIMPLE,
            "CDC:ErrSinkInvalidConfig",
            "dispatcher and partition",
        ),
        (
            "[sink]\ndispatchers = [{matcher = ['*.*'], target-table = '{tabel}'}]",
            SIMPLE,
            "CDC:ErrInvalidTableRoutingRule",
            "{tabel}",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    tmp_path: Path, text: str, uri: str, code: str, message: str
) -> None:
    error = refusal(tmp_path, text, uri)
    assert error.code == code
    assert message in str(error)


@pytest.mark.parametrize("version", ["2.4.0", "10.0.12", "0.11.0.2"])
def test_versions_of_kafka(version: str) -> None:
    assert load_config(f"{SIMPLE}&kafka-version={version}").sink.kafka_config.kafka_version == version


@pytest.mark.parametrize(
    ("expression", "near"),
    [
        ("price >", ""),
        ("price > 1) or (", ", near ')'"),
        ("name = 'a", ""),
        ("", None),
        ("id, price", ""),
        ("id > 1; DROP TABLE t", ""),
        ("id > 1 FROM t", ""),
        ("id IN (SELECT 1)", ""),
        ("id AS x", ""),
        ("(" * 5000 + "id" + ")" * 5000, ""),
    ],
)
@pytest.mark.parametrize("key", ["insert", "update-new", "update-old", "delete"])
def test_a_filter_expression_that_is_none_is_refused(
    tmp_path: Path, key: str, expression: str, near: str | None
) -> None:
    text = f"[[filter.event-filters]]\nmatcher = ['*.*']\nignore-{key}-value-expr = \"{expression}\"\n"
    if near is None:
        assert load(tmp_path, text).file.filter.event_filters
        return
    error = refusal(tmp_path, text)
    assert error.code == "CDC:ErrInvalidFilterExpression"
    words = f"invalid filter expressions. There is a syntax error in: '{expression}'"
    assert error.message.startswith(words)
    assert near in error.message
    assert "sqlglot" not in str(error)
    load(tmp_path, text.replace(expression, "price > 10 and name like 'a%'"))


@pytest.mark.parametrize("table", ["codec-config", "large-message-handle"])
def test_a_choice_that_is_empty_is_the_default(tmp_path: Path, table: str) -> None:
    names = {
        "codec-config": ("avro-decimal-handling-mode", "avro-bigint-unsigned-handling-mode", "encoding-format"),
        "large-message-handle": ("large-message-handle-option", "large-message-handle-compression"),
    }[table]
    text = f"[sink.kafka-config.{table}]\n" + "".join(f"{name} = ''\n" for name in names)
    assert load(tmp_path, text, AVRO).sink == load(tmp_path, "", AVRO).sink


def test_checksums_with_avro_need_three_options(tmp_path: Path) -> None:
    modes = "&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string&enable-tidb-extension=true"
    assert load(tmp_path, CHECKSUMS, AVRO + modes).file.integrity.integrity_check_level == "correctness"


def rule(topic: str) -> str:
    return f"[sink]\ndispatchers = [{{matcher = ['*.*'], topic = '{topic}'}}]"


@pytest.mark.parametrize(
    "topic", ["", "fixed.topic-1", "{schema}_{table}", "cdc.{schema}.{table}-x", "{schema}{table}"]
)
def test_topic_rules_for_avro(tmp_path: Path, topic: str) -> None:
    assert load(tmp_path, rule(topic), AVRO).sink.dispatchers[0].topic == topic


@pytest.mark.parametrize(
    "topic", ["{schema}", "{table}", "{table}_{schema}", "{schema} {table}", "{schema}_{table}_{table}"]
)
def test_topic_rules_without_both_names_are_refused_for_avro(tmp_path: Path, topic: str) -> None:
    error = refusal(tmp_path, rule(topic), AVRO)
    assert error.code == "CDC:ErrKafkaTopicExprInvalid"
    assert "topic rule for Avro must contain {schema} and {table}" in str(error)
    error = refusal(tmp_path, rule(topic), AVRO.replace("avro", "debezium-avro"))
    assert "topic rule for Debezium Avro must contain {schema} and {table}" in str(error)
    assert topic in str(error)


@pytest.mark.parametrize("topic", ["literal", "{schema}", "{table}", "a.{schema}_{table}-b"])
def test_topic_rules_of_other_protocols(tmp_path: Path, topic: str) -> None:
    assert load(tmp_path, rule(topic)).sink.dispatchers[0].topic == topic


@pytest.mark.parametrize("topic", ["{table}_{schema}", "{schema}{schema}", "a b", "{db}", "表"])
def test_other_topic_rules_are_refused(tmp_path: Path, topic: str) -> None:
    assert refusal(tmp_path, rule(topic)).code == "CDC:ErrKafkaTopicExprInvalid"


# ---- places


def test_places() -> None:
    kafka = parse_place("KAFKA://u:p%40w@h1:1,h2/%61/b/?protocol=avro&protocol=simple&x=a+b")
    assert (kafka.scheme, kafka.hosts, kafka.topic) == ("kafka", ("h1:1", "h2:9092"), "a/b")
    assert (kafka.user, kafka.password.get_secret_value()) == ("u", "p@w")
    assert kafka.params == {"protocol": "avro", "x": "a b"}
    assert parse_place("kafka+ssl://[::1]:9093/t").hosts == ("[::1]:9093",)
    assert parse_place("kafka://h/?topics=a.*").topic == ""
    folder = parse_place("file:///tmp/a%20b/t.x/")
    assert (folder.path, folder.topic, folder.single_file, folder.hosts) == ("/tmp/a b/t.x/", "t.x", False, ())
    for suffix in (".jsonl", ".jsonl.gz", ".parquet"):
        single = parse_place(f"file:///tmp/t{suffix}")
        assert (single.topic, single.single_file) == ("t", True)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", "a"),
        ("./a:b", "./a:b"),
        ("a/s3://b", "a/s3:/b"),
        ("/a%20b#c?d", "/a%20b#c?d"),
        ("file:///a%20b%23/%C3%A9", "/a b#/é"),
        ("file://localhost/a", "/a"),
        ("file:/a", "/a"),
        ("FILE:///a", "/a"),
    ],
)
def test_a_folder_is_a_path_or_a_file_uri(text: str, path: str) -> None:
    assert local_path(text, "--to") == Path(path)


FOREIGN = ["s3a://key:secret@b/x", "dbfs:/mnt/lake", "hdfs:/lake", "abfss://c@a/x", " s3://b", "lake:x", "delta:///x"]
NO_FOLDERS = ["", "a\0b", "file:", "file:a", "file://host/a", "file:///a#b", "file:///a?b", "file:///%00"]


@pytest.mark.parametrize("text", FOREIGN + NO_FOLDERS)
def test_other_folders_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--to: ") as caught:
        local_path(text, "--to")
    assert "secret" not in str(caught.value)
    assert ("is not a storage that is supported" in str(caught.value)) == (text in FOREIGN)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("--to", lambda place: tidecast.replicate(LOG, place)),
        ("--checkpoint", lambda place: tidecast.replicate(LOG, "./x", checkpoint=place)),
        ("--dead-letters", lambda place: tidecast.replicate(LOG, "./x", dead_letters=place)),
        ("--dead-letters", lambda place: tidecast.verify(LOG, dead_letters=place)),
        ("--mismatches", lambda place: tidecast.verify(LOG, mismatches=place)),
        ("--dead-letters", lambda place: tidecast.convert(LOG, "file:///x?protocol=simple", dead_letters=place)),
        ("--dir", tidecast.demo),
        ("--data-dir", lambda place: tidecast.serve(LOG, data_dir=place)),
    ],
)
def test_a_foreign_storage_is_refused_before_spark_starts(
    option: str, call: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("api._source", "_demo"):
        monkeypatch.setattr(f"tidecast.{module}.spark_session", lambda **_: pytest.fail("Spark was started"))
    places = {"ftp://host/x": "ftp: is not a storage", "lake:x": "lake: is not a storage"}
    if option != "--dir":  # the demo's is of this machine
        places |= {"dbfs:/mnt/lake": "only volumes", "hdfs:/lake": "no place on a storage"}
        places |= {"gs://bucket/x": "needs a package that is not there"}
    for place, words in places.items():
        with pytest.raises(ConfigError, match=words) as refused:
            call(place)
        assert option in str(refused.value) or place.startswith("gs")
    assert not list(tmp_path.iterdir())


_UNKNOWN = (
    r"on-error is '(typo|Fail)' \(one of dead-letter, fail\)|on-mismatch is 'Apply' \(one of dead-letter, apply, fail\)"
)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tidecast.convert(LOG, "file:///x?protocol=simple", on_error="typo"),
        lambda: tidecast.replicate(LOG, "./x", on_error="Fail"),
        lambda: tidecast.replicate(LOG, "./x", on_mismatch="Apply"),
    ],
)
def test_an_unknown_policy_is_refused_before_spark_starts(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidecast.api._source.spark_session", lambda **_: pytest.fail("Spark was started"))
    with pytest.raises(ConfigError, match=r"on-(error|mismatch) is '\w+' \(one of dead-letter, "):
        call()


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "topic",
        "mysql://root:se+cr/et@h/db",
        "kafka:///topic",
        "kafka://h:9092",
        "kafka://h:9092/",
        "kafka://h:99999/t",
        "kafka://h:x/t",
        "kafka://h,/t",
        "kafka://[::1/t",
        "kafka://u:secret@h: 9092/t",
        "kafka://h/t?sasl-password=secret\n",
        "file://host/t",
        "file:t",
        "file:///",
    ],
)
def test_other_places_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_place(uri)
    assert caught.value.code == "CDC:ErrSinkURIInvalid"
    assert len(str(caught.value).splitlines()) == 1
    assert not any(secret in str(caught.value) for secret in ("secret", "cr/et"))


def test_a_sink_has_a_default_topic() -> None:
    with pytest.raises(ConfigError, match="no topic is specified in sink-uri"):
        load_config("kafka://h/?protocol=simple&topics=a.*")


# ---- secrets


@pytest.mark.parametrize(
    ("uri", "redacted"),
    [
        ("kafka://h:9092/t?protocol=avro", "kafka://h:9092/t?protocol=avro"),
        ("kafka://u:s3cret@h:9092/t", "kafka://u:xxxxx@h:9092/t"),
        ("http://u:s3/cr@et@h/t", "http://u:xxxxx@h/t"),
        ("kafka://h/t?sasl-password=s3cret&start=3", "kafka://h/t?sasl-password=xxxxx&start=3"),
        ("kafka://u:s3cr?e/t#t@h:9092/t?format=b@c", "kafka://u:xxxxx@c"),
        ("kafka://h/t?sasl-gssapi-password=s3#cret&start=3", "kafka://h/t?sasl-gssapi-password=xxxxx&start=3"),
        ("kafka://h/t?sas=s3cret&sasl-user=a&pwd=s3cret", "kafka://h/t?sas=xxxxx&sasl-user=a&pwd=xxxxx"),
        ("s3://b?access-key=s3cret&secret-access-key=s3cret", "s3://b?access-key=xxxxx&secret-access-key=xxxxx"),
        (
            "kafka://h/t?schema-registry=http://u:s3cret@r&start=3",
            "kafka://h/t?schema-registry=http://u:xxxxx@r&start=3",
        ),
        ("kafka://h/t?schema-registry=http%3A%2F%2Fu%3As3cret%40r", "kafka://h/t?schema-registry=http://u:xxxxx@r"),
        ("kafka://h/t?schema-registry=http://u:s3cr%3Fet@r:1", "kafka://h/t?schema-registry=http://u:xxxxx@r:1"),
        ("kafka://h/t?apikey=s3cret&auth=s3cret&x=", "kafka://h/t?apikey=xxxxx&auth=xxxxx&x="),
        ("kafka://h/t?sasl.jaas.config=s3cret%20a='b';&ca=/ca.pem", "kafka://h/t?sasl.jaas.config=xxxxx&ca=/ca.pem"),
        ("kafka://h/t?s3cret&protocol=avro#s3cret=s3cret", "kafka://h/t?xxxxx&protocol=avro#xxxxx"),
        ("http://r:8081/?s3cret", "http://r:8081/?xxxxx"),
        ("u:s3cret@h:9092/t?key=k.pem&apikey=s3cret", "u:xxxxx@h:9092/t?key=k.pem&apikey=xxxxx"),
        ("//u:s3cret@h/t", "//u:xxxxx@h/t"),
        ("h:9092/t?schema-registry=u:s3#cret@r:1", "h:9092/t?schema-registry=u:xxxxx@r:1"),
        ("h:9092/t@x", "h:9092/t@x"),
        ("not a uri", "not a uri"),
    ],
)
def test_secrets_are_redacted(uri: str, redacted: str) -> None:
    assert redact_uri(uri) == redacted


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("kafka://h/t?protocol=avro&ca=/a/b", "kafka://h/t?protocol=avro&ca=/a/b"),
        ("kafka://u:hush@h/t?protocol=avro&ca=/a/b", "kafka://u:xxxxx@h/t?protocol=avro&ca=/a/b"),
        (
            "kafka://h/t?sasl-user=a+b&sasl-password=hush&ca=/a/b~c",
            "kafka://h/t?ca=%2Fa%2Fb~c&sasl-password=xxxxx&sasl-user=a+b",
        ),
    ],
)
def test_parameters_beside_a_hidden_one_are_escaped_in_order_as_go_does(uri: str, shown: str) -> None:
    assert masked_sink_uri(uri) == masked_sink_uri(masked_sink_uri(uri)) == shown


def test_all_other_parameters_are_shown() -> None:
    secret = {"sasl-password", "sasl-gssapi-password", "sasl-oauth-client-secret"}
    for name in set(_PARAMETERS) - secret:
        assert redact_uri(f"kafka://h/t?{name}=v") == f"kafka://h/t?{name}=v"
    assert secret < set(_PARAMETERS)
    files = {
        "format",
        "layout",
        "worker-count",
        "flush-interval",
        "file-size",
        "spool-disk-quota",
        "use-table-id-as-path",
        "output-column-id",
    }
    assert {*_PARAMETERS, *files} == SINK_PARAMETERS


def test_a_uri_of_any_length_is_redacted_at_once() -> None:
    """As a request may hold it: a search that is quadratic would take hours."""
    for piece in ("?", "&", "=", "#", ":", "@", "?a", "://", "?format=", "a:b@"):
        assert redact_uri(f"kafka://h/t?pwd=s3cret&{piece * 1_000_000}").startswith("kafka:")


def test_secrets_are_in_no_repr(tmp_path: Path) -> None:
    uri = "kafka://u:hush1@h/t?sasl-user=u&sasl-mechanism=plain&sasl-password=hush2&schema-registry=http://a:hush3@r"
    config = load(tmp_path, EVERY_KEY, uri)
    assert config.kafka.sasl_password == "hush2"
    assert config.schema_registry == "http://a:hush3@r"
    for shown in (repr(config), str(config), repr(config.place), repr(config.kafka), repr(config.file)):
        assert not [secret for secret in ("hush", "cr/et") if secret in shown]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('sasl-password = "se+cr/et"', "sasl-password = 12345"),
        ('sasl-user = "alice"', "sasl-user = 5"),
        ("required-acks = 1", "required-acks = 7"),
        ('schema-registry = "http://127.0.0.1:8081"', 'schema-registry = ["hush"]'),
        ("enable-sync-point = false", "enable-sync-point = true"),
    ],
)
def test_secrets_are_in_no_error(tmp_path: Path, old: str, new: str) -> None:
    assert old in EVERY_KEY
    message = str(refusal(tmp_path, EVERY_KEY.replace(old, new), "kafka://u:hush@h/t?sasl-gssapi-password=hush"))
    assert not [secret for secret in ("hush", "cr/et", "12345") if secret in message]


def test_settings_that_do_nothing_here_are_named() -> None:
    routes = [{"matcher": ["a.*"], "target-schema": "b"}, {"matcher": ["c.*"], "target-schema": "d"}]
    sink = {"send-all-bootstrap-at-start": True, "kafka_config": {"write_timeout": "9s"}, "dispatchers": routes}
    given = {"sink": sink, "memory_quota": 7, "performance_mode": "low-latency"}
    idle = without_effect(merge_replica_configs(default_replica_config(), given))
    assert idle == [
        "memory_quota",
        "performance_mode",
        "sink.kafka_config.write_timeout",
        "sink.send-all-bootstrap-at-start",
    ]
    assert without_effect(default_replica_config()) == []


def test_a_file_that_is_sent_through_the_api_asks_for_start_ts_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text("[sink.debezium]\ninclude-start-ts = true\n")
    sent = merge_replica_configs(default_replica_config(), read_replica_config(file))
    assert sent["sink"]["debezium"] == {"output_old_value": True, "include_start_ts": True}
    assert "include_start_ts" not in default_replica_config()["sink"]["debezium"]
    with pytest.raises(ConfigError, match="debezium-include-start-ts cannot be applied"):
        build_config("kafka://127.0.0.1:9092/topic?protocol=debezium", file_content(sent))


def test_the_api_has_names_of_its_own_for_the_settings_of_sinks(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(
        "[sink.cloud-storage-config]\nfile-size = 2097152\noutput-column-id = true\n"
        "[sink.mysql-config]\nmax-multi-update-row = 40\n"
        "[sink.pulsar-config]\ntls-key-file-path = 'k'\ntls-certificate-file = 'c'\nsend-timeout = 30\n"
        "[sink.pulsar-config.oauth2]\noauth2-client-id = 'me'\n"
    )
    sent = read_replica_config(file)
    assert sent["sink"] == {
        "pulsar_config": {
            "tls-certificate-path": "k",  # as TiCDC has it, which mixed the two up
            "tls-private-key-path": "c",
            "send-timeout": 30,
            "oauth2": {"oauth2-client-id": "me"},
        },
        "mysql_config": {"max_multi_update_row_count": 40},
        "cloud_storage_config": {"file_size": 2097152, "output_column_id": True},
    }
    config = build_config("file:///folder?protocol=csv", file_content(sent))
    assert config.codec_options().column_ids
    assert config.sink.cloud_storage_config.file_size == 2097152


def test_the_api_writes_every_member_of_what_is_no_pointer_in_ticdc() -> None:
    given = {
        "filter": {"event_filters": [{"matcher": ["a.*"], "ignore_event": ["insert"]}]},
        "sink": {"kafka_config": {"large_message_handle": {"large_message_handle_option": "handle-key-only"}}},
    }
    config = merge_replica_configs(default_replica_config(), given)
    assert list(config["filter"]["event_filters"][0].items()) == [
        ("matcher", ["a.*"]),
        ("ignore_event", ["insert"]),
        ("ignore_sql", None),
        ("ignore_insert_value_expr", ""),
        ("ignore_update_new_value_expr", ""),
        ("ignore_update_old_value_expr", ""),
        ("ignore_delete_value_expr", ""),
    ]
    assert list(config["sink"]["kafka_config"]["large_message_handle"].items()) == [
        ("large_message_handle_option", "handle-key-only"),
        ("large_message_handle_compression", "none"),
        ("claim_check_storage_uri", ""),
        ("claim_check_raw_value", False),
    ]
    # A part of one in an update leaves nothing of the defaults in the rest.
    updated = completed_replica_config({"sink": {"debezium": {}, "csv": {"delimiter": "|"}}})["sink"]
    assert updated["debezium"] == {"output_old_value": False}
    assert (updated["csv"]["delimiter"], updated["csv"]["quote"]) == ("|", "")


@pytest.mark.parametrize(("value", "on"), [("1", True), ("T", True), ("false", False), ("0", False)])
def test_a_storage_sinks_truth_values_are_gos(value: str, on: bool) -> None:
    config = build_config(f"file:///folder?protocol=csv&use-table-id-as-path={value}", {})
    assert config.codec_options().table_id_as_path is on


@pytest.mark.parametrize(("said", "folder"), [("Day", ""), ("", ""), ("none", ""), ("year", "%Y")])
def test_only_the_words_of_a_date_separator_itself_make_folders(tmp_path: Path, said: str, folder: str) -> None:
    """TiCDC takes a word in any letters, and then knows it in small ones alone."""
    sink = load(tmp_path, f"[sink]\ndate-separator = '{said}'", f"file://{tmp_path}/out?protocol=csv").open_sink()
    assert isinstance(sink, StorageSinkWriter)
    assert sink.files.date == dt.datetime.now(dt.UTC).strftime(folder)


def test_what_another_sink_refuses_a_storage_sink_takes(tmp_path: Path) -> None:
    uri = "file:///folder?protocol=csv&transaction-atomicity=table"
    selectors = "[sink]\ncolumn-selectors = [{matcher = ['a.*'], columns = ['a']}]\n"
    config = load(tmp_path, f"enable-active-active = true\n{CHECKSUMS}{selectors}", uri)
    assert not config.codec_options().checksums  # TiCDC switches them off
    assert load(tmp_path, "[scheduler]\nregion-count-per-span = 0")  # and asks nothing where tables stay whole


def test_a_storage_sink_has_no_topics_and_partitions(tmp_path: Path) -> None:
    """TiCDC asks its dispatchers for the tables' names alone, so that they may be those of another sink."""
    rule = "matcher = ['a.*'], topic = 'no topic', partition = 'index-value', index = 'none', target-schema = 'b'"
    routing = load(tmp_path, f"[sink]\ndispatchers = [{{{rule}}}]", "file:///folder?protocol=csv").routing
    table = TableSchema("a", "t", 1, 1, (), ())
    router = Router(routing)
    router.check(table)
    assert (router.routes.name("a", "t"), router.partition_rule(table)) == (("b", "t"), "table")
    with pytest.raises(ConfigError, match="invalid topic expression: no topic"):
        load(tmp_path, f"[sink]\ndispatchers = [{{{rule}}}]")


def test_updates_of_minor_columns_are_kept_back_from_topics_alone(tmp_path: Path) -> None:
    rule = "[[filter.event-filters]]\nmatcher = ['*.*']\nignore-update-only-columns = ['at']\n"
    for uri, columns in ((SIMPLE, ("at",)), ("file:///folder?protocol=csv", None)):
        (one,) = load(tmp_path, rule, uri).event_filters
        assert one.ignore_update_only_columns == columns
    given = {"filter": {"event_filters": [{"ignore_update_only_columns": ["at"]}]}}
    (sent,) = merge_replica_configs(default_replica_config(), given)["filter"]["event_filters"]
    assert sent["ignore_update_only_columns"] == ["at"]


def test_updates_stay_whole_as_the_sinks_own_table_says(tmp_path: Path) -> None:
    storage, kafka = "[sink.cloud-storage-config]\n", "[sink.kafka-config]\n"
    for uri, table, splits in (
        ("file:///folder?protocol=csv", storage, False),
        ("file:///folder?protocol=csv", kafka, True),
        (SIMPLE, storage, True),
        (SIMPLE, kafka, False),
    ):
        assert load(tmp_path, f"{table}output-raw-change-event = true", uri).splits_updates is splits
