"""A Schema Registry over Confluent's HTTP API.

Whom it lets in, and whom it is trusted as, stands in its URL: TiCDC has only a user and a password there.

confluent-kafka's own client is not used for it: it sends `schemaType` and `references` along with every schema,
which TiCDC does not, brings its own list of trusted certificates instead of the system's, and tells a refused
schema from a failing server only by numbers in a text. Nor is httpx: its time-outs hold for each read alone, so that a
server that sends a byte now and then is waited for without end.
"""

from __future__ import annotations

import base64
import http.client
import io
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, parse_qsl, quote_plus, unquote, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from tidecast._errors import ConfigError, RegistryError, Unreachable
from tidecast._go import is_loopback, to_json
from tidecast._uri import SHORTEST_HIDDEN, hide
from tidecast.registry._base import (
    API_ERROR,
    MAX_BYTES,
    RegisteredSchema,
    Registry,
    SchemaId,
    asked_again,
    bounded_json,
    is_schema_id,
    refused,
)

_HEADERS = {
    "Accept": "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json",
    "Content-Type": "application/vnd.schemaregistry.v1+json",
}
_FEW = 8
"""Of how many subjects the newest schema is asked for before messages need it."""
_PARAMETERS = ("bearer-token", "ca", "cert", "key")
_NOBODY = "check the URL and whether the registry runs"
_NO_REGISTRY = "check that the URL, with its path, is a registry's"
_TOKEN = re.compile(r"[!-~]+")

_Item = TypeVar("_Item", str, int)


