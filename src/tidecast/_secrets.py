"""Secrets by reference: `env:NAME` or `file:/path` in the place of a password, a secret or a token.

A reference stays what is stored and shown; its value is looked up where the work begins. Only what the program's own
user wrote is looked up: what a client of the server writes would let it read the server's secrets. Source: Places,
secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from tidecast._errors import ConfigError
from tidecast._uri import SHORTEST_HIDDEN, hide, is_secret_name

Lookup = Callable[[str, str], str]
"""What gives the value of a reference; the second text names the setting, for errors."""

_REFERENCE = re.compile(r"(env|file):(.*)", re.S)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = re.compile(r"(?://(?:localhost)?)?(/.+)")
_ONE = r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^@?#]+"
_USERINFO = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*://)(env:[A-Za-z_][A-Za-z0-9_]*|[^:/?#@]*):({_ONE}|[^:/?#@]*)@")
_PARAM = re.compile(r"([?&])([^=&#?]+)=([^&#]*)")
_URIS = ("schema-registry", "schema_registry")
_LARGEST = 65_536

_looked_up: set[str] = set()


def value_of(reference: str, name: str) -> str:
    """Return the value of a reference, without the line break that ends a file.

    Raises ConfigError, which names the setting, the variable or the file, and never a value.
    """
    kind, _, rest = reference.partition(":")
    value = _LOOKUPS[kind](rest, name)
    if not value:
        raise ConfigError("the secret that this refers to is empty", where=f"{name}={reference}")
    _looked_up.add(value)
    return value


def check_reference(text: str, name: str) -> None:
    """Raise ConfigError unless a text is a reference that has a value now."""
    if not _REFERENCE.fullmatch(text):
        raise ConfigError("this is no reference to a secret", where=name, hint="write env:NAME or file:/path")
    value_of(text, name)


def resolved(text: str, name: str, lookup: Lookup = value_of) -> str:
    """Return a secret, which may be given by reference; `name` is what errors call it."""
    return lookup(text, name) if _REFERENCE.fullmatch(text) else text


def resolved_uri(uri: str, lookup: Lookup = value_of) -> str:
    """Return a URI with the values of the references among its userinfo and its secret parameters, percent-encoded.

    A parameter that is a registry's URL is such a URI, too.
    """

    def userinfo(match: re.Match[str]) -> str:
        start, *given = match.groups()
        names = ("the user before @", "the password before @")
        user, password = (
            # What holds no reference stays as it was written, well encoded or not.
            quote(resolved(unquote(one), name, lookup), safe="") if _REFERENCE.fullmatch(unquote(one)) else one
            for one, name in zip(given, names, strict=True)
        )
        return f"{start}{user}:{password}@"

    def parameter(match: re.Match[str]) -> str:
        before, name, value = match[1], unquote_plus(match[2]), unquote_plus(match[3])
        if name in _URIS:
            new = resolved_uri(value, lookup)
        else:
            new = resolved(value, name, lookup) if _holds_secret(name) else value
        return match[0] if new == value else f"{before}{match[2]}={quote(new, safe='')}"

    head, mark, query = uri.partition("?")
    return _USERINFO.sub(userinfo, head, count=1) + _PARAM.sub(parameter, mark + query)


def resolved_settings(settings: Mapping[str, Any], lookup: Lookup = value_of) -> dict[str, Any]:
    """Return settings, of TOML or JSON, with the values of the references among their secrets, at any depth."""
    return {name: _resolved_setting(name, value, lookup) for name, value in settings.items()}


def without_looked_up(text: str) -> str:
    """Return a text without the values that references had in this process, whoever quotes them."""
    return hide(text, (value for value in _looked_up if len(value) >= SHORTEST_HIDDEN))


def _resolved_setting(name: str, value: Any, lookup: Lookup) -> Any:
    if isinstance(value, Mapping):
        return resolved_settings(value, lookup)
    if isinstance(value, list):
        return [_resolved_setting(name, item, lookup) for item in value]
    if not isinstance(value, str):
        return value
    if name in _URIS:
        return resolved_uri(value, lookup)
    return resolved(value, name, lookup) if _holds_secret(name) else value


def _holds_secret(name: str) -> bool:
    return name == "salt" or (is_secret_name(name) and not name.endswith("url"))


def _variable(variable: str, name: str) -> str:
    if not _VARIABLE.fullmatch(variable):  # it may be a password that begins so, and is not shown
        raise ConfigError(
            "what follows env: is no name of an environment variable",
            where=name,
            hint="a secret that itself begins with env: or file: goes into a variable or a file",
        )
    value = os.environ.get(variable)
    if value is None:
        raise ConfigError(f"the environment variable {variable} is not set", where=name)
    return value


def _content(path: str, name: str) -> str:
    found = _FILE.fullmatch(path)
    if not found or "\0" in path:
        raise ConfigError(
            "what follows file: is no absolute path",
            where=name,
            hint="a secret that itself begins with env: or file: goes into a variable or a file",
        )
    where = f"{name}, {found[1]}"
    try:
        with Path(found[1]).open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError(f"a secret has at most {_LARGEST:,} bytes", where=where)
        return content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError(f"the file of the secret cannot be read: {error.strerror}", where=where) from None
    except UnicodeDecodeError:
        raise ConfigError("the file of the secret is not UTF-8 text", where=where) from None


_LOOKUPS: dict[str, Callable[[str, str], str]] = {"env": _variable, "file": _content}
