"""AWS Glue as a Schema Registry, asked what TiCDC asks it. Source: Avro protocol, AWS Glue.

A schema of Glue's, one for each subject, has versions, and a message carries the UUID of one.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit
from uuid import UUID

from tidecast._errors import ConfigError, RegistryError, TidecastError, Unreachable, needs_extra
from tidecast.registry._base import API_ERROR, GLUE, RegisteredSchema, Registry, SchemaId, asked_again, refused
from tidecast.registry._compatibility import LEVELS, refusal

_log = logging.getLogger(__name__)

_PARAMETERS = ("access-key", "secret-access-key", "token")
_REGION = re.compile(r"[a-z0-9-]+")
_NAME = re.compile(r"[a-zA-Z0-9\-_$#.]{1,255}")
_KEY = re.compile(r"[!-~]+")
_PAUSE = 0.2
_NUMBER_BITS = 18
"""As many as a TSO has below its milliseconds: a schema has at most 100,000 versions."""
_LEVELS = {
    "DISABLED": "NONE",
    "BACKWARD_ALL": "BACKWARD_TRANSITIVE",
    "FORWARD_ALL": "FORWARD_TRANSITIVE",
    "FULL_ALL": "FULL_TRANSITIVE",
}
"""Glue's levels of compatibility that have another name in Confluent's registry."""
_NOT_FOUND = "EntityNotFoundException"
_FORBIDDEN = "AccessDeniedException"
_BUSY = re.compile("Throttl|TooManyRequests|ConcurrentModification|OperationTimeout|ResourceNotReady")
_LOGIN = re.compile("Signature|Token|Expired|Credential|UnrecognizedClient|AccessKeyId|AuthFailure")

_T = TypeVar("_T")


class _Place(NamedTuple):
    region: str
    name: str
    params: Mapping[str, str]


def glue_url(registry: str, region: str, credentials: Mapping[str, str]) -> str:
    """Return the URL of a registry of Glue's; `credentials` are those of its parameters that are given."""
    query = f"?{urlencode(credentials, quote_via=quote)}" if credentials else ""
    return f"glue://{region}/{quote(registry, safe='')}{query}"


def check_glue_url(url: str) -> None:
    """Raise ConfigError for a URL of which `GlueRegistry` takes none."""
    _place(url)