class HttpRegistry(Registry):
    """The registry at an `http(s)://[user:password@]host[:port][/path][?…]` URL, user and password percent-encoded.

    Parameters: `bearer-token` is sent in place of a user and a password; with https, `ca` is a file of the authorities
    that are trusted in place of the system's, `cert` and `key` are the files of the client's own certificate. One
    request may take `timeout` seconds in all, with its redirects, and an answer have 16 MiB; a registry that does not
    answer or fails (5xx) is asked again, with growing pauses, until `retry_for` seconds have gone by. Raises
    `ConfigError` for a URL that is none, and for files that cannot be used.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, retry_for: float = 30.0) -> None:
        super().__init__()
        parts = _split(url)
        host = parts.netloc.rpartition("@")[2]
        self._url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._headers = dict(_HEADERS)
        params = self._parameters(parts)
        self._credentials = ""
        secrets: list[str] = []
        if "bearer-token" in params:
            self._credentials = "the bearer token"
            secrets = [params["bearer-token"]]
            self._headers["Authorization"] = f"Bearer {secrets[0]}"
        elif parts.username is not None:
            self._credentials = "the user or the password"
            password = unquote(parts.password or "")
            credentials = f"{unquote(parts.username or '')}:{password}"
            secrets = [base64.b64encode(credentials.encode()).decode(), password]
            self._headers["Authorization"] = f"Basic {secrets[0]}"
        self._secrets = tuple(secret for secret in secrets if len(secret) >= SHORTEST_HIDDEN)
        self._timeout = timeout
        self._retry_for = retry_for
        tls = _tls(params.get("ca"), params.get("cert"), params.get("key"))
        no_proxy = [ProxyHandler({})] if is_loopback(parts.hostname) else []
        self._opener = build_opener(*no_proxy, _Redirect, _Http, _Https(tls))

    def __repr__(self) -> str:
        return f"HttpRegistry({self._url!r})"

    def _parameters(self, parts: SplitResult) -> dict[str, str]:
        """Return the URL's parameters. Raises ConfigError, which shows no value and no name that may be one."""
        params = dict(parse_qsl(parts.query, keep_blank_values=True))
        for broken, what in (
            (not params.keys() <= set(_PARAMETERS), f"a parameter of the URL is none of {', '.join(_PARAMETERS)}"),
            ("" in params.values(), "a parameter of the URL is empty"),
            (("cert" in params) != ("key" in params), "cert and key go together"),
            (parts.scheme == "http" and params.keys() & {"ca", "cert", "key"}, "ca, cert and key are for https://"),
            (
                "bearer-token" in params and parts.username is not None,
                "a bearer token and a user are given: one of them is to be sent",
            ),
            (not _TOKEN.fullmatch(params.get("bearer-token", "-")), "the bearer token has a blank or is not ASCII"),
        ):
            if broken:
                raise ConfigError(what, where=f"schema registry {self._url}")
        return params

    def _register(self, subject: str, schema: str) -> int:
        answer = self._ask(f"/subjects/{quote_plus(subject)}/versions", schema)
        if answer.status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise refused(subject, answer.words)
        schema_id = self._good(answer).get("id")
        if not is_schema_id(schema_id):
            raise self._unusable(answer)
        return schema_id

    def _find(self, schema_id: SchemaId) -> RegisteredSchema | None:
        answer = self._ask(f"/schemas/ids/{schema_id}")
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        schema = self._good(answer).get("schema")
        if not isinstance(schema, str):
            raise self._unusable(answer)
        return RegisteredSchema(schema, int(schema_id))

    def check(self) -> None:
        # TiCDC asks the URL itself, and Confluent's registry answers {}; others have nothing there, but subjects.
        if self._once("").text.strip() != "{}":
            self._list(self._once("/subjects"), str)

    def guess(self, wanted: Callable[[str], bool]) -> Mapping[SchemaId, RegisteredSchema]:
        """See `Registry.guess`; here the newest of each subject, where these are few."""
        found: dict[SchemaId, RegisteredSchema] = {}
        try:
            chosen = [subject for subject in self._list(self._once("/subjects"), str) if wanted(subject)]
            for subject in chosen if len(chosen) <= _FEW else ():
                newest = self._good(self._once(f"/subjects/{quote_plus(subject)}/versions/latest"))
                schema_id, schema = newest.get("id"), newest.get("schema")
                if is_schema_id(schema_id) and isinstance(schema, str):
                    found[schema_id] = RegisteredSchema(schema, schema_id)
        except (RegistryError, Unreachable):  # asked once more for what messages need, it says what is wrong
            return {}
        return found

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""
        return sorted(self._list(self._ask("/subjects"), str))

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions, ascending; none for an unknown subject."""
        answer = self._ask(f"/subjects/{quote_plus(subject)}/versions")
        return [] if answer.status == HTTPStatus.NOT_FOUND else sorted(self._list(answer, int))

    def compatibility(self, subject: str) -> str:
        """Return the compatibility level that a new version of this subject has to keep, such as `BACKWARD`."""
        answer = self._ask(f"/config/{quote_plus(subject)}?defaultToGlobal=true")
        if answer.status == HTTPStatus.NOT_FOUND:  # a registry that does not know the parameter
            answer = self._ask("/config")
        level = self._good(answer).get("compatibilityLevel")
        if not isinstance(level, str):
            raise self._unusable(answer)
        return level

    def refusal(self, subject: str, schema: str) -> str | None:
        earlier = "versions" if self.compatibility(subject).endswith("_TRANSITIVE") else "versions/latest"
        answer = self._ask(f"/compatibility/subjects/{quote_plus(subject)}/{earlier}?verbose=true", schema)
        if answer.status == HTTPStatus.NOT_FOUND:  # a subject without versions takes every schema
            return None
        if answer.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return answer.words
        verdict = self._good(answer)
        if verdict.get("is_compatible"):
            return None
        messages = verdict.get("messages")
        return "; ".join(map(str, messages if isinstance(messages, list) else ())) or "the schema is not compatible"

    def _ask(self, path: str, schema: str | None = None) -> _Answer:
        """Return the answer to GET, or to POST of a schema, asking again as long as it makes sense."""
        return asked_again(partial(self._once, path, schema), self._retry_for)

    def _once(self, path: str, schema: str | None = None) -> _Answer:
        """Return the answer to one request; a failing server and a missing one are `Unreachable`."""
        data = None if schema is None else to_json({"schema": schema}).encode()
        request = _Request(self._url + path, data, self._headers, deadline=time.monotonic() + self._timeout)
        try:
            answer = self._send(request)
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise self._error(
                    f"the registry's certificate is not trusted: {reason.verify_message}",
                    "add its authority to the system's trust store, or name its file with ?ca=",
                ) from None
            if isinstance(reason, ssl.SSLError) and "ALERT" in (reason.reason or ""):
                raise self._error(
                    f"the registry refuses the TLS connection: {reason.reason}",
                    "it may want a client's certificate: name the files with ?cert= and &key=",
                ) from None
            hung_up = isinstance(reason, (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError))
            hint = "check whether the registry runs, and whether it wants a client's certificate: ?cert= and &key="
            raise self._no_answer(
                f"does not answer: {_plain(reason)}", hint if hung_up and "https:" in self._url else _NOBODY
            ) from None
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._no_answer(f"fails with {answer.status}: {answer.words}")
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._not_let_in(answer)
        return answer

    def _send(self, request: _Request) -> _Answer:
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _Answer(response.status, self._text(response), self._secrets)
        except HTTPError as error:
            with error:
                return _Answer(error.code, self._text(error), self._secrets)

    def _text(self, response: Any) -> str:
        content: bytes = response.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise self._error(f"the schema registry gave an answer of more than {MAX_BYTES:,} bytes", _NO_REGISTRY)
        if response.length:  # what is still to come: the connection ended before the answer did
            raise http.client.IncompleteRead(content, response.length)
        return content.decode("utf-8", "replace")

    def _good(self, answer: _Answer) -> dict[str, Any]:
        """Return the members of a good answer."""
        value = answer.value()
        if answer.status != HTTPStatus.OK or not isinstance(value, dict):
            raise self._unusable(answer)
        return value

    def _list(self, answer: _Answer, kind: type[_Item]) -> list[_Item]:
        """Return the items of a good answer, all of one type."""
        value = answer.value()
        if answer.status != HTTPStatus.OK or not isinstance(value, list) or any(type(v) is not kind for v in value):
            raise self._unusable(answer)
        return value

    def _no_answer(self, what: str, hint: str = _NOBODY) -> Unreachable:
        return Unreachable(f"the schema registry {what}", code=API_ERROR, where=self._url, hint=hint)

    def _error(self, what: str, hint: str) -> RegistryError:
        return RegistryError(what, code=API_ERROR, where=self._url, hint=hint)

    def _not_let_in(self, answer: _Answer) -> RegistryError:
        if answer.status == HTTPStatus.FORBIDDEN:
            what, hint = "the schema registry does not allow it", "ask for the right to read and write the subjects"
        elif self._credentials:
            what, hint = f"the schema registry refuses {self._credentials}", "percent-encode what the URL has of them"
        else:
            what = "the schema registry asks for credentials"
            hint = "put user:password@ before the host, or ?bearer-token= behind"
        return self._error(f"{what} (HTTP {answer.status})", hint)

    def _unusable(self, answer: _Answer) -> RegistryError:
        what = f"the schema registry gave an answer that cannot be used (HTTP {answer.status}): {answer.words}"
        return self._error(what, _NO_REGISTRY)


class _Answer(NamedTuple):
    status: int
    text: str
    secrets: tuple[str, ...]

    def value(self) -> Any:
        """Return the JSON value, None where it is none."""
        try:
            return bounded_json(self.text)
        except ValueError:
            return None

    @property
    def words(self) -> str:
        """What the registry says in an error: its `message`, or the beginning of what came, on one line.

        It may quote the request, so that what lets the client in is hidden.
        """
        value = self.value()
        message = value.get("message") if isinstance(value, dict) else None
        said = hide(" ".join(str(message or self.text).split()), self.secrets)
        return said if message else said[:200] or "(nothing)"


class _Request(Request):
    """A request whose answer has to be there by a moment of the monotonic clock."""

    def __init__(
        self, url: str, data: Any, headers: dict[str, str], *, deadline: float, method: str | None = None
    ) -> None:
        super().__init__(url, data, headers, method=method)
        self.deadline = deadline


class _Redirect(HTTPRedirectHandler):
    """Follow a redirect with the same method, body and deadline, but to no other scheme.

    Credentials go to no other host or port.
    """

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request:
        assert isinstance(req, _Request)
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if old.scheme != new.scheme:
            raise RegistryError(
                f"the schema registry redirects from {old.scheme}:// to {new.scheme}://",
                code=API_ERROR,
                where=f"{old.scheme}://{old.netloc}",
                hint="if that is right, give the URL that it redirects to",
            )
        trusted = (old.hostname, old.port) == (new.hostname, new.port)
        forwarded = {name: value for name, value in req.headers.items() if trusted or name != "Authorization"}
        return _Request(newurl, req.data, forwarded, deadline=req.deadline, method=req.get_method())


class _Http(HTTPHandler):
    def http_open(self, req: Any) -> http.client.HTTPResponse:
        return self.do_open(partial(_connection, http.client.HTTPConnection, req), req)


class _Https(HTTPSHandler):
    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._kind = partial(http.client.HTTPSConnection, context=tls)

    def https_open(self, req: Any) -> http.client.HTTPResponse:
        return self.do_open(partial(_connection, self._kind, req), req)


def _connection(kind: Any, request: _Request, host: str, *, timeout: float) -> http.client.HTTPConnection:
    """Return a connection on which everything together, not each step, ends with the request's deadline."""
    connection: Any = kind(host, timeout=_left(request.deadline))
    connection.response_class = partial(_Response, request.deadline)
    return connection  # type: ignore[no-any-return]


