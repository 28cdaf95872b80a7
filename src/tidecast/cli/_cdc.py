"""`tidecast cli`: TiCDC's `cdc cli`: the same flags, calls, output and exit codes.

Each command is a function of the parsed flags and a client of the server. Source: Changefeeds, cdc cli.
"""

from __future__ import annotations

import datetime as dt
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from tidecast import ConfigError, TidecastError
from tidecast._tso import compose, physical_ms
from tidecast.cli._cdc_calls import NO_FILES, all_tables, changefeed_path, current_ts, get_changefeed, upstream
from tidecast.cli._cdc_client import ApiError, Client, Credentials, address_of
from tidecast.cli._cdc_console import NO_WARNING, Declined, confirm, confirm_lag, print_json, print_tables
from tidecast.cli._cdc_flags import Flags, Help, Usage, parse

_MINUTE_MS = 60_000
_LISTED = ("finished", "removed")


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
        if flags.command == "tso query" and not flags.pd:  # TiCDC's client asks PD for it, and no server
            raise _no_pd()
        credentials = Credentials.find(vars(flags))
        client = Client(address_of(flags.server, flags.pd), credentials)
        client.check_version()
        _COMMANDS[flags.command](flags, client)
    except Declined:
        return 0
    except TidecastError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def _create(flags: Flags, client: Client) -> None:
    from tidecast.cli._cdc_settings import create  # it reads settings, for which other commands need not wait

    create(flags, client)


def _update(flags: Flags, client: Client) -> None:
    from tidecast.cli._cdc_settings import update  # as in `_create`

    update(flags, client)


