"""`tidecast cli`: TiCDC's `cdc cli`: the same flags, calls, output and exit codes.

Each command is a function of the parsed flags and a client of the server. Source: Changefeeds, cdc cli.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import typer

from tidecast import ConfigError, TidecastError
from tidecast._go import duration_string, to_json
from tidecast.cli._cdc_client import ApiError, Client, Credentials, address_of
from tidecast.cli._cdc_diff import differences
from tidecast.cli._cdc_flags import MOVES, SORT_ENGINES, Help, Usage, parse
from tidecast.config import (
    build_config,
    default_replica_config,
    file_content,
    merge_replica_configs,
    read_replica_config,
    replica_config_for,
)
from tidecast.model import compose, physical_ms

_DAY_MS = 86_400_000
_MINUTE_MS = 60_000
_FILES = {"ca_path": "", "cert_path": "", "key_path": ""}
_LISTED = ("finished", "removed")
_NO_WARNING = "%!s(<nil>)"
"""What TiCDC's command line prints for no warning: Go's form of a missing text, which readers of the output know."""

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
    except Help as wanted:
        print(wanted, end="")
        return 0
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
    given = read_replica_config(flags.config) if flags.config else {}
    config = merge_replica_configs(default_replica_config(), given)
    if flags.schema_registry:
        config = merge_replica_configs(config, {"sink": {"schema_registry": flags.schema_registry}})
    if flags.sink_uri:
        config = replica_config_for(config, flags.sink_uri)
        _check(flags.sink_uri, config)
    if flags.sort_engine not in SORT_ENGINES:
        _log("invalid sort-engine, use Unified Sorter by default", invalidSortEngine=flags.sort_engine)
    if flags.tz != "SYSTEM":
        _warn("--tz is deprecated in changefeed settings.")
    if flags.sort_dir:
        _warn(
            "--sort-dir is deprecated in changefeed settings. Please use `cdc server --data-dir` to start the cdc "
            "server if possible, sort-dir will be set automatically. The --sort-dir here will be no-op"
        )
        raise ConfigError("creating changefeed with `--sort-dir`, it's invalid")
    now = _now(client, 0)
    start = flags.start_ts or now
    _confirm_lag(flags, now, start, "create")
    found = client(
        "POST",
        "verify_table",
        _FILES | {"replica_config": config, "start_ts": start, "sink_uri": flags.sink_uri},
        keyspace=flags.keyspace,
    )
    config = merge_replica_configs(config, {"ignore_ineligible_table": _ignoring(flags, found, config)})
    body = {"keyspace": flags.keyspace, "changefeed_id": flags.changefeed_id, "start_ts": start}
    body |= {"target_ts": flags.target_ts or 0, "sink_uri": flags.sink_uri, "replica_config": config, **_FILES}
    made = client("POST", "changefeeds", body, keyspace=flags.keyspace)
    print(f"Create changefeed successfully!\nID: {made['id']}\nInfo: {to_json(made)}")
    _print_tables(found, flags.verbose)


def _update(flags: Namespace, client: Client) -> None:
    """Send what differs. What the new settings are worth is the server's to say, after the difference is shown."""
    old = _get(flags, client)
    if flags.sort_dir:
        _log("this flag cannot be updated and will be ignored", flagName="sort-dir")
    config = dict(old["config"])
    if flags.config:
        config = merge_replica_configs(config, read_replica_config(flags.config))
    if flags.schema_registry:
        config = merge_replica_configs(config, {"sink": {"schema_registry": flags.schema_registry}})
    target = old.get("target_ts", 0) if flags.target_ts is None else flags.target_ts
    sink_uri = old.get("sink_uri", "") if flags.sink_uri else ""  # it came masked: without a new one, not to compare
    changes = differences(
        {"sink_uri": sink_uri, "target_ts": old.get("target_ts", 0), "config": old["config"]},
        {"sink_uri": flags.sink_uri, "target_ts": target, "config": config},
    )
    if changes is None:
        print("changefeed config is the same with the old one, do nothing")
        return
    print("\n".join(["Diff of changefeed config:", *changes]))
    if not flags.no_confirm:
        _confirm("Could you agree to apply changes above to changefeed [Y/N]", "No update to changefeed.")
    found, warning = _all_tables(flags, client, old["checkpoint_ts"], config)
    if warning is None:
        config = merge_replica_configs(config, {"ignore_ineligible_table": _ignoring(flags, found, config)})
    body = {"changefeed_id": "", "start_ts": 0, "target_ts": target, "sink_uri": flags.sink_uri}
    new = client("PUT", _path(flags), body | {"replica_config": config} | _FILES, keyspace=flags.keyspace)
    print(f"Update changefeed config successfully! \nID: {new['id']}\nInfo: {to_json(new)}")
    _print_tables(found, flags.verbose, warning or _NO_WARNING)


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
    body = _FILES | {"overwrite_checkpoint_ts": 0}
    if not flags.overwrite_checkpoint_ts:
        _confirm_lag(flags, now, feed["checkpoint_ts"], "resume")
        client("POST", _path(flags, "resume"), body, answers=False, keyspace=flags.keyspace)
        print(f"Resume changefeed successfully! \nID: {flags.changefeed_id}")
        return
    checkpoint = _overwriting(flags.overwrite_checkpoint_ts, now)
    if not flags.no_confirm:
        _confirm(
            f"You are overwriting the checkpoint of changefeed({flags.changefeed_id}) to {checkpoint}, which may lead "
            "to data loss or data duplication.\nConfirm that you know what this command will do and use it at your "
            "own risk [Y/N]",
            "Abort changefeed resume.",
            end="",
        )
    found, warning = _all_tables(flags, client, checkpoint, _get(flags, client)["config"])
    body["overwrite_checkpoint_ts"] = checkpoint
    client("POST", _path(flags, "resume"), body, answers=False, keyspace=flags.keyspace)
    print(f"Resume changefeed successfully! \nID: {flags.changefeed_id}")
    _print_tables(found, flags.verbose, warning or _NO_WARNING)


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
        try:
            feed = _get(flags, client)
            now = physical_ms(_now(client, feed.get("upstream_id", 0)))
            checkpoint = physical_ms(feed["checkpoint_ts"])
            gap = physical_ms(feed["resolved_ts"]) - checkpoint
            _print_json({"sink_gap": f"{gap}ms", "replication_gap": f"{now - checkpoint}ms"})
        except ApiError as error:
            if str(error) == "context canceled":
                raise
        time.sleep(flags.interval)  # after an error, the next look may do better


