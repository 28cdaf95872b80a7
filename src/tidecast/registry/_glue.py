"""AWS Glue as a Schema Registry, asked what TiCDC asks it. Source: Avro protocol, AWS Glue.

A schema of Glue's, one for each subject, has versions, and a message carries the UUID of one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from uuid import UUID

from tidecast._errors import ConfigError, RegistryError, TidecastError, Unreachable, needs_extra
from tidecast.registry._base import API_ERROR, GLUE, RegisteredSchema, Registry, SchemaId, asked_again, refused
from tidecast.registry._compatibility import refusal

_PARAMETERS = ("access-key", "secret-access-key", "token")
_REGION = re.compile(r"[a-z0-9-]+")
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
_REFUSED = "InvalidInputException"
_FORBIDDEN = "AccessDeniedException"
_BUSY = re.compile("Throttl|TooManyRequests|ConcurrentModification|OperationTimeout|ResourceNotReady")
_LOGIN = re.compile("Signature|ClientToken|ExpiredToken|UnrecognizedClient|AuthenticationToken|AccessKeyId|AuthFailure")


def glue_url(registry: str, region: str, credentials: Mapping[str, str]) -> str:
    """Return the URL of a registry of Glue's; `credentials` are those of its parameters that are given."""
    return f"glue://{region}/{quote(registry, safe='')}" + (f"?{urlencode(credentials)}" if credentials else "")


class GlueRegistry(Registry):
    """The registry at a `glue://region/registry[?access-key=…&secret-access-key=…[&token=…]]` URL.

    Without a key AWS's own ways to find one are gone. One request may take `timeout` seconds; a registry that does not
    answer, fails or has too much to do is asked again, with growing pauses, until `retry_for` seconds have gone by.
    `AWS_ENDPOINT_URL_GLUE` names another endpoint than Amazon's. Raises `ConfigError` for a URL that is none, and
    `MissingRuntime` without Amazon's client.
    """

    framing = GLUE

    def __init__(self, url: str, *, timeout: float = 10.0, retry_for: float = 30.0) -> None:
        super().__init__()
        parts = urlsplit(url)
        self._region, self._name = parts.netloc, unquote(parts.path.strip("/"))
        self._params = params = dict(parse_qsl(parts.query, keep_blank_values=True))
        for broken, what in (
            (not _REGION.fullmatch(self._region), "its host is no region"),
            (not self._name, "it names no registry"),
            (not params.keys() <= set(_PARAMETERS), f"a parameter is none of {', '.join(_PARAMETERS)}"),
            ("" in params.values(), "a parameter is empty"),
            (("access-key" in params) != ("secret-access-key" in params), "one key is given without the other"),
            ("token" in params and "access-key" not in params, "a token is given without its keys"),
        ):
            if broken:
                raise ConfigError(
                    f"the schema registry's URL cannot be used: {what}",
                    hint="write glue://region/registry, with ?access-key= and &secret-access-key= or without",
                )
        self._timeout, self._retry_for = timeout, retry_for
        self._where = glue_url(self._name, self._region, {})
        with needs_extra("glue", "AWS Glue Schema Registry"):
            import botocore.session  # type: ignore[import-untyped]  # noqa: F401 - tells at once what is missing; the import takes half a second

    def __repr__(self) -> str:
        return f"GlueRegistry({self._where!r})"

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import Session

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

    def _register(self, subject: str, schema: str) -> SchemaId:
        mine = self._schema(subject)
        try:
            if self._version(SchemaId=mine, SchemaVersionNumber={"LatestVersion": True}) is None:
                registry = {"RegistryName": self._name}
                made = self._changed(
                    "create_schema",
                    RegistryId=registry,
                    SchemaName=subject,
                    DataFormat="AVRO",
                    Compatibility="NONE",
                    SchemaDefinition=schema,
                )
                status = made["SchemaVersionStatus"]
            else:
                made = self._changed("register_schema_version", SchemaId=mine, SchemaDefinition=schema)
                status = made["Status"]
        except _Refused as error:
            raise refused(subject, error.words) from None
        return self._usable(subject, UUID(made["SchemaVersionId"]), status)

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
            status = found["Status"] if found else "gone"
        return schema_id

    def _find(self, schema_id: SchemaId) -> RegisteredSchema | None:
        found = self._version(SchemaVersionId=str(schema_id))
        if found is None or "SchemaDefinition" not in found:
            return None
        try:
            made = datetime.fromisoformat(found["CreatedTime"])
        except ValueError:
            raise self._error(f"gives a time that cannot be read: {found['CreatedTime'][:50]}") from None
        made = made if made.tzinfo else made.replace(tzinfo=UTC)
        return RegisteredSchema(
            found["SchemaDefinition"], (int(made.timestamp() * 1000) << _NUMBER_BITS) + found["VersionNumber"]
        )

    def check(self) -> None:
        if self._once("get_registry", RegistryId={"RegistryName": self._name}) is None:
            raise self._error("does not exist", "create it, or check the region and the name")

    def refusal(self, subject: str, schema: str) -> str | None:
        mine = self._schema(subject)
        found = self._ask("get_schema", SchemaId=mine)
        level = found["Compatibility"] if found else "NONE"
        level = _LEVELS.get(level, level)
        latest = found["LatestSchemaVersion"] if found else 0
        numbers = range(1 if level.endswith("_TRANSITIVE") else max(latest, 1), latest + 1)
        texts = [(n, self._version(SchemaId=mine, SchemaVersionNumber={"VersionNumber": n})) for n in numbers]
        earlier = [(n, version["SchemaDefinition"]) for n, version in texts if version]
        return refusal(schema, earlier, level)

    def _schema(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self._name, "SchemaName": subject}

    def _version(self, **what: Any) -> Mapping[str, Any] | None:
        return self._ask("get_schema_version", **what)

    def _changed(self, operation: str, **what: Any) -> Mapping[str, Any]:
        """Return the answer to an operation that changes something. Raises _Refused where Glue refuses a schema."""
        answer = self._ask(operation, **what)
        if answer is None:  # the registry is gone
            self.check()
            raise self._no_answer("changes while it is asked")
        return answer

    def _ask(self, operation: str, **what: Any) -> Mapping[str, Any] | None:
        return asked_again(partial(self._once, operation, **what), self._retry_for)

    def _once(self, operation: str, **what: Any) -> Mapping[str, Any] | None:
        """Return the answer to one request, None where what it names is not there."""
        from botocore import exceptions as aws

        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(**what)
        except aws.ClientError as error:
            code, words = (error.response.get("Error", {}).get(name, "") for name in ("Code", "Message"))
            if code == _NOT_FOUND:
                return None
            raise self._refused(code, " ".join(words.split()), error.response) from None
        except aws.SSLError as error:
            raise self._error(f"cannot be reached by TLS: {error}", "check AWS_CA_BUNDLE") from None
        except (aws.ConnectionError, aws.HTTPClientError) as error:
            raise self._no_answer(f"does not answer: {error}") from None
        except aws.BotoCoreError as error:
            hint = "give access-key and secret-access-key, or set up AWS's own environment"
            raise self._error(f"cannot be asked: {error}", hint) from None
        return answer

    def _refused(self, code: str, words: str, response: Mapping[str, Any]) -> TidecastError:
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code == _REFUSED:
            return _Refused(words)
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

    def __init__(self, words: str) -> None:
        super().__init__(f"the schema registry refuses the request: {words}", code=API_ERROR)
        self.words = words
