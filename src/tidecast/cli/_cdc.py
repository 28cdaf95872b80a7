"""`tidecast cli`: TiCDC's `cdc cli`: the same flags, calls, output and exit codes.

Each command is a function of the parsed flags and a client of the server. Source: TiCDC's `cdc cli`.
"""

from __future__ import annotations

import datetime as dt
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

from tidecast import ConfigError, TidecastError
from tidecast._go import to_json
from tidecast.changefeed import (
    build_config,
    default_replica_config,
    file_content,
    mask_replica_config,
    masked_sink_uri,
    merge_replica_configs,
    read_replica_config,
    replica_config_for,
)
from tidecast.cli._cdc_client import ApiError, Client, Credentials, address_of
from tidecast.cli._cdc_flags import Usage, parse
from tidecast.model import compose, physical_ms

_DAY_MS = 86_400_000
_FILES = {"ca_path": "", "cert_path": "", "key_path": ""}
_LISTED = ("finished", "removed")
_CHECKED_HERE = (
    None,
    "CDC:ErrFilterRuleInvalid",
    "CDC:ErrInvalidIgnoreEventType",
    "CDC:ErrInvalidReplicaConfig",
    "CDC:ErrKafkaTopicExprInvalid",
    "CDC:ErrSinkUnknownProtocol",
)
"""What TiCDC's command line finds out by itself; the rest is the server's to say."""


class Declined(Exception):
    """The user did not confirm."""


def cdc(arguments: Sequence[str]) -> int:
    """Carry out a command line and return the exit code: 0 done or declined, 1 anything else."""
    try:
        flags = parse(arguments)
    except Usage as wrong:
        print(f"Error: {wrong}", file=sys.stderr)
        print(wrong.usage)
        print(wrong, file=sys.stderr)
        return 1
    try:
        credentials = Credentials.find(vars(flags))
        client = Client(address_of(getattr(flags, "server", ""), getattr(flags, "pd", "")), credentials)
        client.check_version()
        _COMMANDS[flags.command](flags, client)
    except Declined:
        return 0
    except TidecastError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def _create(flags: Namespace, client: Client) -> None:
    _refuse_old(flags)
    given = read_replica_config(flags.config) if flags.config else {}
    config = merge_replica_configs(default_replica_config(), given)
    if flags.schema_registry:
        config = merge_replica_configs(config, {"sink": {"schema_registry": flags.schema_registry}})
    if flags.sink_uri:
        config = replica_config_for(config, flags.sink_uri)
        _check(flags.sink_uri, config)
    now = _now(client, 0)
    start = flags.start_ts or now
    _confirm_lag(flags, now, start)
    found = client(
        "POST",
        "verify_table",
        _FILES | {"replica_config": config, "start_ts": start, "sink_uri": flags.sink_uri},
        keyspace=flags.keyspace,
    )
    ignore = bool(flags.no_confirm)
    if _names(found, "ineligible_tables") and not config.get("force_replicate"):
        print(f"[WARN] some tables are not eligible to replicate: [{_list(found, 'ineligible_tables')}]")
        if not flags.no_confirm:
            _confirm("Could you agree to ignore those tables, and continue to replicate [Y/N]")
            ignore = True
    config = merge_replica_configs(config, {"ignore_ineligible_table": ignore})
    body = {"keyspace": flags.keyspace, "changefeed_id": flags.changefeed_id, "start_ts": start}
    body |= {"target_ts": flags.target_ts or 0, "sink_uri": flags.sink_uri, "replica_config": config, **_FILES}
    made = client("POST", "changefeeds", body, keyspace=flags.keyspace)
    print(f"Create changefeed successfully!\nID: {made['id']}\nInfo: {to_json(made)}")
    _print_tables(found, flags.verbose)


