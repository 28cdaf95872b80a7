"""The expressions of TiCDC's table routes: a name, in which `{schema}` and `{table}` stand for the source's."""

from __future__ import annotations

import re

from tidecast._errors import ConfigError

_EXPRESSION = re.compile(r"([^{}]|\{schema\}|\{table\})*")
_PLACEHOLDER = re.compile(r"\{(schema|table)\}")


def check_target(expression: str) -> None:
    """Raise ConfigError (`CDC:ErrInvalidTableRoutingRule`) for an expression that is none."""
    if not _EXPRESSION.fullmatch(expression):
        raise ConfigError(f"invalid table routing rule: {expression}", code="CDC:ErrInvalidTableRoutingRule")


def target_name(expression: str, schema: str, table: str) -> str:
    """Return the name that an expression makes of a table's."""
    names = {"schema": schema, "table": table}
    return _PLACEHOLDER.sub(lambda found: names[found[1]], expression)
