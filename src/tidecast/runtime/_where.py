"""Which Spark is asked for: a master, a Spark Connect server, other settings; those that a command is given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from tidecast._errors import ConfigError
from tidecast._uri import hide, is_secret_name

MASTER, REMOTE = "spark.master", "spark.remote"
_MASTER = re.compile(r"local(\[.*\]|-cluster\[.*\])?|spark://.+|k8s://.+|yarn")
_NO_SECRETS = ("", "true", "false")

_small: ContextVar[bool] = ContextVar("_small", default=False)
_settings: ContextVar[Mapping[str, str]] = ContextVar("_settings", default={})  # noqa: B039 - nobody changes it


@contextmanager
def command_settings(settings: Mapping[str, str], *, small: bool = False) -> Iterator[None]:
    """Let `spark_session` take a command's settings before all others, while the block runs.

    `small` says that the command has little to do, and ends with its program. Raises ConfigError for settings that
    cannot be, before anything starts.
    """
    check_settings(settings)
    tokens = _settings.set(settings), _small.set(small)
    try:
        yield
    finally:
        _settings.reset(tokens[0])
        _small.reset(tokens[1])


def is_small() -> bool:
    """Tell whether a command runs that has little to do."""
    return _small.get()


def settings_of_command() -> Mapping[str, str]:
    """Return the settings of the command that runs, until its session has them."""
    return _settings.get()


def take_command_settings() -> Mapping[str, str]:
    """Return the settings of the command that runs, to the first who asks: its session has them from then on."""
    settings = _settings.get()
    _settings.set({})
    return settings


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ConfigError where a master or a Spark Connect server is named that cannot be."""
    master, remote = settings.get(MASTER), settings.get(REMOTE)
    if master is not None and remote is not None:
        raise ConfigError(
            "a master and a Spark Connect server cannot both be used",
            hint="give --master or --remote, that is, spark.master or spark.remote",
        )
    if remote is not None and not remote.startswith("sc://"):
        raise ConfigError("the address of a Spark Connect server begins with sc://", hint="write sc://host:15002")
    if master is not None and not _MASTER.fullmatch(master):
        hint = "write local[4], spark://host:7077, k8s://https://host:443 or yarn"
        raise ConfigError(f"unknown kind of Spark master {master!r}", hint=hint)
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & set(os.environ):
        raise ConfigError(
            "nothing tells where YARN is",
            hint="set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder of its configuration",
        )


def without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Return a text without the values of settings whose names say that they are secret, and a server's token."""
    parameters = (p.partition("=") for p in settings.get(REMOTE, "").partition("/;")[2].split(";"))
    named = {**settings, **{name: value for name, _, value in parameters}}
    secrets = {value for name, value in named.items() if is_secret_name(name) and value.lower() not in _NO_SECRETS}
    return hide(text, secrets)
