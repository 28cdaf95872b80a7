"""Hides the secrets of a command line's options in errors and log lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

GIVEN: dict[str, str] = {}
"""The settings of Spark that this process' commands were given, by `--conf`, `--master` and `--remote`."""


def hide(settings: Mapping[str, str]) -> None:
    """Let no error and no log line show the secrets among settings of Spark from now on."""
    GIVEN.update(settings)


def hidden(text: str) -> str:
    """Return a text without the secrets among what was given, and those that were looked up."""
    from tidecast._secrets import without_looked_up

    text = without_looked_up(text)
    if not GIVEN:
        return text
    from tidecast.runtime import without_secrets

    return without_secrets(text, GIVEN)


class HidingFormatter(logging.Formatter):
    """Log lines without these secrets, whoever quotes them."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        return hidden(super().format(record))
