"""The interface of a schema registry."""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard, TypeVar
from uuid import UUID

from tidecast._errors import SchemaRefused, Unreachable

API_ERROR = "CDC:ErrAvroSchemaAPIError"
"""TiCDC's code for everything that goes wrong between it and a registry."""


MAX_BYTES = 16 << 20
"""The most bytes that an answer, or a file of a registry's folder, may have."""
_MAX_DEPTH = 100
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.5, 1.5, 30.0

SchemaId = int | UUID
"""What a registry calls a schema: Confluent's a number, Glue an UUID."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Framing:
    """How a message begins whose schema is in a registry: with `magic`, then the schema's id in `id_length` bytes."""

    magic: bytes
    id_length: int
    id_of: Callable[[bytes], SchemaId]

    @property
    def length(self) -> int:
        """The number of bytes before the message itself."""
        return len(self.magic) + self.id_length

    def schema_id(self, message: bytes) -> SchemaId | None:
        """Return the id of a message's schema, None where it does not begin so."""
        framed = message.startswith(self.magic) and len(message) >= self.length
        return self.id_of(message[len(self.magic) : self.length]) if framed else None


CONFLUENT = Framing(b"\x00", 4, int.from_bytes)
GLUE = Framing(b"\x03\x00", 16, lambda data: UUID(bytes=data))
"""The second byte says that what follows is not compressed, as TiCDC sends it. Source: Avro protocol, AWS Glue."""
FRAMINGS = (CONFLUENT, GLUE)


def framing_of(schema_id: SchemaId) -> Framing:
    """Return the framing of messages whose schema has such an id."""
    return GLUE if isinstance(schema_id, UUID) else CONFLUENT


def header(schema_id: SchemaId) -> bytes:
    """Return what the messages of a schema begin with."""
    framing = framing_of(schema_id)
    return framing.magic + (schema_id.bytes if isinstance(schema_id, UUID) else schema_id.to_bytes(framing.id_length))


class RegisteredSchema(NamedTuple):
    """A schema's text, and a number that is higher the later it was registered."""

    text: str
    version: int


def bounded_json(text: str | bytes) -> Any:
    """Return a JSON value. Raises ValueError where the text is none, or one that is nested deeper than 100 levels."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [v for c in level for v in (c.values() if isinstance(c, dict) else c if isinstance(c, list) else ())]
        if not level:
            return value
    raise ValueError("nested too deeply")


def is_schema_id(value: object) -> TypeGuard[int]:
    """Tell whether a value can be the id of a schema: a positive number of 32 bits."""
    return type(value) is int and 0 < value < 2**31


def subject_for(topic: str, part: Literal["key", "value"]) -> str:
    """Return the subject of a topic's keys or values: the topic with `.` as `_`, then `-key` or `-value`."""
    return f"{topic.replace('.', '_')}-{part}"


def refused(subject: str, words: str) -> SchemaRefused:
    """Return the error for a schema that a registry will not take, with the registry's own words."""
    return SchemaRefused(
        f"the schema registry refuses the schema: {words}",
        code=API_ERROR,
        where=f"subject {subject}",
        hint="change the table so that readers of earlier rows can follow, or set the subject's compatibility to NONE",
    )


def asked_again(ask: Callable[[], _T], retry_for: float) -> _T:
    """Return what `ask` returns, asking again, with growing pauses, for `retry_for` seconds while it is Unreachable."""
    deadline = time.monotonic() + retry_for
    pause = _FIRST_PAUSE
    while True:
        try:
            return ask()
        except Unreachable:
            wait = pause * random.uniform(0.5, 1.5)
            if time.monotonic() + wait > deadline:
                raise
            time.sleep(wait)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


class Registry(ABC):
    """A Schema Registry: subjects, each with numbered versions of a schema; ids that hold for all subjects.

    A registration and a schema that was found are asked for once and remembered by this object. `framing` tells how
    the messages of its schemas begin.
    """

    framing: Framing = CONFLUENT

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], SchemaId] = {}
        self._schemas: dict[SchemaId, RegisteredSchema] = {}

    def register(self, subject: str, schema: str) -> SchemaId:
        """Register a schema's text under a subject and return its id; a text that is there already keeps its id.

        Raises `SchemaRefused` with the registry's own words where it will not take the schema, `Unreachable`
        where it does not answer, and `RegistryError` for every other answer that is not an id.
        """
        known = self._ids.get((subject, schema))
        if known is None:
            known = self._ids[subject, schema] = self._register(subject, schema)
        return known

    def schema(self, schema_id: SchemaId) -> RegisteredSchema | None:
        """Return the schema with this id, None where the registry does not know the id.

        Raises `Unreachable` where the registry does not answer, and `RegistryError` for an unusable answer.
        """
        known = self._schemas.get(schema_id)
        if known is None:  # an unknown id is asked for again: it may have come since
            known = self._find(schema_id)
            if known is not None:
                self._schemas[schema_id] = known
        return known

    def guess(self, wanted: Callable[[str], bool]) -> Mapping[SchemaId, RegisteredSchema]:
        """Return schemas that messages of some subjects are likely to have, as far as a few questions tell them.

        It saves a second look at messages. Nothing follows from a schema that is not among them.
        """
        return {}

    @abstractmethod
    def _register(self, subject: str, schema: str) -> SchemaId: ...

    @abstractmethod
    def _find(self, schema_id: SchemaId) -> RegisteredSchema | None: ...

    @abstractmethod
    def check(self) -> None:
        """Make sure, at once and without a second try, that the registry is there and lets us in.

        Raises `Unreachable` where it does not answer, `RegistryError` where it does not let us in or is no registry.
        """

    @abstractmethod
    def refusal(self, subject: str, schema: str) -> str | None:
        """Return why the registry would refuse this schema, None where it would take it. Registers nothing."""