def _update(flags: Namespace, client: Client) -> None:
    _refuse_old(flags)
    old = _get(flags, client)
    config = dict(old["config"])
    if flags.config:
        config = merge_replica_configs(config, read_replica_config(flags.config))
    if flags.schema_registry:
        config = merge_replica_configs(config, {"sink": {"schema_registry": flags.schema_registry}})
    if flags.sink_uri:
        config = replica_config_for(config, flags.sink_uri)
        _check(flags.sink_uri, config)
    target = old.get("target_ts", 0) if flags.target_ts is None else flags.target_ts
    before = {"sink_uri": old.get("sink_uri", ""), "target_ts": old.get("target_ts", 0), "config": old["config"]}
    after = {"sink_uri": flags.sink_uri or before["sink_uri"], "target_ts": target, "config": config}
    changes = list(_differences(before, after))
    if not changes:
        print("changefeed config is the same with the old one, do nothing")
        return
    print("Diff of changefeed config:")
    print("\n".join(changes))
    if not flags.no_confirm:
        _confirm("Could you agree to apply changes above to changefeed [Y/N]", declined="No update to changefeed.")
    found = _all_tables(flags, client, old["checkpoint_ts"], config)
    body = {"changefeed_id": "", "start_ts": 0, "target_ts": target, "sink_uri": flags.sink_uri}
    new = client("PUT", _path(flags), body | {"replica_config": config} | _FILES, keyspace=flags.keyspace)
    print(f"Update changefeed config successfully! \nID: {flags.changefeed_id}\nInfo: {to_json(new)}")
    _print_tables(found)


def _list_feeds(flags: Namespace, client: Client) -> None:
    items = client("GET", "changefeeds", keyspace=flags.keyspace, state="all")["items"]
    shown = [item for item in items if flags.all or item["state"] not in _LISTED]
    _print_json(
        [
            {"id": item["id"], "keyspace": item.get("keyspace", "")}
            | {
                "summary": {
                    "state": item["state"],
                    "tso": item["checkpoint_tso"],
                    "checkpoint": item["checkpoint_time"],
                    "error": None if item["state"] == "normal" else item.get("error"),
                }
            }
            for item in shown
        ]
    )


def _query(flags: Namespace, client: Client) -> None:
    if flags.simple:
        items = client("GET", "changefeeds", keyspace=flags.keyspace, state="all")["items"]
        found = next((item for item in items if item["id"] == flags.changefeed_id), None)
        if found is None:
            raise ApiError(f"changefeed not exists, {flags.changefeed_id}", code="CDC:ErrChangeFeedNotExists")
        states = {"": "normal", "pending": "warning"}
        _print_json(found | {"state": states.get(found["state"], found["state"])})
        return
    feed = _get(flags, client)
    made = dt.datetime.fromisoformat(feed["create_time"])
    shown = {
        "upstream_id": feed.get("upstream_id", 0),
        "id": feed["id"],
        "keyspace": feed.get("keyspace", ""),
        "sink_uri": feed.get("sink_uri", ""),
        "config": feed["config"],
        "create_time": f"{made:%Y-%m-%d %H:%M:%S}.{made.microsecond // 1000:03d}",
        "start_ts": feed.get("start_ts", 0),
        "resolved_ts": feed["resolved_ts"],
        "target_ts": feed.get("target_ts", 0),
        "checkpoint_tso": feed["checkpoint_ts"],
        "checkpoint_time": feed.get("checkpoint_time", ""),
    }
    optional = ("sort_engine", "state", "error", "error_history", "creator_version", "task_status")
    _print_json(shown | {name: feed[name] for name in optional if feed.get(name)})


def _pause(flags: Namespace, client: Client) -> None:
    client("POST", _path(flags, "pause"), answers=False, keyspace=flags.keyspace)


