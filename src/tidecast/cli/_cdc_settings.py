"""The commands of `tidecast cli` that make settings of a changefeed, and so need what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidecast import ConfigError
from tidecast._go import to_json
from tidecast.cli._cdc_calls import all_tables, changefeed_path, current_ts, get_changefeed, upstream
from tidecast.cli._cdc_client import Client, no_file
from tidecast.cli._cdc_console import NO_WARNING, confirm, confirm_lag, go_tables, log_warning, print_tables, warn
from tidecast.cli._cdc_diff import differences
from tidecast.cli._cdc_flags import Flags
from tidecast.config import (
    build_config,
    default_replica_config,
    file_content,
    merge_replica_configs,
    read_replica_config,
    replica_config_for,
)

_SORT_ENGINES = ("memory", "file", "unified")
_CHECKED_HERE = (
    None,
    "CDC:ErrFilterRuleInvalid",
    "CDC:ErrInvalidIgnoreEventType",
    "CDC:ErrInvalidReplicaConfig",
    "CDC:ErrKafkaTopicExprInvalid",
    "CDC:ErrSinkUnknownProtocol",
)
"""What TiCDC's command line finds out by itself; the rest is the server's to say."""


def create(flags: Flags, client: Client) -> None:
    """Create a changefeed, after a look at its settings and its tables."""
    given = _config_file(flags.config) if flags.config else {}
    config = merge_replica_configs(default_replica_config(), given)
    if flags.schema_registry:
        config = merge_replica_configs(config, {"sink": {"schema_registry": flags.schema_registry}})
    if flags.sink_uri:
        config = replica_config_for(config, flags.sink_uri)
        _check(flags.sink_uri, config)
    if flags.disable_gc_check:
        config = merge_replica_configs(config, {"check_gc_safe_point": False})
    if flags.sort_engine not in _SORT_ENGINES:
        log_warning("invalid sort-engine, use Unified Sorter by default", invalidSortEngine=flags.sort_engine)
    if flags.tz != "SYSTEM":
        warn("--tz is deprecated in changefeed settings.")
    if flags.sort_dir:
        warn(
            "--sort-dir is deprecated in changefeed settings. Please use `cdc server --data-dir` to start the cdc "
            "server if possible, sort-dir will be set automatically. The --sort-dir here will be no-op"
        )
        raise ConfigError("creating changefeed with `--sort-dir`, it's invalid")
    now = current_ts(client, 0, upstream(flags))
    start = flags.start_ts or now
    confirm_lag(flags, now, start, "create")
    found = client(
        "POST",
        "verify_table",
        upstream(flags) | {"replica_config": config, "start_ts": start, "sink_uri": flags.sink_uri},
        keyspace=flags.keyspace,
    )
    config = merge_replica_configs(config, {"ignore_ineligible_table": _ignoring(flags, found, config)})
    body = {"keyspace": flags.keyspace, "changefeed_id": flags.changefeed_id, "start_ts": start}
    body |= {"target_ts": flags.target_ts or 0, "sink_uri": flags.sink_uri, "replica_config": config, **upstream(flags)}
    made = client("POST", "changefeeds", body, keyspace=flags.keyspace)
    print(f"Create changefeed successfully!\nID: {made['id']}\nInfo: {to_json(made)}")
    print_tables(found, flags.verbose)


def update(flags: Flags, client: Client) -> None:
    """Show the differences and send the new settings. The server validates them."""
    old = get_changefeed(flags, client)
    if flags.sort_dir:
        log_warning("this flag cannot be updated and will be ignored", flagName="sort-dir")
    config = dict(old["config"])
    if flags.config:
        config = merge_replica_configs(config, _config_file(flags.config))
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
        confirm("Could you agree to apply changes above to changefeed [Y/N]", "No update to changefeed.")
    found, warning = all_tables(flags, client, old["checkpoint_ts"], config)
    if warning is None:
        config = merge_replica_configs(config, {"ignore_ineligible_table": _ignoring(flags, found, config)})
    body = {"changefeed_id": "", "start_ts": 0, "target_ts": target, "sink_uri": flags.sink_uri}
    body |= {"replica_config": config, **upstream(flags)}
    new = client("PUT", changefeed_path(flags), body, keyspace=flags.keyspace)
    print(f"Update changefeed config successfully! \nID: {new['id']}\nInfo: {to_json(new)}")
    print_tables(found, flags.verbose, warning or NO_WARNING)


def _config_file(path: str) -> dict[str, Any]:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise ConfigError(no_file(path, error)) from None
    return read_replica_config(path)


def _ignoring(flags: Flags, found: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Warn about tables that cannot be replicated, and return whether the user agrees to ignore them."""
    tables = found.get("ineligible_tables")
    if tables:
        named = f"do not have a primary key or a not-null unique key: {go_tables(tables)}"
        if config.get("force_replicate"):
            print(
                f"[WARN] Force to replicate some ineligible tables, these tables {named}\n"
                "[WARN] This may cause data redundancy, please refer to the official documentation for details."
            )
        else:
            print(f"[WARN] Some tables are not eligible to replicate, because they {named}")
            if not flags.no_confirm:
                confirm(
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
