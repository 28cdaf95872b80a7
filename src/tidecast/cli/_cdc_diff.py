"""Print an update's changes as TiCDC's `cdc cli` does: a line for each field and each element of a list.

The paths have the names of TiCDC's own structures. Source: Changefeeds, updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tidecast._go import duration_string
from tidecast._uri import masked_sink_uri
from tidecast.config import mask_replica_config, merge_replica_configs

_FIELDS = {
    "advance_timeout": "AdvanceTimeoutInSec",
    "consistent.flush_interval": "FlushIntervalInMs",
    "consistent.meta_flush_interval": "MetaFlushIntervalInMs",
    "csv": "CSVConfig",
    "debezium": "DebeziumConfig",
    "dispatchers": "DispatchRules",
    "index": "IndexName",
    "null": "NullString",
    "open": "OpenProtocolConfig",
    "partition": "PartitionRule",
    "ssl_ca": "SSLCa",
    "topic": "TopicRule",
    "transaction_atomicity": "TxnAtomicity",
}
_WORDS = {word.lower(): word for word in ("BDR", "CA", "GC", "ID", "MySQL", "SASL", "SQL", "SSL", "TiDB", "TLS", "URI")}
_WORDS |= {"url": "URL", "gssapi": "GssAPI", "oauth": "OAuth", "dml": "DML"}
_DURATIONS = frozenset(
    (
        *("active_active_progress_interval", "active_active_sync_stats_interval", "changefeed_error_stuck_duration"),
        *("sync_point_interval", "sync_point_retention", "region_count_refresh_interval"),
    )
)
_BARE_DURATION = "region_count_refresh_interval"
_NO_POINTERS = frozenset(("csv", "debezium", "glue_schema_registry_config", "large_message_handle", "open"))
"""Structures whose fields cannot be absent: what is not said of them is empty."""


class _Change(NamedTuple):
    kind: str
    path: tuple[str, ...]
    old: object
    new: object

    def __str__(self) -> str:
        return f"{{Type:{self.kind} Path:[{' '.join(self.path)}] From:{_text(self.old)} To:{_text(self.new)}}}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str] | None:
    """Return a line for each difference of two changefeeds, None where there is none.

    Both have `sink_uri`, `target_ts` and `config`, a replica config. Secrets are masked before the lines are made, so
    that a new password alone has none.
    """
    if not any(_feed(old, new)):
        return None
    return [str(change) for change in _feed(_masked(old), _masked(new))]


def _masked(feed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **feed,
        "sink_uri": masked_sink_uri(feed["sink_uri"]),
        "config": mask_replica_config(feed["config"]),
    }


def _feed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Change]:
    for name, label in (("sink_uri", "SinkURI"), ("target_ts", "TargetTs")):
        yield from _value((label,), old[name], new[name])
    # The merged object has the members of both, in TiCDC's order.
    order = merge_replica_configs(old["config"], new["config"])
    yield from _struct(("Config",), "", old["config"], new["config"], order)


def _struct(
    path: tuple[str, ...],
    parent: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    order: Mapping[str, Any],
    *,
    zeros: bool = False,
) -> Iterator[_Change]:
    """Yield the changes of a structure's fields; with `zeros` an absent field is an empty one."""
    for name in dict.fromkeys((*order, *old, *new)):
        here = (*path, _FIELDS.get(f"{parent}.{name}") or _FIELDS.get(name) or _label(name))
        before, after = old.get(name), new.get(name)
        if isinstance(before, list) or isinstance(after, list):
            yield from _list(here, before or [], after or [])
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            inner = order.get(name)
            yield from _struct(
                here,
                name,
                before,
                after,
                inner if isinstance(inner, Mapping) else {},
                zeros=zeros or name in _NO_POINTERS,
            )
        elif name in _DURATIONS:
            if name != _BARE_DURATION and before is not None and after is not None:
                here = (*here, "duration")
            yield from _value(here, _duration(before), _duration(after))
        else:
            if zeros:
                before, after = _zero(before, after), _zero(after, before)
            yield from _value(here, before, after)


def _list(path: tuple[str, ...], old: Sequence[Any], new: Sequence[Any]) -> Iterator[_Change]:
    """Yield the changes of the elements that only one side has; those at one index are compared with each other."""
    gone, come = _without(old, new), _without(new, old)
    for index in dict.fromkeys((*gone, *come)):
        here = (*path, str(index))
        if index in gone and index in come:
            yield from _element(here, gone[index], come[index])
        elif index in come:
            yield from (_Change("create", c.path, None, c.new) for c in _element(here, None, come[index]))
        else:
            yield from (_Change("delete", c.path, c.new, None) for c in _element(here, None, gone[index]))


def _without(items: Sequence[Any], others: Sequence[Any]) -> dict[int, Any]:
    """Return the elements, by index, that have no equal among others; each of those is the equal of one."""
    left = list(others)
    found: dict[int, Any] = {}
    for index, item in enumerate(items):
        if item in left:
            left.remove(item)
        else:
            found[index] = item
    return found


def _element(path: tuple[str, ...], old: Any, new: Any) -> Iterator[_Change]:
    if isinstance(new, Mapping):
        yield from _struct(path, "", old or {}, new, {}, zeros=True)
    else:
        yield from _value(path, old, new)


def _value(path: tuple[str, ...], old: object, new: object) -> Iterator[_Change]:
    if old != new:
        yield _Change("update", path, old, new)


def _zero(value: object, other: object) -> object:
    return type(other)() if value is None and isinstance(other, str | bool | int) else value


def _label(name: str) -> str:
    return "".join(_WORDS.get(word, word.capitalize()) for word in name.replace("-", "_").split("_"))


def _duration(nanoseconds: object) -> object:
    return duration_string(nanoseconds) if type(nanoseconds) is int else nanoseconds


def _text(value: object) -> str:
    """Return a value as Go's `%+v` prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "{" + " ".join(f"{_label(name)}:{_text(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + " ".join(map(_text, value)) + "]"
        case _:
            return str(value)
