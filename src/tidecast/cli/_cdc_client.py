"""How `tidecast cli` talks to a server: its address, credentials, and calls of TiCDC's HTTP API.

Source: Changefeeds, cdc cli, credentials.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import re
import socket
import ssl
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tidecast import ConfigError, TidecastError, __version__
from tidecast._go import is_loopback, to_json

DEFAULT_HOST = "127.0.0.1:8300"
_OLDEST = (6, 2, 0)
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-.*)?")
_NO_CREDENTIAL = "CDC:ErrCredentialNotFound"
_CREDENTIAL_HELP = """
Give the credentials in one of these ways:
  1. the flags --user and --password, or the variables TICDC_USER and TICDC_PASSWORD
  2. the file $HOME/.ticdc/credentials with ticdc_user and ticdc_password"""


class ApiError(TidecastError):
    """A server's refusal, in its own words."""


@dataclass(frozen=True)
class Credentials:
    """Who asks, and with which certificates."""

    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    cert: str = ""
    key: str = ""

    @classmethod
    def find(cls, flags: Mapping[str, str | None]) -> Credentials:
        """Take them from the flags, else the environment, else the file of credentials, each as a whole."""
        file = Path.home() / ".ticdc" / "credentials"
        try:
            stored = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        except (OSError, ValueError) as error:
            raise ConfigError(f"the credentials cannot be read: {type(error).__name__}", where=str(file)) from None
        user, password = flags.get("user"), flags.get("password")
        if user and not password:
            password = getpass.getpass("Enter password: ")
        if not user:
            user, password = os.environ.get("TICDC_USER"), os.environ.get("TICDC_PASSWORD")
        if not user:
            user, password = stored.get("ticdc_user"), stored.get("ticdc_password")
        files = {name: flags.get(name) or "" for name in ("ca", "cert", "key")}
        if not any(files.values()):
            files = {name: os.environ.get(f"TICDC_{name.upper()}_PATH", "") for name in files}
        if not any(files.values()):
            files = {name: str(stored.get(f"{name}_path", "")) for name in files}
        return cls(str(user or ""), str(password or ""), **files)


class Client:
    """Calls the API of one server. Raises ApiError with the server's words, or why it cannot be asked."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        scheme = "https" if credentials.cert else "http"
        self._base = (address if "://" in address else f"{scheme}://{address or DEFAULT_HOST}").rstrip("/")
        token = base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()
        self._headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {token}",
            "User-Agent": f"tidecast/{__version__}",
            "X-Client-Version": f"tidecast-{__version__}",
        }
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=_tls(credentials))]
        if is_loopback(_host(self._base)):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def check_version(self) -> None:
        """Refuse a server that speaks another API."""
        version = str((self("GET", "status") or {}).get("version", ""))
        if not version:
            return
        found = _VERSION.fullmatch(version)
        if not found:
            raise ApiError(
                f"create sem version: invalid CDC cluster version: {version} is not in dotted-tri format",
                code="CDC:ErrNewSemVersion",
            )
        if tuple(map(int, found.groups()[:3])) < _OLDEST:
            raise ApiError(
                "Can’t operate the TiCDC cluster, the cluster version is too old. Only the version of this cluster "
                "larger or equal than v6.2.0 can be operated, please make sure the server version and the cli-tools "
                "version are matched."
            )

    def __call__(
        self, method: str, path: str, body: object = None, *, answers: bool = True, **query: str | None
    ) -> Any:
        """Make a call and return what its answer holds, if it `answers` at all."""
        parameters = urlencode(sorted((k, v) for k, v in query.items() if v is not None))
        url = f"{self._base}/api/v2/{path}" + (f"?{parameters}" if parameters else "")
        data = to_json(body).encode() if body is not None else b"" if method == "POST" else None
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(request) as reply:
                status, kind, text = reply.status, reply.headers.get("Content-Type", ""), reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, kind, text = error.code, error.headers.get("Content-Type", ""), error.read().decode()
        except HTTPException as error:  # the answer is none of HTTP's
            raise ApiError(f'{method.capitalize()} "{url}": {type(error).__name__}') from None
        except OSError as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ApiError(f'{method.capitalize()} "{url}": {_network_error(reason, url)}') from None
        if not 200 <= status <= 206:
            raise ApiError(_refusal(url, status, kind, text))
        if not answers:
            return None
        if not text:
            raise ApiError(f"0-length response with status code: {status}", code="CDC:ErrZeroLengthResponseBody")
        try:
            return json.loads(text)
        except ValueError:
            raise ApiError(_refusal(url, status, kind, text)) from None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError as error:
        raise ConfigError(f"{url} is not a server address: {error}", hint="write http://host:port") from None


def address_of(server: str, pd: str) -> str:
    """Return the server's address. Raises ConfigError where both flags are given; warns of the older one."""
    if server and pd:
        raise ConfigError(
            "Parameter --pd is deprecated, please use parameter --server instead. "
            "These two parameters cannot be specified at the same time."
        )
    if pd:
        print("Warning: --pd is deprecated; its value is used as the server's address, like --server", file=sys.stderr)
    return server or pd


def _refusal(url: str, status: int, kind: str, text: str) -> str:
    try:
        members = json.loads(text)
        message = str(members.get("error_msg", "")) if isinstance(members, dict) else None
    except ValueError:
        message = None
    if message is None:
        return f"call cdc api failed, url={url}, code={status}, contentType={kind}, response={text}"
    return message + _CREDENTIAL_HELP if _NO_CREDENTIAL in message else message


def _tls(credentials: Credentials) -> ssl.SSLContext:
    for file, words in (
        (credentials.cert, "could not load client key pair"),
        (credentials.key, "could not load client key pair"),
        (credentials.ca, "could not read ca certificate"),
    ):
        if file:
            try:
                Path(file).open("rb").close()
            except OSError as error:
                raise _no_tls(f"{words}: {no_file(file, error)}") from None
    try:
        context = ssl.create_default_context(cafile=credentials.ca or None)
    except ssl.SSLError:
        raise _no_tls("failed to append ca certs") from None
    try:
        if credentials.cert:
            context.load_cert_chain(credentials.cert, credentials.key or None)
    except ssl.SSLError as error:
        raise _no_tls(f"could not load client key pair: {error.reason or error}") from None
    return context


def _no_tls(words: str) -> ConfigError:
    return ConfigError(f"generate tls config failed: {words}", code="CDC:ErrToTLSConfigFailed")


def no_file(path: str, error: OSError) -> str:
    """Return why a file cannot be opened, as Go says it."""
    return f"open {path}: {(error.strerror or str(error)).lower()}"


def _network_error(reason: object, url: str) -> str:
    """Return why a server cannot be reached, as Go says it where the system tells why."""
    if isinstance(reason, ssl.SSLError) or not isinstance(reason, OSError) or not reason.strerror:
        return str(reason).lower()
    parts = urlsplit(url)
    if isinstance(reason, socket.gaierror):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    (*_, address), *_ = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
    return f"dial tcp {host}:{port}: connect: {reason.strerror.lower()}"