def _list_feeds(flags: Flags, client: Client) -> None:
    items = client("GET", "changefeeds", keyspace=flags.keyspace, state="all")["items"]
    shown = [item for item in items if flags.all or item["state"] not in _LISTED]
    print_json(
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


def _query(flags: Flags, client: Client) -> None:
    if flags.simple:
        items = client("GET", "changefeeds", keyspace=flags.keyspace, state="all")["items"]
        found = next((item for item in items if item["id"] == flags.changefeed_id), None)
        if found is None:
            raise ApiError(f"changefeed not exists, {flags.changefeed_id}", code="CDC:ErrChangeFeedNotExists")
        states = {"": "normal", "pending": "warning"}
        print_json(found | {"state": states.get(found["state"], found["state"])})
        return
    feed = get_changefeed(flags, client)
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
    print_json(shown | {name: feed[name] for name in optional if feed.get(name)})


def _pause(flags: Flags, client: Client) -> None:
    client("POST", changefeed_path(flags, "pause"), answers=False, keyspace=flags.keyspace)


def _resume(flags: Flags, client: Client) -> None:
    feed = get_changefeed(flags, client)
    now = current_ts(client, feed.get("upstream_id", 0))
    body = upstream(flags) | {"overwrite_checkpoint_ts": 0}
    if not flags.overwrite_checkpoint_ts:
        confirm_lag(flags, now, feed["checkpoint_ts"], "resume")
        client("POST", changefeed_path(flags, "resume"), body, answers=False, keyspace=flags.keyspace)
        print(f"Resume changefeed successfully! \nID: {flags.changefeed_id}")
        return
    checkpoint = _overwriting(flags.overwrite_checkpoint_ts, now)
    if not flags.no_confirm:
        confirm(
            f"You are overwriting the checkpoint of changefeed({flags.changefeed_id}) to {checkpoint}, which may lead "
            "to data loss or data duplication.\nConfirm that you know what this command will do and use it at your "
            "own risk [Y/N]",
            "Abort changefeed resume.",
            end="",
        )
    found, warning = all_tables(flags, client, checkpoint, get_changefeed(flags, client)["config"])
    body["overwrite_checkpoint_ts"] = checkpoint
    client("POST", changefeed_path(flags, "resume"), body, answers=False, keyspace=flags.keyspace)
    print(f"Resume changefeed successfully! \nID: {flags.changefeed_id}")
    print_tables(found, flags.verbose, warning or NO_WARNING)


def _remove(flags: Flags, client: Client) -> None:
    def fail(error: TidecastError) -> NoReturn:
        print(f"Changefeed remove failed.\nID: {flags.changefeed_id}\nError: {error}")
        raise error

    try:
        feed = get_changefeed(flags, client)
    except ApiError as error:
        if "ErrChangeFeedNotExists" in str(error):
            print(f"Changefeed not found.\nID: {flags.changefeed_id}")
            return
        fail(error)
    try:
        client("DELETE", changefeed_path(flags), answers=False, keyspace=flags.keyspace)
    except ApiError as error:
        fail(error)
    try:
        get_changefeed(flags, client)
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


def _statistics(flags: Flags, client: Client) -> None:
    def end(*_: object) -> NoReturn:
        raise ApiError("context canceled")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while True:
        try:
            feed = get_changefeed(flags, client)
            now = physical_ms(current_ts(client, feed.get("upstream_id", 0)))
            checkpoint = physical_ms(feed["checkpoint_ts"])
            gap = physical_ms(feed["resolved_ts"]) - checkpoint
            print_json({"sink_gap": f"{gap}ms", "replication_gap": f"{now - checkpoint}ms"})
        except ApiError as error:
            if str(error) == "context canceled":
                raise
        time.sleep(flags.interval)  # after an error, the next look may do better


def _captures(flags: Flags, client: Client) -> None:
    print_json(
        [
            {"id": c["id"], "is-owner": c["is_owner"], "address": c["address"], "cluster-id": c["cluster_id"]}
            for c in client("GET", "captures")["items"]
        ]
    )


def _tso(flags: Flags, client: Client) -> None:
    print(current_ts(client, 0))


def _move(flags: Flags, client: Client) -> None:
    """Ask for what no server of ours does, and print its refusal, which is the command's answer."""
    path = changefeed_path(flags, flags.command.rpartition(" ")[2].replace("-", "_"))
    query = {"tableID": str(flags.table_id), "mode": str(flags.mode)}
    if node := getattr(flags, "target_node_id", None):
        query["targetNodeID"] = node
    try:
        client("POST", path, answers=False, keyspace=flags.keyspace, **query)
    except ApiError as error:
        print_json({"success": False, "error": str(error)})
    else:
        print_json({"success": True, "error": ""})


def _confirm_danger(flags: Flags) -> None:
    if not flags.no_confirm:
        try:
            confirm("Confirm that you know what this command will do and use it at your own risk [Y/N]", "")
        except Declined:
            raise ConfigError("abort meta command") from None


def _reset(flags: Flags, client: Client) -> None:
    _confirm_danger(flags)
    raise _no_pd()


def _no_pd() -> ConfigError:
    words = "Empty PD address. Please use --pd to specify PD cluster addresses"
    return ConfigError(words, code="CDC:ErrInvalidServerOption")


def _metadata(flags: Flags, client: Client) -> None:
    found = client("GET", "unsafe/metadata")
    for one in found:
        print(f"Key: {one['key']}, Value: {one['value']}")
    print(f"Show {len(found)} KVs")


def _delete_safepoint(flags: Flags, client: Client) -> None:
    _confirm_danger(flags)
    client("DELETE", "unsafe/service_gc_safepoint", {"id": 0, **NO_FILES}, answers=False, keyspace=flags.keyspace)
    print("CDC service GC safepoint truncated in PD!")


def _resolve_lock(flags: Flags, client: Client) -> None:
    ts = flags.ts or compose(physical_ms(current_ts(client, 0)) - _MINUTE_MS)
    body = {"region_id": flags.region, "ts": ts, **NO_FILES}
    client("POST", "unsafe/resolve_lock", body, answers=False, keyspace=flags.keyspace)


_COMMANDS: dict[str, Callable[[Flags, Client], None]] = {
    "changefeed create": _create,
    "changefeed update": _update,
    "changefeed list": _list_feeds,
    "changefeed query": _query,
    "changefeed pause": _pause,
    "changefeed resume": _resume,
    "changefeed remove": _remove,
    "changefeed statistics": _statistics,
    "changefeed move-table": _move,
    "changefeed move-split-table": _move,
    "changefeed split-table-by-region-count": _move,
    "changefeed merge-table": _move,
    "unsafe reset": _reset,
    "unsafe show-metadata": _metadata,
    "unsafe delete-service-gc-safepoint": _delete_safepoint,
    "unsafe resolve-lock": _resolve_lock,
    "capture list": _captures,
    "tso query": _tso,
}


def _overwriting(text: str, now: int) -> int:
    """Read `--overwrite-checkpoint-ts`: `now`, in upper or lower case, or a TSO above 0."""
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