def _captures(flags: Namespace, client: Client) -> None:
    _print_json(
        [
            {"id": c["id"], "is-owner": c["is_owner"], "address": c["address"], "cluster-id": c["cluster_id"]}
            for c in client("GET", "captures")["items"]
        ]
    )


def _tso(flags: Namespace, client: Client) -> None:
    print(_now(client, 0))


def _move(flags: Namespace, client: Client) -> None:
    """Ask for what no server of ours does, and print its refusal, which is the command's answer."""
    path = _path(flags, flags.command.rpartition(" ")[2].replace("-", "_"))
    query = {"tableID": str(flags.table_id), "mode": str(flags.mode)}
    if "target_node_id" in flags:
        query["targetNodeID"] = flags.target_node_id
    try:
        client("POST", path, answers=False, keyspace=flags.keyspace, **query)
    except ApiError as error:
        _print_json({"success": False, "error": str(error)})
    else:
        _print_json({"success": True, "error": ""})


def _confirm_danger(flags: Namespace) -> None:
    if not flags.no_confirm:
        try:
            _confirm("Confirm that you know what this command will do and use it at your own risk [Y/N]", "")
        except Declined:
            raise ConfigError("abort meta command") from None


def _reset(flags: Namespace, client: Client) -> None:
    _confirm_danger(flags)
    raise ConfigError(
        "Empty PD address. Please use --pd to specify PD cluster addresses", code="CDC:ErrInvalidServerOption"
    )


def _metadata(flags: Namespace, client: Client) -> None:
    found = client("GET", "unsafe/metadata")
    for one in found:
        print(f"Key: {one['key']}, Value: {one['value']}")
    print(f"Show {len(found)} KVs")


def _delete_safepoint(flags: Namespace, client: Client) -> None:
    _confirm_danger(flags)
    client("DELETE", "unsafe/service_gc_safepoint", {"id": 0, **_FILES}, answers=False, keyspace=flags.keyspace)
    print("CDC service GC safepoint truncated in PD!")


def _resolve_lock(flags: Namespace, client: Client) -> None:
    ts = flags.ts or compose(physical_ms(_now(client, 0)) - _MINUTE_MS)
    body = {"region_id": flags.region, "ts": ts, **_FILES}
    client("POST", "unsafe/resolve_lock", body, answers=False, keyspace=flags.keyspace)


