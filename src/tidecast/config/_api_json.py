"""A changefeed's configuration as TiCDC's HTTP API has it: JSON with its own names, beside TOML's.

A *replica config* is a JSON object: names in snake case with a few exceptions, durations in nanoseconds. It lacks
members that nobody set and that have no default. Source: Changefeeds, ReplicaConfig.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tidecast._config_model import EMPTY_IS_UNSET, ConfigModel
from tidecast._errors import ConfigError
from tidecast._go import duration_text, parse_duration
from tidecast._uri import HIDDEN, is_secret_name, parse_place, redact_uri
from tidecast.config._build import (
    index_digits,
    is_storage_sink_place,
    read_file,
    refuse_both_names,
    tables_of,
    validate_file,
)
from tidecast.config._file import (
    DURATION,
    Changefeed,
    CodecConfig,
    Csv,
    Debezium,
    GlueSchemaRegistry,
    LargeMessageHandle,
    Memory,
    MysqlConfig,
    Open,
    PulsarConfig,
    PulsarOauth2,
    Sink,
)
from tidecast.routing import Dispatcher, EventFilter, Filter

_NAMES: dict[tuple[type[ConfigModel], str], str | None] = {
    (Dispatcher, "dispatcher"): "partition",
    (Dispatcher, "target_schema"): "target-schema",
    (Dispatcher, "target_table"): "target-table",
    (Sink, "advance_timeout_in_sec"): "advance_timeout",
    (Sink, "file_index_digit"): "file_index_width",
    (Sink, "send_all_bootstrap_at_start"): "send-all-bootstrap-at-start",
    (Sink, "case_sensitive"): None,
    (Sink, "force_replicate"): None,
    (Sink, "integrity"): None,
    (CodecConfig, "output_row_key"): None,
    (MysqlConfig, "max_multi_update_row"): "max_multi_update_row_count",
    **{(model, name): f.alias for model in (PulsarConfig, PulsarOauth2) for name, f in model.model_fields.items()},
    (PulsarConfig, "tls_key_file_path"): "tls-certificate-path",
    (PulsarConfig, "tls_certificate_file"): "tls-private-key-path",
    (Changefeed, "sql_mode"): None,
}
"""Names that are not the attribute's; None for what the API does not carry."""

_NO_DEFAULT: dict[type[ConfigModel], tuple[str, ...]] = {
    Changefeed: ("force_replicate", "ignore_ineligible_table"),
    Sink: ("protocol", "transaction_atomicity", "kafka_config", "cloud_storage_config"),
}
_WHOLE = ("filter", "sink")

_NO_POINTERS = (Csv, Debezium, EventFilter, GlueSchemaRegistry, LargeMessageHandle, Memory, Open)
"""Structures whose members TiCDC always writes: what is not said of one is empty, and a list null."""

_NO_EFFECT = frozenset(
    (
        *("memory_quota", "check_gc_safe_point", "enable_table_monitor", "bdr_mode", "enable_active_active"),
        "performance_mode",
        *("active_active_progress_interval", "active_active_sync_stats_interval", "sync_point_interval"),
        *("sync_point_retention", "event_collector_batch_count", "event_collector_batch_bytes", "mounter"),
        *("consistent", "scheduler", "sink.csv", "sink.encoder_concurrency", "sink.terminator", "sink.date_separator"),
        *("sink.enable_partition_separator", "sink.file_index_width", "sink.safe_mode", "sink.pulsar_config"),
        *("sink.mysql_config", "sink.cloud_storage_config", "sink.advance_timeout", "sink.open"),
        *("sink.send-all-bootstrap-at-start", "sink.kafka_config.write_timeout", "sink.enable_kafka_sink_v2"),
    )
)
"""Settings that mean something to other sinks, other protocols, or a cluster."""

_OF_FILES = {"sink.csv", "sink.terminator", "sink.date_separator", "sink.file_index_width", "sink.cloud_storage_config"}
"""Those of them that mean something to a storage sink."""


class _Member(NamedTuple):
    toml: str
    api: str
    inner: type[ConfigModel] | None
    duration: bool
    secret: bool