def _resume(flags: Namespace, client: Client) -> None:
    feed = _get(flags, client)
    now = _now(client, feed.get("upstream_id", 0))
    checkpoint = _overwriting(flags.overwrite_checkpoint_ts, now)
    _confirm_lag(flags, now, checkpoint or feed["checkpoint_ts"])
    found: Mapping[str, Any] | None = None
    if checkpoint:
        found = _all_tables(flags, client, checkpoint, _get(flags, client)["config"])
    body = _FILES | {"overwrite_checkpoint_ts": checkpoint}
    client("POST", _path(flags, "resume"), body, answers=False, keyspace=flags.keyspace)
    print(f"Resume changefeed successfully! \nID: {flags.changefeed_id}")
    if found is not None:
        _print_tables(found, flags.verbose)


def _remove(flags: Namespace, client: Client) -> None:
    def fail(error: TidecastError) -> NoReturn:
        print(f"Changefeed remove failed.\nID: {flags.changefeed_id}\nError: {error}")
        raise error

    try:
        feed = _get(flags, client)
    except ApiError as error:
        if "ErrChangeFeedNotExists" in str(error):
            print(f"Changefeed not found.\nID: {flags.changefeed_id}")
            return
        fail(error)
    try:
        client("DELETE", _path(flags), answers=False, keyspace=flags.keyspace)
    except ApiError as error:
        fail(error)
    try:
        _get(flags, client)
    except ApiError as error:
        if "ErrChangeFeedNotExists" not in str(error):
            fail(error)
    else:
        fail(
            ApiError(
                f"changefeed exists after deletion, {flags.changefeed_id}", code="CDC:ErrChangeFeedDeletionUnfinished"
            )
        )
    print(
        f"Changefeed remove successfully.\nID: {flags.changefeed_id}\n"
        f"CheckpointTs: {feed['checkpoint_ts']}\nSinkURI: {feed.get('sink_uri', '')}"
    )


def _statistics(flags: Namespace, client: Client) -> None:
    def end(*_: object) -> NoReturn:
        raise ApiError("context canceled")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while True:
        time.sleep(flags.interval)
        try:
            feed = _get(flags, client)
            now = physical_ms(_now(client, feed.get("upstream_id", 0)))
        except ApiError as error:
            if str(error) == "context canceled":
                raise
            continue  # the next look may do better
        checkpoint = physical_ms(feed["checkpoint_ts"])
        gap = physical_ms(feed["resolved_ts"]) - checkpoint
        _print_json({"sink_gap": f"{gap}ms", "replication_gap": f"{now - checkpoint}ms"})


def _captures(flags: Namespace, client: Client) -> None:
    _print_json(
        [
            {"id": c["id"], "is-owner": c["is_owner"], "address": c["address"], "cluster-id": c["cluster_id"]}
            for c in client("GET", "captures")["items"]
        ]
    )


def _tso(flags: Namespace, client: Client) -> None:
    print(_now(client, 0))


_COMMANDS: dict[str, Callable[[Namespace, Client], None]] = {
    "changefeed create": _create,
    "changefeed update": _update,
    "changefeed list": _list_feeds,
    "changefeed query": _query,
    "changefeed pause": _pause,
    "changefeed resume": _resume,
    "changefeed remove": _remove,
    "changefeed statistics": _statistics,
    "capture list": _captures,
    "tso query": _tso,
}


def _path(flags: Namespace, verb: str = "") -> str:
    """Return the path of the changefeed that the flags name, whatever its id is made of."""
    path = f"changefeeds/{quote(flags.changefeed_id, safe='')}"
    return f"{path}/{verb}" if verb else path


