"""A Schema Registry over Confluent's HTTP API.

confluent-kafka's own client is not used for it: it sends `schemaType` and `references` along with every schema,
which TiCDC does not, brings its own list of trusted certificates instead of the system's, and tells a refused
schema from a failing server only by numbers in a text.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import time
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote_plus, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from tidecast._errors import ConfigError, RegistryError, Unreachable
from tidecast.registry._base import API_ERROR, Registry, refused

_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.5, 1.5, 30.0
_HEADERS = {
    "Accept": "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json",
    "Content-Type": "application/vnd.schemaregistry.v1+json",
}
# Go's JSON writer, and so TiCDC, escapes these in every string; the registry reads the same text either way.
_GO_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class HttpRegistry(Registry):
    """The registry at an `http(s)://[user:password@]host[:port][/path]` URL, user and password percent-encoded.

    One request may take `timeout` seconds; a registry that does not answer or fails (5xx) is asked again, with
    growing pauses, until `retry_for` seconds have gone by. TLS trusts what the system trusts. Raises `ConfigError`
    for a URL that is none.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, retry_for: float = 30.0) -> None:
        super().__init__()
        parts = _split(url)
        host = parts.netloc.rpartition("@")[2]
        self._url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._headers = dict(_HEADERS)
        self._has_credentials = parts.username is not None
        if self._has_credentials:
            credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        self._timeout = timeout
        self._retry_for = retry_for
        self._opener = build_opener(_Redirect, HTTPSHandler(context=ssl.create_default_context()))

    def __repr__(self) -> str:
        return f"HttpRegistry({self._url!r})"

    def _register(self, subject: str, schema: str) -> int:
        answer = self._ask(f"/subjects/{quote_plus(subject)}/versions", schema)
        if answer.status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise refused(subject, answer.words)
        schema_id = self._good(answer).get("id")
        if type(schema_id) is not int or schema_id == 0:
            raise self._unusable(answer)
        return schema_id

    def _find(self, schema_id: int) -> str | None:
        answer = self._ask(f"/schemas/ids/{schema_id}")
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        schema = self._good(answer).get("schema")
        if not isinstance(schema, str):
            raise self._unusable(answer)
        return schema

    def check(self) -> None:
        # TiCDC asks the URL itself, and Confluent's registry answers {}; others have nothing there, but subjects.
        if self._once("").text.strip() != "{}":
            self._list(self._once("/subjects"))

    def subjects(self) -> list[str]:
        return sorted(self._list(self._ask("/subjects")))

    def versions(self, subject: str) -> list[int]:
        answer = self._ask(f"/subjects/{quote_plus(subject)}/versions")
        return [] if answer.status == HTTPStatus.NOT_FOUND else sorted(self._list(answer))

    def compatibility(self, subject: str) -> str:
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
        return "; ".join(str(message) for message in verdict.get("messages") or ()) or "the schema is not compatible"

    def _ask(self, path: str, schema: str | None = None) -> _Answer:
        """Return the answer to GET, or to POST of a schema, asking again as long as it makes sense."""
        deadline = time.monotonic() + self._retry_for
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._once(path, schema)
            except Unreachable:
                wait = pause * random.uniform(0.5, 1.5)
                if time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)
                pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _once(self, path: str, schema: str | None = None) -> _Answer:
        """Return the answer to one request; a failing server and a missing one are `Unreachable`."""
        request = Request(self._url + path, data=None if schema is None else _body(schema), headers=self._headers)
        try:
            answer = self._send(request)
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise RegistryError(
                    f"the registry's certificate is not trusted: {reason.verify_message}",
                    code=API_ERROR,
                    where=self._url,
                    hint="add its authority to the system's trust store",
                ) from None
            raise self._no_answer(f"does not answer: {_plain(reason)}") from None
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._no_answer(f"fails with {answer.status}: {answer.words}")
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._not_let_in(answer)
        return answer

    def _send(self, request: Request) -> _Answer:
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _Answer(response.status, response.read().decode("utf-8", "replace"))
        except HTTPError as error:
            with error:
                return _Answer(error.code, error.read().decode("utf-8", "replace"))

    def _good(self, answer: _Answer) -> dict[str, Any]:
        """Return the members of a good answer."""
        value = answer.value()
        if answer.status != HTTPStatus.OK or not isinstance(value, dict):
            raise self._unusable(answer)
        return value

    def _list(self, answer: _Answer) -> list[Any]:
        value = answer.value()
        if answer.status != HTTPStatus.OK or not isinstance(value, list):
            raise self._unusable(answer)
        return value

    def _no_answer(self, what: str) -> Unreachable:
        return Unreachable(
            f"the schema registry {what}",
            code=API_ERROR,
            where=self._url,
            hint="check the URL and whether the registry runs",
        )

    def _not_let_in(self, answer: _Answer) -> RegistryError:
        if answer.status == HTTPStatus.FORBIDDEN:
            what, hint = "the schema registry does not allow it", "ask for the right to read and write the subjects"
        elif self._has_credentials:
            what, hint = "the schema registry refuses the user or the password", "percent-encode both in the URL"
        else:
            what, hint = "the schema registry asks for credentials", "put user:password@ before the host"
        return RegistryError(f"{what} (HTTP {answer.status})", code=API_ERROR, where=self._url, hint=hint)

    def _unusable(self, answer: _Answer) -> RegistryError:
        return RegistryError(
            f"the schema registry gave an answer that cannot be used (HTTP {answer.status}): {answer.words}",
            code=API_ERROR,
            where=self._url,
            hint="check that the URL, with its path, is a registry's",
        )


class _Answer(NamedTuple):
    status: int
    text: str

    def value(self) -> Any:
        """Return the JSON value, None where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def words(self) -> str:
        """What the registry says in an error: its `message`, or the beginning of what came, on one line."""
        value = self.value()
        message = value.get("message") if isinstance(value, dict) else None
        return " ".join(str(message).split()) if message else " ".join(self.text.split())[:200] or "(nothing)"


class _Redirect(HTTPRedirectHandler):
    """Follow a redirect with the same method and body, but carry credentials to no other host and off no TLS."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        trusted = old.hostname == new.hostname and (old.scheme, new.scheme) != ("https", "http")
        kept = {name: value for name, value in req.headers.items() if trusted or name != "Authorization"}
        return Request(newurl, data=req.data, headers=kept, method=req.get_method())


def _body(schema: str) -> bytes:
    text = json.dumps({"schema": schema}, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
    return text.encode("utf-8")


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
