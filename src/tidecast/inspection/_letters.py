"""One dead letter in full: where it came from, why it is one, and what its message says."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._progress import Progress, no_progress
from tidecast.inspection._inspect import inspect
from tidecast.inspection._inspected import Inspected, Place, explained, problem_text
from tidecast.model import Reason
from tidecast.protocols import check_readable, guess_protocol, protocol_named
from tidecast.storage import AnyPath, storage_path
from tidecast.topics import DEAD_LETTERS, DeadLetter, dead_letters_folder, first_dead_letters

_OTHERS = 5
_DAMAGED = {
    Reason.BAD_JSON,
    Reason.BAD_MESSAGE,
    Reason.BAD_MAGIC,
    Reason.TRUNCATED,
    Reason.UNDECODABLE,
    Reason.TOO_LARGE,
}
"""Why a message says nothing more than that."""


@dataclass(frozen=True)
class ShownLetter:
    """A dead letter in full.

    `key` and `value` are Base64, `timestamp` is in epoch milliseconds, `message` is what the value says by itself.
    `to` is where the tables are, None where nothing tells. `matching` is how many dead letters were asked for, and
    `others` are the places of the next of them: topic, partition and offset.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    reason: str
    detail: str | None
    key: str | None
    value: str | None
    message: Inspected
    to: str | None
    matching: int
    others: Sequence[tuple[str | None, int | None, int | None]]


def show_dead_letter(
    where: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    reason: str | None = None,
    protocol: str | None = None,
    schema_registry: str | None = None,
    tz: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> ShownLetter:
    """Return one dead letter in full: the first, or the first of a topic, a partition, an offset and a reason.

    `where` is the folder of dead letters, or what `replicate` was given as `to`, where that is a folder. The message is
    explained by itself, as by `tidecast.inspect`, which says what `protocol`, `schema_registry` and `tz` are; a row of
    a protocol that tells schemas once then has none. It takes no Spark. Raises ConfigError where there is no such
    dead letter, and as `tidecast.inspect`.
    """
    asked = {"topic": topic, "partition": partition, "offset": offset, "reason": reason}
    wanted = {name: value for name, value in asked.items() if value is not None}
    place, to = _folder(where)
    first, matching = first_dead_letters(
        place, 1 + _OTHERS, lambda one: all(getattr(one, name) == value for name, value in wanted.items())
    )
    if not first:
        words = " ".join(f"{name} {value}" for name, value in wanted.items())
        hint = "tidecast dead-letters list counts those that are there"
        raise ConfigError(f"there is no dead letter {f'of {words}' if words else 'here'}", where=str(place), hint=hint)
    letter, *others = first
    return ShownLetter(
        letter.topic,
        letter.partition,
        letter.offset,
        letter.timestamp,
        letter.reason,
        letter.detail,
        _text(letter.key),
        _text(letter.value),
        _message(letter, protocol, schema_registry, tz, progress, spark),
        to,
        matching,
        [(one.topic, one.partition, one.offset) for one in others],
    )


def _folder(where: str) -> tuple[AnyPath, str | None]:
    """Return the folder of dead letters, and that of the tables, as `replicate` takes it, if something tells it."""
    place = dead_letters_folder(storage_path(where, "WHERE"))
    if place.name != DEAD_LETTERS:
        return place, None
    tables = place.parent  # of which a name alone would be a catalog's
    return place, str(tables.absolute() if isinstance(tables, Path) else tables)


def _message(
    letter: DeadLetter,
    protocol: str | None,
    schema_registry: str | None,
    tz: str | None,
    progress: Progress,
    spark: SparkSession | None,
) -> Inspected:
    value = letter.value or b""
    name = check_readable(protocol or guess_protocol(value).name)
    place = Place(letter.topic, letter.partition, letter.offset)
    detail = letter.detail or (_json_fault(value) if letter.reason == Reason.BAD_JSON else None)
    damaged = problem_text(letter.reason, detail) if letter.reason in _DAMAGED else None
    (by_itself,) = explained(place, letter.key, letter.value, name, problem=damaged)
    needs_registry = protocol_named(name).needs_registry and schema_registry is None
    if not value or (damaged and needs_registry):
        return by_itself
    if needs_registry:
        return replace(by_itself, problem="--schema-registry tells its columns")
    found, *_ = inspect(
        hex=value.hex(), protocol=name, schema_registry=schema_registry, tz=tz, progress=progress, spark=spark
    )
    if damaged and found.problem:  # else the replica took it for another protocol's
        return by_itself
    of_key = by_itself.key_schema_id
    return replace(found, topic=place.topic, partition=place.partition, offset=place.offset, key_schema_id=of_key)


def _json_fault(value: bytes) -> str | None:
    """Return where a text stops being JSON, None where Python's reader finds no fault."""
    try:
        json.loads(value)
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos}"
    except (RecursionError, ValueError) as error:
        return str(error)
    return None


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