def _get(flags: Namespace, client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client("GET", _path(flags), keyspace=flags.keyspace)
    return found


def _now(client: Client, upstream: int) -> int:
    said = client("POST", "tso", {"id": upstream, **_FILES})
    return compose(said["timestamp"], said["logic_time"])


def _all_tables(flags: Namespace, client: Client, start_ts: int, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables; that they cannot be had is only worth a line."""
    body = _FILES | {"replica_config": config, "start_ts": start_ts, "sink_uri": ""}
    try:
        found: Mapping[str, Any] = client("POST", "get_all_tables", body, keyspace=flags.keyspace)
    except ApiError as error:
        found = {"warning": str(error)}
    return found


def _overwriting(text: str, now: int) -> int:
    if not text:
        return 0
    if text != "now" and not (text.isascii() and text.isdecimal()):
        raise ConfigError(
            f"invalid overwrite-checkpoint-ts {text}, overwrite-checkpoint-ts only accept 'now' or a valid timestamp "
            "in integer",
            code="CDC:ErrCliInvalidCheckpointTs",
        )
    checkpoint = now if text == "now" else int(text)
    if checkpoint > now:
        raise ConfigError(
            f"the overwrite-checkpoint-ts {checkpoint} must be smaller than current TSO {now}",
            code="CDC:ErrCliCheckpointTsIsInFuture",
        )
    return checkpoint


def _refuse_old(flags: Namespace) -> None:
    if flags.sort_dir:
        raise ConfigError("--sort-dir is not supported any more", hint="take it out")
    if flags.tz:
        print("[WARN] --tz is the server's: it has no effect here")


def _check(sink_uri: str, config: Mapping[str, Any]) -> None:
    try:
        build_config(sink_uri, file_content(config), "changefeed")
    except ConfigError as error:
        if error.code in _CHECKED_HERE:
            raise


def _confirm_lag(flags: Namespace, now: int, start: int) -> None:
    lag = physical_ms(now) - physical_ms(start)
    if lag > _DAY_MS and not flags.no_confirm:
        _confirm(
            f"Replicate lag ({dt.timedelta(milliseconds=lag)}) is larger than 1 days, large data may cause OOM, "
            "confirm to continue at your own risk [Y/N]"
        )


def _confirm(question: str, declined: str = "") -> None:
    print(question, flush=True)
    said = next((word for line in sys.stdin for word in line.split()), None)
    if said is None:
        print("Received invalid input: EOF, abort the command.")
        raise Declined
    if said not in ("y", "Y"):
        if declined:
            print(declined)
        raise Declined


def _names(found: Mapping[str, Any], kind: str) -> list[str]:
    return [f"{t['database_name']}.{t['table_name']}" for t in found.get(kind) or []]


def _list(found: Mapping[str, Any], kind: str) -> str:
    return ", ".join(_names(found, kind))


def _print_tables(found: Mapping[str, Any], verbose: bool = False) -> None:
    for label, kind in (("Ineligible", "ineligible"), ("Eligible", "eligible"), ("All", "all")):
        print(f"{label}TablesCount: {len(_names(found, f'{kind}_tables'))}")
    if verbose:
        for label, kind in (("Eligible", "eligible"), ("Ineligible", "ineligible"), ("All", "all")):
            print(f"{label}Tables: [{_list(found, f'{kind}_tables')}]")
    if "warning" in found:
        print(f"Warning: {found['warning']}")


def _print_json(value: object) -> None:
    print(to_json(value, indent=2), flush=True)


_ACRONYMS = {"uri": "URI", "id": "ID", "tidb": "TiDB", "sql": "SQL", "csv": "CSV", "gc": "GC", "tls": "TLS"}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each change, as TiCDC prints them; without secrets."""
    return _changes(before, after, _without_secrets(before), _without_secrets(after), ())


def _without_secrets(feed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **feed,
        "sink_uri": masked_sink_uri(feed["sink_uri"]),
        "config": mask_replica_config(feed["config"]),
    }


def _changes(old: Any, new: Any, shown_old: Any, shown_new: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            words = name.replace("-", "_").split("_")
            label = "".join(_ACRONYMS.get(word, word.capitalize()) for word in words)
            yield from _changes(old.get(name), new.get(name), shown_old.get(name), shown_new.get(name), (*path, label))
    elif old != new:
        kind = "create" if old is None else "delete" if new is None else "update"
        yield f"{{Type:{kind} Path:[{' '.join(path)}] From:{_shown(shown_old)} To:{_shown(shown_new)}}}"


def _shown(value: object) -> str:
    return "<nil>" if value is None else value if isinstance(value, str) else to_json(value)