class _Response(http.client.HTTPResponse):
    """An answer that has to be there in whole by a deadline: a timeout of the socket's holds for each read alone."""

    def __init__(self, deadline: float, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Reads(deadline, sock, self.fp.detach()))


class _Reads(io.RawIOBase):
    """The bytes that a socket gives until a deadline."""

    def __init__(self, deadline: float, sock: socket.socket, stream: Any) -> None:
        self._deadline, self._sock, self._stream = deadline, sock, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        count: int | None = self._stream.readinto(buffer)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _tls(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    name = ca
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert:
            name = f"{cert}, {key}"
            context.load_cert_chain(cert, key, password="")  # else it would ask the terminal for a key's password
    except OSError as error:  # an SSLError, too, is one
        why = (
            "not PEM files, not of each other, or with a password"
            if isinstance(error, ssl.SSLError)
            else error.strerror
        )
        raise ConfigError(f"the certificate cannot be used: {why}", where=name) from None
    return context


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    # never the URL itself, nor a part of it: what is taken for a port may be a password
    raise ConfigError(
        "the schema registry's URL is not http(s)://[user:password@]host[:port][/path]",
        hint="percent-encode special characters of the user and the password",
    )


def _plain(error: object) -> str:
    """Return what a failed connection died of, without error numbers."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