@cache
def _members(model: type[ConfigModel]) -> tuple[_Member, ...]:
    return tuple(
        _Member(
            field.alias or attribute,
            api,
            tables_of(field.annotation),
            DURATION in field.metadata,
            _is_secret(field.annotation),
        )
        for attribute, field in model.model_fields.items()
        if (api := _NAMES.get((model, attribute), attribute)) is not None
    )


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(map(_is_secret, get_args(annotation)))


@cache
def _always(model: type[ConfigModel]) -> dict[str, Any]:
    """Return the members that TiCDC always writes of a structure, each with its value where nothing sets it."""
    if model not in _NO_POINTERS:
        return {}
    said = {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}
    return {
        _NAMES.get((model, name)) or name: _empty(model.model_fields[name], default)
        for name, default in said.items()
        if default is not None
    }


def _empty(field: FieldInfo, default: Any) -> Any:
    if isinstance(default, tuple):
        return None
    return default if EMPTY_IS_UNSET in field.metadata else "" if isinstance(default, SecretStr) else type(default)()


def read_replica_config(toml: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the replica config of a changefeed file. Raises ConfigError also for keys that TiCDC has not."""
    return checked_replica_config(read_file(toml), os.fspath(toml))


def checked_replica_config(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the replica config of a changefeed file's content, which errors call `name`: only what the file says.

    Raises ConfigError for keys that TiCDC has not, for values of a wrong type, and for both names of a partition rule,
    as a replica config has but one.
    """
    for dispatcher in validate_file(file, name).sink.dispatchers:
        refuse_both_names(dispatcher)
    return _to_api(Changefeed, file)


def check_types(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a value of a wrong type in a replica config."""
    try:
        validate_file(file_content(config), "replica_config")
    except ConfigError as error:
        if error.code is None:
            raise


def file_content(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a changefeed file's content (TOML's names) for a replica config; members that it does not know are left.

    A value of a wrong type stays as it is: checking it is `build_config`'s job.
    """
    return _to_toml(Changefeed, config)


@cache
def _default_file() -> dict[str, Any]:
    return Changefeed().model_dump(by_alias=True, exclude_none=True, mode="json")


def default_replica_config() -> dict[str, Any]:
    """Return the replica config that TiCDC begins with."""
    config = _to_api(Changefeed, _default_file())
    for model, names in _NO_DEFAULT.items():
        part = config if model is Changefeed else config["sink"]
        for name in names:
            part.pop(name, None)
    return config


def merge_replica_configs(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replica config over another one: objects are merged, anything else is replaced."""
    return _canonical(_merged(base, over))


def completed_replica_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replica config as an update takes it: what it leaves out has its default.

    `filter` and `sink` are taken whole: what such an object leaves out is unset. Source: Changefeeds, updates.
    """
    defaults = default_replica_config()
    return _canonical(_merged(defaults, config) | {name: config[name] for name in _WHOLE if config.get(name)})


def patched_replica_config(stored: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored replica config with what another one has: a `sink` whole, of `filter` and the rest each member.

    Source: Changefeeds, HTTP API v1.
    """
    return _canonical(_merged(stored, config) | {name: config[name] for name in ("sink",) if config.get(name)})


def replica_config_for(config: Mapping[str, Any], sink_uri: str) -> dict[str, Any]:
    """Return a replica config with what a sink URI says: protocol, atomicity, that files have names of some width."""
    place = parse_place(sink_uri)
    names = ("protocol", "transaction-atomicity")
    named: dict[str, Any] = {name.replace("-", "_"): place.params[name] for name in names if place.params.get(name)}
    sink = {**(config.get("sink") or {}), **named}
    if is_storage_sink_place(place, sink.get("protocol") or ""):
        named["file_index_width"] = index_digits(sink.get("file_index_width"))
    return merge_replica_configs(config, {"sink": named})


def filter_of(config: Mapping[str, Any]) -> tuple[Filter, bool]:
    """Return a replica config's table filter, and whether upper and lower case count in it."""
    file = validate_file(file_content(config), "replica_config")
    return file.filter, file.case_sensitive


def without_effect(config: Mapping[str, Any], sink_uri: str = "") -> list[str]:
    """Return the names of the settings that differ from the defaults and mean nothing to this program and sink."""
    found = {*_idle(default_replica_config(), config, "")}
    if sink_uri:
        protocol = replica_config_for(config, sink_uri)["sink"].get("protocol") or ""
        found -= _OF_FILES if is_storage_sink_place(parse_place(sink_uri), protocol) else set()
    return sorted(found)


def mask_replica_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replica config without its secrets: `xxxxx` in their place, and in the place of URLs' passwords."""
    return _masked(Changefeed, config)


def unmask_replica_config(config: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replica config that came back from a reader of `mask_replica_config(stored)`, with its secrets back."""
    return _unmasked(config, mask_replica_config(stored), stored)


def secret_values(config: Mapping[str, Any]) -> Iterator[str]:
    """Return every secret text of a replica config, URLs with passwords as a whole."""
    return _differing(config, mask_replica_config(config))


def _to_api(model: type[ConfigModel], file: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Return what a table of a file says, by the API's names; `whole` has all members that cannot be absent."""
    found: dict[str, Any] = {}
    for member in _members(model):
        value = file.get(member.toml)
        if member.duration and isinstance(value, str):
            with contextlib.suppress(ValueError):  # checking it is `build_config`'s job
                value = parse_duration(value)
        elif member.inner:
            value = _each(value, lambda inner, of=member.inner: _to_api(of, inner, whole=whole))
        _put(found, member.api, value)
        if whole and member.api in _always(model):
            found.setdefault(member.api, _always(model)[member.api])
    return found


def _to_toml(model: type[ConfigModel], config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member in _members(model):
        value = config.get(member.api)
        if member.duration and type(value) is int:
            value = duration_text(value)
        elif member.inner:
            value = _each(value, lambda inner, of=member.inner: _to_toml(of, inner))
        if member.toml != "dispatcher":  # the old name of `partition`, which the API has under that one only
            _put(found, member.toml, value)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    """Set a member unless it is null or an empty list, which TiCDC takes for no list."""
    if value is not None and value != [] and not (name == "partition" and not value):
        found[name] = value


def _each(value: Any, convert: Any) -> Any:
    if isinstance(value, Mapping):
        return convert(value)
    if isinstance(value, list):
        return [_each(item, convert) for item in value]
    return value


def _canonical(config: Mapping[str, Any]) -> dict[str, Any]:
    return _to_api(Changefeed, file_content(config), whole=True)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = _merged(below, value)
        elif value is not None:
            result[name] = value
    return result


def _idle(defaults: Mapping[str, Any], config: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in config.items():
        here = path + name
        if here in _NO_EFFECT:
            if value != defaults.get(name):
                yield here
        elif isinstance(value, Mapping):
            yield from _idle(defaults.get(name, {}), value, f"{here}.")
        elif isinstance(value, list):
            for one in value:
                yield from _idle({}, one, f"{here}.") if isinstance(one, Mapping) else ()


def _masked(model: type[ConfigModel], config: Mapping[str, Any]) -> dict[str, Any]:
    members = {member.api: member for member in _members(model)}
    found: dict[str, Any] = {}
    for name, value in config.items():
        member = members.get(name)
        if member and member.inner:
            value = _each(value, lambda inner, of=member.inner: _masked(of, inner))
        elif isinstance(value, Mapping):
            value = _masked_by_name(value)
        elif member and member.secret and value:
            value = _hidden(value)
        found[name] = value
    return found


def _masked_by_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a sink that this program has none of, at any depth, without their secrets."""
    return {
        name: _masked_by_name(value)
        if isinstance(value, Mapping)
        else _hidden(value)
        if value and is_secret_name(name)
        else value
        for name, value in config.items()
    }


def _hidden(value: object) -> str:
    text = str(value)
    return redact_uri(text) if "://" in text else HIDDEN


def _unmasked(config: Mapping[str, Any], shown: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _unmasked(value, shown[name], stored[name])
        if isinstance(value, Mapping) and isinstance(stored.get(name), Mapping)
        else stored[name]
        if name in stored and value == shown[name]
        else value
        for name, value in config.items()
    }


def _differing(value: Mapping[str, Any], shown: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _differing(inner, shown[name])
        elif inner != shown[name]:
            yield str(inner)
