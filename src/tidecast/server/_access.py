"""Who may talk to the server: anybody on this machine, or users over TLS."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import os
import ssl
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidecast._errors import ConfigError
from tidecast._go import is_loopback
from tidecast._secrets import resolved
from tidecast.server._answers import failure

_log = logging.getLogger(__name__)

_NOBODY = "Basic Og=="
"""What TiCDC's client sends without a user."""

_DELAY_S = 1.0
_MOST_WAITING = 20


@dataclass(frozen=True)
class Access:
    """Who may talk to the server.

    `users` are names with passwords; without any, everybody on this machine may. `cert` and `key` are the files of
    the server's certificate; with `ca` clients need one, too, that this authority signed.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @classmethod
    def of(
        cls,
        users: Mapping[str, str] | None,
        users_file: str | None,
        *,
        ca: str | None,
        cert: str | None,
        key: str | None,
    ) -> Access:
        """Return what options say: users by name, and more of them in a file. Raises ConfigError as `read_users`."""
        given = {**(read_users(users_file) if users_file else {}), **(users or {})}
        known = {user: resolved(password, f"user {user}") for user, password in given.items()}
        return cls(known, ca, cert, key)

    @property
    def tls(self) -> bool:
        """Tell whether the server speaks HTTPS."""
        return bool(self.cert and self.key)

    def check(self, host: str) -> None:
        """Raise ConfigError for certificates that cannot be used, or an address that would be open to everybody."""
        if bool(self.cert) != bool(self.key) or (self.ca and not self.cert):
            raise ConfigError("a server with TLS needs both --cert and --key", hint="--ca alone checks nothing")
        if self.cert:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.cert, self.key)
                if self.ca:
                    context.load_verify_locations(self.ca)
            except OSError as error:  # a file that is not there; an SSLError, too, is one
                raise ConfigError(f"the certificate cannot be used: {error.strerror or error}") from None
        if not (is_loopback(host.strip("[]")) or (self.tls and self.users)):
            raise ConfigError(
                f"{host} can be reached from other machines, which takes TLS and users",
                hint="give --cert, --key and --users, or listen on 127.0.0.1",
            )

    def knows(self, authorization: str | None) -> bool:
        """Tell whether the header `Authorization` names a user with the right password."""
        found = _basic(authorization)
        if found is None:
            return False
        user, password = found
        # Compared in full whether or not there is such a user, so that the time taken tells nothing.
        right = hmac.compare_digest(self.users.get(user, "").encode(), password.encode())
        return right and user in self.users


def _basic(authorization: str | None) -> tuple[str, str] | None:
    """Return the user and the password of a header `Authorization`, None where it names none."""
    kind, _, encoded = (authorization or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user, password


def _refusal(authorization: str | None) -> Response:
    """Return the answer to whom this header does not let in, with TiCDC's code."""
    user = "" if authorization == _NOBODY else (_basic(authorization) or ("",))[0]
    code, message = "CDC:ErrUnauthorized", f"user {user} unauthorized, error: Access denied for user '{user}'"
    if not user:
        code = "CDC:ErrCredentialNotFound"
        message = "credential not found: please specify the user and password via authorization header"
    response = failure(f"[{code}]{message}", code, 401)
    response.headers["WWW-Authenticate"] = 'Basic realm="tidecast", charset="UTF-8"'
    return response


def read_users(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the names and passwords in a TOML file, a line each: `name = "password"`. Raises ConfigError."""
    try:
        users = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the users cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError:  # its text would quote the file
        raise ConfigError("the users are not TOML", where=str(path), hint='write name = "password"') from None
    if not users or not all(isinstance(password, str) and password for password in users.values()):
        raise ConfigError("every user has a password", where=str(path), hint='write name = "password"')
    return users


class Guard:
    """Turns away who has no right to ask, and web pages of other origins, which ask in the name of a browser's user.

    After a wrong password the next one from the same address is looked at a second later, so that trying them out
    takes longer than anybody has; of those who wait, only so many.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app do so."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "")
            origin = headers.get("origin")
            here = is_loopback(_name(host))
            if (origin and origin.partition("://")[2] != host) or not (here or self._access.users):
                response = failure("requests of other origins are refused", "", 403)
                return await response(scope, receive, send)
            if self._access.users:
                authorization = headers.get("authorization")
                status = await self._judge((scope.get("client") or ("",))[0], authorization)
                if status == 429:
                    response = failure("too many wrong passwords from this address: ask again later", "", 429)
                    return await response(scope, receive, send)
                if status == 401:
                    return await _refusal(authorization)(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _judge(self, address: str, authorization: str | None) -> int:
        """Return the status that a request from an address deserves; 200 where it has the right password."""
        if authorization in (None, _NOBODY):
            return 401
        if self._waiting[address] >= _MOST_WAITING:
            return 429
        self._waiting[address] += 1
        try:
            async with self._turns.setdefault(address, asyncio.Lock()):
                if self._access.knows(authorization):
                    return 200
                _log.warning("wrong user or password from %s", address)
                await asyncio.sleep(_DELAY_S)
                return 401
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address], self._turns[address]


def _name(host: str) -> str:
    """Return the name in a header `Host`, empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