def _place(url: str) -> _Place:
    """Take a URL apart. Raises ConfigError, which shows nothing of it."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket that is no IPv6 address
        parts = urlsplit("")
    region, name = parts.netloc, unquote(parts.path.strip("/"))
    # Not as in a form, where a + is a blank: every second key has one.
    pairs = (pair.partition("=") for pair in parts.query.split("&") if pair)
    params = {unquote(parameter): unquote(value) for parameter, _, value in pairs}
    for broken, what in (
        (not _REGION.fullmatch(region), "its host is no region"),
        (not name, "it names no registry"),
        (not _NAME.fullmatch(name), "no registry has such a name"),
        (not params.keys() <= set(_PARAMETERS), f"a parameter is none of {', '.join(_PARAMETERS)}"),
        ("" in params.values(), "a parameter is empty"),
        (not all(map(_KEY.fullmatch, params.values())), "a parameter has a blank, a line break or is not ASCII"),
        (("access-key" in params) != ("secret-access-key" in params), "one key is given without the other"),
        ("token" in params and "access-key" not in params, "a token is given without its keys"),
    ):
        if broken:
            raise ConfigError(
                f"the registry of AWS Glue cannot be used: {what}",
                hint="as glue://region/registry, with ?access-key= and &secret-access-key= or without",
            )
    return _Place(region, name, params)


class GlueRegistry(Registry):
    """The registry at a `glue://region/registry[?access-key=…&secret-access-key=…[&token=…]]` URL.

    Without a key AWS's own places are looked into for one. A request may take `timeout` seconds; a registry that does
    not answer, fails or has too much to do is asked again, with growing pauses, until `retry_for` seconds have gone by.
    `AWS_ENDPOINT_URL_GLUE` names another endpoint than Amazon's. Raises `ConfigError` for a URL that is none, and
    `MissingRuntime` without Amazon's client.
    """

    framing = GLUE

    def __init__(self, url: str, *, timeout: float = 10.0, retry_for: float = 30.0) -> None:
        super().__init__()
        self._region, self._name, self._params = _place(url)
        self._timeout, self._retry_for = timeout, retry_for
        self._where = glue_url(self._name, self._region, {})
        self._made: dict[str, int] = {}
        with needs_extra("glue", "AWS Glue Schema Registry"):
            import botocore.session  # type: ignore[import-untyped]  # noqa: F401 - tells at once what is missing

    def __repr__(self) -> str:
        return f"GlueRegistry({self._where!r})"

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import Session

        try:
            return Session().create_client(
                "glue",
                self._region,
                aws_access_key_id=self._params.get("access-key"),
                aws_secret_access_key=self._params.get("secret-access-key"),
                aws_session_token=self._params.get("token"),
                config=Config(
                    connect_timeout=self._timeout,
                    read_timeout=self._timeout,
                    retries={"total_max_attempts": 1},  # `asked_again` asks again
                ),
            )
        except ValueError as error:
            raise ConfigError(str(error), where=self._where, hint="look at AWS_ENDPOINT_URL_GLUE") from None

    def _register(self, subject: str, schema: str) -> SchemaId:
        mine = self._schema(subject)
        if self._version(SchemaId=mine, SchemaVersionNumber={"LatestVersion": True}) is None:
            with suppress(_AlreadyThere):  # by somebody else, or by ourselves if the answer did not come
                return self._created(subject, schema)
        made = self._changed(subject, "register_schema_version", SchemaId=mine, SchemaDefinition=schema)
        return self._usable(subject, self._id(made), self._of(made, "Status", str))

    def _created(self, subject: str, schema: str) -> UUID:
        made = self._changed(
            subject,
            "create_schema",
            RegistryId={"RegistryName": self._name},
            SchemaName=subject,
            DataFormat="AVRO",
            Compatibility="NONE",
            SchemaDefinition=schema,
        )
        return self._usable(subject, self._id(made), self._of(made, "SchemaVersionStatus", str))

    def _changed(self, subject: str, operation: str, **what: Any) -> Mapping[str, Any]:
        """Return the answer to an operation that changes something. Raises SchemaRefused where Glue refuses it."""
        try:
            answer = self._ask(operation, **what)
        except _AlreadyThere:
            raise
        except _Refused as error:
            raise refused(subject, error.words) from None
        if answer is None:  # the registry is gone
            self.check()
            raise self._no_answer("changes while it is asked")
        return answer

    def _usable(self, subject: str, schema_id: UUID, status: str) -> UUID:
        """Return the id of a version once it may be used: Glue checks it after it has answered."""
        deadline = time.monotonic() + self._retry_for
        while status != "AVAILABLE":
            if status != "PENDING":
                raise refused(subject, f"the version is {status}, as it is not compatible with those before it")
            if time.monotonic() > deadline:
                raise self._no_answer("does not say whether it takes a schema")
            time.sleep(_PAUSE)
            found = self._version(SchemaVersionId=str(schema_id))
            status = self._of(found, "Status", str) if found else "gone"
        return schema_id

    def _find(self, schema_id: SchemaId) -> RegisteredSchema | None:
        found = self._version(SchemaVersionId=str(schema_id))
        if found is None:
            return None
        arn, number = self._of(found, "SchemaArn", str), self._of(found, "VersionNumber", int)
        return RegisteredSchema(self._of(found, "SchemaDefinition", str), (self._since(arn) << _NUMBER_BITS) + number)

    def _since(self, arn: str) -> int:
        """Return when a schema was made, in epoch milliseconds: its versions have numbers, but begin with 1 in each."""
        if arn not in self._made:
            schema = {"SchemaArn": arn}
            text = (self._ask("get_schema", SchemaId=schema) or {}).get("CreatedTime")
            if text is None:  # Moto does not tell it
                first = self._version(SchemaId=schema, SchemaVersionNumber={"VersionNumber": 1})
                text = (first or {}).get("CreatedTime")
            try:
                made = datetime.fromisoformat(str(text))
                self._made[arn] = int((made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp() * 1000)
            except ValueError:
                _log.warning("%s: nothing tells when schema %s was made: %r", self._where, arn, text)
                self._made[arn] = 0
        return self._made[arn]

    def check(self) -> None:
        if self._once("get_registry", RegistryId={"RegistryName": self._name}) is None:
            raise self._error("does not exist", "create it, or check the region and the name")

    def refusal(self, subject: str, schema: str) -> str | None:
        mine = self._schema(subject)
        found = self._ask("get_schema", SchemaId=mine)
        if found is None:
            return refusal(schema, [], "NONE")
        level = self._of(found, "Compatibility", str)
        level = _LEVELS.get(level, level)
        if level not in LEVELS:
            raise self._error(f"has a compatibility that is not known: {level}")
        latest = self._of(found, "LatestSchemaVersion", int)
        numbers = range(1 if level.endswith("_TRANSITIVE") else max(latest, 1), latest + 1)
        texts = [(n, self._version(SchemaId=mine, SchemaVersionNumber={"VersionNumber": n})) for n in numbers]
        return refusal(schema, [(n, self._of(found, "SchemaDefinition", str)) for n, found in texts if found], level)

    def _schema(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self._name, "SchemaName": subject}

    def _version(self, **what: Any) -> Mapping[str, Any] | None:
        return self._ask("get_schema_version", **what)

    def _id(self, answer: Mapping[str, Any]) -> UUID:
        text = self._of(answer, "SchemaVersionId", str)
        try:
            return UUID(text)
        except ValueError:
            raise self._error(f"gives an id that is none: {text[:50]}") from None

    def _of(self, answer: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
        """Return a member of an answer."""
        value = answer.get(name)
        if not isinstance(value, kind):
            raise self._error(f"gives an answer that cannot be used, without {name}", "look at AWS_ENDPOINT_URL_GLUE")
        return value

    def _ask(self, operation: str, **what: Any) -> Mapping[str, Any] | None:
        return asked_again(partial(self._once, operation, **what), self._retry_for)

    def _once(self, operation: str, **what: Any) -> Mapping[str, Any] | None:
        """Return the answer to one request, None where what it names is not there."""
        from botocore import exceptions as aws

        try:
            answer = getattr(self._client, operation)(**what)
        except aws.ClientError as error:
            code, words = (str(error.response.get("Error", {}).get(name, "")) for name in ("Code", "Message"))
            if code == _NOT_FOUND:
                return None
            raise self._refused(code, " ".join(words.split()), error.response) from None
        except aws.SSLError as error:
            raise self._error(f"cannot be reached by TLS: {error}", "look at AWS_CA_BUNDLE") from None
        except (aws.ConnectionError, aws.HTTPClientError) as error:
            # The bare kind quotes whatever went wrong, maybe a header.
            why = type(error).__name__ if type(error) is aws.HTTPClientError else str(error)
            raise self._no_answer(f"does not answer: {why}") from None
        except aws.BotoCoreError as error:
            hint = "give access-key and secret-access-key, or set up AWS's own environment"
            raise self._error(f"cannot be asked: {error}", hint) from None
        except (AttributeError, TypeError):  # botocore takes any JSON for an object
            answer = None
        if not isinstance(answer, dict):
            raise self._error("gives an answer that cannot be used", "look at AWS_ENDPOINT_URL_GLUE")
        return answer

    def _refused(self, code: str, words: str, response: Mapping[str, Any]) -> TidecastError:
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if kind := _MEANT.get(code):
            return kind(words, self._where)
        if _LOGIN.search(code):  # its words may quote what was signed
            return self._error(f"refuses the AWS credentials ({code})", "check the keys, and whether they have expired")
        if code == _FORBIDDEN:
            return self._error(
                f"does not allow it: {words}",
                "allow GetRegistry, GetSchema, GetSchemaVersion and, to write, CreateSchema, RegisterSchemaVersion",
            )
        if _BUSY.search(code) or status >= 500:
            return self._no_answer(f"fails with {code}: {words}")
        return self._error(f"fails with {code}: {words}")

    def _no_answer(self, what: str) -> Unreachable:
        return Unreachable(
            f"the schema registry {what}", code=API_ERROR, where=self._where, hint="check the region and the network"
        )

    def _error(self, what: str, hint: str | None = None) -> RegistryError:
        return RegistryError(f"the schema registry {what}", code=API_ERROR, where=self._where, hint=hint)


class _Refused(RegistryError):
    """Glue refuses what it was given."""

    def __init__(self, words: str, where: str) -> None:
        super().__init__(f"the schema registry refuses the request: {words}", code=API_ERROR, where=where)
        self.words = words


class _AlreadyThere(_Refused):
    """There is such a schema."""


_MEANT = {"InvalidInputException": _Refused, "AlreadyExistsException": _AlreadyThere}
