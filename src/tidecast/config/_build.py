"""A changefeed's configuration: TiCDC's file and sink URI, merged and checked."""

from __future__ import annotations

import copy
import difflib
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from tidecast._config_model import ConfigModel
from tidecast._csv_format import CsvFormat, checked_format
from tidecast._errors import ConfigError
from tidecast._go import parse_bool, parse_duration, parse_int
from tidecast._secrets import resolved_settings, resolved_uri
from tidecast._uri import (
    SINK_PARAMETERS,
    SOURCE_PARAMETERS,
    UNWRITTEN,
    Place,
    parse_place,
    redact_uri,
    unknown_parameters,
)
from tidecast.config._file import (
    Changefeed,
    CloudStorageConfig,
    CodecConfig,
    Debezium,
    KafkaConfig,
    LargeMessageHandle,
    Sink,
)
from tidecast.protocols import CodecOptions, WireProtocol, find_protocol, known_names, protocol_named
from tidecast.registry import check_glue_url
from tidecast.routing import (
    ColumnMatcher,
    Dispatcher,
    EventFilter,
    RoutingRules,
    TableFilter,
    TableMatcher,
    check_event_filters,
    check_target,
)
from tidecast.topics import DATE_SEPARATORS, KafkaOptions, SinkFiles, WritableTopics, open_sink_folder, open_topics

_log = logging.getLogger(__name__)

_CODEC = "CDC:ErrCodecInvalidConfig"
_REPLICA = "CDC:ErrInvalidReplicaConfig"

_NO_TOPIC = "[CDC:ErrKafkaInvalidConfig]no topic is specified in sink-uri"
_SHORTEST_STUCK = 30 * 60 * 10**9