_COMMANDS: dict[str, Callable[[Namespace, Client], None]] = {
    "changefeed create": _create,
    "changefeed update": _update,
    "changefeed list": _list_feeds,
    "changefeed query": _query,
    "changefeed pause": _pause,
    "changefeed resume": _resume,
    "changefeed remove": _remove,
    "changefeed statistics": _statistics,
    **{f"changefeed {name}": _move for name in MOVES},
    "unsafe reset": _reset,
    "unsafe show-metadata": _metadata,
    "unsafe delete-service-gc-safepoint": _delete_safepoint,
    "unsafe resolve-lock": _resolve_lock,
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
    tso = client("POST", "tso", {"id": upstream, **_FILES})
    return compose(tso["timestamp"], tso["logic_time"])


def _all_tables(
    flags: Namespace, client: Client, start_ts: int, config: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str | None]:
    """Return the tables, or why they cannot be had, which is only worth a line."""
    body = _FILES | {"replica_config": config, "start_ts": start_ts, "sink_uri": ""}
    try:
        return client("POST", "get_all_tables", body, keyspace=flags.keyspace), None
    except ApiError as error:
        return {}, str(error)


def _overwriting(text: str, now: int) -> int:
    """Return the checkpoint that `--overwrite-checkpoint-ts` names: `now` in any letter case, or a TSO but 0."""
    if text.lower() == "now":
        return now
    checkpoint = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < checkpoint < 1 << 64:
        raise ConfigError(
            f"invalid overwrite-checkpoint-ts {text}, overwrite-checkpoint-ts only accept 'now' or a valid timestamp "
            "in integer",
            code="CDC:ErrCliInvalidCheckpointTs",
        )
    if checkpoint > now:
        raise ConfigError(
            f"the overwrite-checkpoint-ts {checkpoint} must be smaller than current TSO",
            code="CDC:ErrCliCheckpointTsIsInFuture",
        )
    return checkpoint


def _ignoring(flags: Namespace, found: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Tell of tables that cannot be replicated, and return whether they are to be left out: what the user says."""
    tables = found.get("ineligible_tables")
    if tables:
        named = f"do not have a primary key or a not-null unique key: {_go_tables(tables)}"
        if config.get("force_replicate"):
            print(
                f"[WARN] Force to replicate some ineligible tables, these tables {named}\n"
                "[WARN] This may cause data redundancy, please refer to the official documentation for details."
            )
        else:
            print(f"[WARN] Some tables are not eligible to replicate, because they {named}")
            if not flags.no_confirm:
                _confirm(
                    "Could you agree to ignore those tables, and continue to replicate [Y/N]\n"
                    "Note: If you don't want to ignore those tables, please set `force-replicate to` true in the "
                    "changefeed config file.",
                    "No changefeed is created because you don't want to ignore some tables.",
                )
                return True
    return bool(flags.no_confirm)


def _check(sink_uri: str, config: Mapping[str, Any]) -> None:
    try:
        build_config(sink_uri, file_content(config), "changefeed")
    except ConfigError as error:
        if error.code in _CHECKED_HERE:
            raise


def _confirm_lag(flags: Namespace, now: int, start: int, command: str) -> None:
    lag = physical_ms(now) - physical_ms(start)
    if lag > _DAY_MS and not flags.no_confirm:
        _confirm(
            f"Replicate lag ({duration_string(lag * 10**6)}) is larger than 1 days, large data may cause OOM, "
            "confirm to continue at your own risk [Y/N]",
            f"Abort changefeed {command}.",
        )


def _confirm(question: str, declined: str, end: str = "\n") -> None:
    """Ask, and raise Declined, after saying so, unless the answer's first word is a y."""
    print(question, end=end, flush=True)
    answer = next((word for line in sys.stdin for word in line.split()), None)
    if answer is None:
        print("Received invalid input: EOF, abort the command.")
    if answer not in ("y", "Y"):
        print(declined, end="\n" if declined else "")
        raise Declined


def _warn(text: str) -> None:
    typer.secho(f"[WARN] {text}", fg="bright_yellow")


def _log(text: str, **fields: str) -> None:
    """Print a warning as TiCDC's log has it, which its command line writes among the output."""
    moment = dt.datetime.now().astimezone()
    zone = f"{moment:%z}"
    at = f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d} {zone[:3]}:{zone[3:5]}"
    shown = {name: _quoted(value) if set(value) & set(' "=[]\n') else value for name, value in fields.items()}
    print(f'[{at}] [WARN] [<unknown>] ["{text}"]', *(f"[{name}={value}]" for name, value in shown.items()))


def _names(found: Mapping[str, Any], kind: str) -> list[str]:
    return [f"{t['database_name']}.{t['table_name']}" for t in found.get(kind) or []]


def _go_tables(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return tables as Go's `%#v` prints them."""
    return (
        "[]v2.TableName{"
        + ", ".join(
            f"v2.TableName{{Schema:{_quoted(t['database_name'])}, Table:{_quoted(t['table_name'])}, "
            f"TableID:{t['table_id']}, IsPartition:{to_json(t['is_partition'])}}}"
            for t in tables
        )
        + "}"
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _print_tables(found: Mapping[str, Any], verbose: bool, warning: str | None = None) -> None:
    for label, kind in (("Ineligible", "ineligible"), ("Eligible", "eligible"), ("All", "all")):
        print(f"{label}TablesCount: {len(_names(found, f'{kind}_tables'))}")
    if warning:
        print(f"Warning: {warning}")
    if verbose:
        for label, kind in (("Eligible", "eligible"), ("Ineligible", "ineligible"), ("All", "all")):
            print(f"{label}Tables: [{', '.join(_names(found, f'{kind}_tables'))}]")


def _print_json(value: object) -> None:
    print(to_json(value, indent=2), flush=True)
