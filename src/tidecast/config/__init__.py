"""A changefeed's settings: one model, made from TiCDC's TOML file, its sink URI or its HTTP API."""

from tidecast.config._api_json import (
    check_types,
    checked_replica_config,
    completed_replica_config,
    default_replica_config,
    file_content,
    filter_of,
    mask_replica_config,
    merge_replica_configs,
    patched_replica_config,
    read_replica_config,
    replica_config_for,
    secret_values,
    unmask_replica_config,
    without_effect,
)
from tidecast.config._build import ChangefeedConfig, build_config, ignored_parameters, load_config
from tidecast.config._source import configured_source, names_files

__all__ = [
    "ChangefeedConfig",
    "build_config",
    "check_types",
    "checked_replica_config",
    "completed_replica_config",
    "configured_source",
    "default_replica_config",
    "file_content",
    "filter_of",
    "ignored_parameters",
    "load_config",
    "mask_replica_config",
    "merge_replica_configs",
    "names_files",
    "patched_replica_config",
    "read_replica_config",
    "replica_config_for",
    "secret_values",
    "unmask_replica_config",
    "without_effect",
]