_NAME = r"[A-Za-z0-9._\-]*"
_TOPIC = re.compile(rf"{_NAME}(\{{schema\}})?({_NAME}\{{table\}})?{_NAME}")
_ONE_TABLE_TOPIC = re.compile(rf"{_NAME}(\{{schema\}}{_NAME}\{{table\}}{_NAME})?")
_LARGE_OPTIONS = ("none", "handle-key-only", "claim-check")
_INDEX_DIGITS = range(6, 21)
_FILE_SIZES = range(1 << 10, (1 << 29) + 1)
_KAFKA_VERSION = re.compile(r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+", re.ASCII)

_IN_SINK = (
    "protocol",
    "transaction-atomicity",
    "schema-registry",
    "only-output-updated-columns",
    "content-compatible",
    "debezium-disable-schema",
)
_FILE_ONLY = ("output-raw-change-event", "codec-config", "large-message-handle", "glue-schema-registry")


@dataclass(frozen=True)
class ChangefeedConfig:
    """The configuration of a changefeed: where to publish and how.

    `place` has the sink URI's parameters with those of the file's `[sink.kafka-config]` that the URI does not
    name, so that it is all that opening the topics takes; `kafka` is what they say of the connection. `protocol` is
    in TiCDC's spelling; `file` has every key of the file, the sink URI's values in place of the file's own.
    """

    place: Place
    file: Changefeed
    kafka: KafkaOptions
    protocol: str

    @property
    def sink(self) -> Sink:
        """`[sink]`."""
        return self.file.sink

    @property
    def codec(self) -> CodecConfig:
        """`[sink.kafka-config.codec-config]`."""
        return self.sink.kafka_config.codec_config

    @property
    def default_topic(self) -> str:
        """The topic of tables that no dispatcher gives another one."""
        return self.place.topic

    @property
    def storage_sink(self) -> bool:
        """Tell whether the sink is a folder as TiCDC's storage sink has it."""
        return is_storage_sink_place(self.place, self.protocol)

    @property
    def csv(self) -> CsvFormat:
        """The format of lines: `[sink.csv]`, and `terminator`."""
        said = {f.name: getattr(self.sink.csv, f.name) for f in fields(CsvFormat) if hasattr(self.sink.csv, f.name)}
        return CsvFormat(**said, terminator=self.sink.terminator or CsvFormat.terminator)

    def open_sink(self, zone: str = "UTC") -> WritableTopics:
        """Return the sink, without asking it anything yet; `zone` is the server's. Raises ConfigError."""
        if not self.storage_sink:
            return open_topics(self.place)
        suffix = protocol_named(self.protocol).files
        digits = index_digits(self.sink.file_index_digit)
        date, size = self.sink.date_separator, file_size(self.sink.cloud_storage_config.file_size)
        return open_sink_folder(self.place, SinkFiles(suffix, self.csv.terminator, date, digits, size, zone))

    @property
    def large_message_handle(self) -> LargeMessageHandle:
        """Return the options for messages that are too large."""
        return self.sink.kafka_config.large_message_handle

    @property
    def force_replicate(self) -> bool:
        """Tell whether tables without a key are replicated as well."""
        return self.file.force_replicate or bool(self.sink.force_replicate)

    @property
    def splits_updates(self) -> bool:
        """Tell whether an update of a key leaves as a delete and an insert."""
        of_sink = self.sink.cloud_storage_config if self.storage_sink else self.sink.kafka_config
        return not of_sink.output_raw_change_event

    @property
    def routing(self) -> RoutingRules:
        """Return the rules that decide where rows go: to a storage sink without topics and partitions."""
        one_table_per_topic = protocol_named(self.protocol).one_table_per_topic
        sink, dispatchers = self.sink, self.sink.dispatchers
        if self.storage_sink:
            unused = dict.fromkeys(("topic", "partition", "dispatcher"), "")
            dispatchers = tuple(d.model_copy(update=unused) for d in dispatchers)
        return RoutingRules(
            dispatchers, sink.column_selectors, self.default_topic, one_table_per_topic, self.file.case_sensitive
        )

    @property
    def event_filters(self) -> tuple[EventFilter, ...]:
        """Return the event filters: those of a storage sink take no updates by the columns that they change."""
        filters = self.file.filter.event_filters
        if not self.storage_sink:
            return filters
        return tuple(one.model_copy(update={"ignore_update_only_columns": None}) for one in filters)

    def codec_options(self, zone: str = "UTC", cluster_id: str = "default") -> CodecOptions:
        """Return the options of the protocol's codec; `zone` and `cluster_id` are the server's."""
        return CodecOptions(
            **self.codec.model_dump(exclude={"max_batch_size", "output_row_key"}),
            debezium_disable_schema=self.sink.debezium_disable_schema,
            debezium_include_start_ts=bool(self.sink.debezium.include_start_ts),
            debezium_output_old_value=self.sink.debezium.output_old_value,
            content_compatible=self.sink.content_compatible,
            only_output_updated_columns=self.sink.only_output_updated_columns,
            delete_only_output_handle_key_columns=bool(self.sink.delete_only_output_handle_key_columns),
            force_replicate=self.force_replicate,
            checksums=self.file.integrity.integrity_check_level == "correctness" and not self.storage_sink,
            schema_registry=bool(self.schema_registry),
            compressed=self.large_message_handle.large_message_handle_compression != "none",
            zone=zone,
            cluster_id=cluster_id,
            csv=self.csv if self.storage_sink else None,
            table_id_as_path=bool(self.sink.cloud_storage_config.use_table_id_as_path),
            column_ids=bool(self.sink.cloud_storage_config.output_column_id),
        )

    @property
    def schema_registry(self) -> str | None:
        """The URL of the Schema Registry. It may hold a password: see `redact_uri` before showing it."""
        glue = self.sink.kafka_config.glue_schema_registry_config
        if glue:
            return glue.url
        return self.sink.schema_registry.get_secret_value() if self.sink.schema_registry else None

    @property
    def max_message_bytes(self) -> int:
        """The size of the largest message that may be sent; files have none."""
        return 1 << 62 if self.storage_sink else self.kafka.max_message_bytes


def is_storage_sink_place(place: Place, protocol: str) -> bool:
    """Tell whether TiCDC's storage sink writes a protocol to a place; `layout=topics` says that it does not."""
    spec = find_protocol(protocol)
    return spec is not None and bool(spec.files) and not place.is_kafka and place.params.get("layout") != "topics"


def index_digits(said: int | None) -> int:
    """Return how many digits the index of a data file has: as configured, else TiCDC's default."""
    return said if said is not None and said in _INDEX_DIGITS else SinkFiles.file_index_digit


def file_size(said: int | None) -> int:
    """Return the bytes of a data file: as configured, within TiCDC's bounds, else its default."""
    return SinkFiles.file_size if said is None else min(max(said, _FILE_SIZES[0]), _FILE_SIZES[-1])


def ignored_parameters(sink_uri: str) -> Iterator[str]:
    """Yield a warning for each parameter of a sink URI that is ignored, and is a source's alone or looks misspelt."""
    for name, near in unknown_parameters(parse_place(sink_uri), SINK_PARAMETERS):
        if name in SOURCE_PARAMETERS:
            yield f"sink URI: {name} has no effect on messages that are written here"
        elif near:
            yield f"sink URI: unknown parameter {name} is ignored: did you mean {near}?"


def load_config(
    sink_uri: str, toml: str | os.PathLike[str] | None = None, schema_registry: str | None = None
) -> ChangefeedConfig:
    """Return the configuration that a sink URI and, where given, a changefeed file make together.

    The URI's parameters win over the file, also with `false` and `0`; empty ones say nothing. `schema_registry` (the
    flag) wins over the file and loses to the URI. Unknown parameters of the URI are ignored, with a warning for one
    that looks misspelt; unknown keys of the file are errors. Secrets may be given by reference. Raises ConfigError with
    TiCDC's code for everything that cannot be; its text has no secrets.
    Source: Changefeed configuration, parameters, precedence.
    """
    for warning in ignored_parameters(sink_uri):
        _log.warning("%s", warning)
    data = read_file(toml) if toml is not None else {}
    if schema_registry:
        _table(data, ("sink",))["schema-registry"] = schema_registry
    name = Path(toml).name if toml is not None else "sink URI"
    return build_config(resolved_uri(sink_uri), resolved_settings(data), name)


def build_config(sink_uri: str, file: Mapping[str, Any], name: str = "sink URI") -> ChangefeedConfig:
    """Return the configuration that a sink URI and the content of a changefeed file make together.

    `file` has TOML's names, `name` is what errors call it; see `load_config`. References to secrets are not looked up.
    """
    place = parse_place(sink_uri)
    if not (place.topic or place.root):
        raise _error(
            "CDC:ErrSinkURIInvalid",
            f"sink uri invalid '{redact_uri(sink_uri)}': {_NO_TOPIC}",
            "end the path with the topic's name",
        )
    data = copy.deepcopy(dict(file))
    parameters = _PARAMETERS if place.is_kafka else _PARAMETERS | _STORAGE_PARAMETERS
    for parameter, text in place.params.items():
        if text and (known := parameters.get(parameter)):
            _table(data, known.table)[known.field.alias or parameter] = _value(parameter, known.field, text)
    checked = validate_file(data, name)
    params = {**place.params, **dict(_connection(checked.sink.kafka_config))}
    # A parameter without a value says nothing; the reader of the connection's parameters takes each at its word.
    place = replace(place, params={k: v for k, v in params.items() if v or k not in _PARAMETERS})
    protocol = find_protocol(checked.sink.protocol)
    if protocol is None or (place.is_kafka and not protocol.topics):
        raise _error(
            "CDC:ErrSinkUnknownProtocol",
            f"unknown '{checked.sink.protocol}' message protocol for sink",
            f"add protocol= to the sink URI: one of {', '.join(known_names())}",
        )
    config = ChangefeedConfig(place, checked, KafkaOptions.from_params(place.params), protocol.name)
    for wrong in _wrongs(config, protocol):
        raise _error(*wrong)
    for dispatcher in config.sink.dispatchers:
        refuse_both_names(dispatcher)
    for dispatcher in config.routing.dispatchers:
        _check_dispatcher(dispatcher, protocol)
    for selector in config.sink.column_selectors:
        TableMatcher(selector.matcher)
        ColumnMatcher(selector.columns)
    for event_filter in checked.filter.event_filters:
        TableMatcher(event_filter.matcher)
    check_event_filters(checked.filter.event_filters)
    TableFilter(checked.filter.rules, case_sensitive=checked.case_sensitive)
    return config


class _Known(NamedTuple):
    """Where a URI parameter belongs in the file."""

    table: tuple[str, ...]
    field: FieldInfo


def _aliases(model: type[ConfigModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


_BITS = {"partition-num": 32, "replication-factor": 16, "required-acks": 16}
"""The size of numbers that TiCDC holds in fewer than 64 bits."""

_PARAMETERS: dict[str, _Known] = {
    **{n: _Known(("sink",), f) for n, f in _aliases(Sink).items() if n in _IN_SINK},
    **{
        n: _Known(("sink", "kafka-config"), f) for n, f in _aliases(KafkaConfig).items() if not n.startswith(_FILE_ONLY)
    },
    "debezium-include-start-ts": _Known(("sink", "debezium"), Debezium.model_fields["include_start_ts"]),
    **{n: _Known(("sink", "kafka-config", "codec-config"), f) for n, f in _aliases(CodecConfig).items()},
}
_STORAGE_PARAMETERS: dict[str, _Known] = {
    n: _Known(("sink", "cloud-storage-config"), f)
    for n, f in _aliases(CloudStorageConfig).items()
    if n in SINK_PARAMETERS
}
"""Those of a storage sink alone, by the same rules."""


def _error(code: str | None, message: str, hint: str | None = None, where: str | None = None) -> ConfigError:
    return ConfigError(message, code=code, where=where, hint=hint)


def read_file(toml: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a changefeed file, unchecked. Raises ConfigError where it cannot be read or is no TOML."""
    path = Path(toml)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _error(None, f"the file cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise _error(None, "the file is not UTF-8 text", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise _error(None, f"this is not TOML: {error}", where=str(path)) from None


def _table(data: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a table within the file, made where it is not there."""
    for name in names:
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise _error(_REPLICA, f"{name} must be a table", f"write [{'.'.join(names)}]")
    return data


def _value(name: str, field: FieldInfo, text: str) -> object:
    types = (field.annotation, *get_args(field.annotation))
    if name == "sasl-oauth-scopes":  # with blanks between them, as OAuth has them
        return text.split()
    bits = _BITS.get(name, 64)
    try:
        return parse_bool(text) if bool in types else parse_int(text, bits) if int in types else text
    except ValueError:
        wanted = "true or false" if bool in types else f"a whole number of {bits} bits"
        raise _error("CDC:ErrSinkURIInvalid", f"{name} cannot be {text!r}", f"write {wanted}", "sink URI") from None


def _connection(kafka: KafkaConfig) -> Iterator[tuple[str, str]]:
    """Yield the connection's options as parameters of a sink URI."""
    for attribute, field in KafkaConfig.model_fields.items():
        value = getattr(kafka, attribute)
        name = field.alias or attribute
        if value is None or isinstance(value, ConfigModel) or name not in _PARAMETERS:
            continue
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if isinstance(value, tuple):
            value = " ".join(value)
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


def validate_file(data: Mapping[str, Any], name: str) -> Changefeed:
    """Return the tables of a changefeed file.

    Raises ConfigError for unknown keys and for values of a wrong type, with no code, and for values that cannot be.
    """
    unknown = list(_unknown(Changefeed, data))
    if unknown:
        near = [f"{key}: did you mean {nearest}?" for key, nearest in unknown if nearest]
        raise _error(
            None,
            f"component TiCDC changefeed's config file {name} contained unknown configuration options: "
            + ", ".join(key for key, _ in unknown),
            "; ".join(near) or None,
        )
    try:
        return Changefeed.model_validate(data)
    except ValidationError as error:
        every = error.errors(include_input=False, include_url=False, include_context=False)
        of_type = [one for one in every if one["type"].endswith("_type")]
        first = (of_type or every)[0]
        keys = [str(part) for part in first["loc"]]
        code = None if of_type else _REPLICA
        raise _error(code, f"{'.'.join(keys)}: {first['msg']}", where=name) from None


def _unknown(
    model: type[ConfigModel] | None, data: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Yield every key that the file may not have, those of unknown tables among them, with the nearest that it may."""
    known = _aliases(model) if model else {}
    for key, value in data.items():
        if key not in known:
            yield path + key, next(iter(difflib.get_close_matches(key, known, n=1)), None)
        inner = tables_of(known[key].annotation) if key in known else None
        for item in value if isinstance(value, list) else [value]:
            if (inner or key not in known) and isinstance(item, dict):
                yield from _unknown(inner, item, f"{path}{key}.")


def tables_of(annotation: Any) -> type[ConfigModel] | None:
    """Return the model of the tables that an annotation speaks of, if it does."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        return annotation
    return next(filter(None, map(tables_of, get_args(annotation))), None)


def _wrongs(config: ChangefeedConfig, protocol: WireProtocol) -> Iterator[tuple[str, str] | tuple[str, str, str]]:
    """Yield what is wrong with a configuration as a whole: TiCDC's code and words, and a hint where there is one."""
    sink, codec, large = config.sink, config.codec, config.large_message_handle
    options = config.codec_options()
    atomicity = sink.transaction_atomicity
    if atomicity not in ("", "none") and (atomicity != "table" or config.place.is_kafka):
        words = f"{atomicity} level atomicity is not supported by {config.place.scheme} scheme"
        yield "CDC:ErrSinkURIInvalid", f"sink uri invalid '{words}'"
    if codec.max_batch_size <= 0:
        yield _CODEC, f"Codec invalid config: invalid max-batch-size {codec.max_batch_size}"
    if glue := sink.kafka_config.glue_schema_registry_config:
        if sink.schema_registry is not None:
            yield (
                _REPLICA,
                "invalid replica config, schema-registry and glue-schema-registry-configcannot be set at the same "
                "time,schema-registry is used by confluent schema registry, glue-schema-registry-config is used by "
                "aws glue schema registry",
            )
        for name, value in (("registry-name", glue.registry_name), ("region", glue.region)):
            if not value:
                yield "CDC:ErrInvalidGlueSchemaRegistryConfig", f"{name} is empty, is must be set"
        if glue.access_key and not glue.secret_access_key:
            words = "access-key is set, but access-key-secret is empty, they must be set together"
            yield "CDC:ErrInvalidGlueSchemaRegistryConfig", words
        try:
            check_glue_url(glue.url)
        except ConfigError as error:
            yield "CDC:ErrInvalidGlueSchemaRegistryConfig", error.message
    yield from _wrong_files(config, protocol)
    if options.delete_only_output_handle_key_columns and options.force_replicate:
        words = 'force-replicate must be disabled when configuration "delete-only-output-handle-key-columns" is true.'
        yield _CODEC, words
    for wrong in protocol.wrong_options(options):
        yield _CODEC, wrong
    if options.checksums and sink.column_selectors:
        yield _REPLICA, "integrity check enabled and column selector set, not allowed"
    if large.large_message_handle_option not in _LARGE_OPTIONS:
        words = f"unknown large-message-handle-option {large.large_message_handle_option}"
        yield _REPLICA, words, f"write one of {', '.join(_LARGE_OPTIONS)}"
    if large.large_message_handle_option != "none":
        if not protocol.large_messages(options):
            with_extension = protocol.large_messages(replace(options, enable_tidb_extension=True))
            yield (
                _REPLICA,
                f"large message handle is set to {large.large_message_handle_option}, protocol is {protocol.name}, "
                + ("but enable-tidb-extension is false" if with_extension else "it's not supported"),
                "Simple has it, and Canal-JSON with enable-tidb-extension=true",
            )
        storage = large.claim_check_storage_uri.get_secret_value()
        if large.large_message_handle_option == "claim-check" and not storage:
            yield _REPLICA, "large message handle is set to claim-check, but the claim-check-storage-uri is empty"
    if config.file.enable_sync_point:
        words = "The SyncPoint must be disabled when the downstream is not tidb or mysql"
        yield _REPLICA, f"invalid replica config, {words}"
    for words in _wrong_elsewhere(config):
        yield _REPLICA, words
    version = sink.kafka_config.kafka_version
    if version and not _KAFKA_VERSION.fullmatch(version):
        yield "CDC:ErrKafkaInvalidVersion", f"invalid kafka version: invalid version `{version}`"
    for name, bits in _BITS.items():
        number = getattr(sink.kafka_config, name.replace("-", "_")) or 0
        if number.bit_length() >= bits:
            yield _REPLICA, f"sink.kafka-config.{name}: {number} is no whole number of {bits} bits"
    stuck = config.file.changefeed_error_stuck_duration
    try:
        if (duration := parse_duration(stuck)) < _SHORTEST_STUCK:
            words = f"{duration / 10**9:f} must be larger than {_SHORTEST_STUCK / 10**9:f} Seconds"
            yield _REPLICA, f"invalid replica config, The ChangefeedErrorStuckDuration:{words}"
    except ValueError as error:
        yield _REPLICA, f"changefeed-error-stuck-duration: {error}"


def _wrong_elsewhere(config: ChangefeedConfig) -> Iterator[str]:
    """Yield what is wrong with settings that mean nothing here, and of which TiCDC refuses some all the same."""
    file, scheduler = config.file, config.file.scheduler
    if file.enable_active_active and not config.storage_sink:
        yield "invalid replica config, enable-active-active only supports tidb sink and storage sink"
    for name in ("count", "bytes"):
        if (getattr(file, f"event_collector_batch_{name}") or 0) < 0:
            yield f"invalid replica config, event-collector-batch-{name} must be set not smaller than 0"
    if not scheduler.enable_table_across_nodes:
        return
    for name, least in (
        *(("region_threshold", 0), ("write_key_threshold", 0), ("scheduling_task_count_per_node", 0)),
        *(("region_count_per_span", 1), ("balance_score_threshold", 1)),
    ):
        if getattr(scheduler, name) < least:
            yield f"{name.replace('_', '-')} must be larger than 0"
    if not 0 < scheduler.min_traffic_percentage < 1:
        yield "min-traffic-percentage must be between 0 and 1"
    if scheduler.max_traffic_percentage <= 1:
        yield "max-traffic-percentage must be greater than 1"


def _wrong_files(config: ChangefeedConfig, protocol: WireProtocol) -> Iterator[tuple[str, str] | tuple[str, str, str]]:
    """Yield what is wrong with the settings of a storage sink."""
    sink, code = config.sink, "CDC:ErrSinkInvalidConfig"
    for name in UNWRITTEN.keys() & config.place.params.keys() if config.place.root else ():
        yield "CDC:ErrStorageSinkInvalidConfig", f"{name} has no effect here: {UNWRITTEN[name]}"
    if not config.storage_sink:
        if not config.place.topic:
            yield "CDC:ErrSinkURIInvalid", _NO_TOPIC
        if not protocol.topics:
            yield code, f"protocol {protocol.name} is for a storage sink, which has no layout of topics"
        return
    storage = sink.cloud_storage_config
    for name, value in (("worker-count", storage.worker_count), ("spool-disk-quota", storage.spool_disk_quota)):
        if value is not None and value <= 0:
            yield "CDC:ErrStorageSinkInvalidConfig", f"invalid {name} {value}, it must be greater than 0"
    try:
        parse_duration(storage.flush_interval or "5s")
    except ValueError as error:
        yield "CDC:ErrStorageSinkInvalidConfig", f"flush-interval: {error}"
    try:
        checked_format(config.csv)
    except ConfigError as error:
        yield code, f"sink config invalid: {error.message}"
    if sink.csv.output_handle_key:
        yield code, "csv config output-handle-key adds a field to lines that is read, but not written here"
    if sink.date_separator and sink.date_separator.lower() not in DATE_SEPARATORS:
        yield (
            code,
            "sink config invalid: [CDC:ErrStorageSinkInvalidDateSeparator]date separator in storage sink is invalid",
            f"write one of {', '.join(DATE_SEPARATORS)}",
        )
    if sink.delete_only_output_handle_key_columns and not protocol.topics:
        yield (
            code,
            f"{protocol.title} protocol always output all columns for the delete event, do not set "
            "`delete-only-output-handle-key-columns` to true",
        )


def refuse_both_names(one: Dispatcher) -> None:
    """Raise ConfigError (`CDC:ErrSinkInvalidConfig`) where a dispatcher has both `partition` and its old name."""
    if one.dispatcher and one.partition:
        matcher, columns = (f"[{' '.join(names)}]" for names in (one.matcher, one.columns))
        raise _error(
            "CDC:ErrSinkInvalidConfig",
            "sink config invalid: dispatcher and partition cannot be configured both for rule:"
            f"&{{{matcher} {one.dispatcher} {one.partition} {one.index} {columns} {one.topic}}}",
            "keep partition, the newer name",
        )


def _check_dispatcher(dispatcher: Dispatcher, protocol: WireProtocol) -> None:
    TableMatcher(dispatcher.matcher)
    topic = dispatcher.topic
    if topic and protocol.one_table_per_topic and not _ONE_TABLE_TOPIC.fullmatch(topic):
        raise _error(
            "CDC:ErrKafkaTopicExprInvalid",
            f"invalid topic expression: {topic}, topic rule for {protocol.title} must contain {{schema}} and {{table}}",
        )
    if topic and not _TOPIC.fullmatch(topic):
        raise _error(
            "CDC:ErrKafkaTopicExprInvalid", f"invalid topic expression: {topic}", "for example cdc.{schema}.{table}"
        )
    check_target("target-schema", dispatcher.target_schema)
    check_target("target-table", dispatcher.target_table)
