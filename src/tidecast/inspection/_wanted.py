"""The choice of a source's messages to explain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidecast._errors import ConfigError
from tidecast._tso import LOGICAL_BITS, read_tso
from tidecast.topics import Spans

_LAST_LOGICAL = (1 << LOGICAL_BITS) - 1
_NEWEST = (1 << 63) - 1
_PART = 1000
"""How many messages of a partition to look into first, where it takes more than those that are shown."""
_GROWTH = 30


@dataclass(frozen=True)
class Wanted:
    """The messages to explain: the first `limit`, or the `last`, of those that all the others are true of.

    `key` has values of columns as text, of the row before or after its change; `commit_ts` is a range, ends included.
    """

    limit: int
    last: bool = False
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    table: str | None = None
    key: Mapping[str, str | None] = field(default_factory=dict)
    commit_ts: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.table is not None and "." not in self.table:
            raise ConfigError(f"--table takes DATABASE.TABLE, and not {self.table!r} alone")

    @property
    def of_rows(self) -> bool:
        """Tell whether the rows in the messages decide which are wanted, and not their places alone."""
        return bool(self.table or self.key or self.commit_ts)

    def parts(self, spans: Spans) -> Iterator[Spans]:
        """Yield growing parts of a source, to be looked into until one has all that is wanted and what explains it.

        The first has little more than what is shown, unless rows are wanted; the last is the whole source. Raises
        ConfigError where no place of the source is wanted.
        """
        chosen = {place: span for place, span in spans.items() if self._has(place, span)}
        if not chosen:
            raise self._nowhere(spans)
        size = _PART if self.of_rows else 1 if self.offset is not None else self.limit
        before: Spans | None = None
        while (part := {place: self._part(span, size) for place, span in chosen.items()}) not in (before, spans):
            yield part
            before, size = part, max(size * _GROWTH, _PART)
        yield spans

    def covered(self, part: Spans, spans: Spans) -> bool:
        """Tell whether a part of a source has all its places that are wanted."""
        return self.offset is not None or all(
            part.get(place) == span for place, span in spans.items() if self._has(place, span)
        )

    def _has(self, place: tuple[str, int], span: tuple[int, int]) -> bool:
        topic, partition = place
        return (
            self.topic in (None, topic)
            and self.partition in (None, partition)
            and (self.offset is None or span[0] <= self.offset < span[1])
        )

    def _part(self, span: tuple[int, int], size: int) -> tuple[int, int]:
        start, end = span
        if self.offset is not None:  # around it, as schemas may come before or after
            return max(start, self.offset + 1 - size), min(end, self.offset + size)
        return (max(start, end - size), end) if self.last else (start, min(end, start + size))

    def _nowhere(self, spans: Spans) -> ConfigError:
        words = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        asked = " ".join(f"{name} {value}" for name, value in words.items() if value is not None)
        there = [f"{t} partition {p} has offsets {a} to {b - 1}" for (t, p), (a, b) in sorted(spans.items()) if a < b]
        hint = "; ".join(there[:3]) + (f" and {len(there) - 3} more partitions" if len(there) > 3 else "")
        return ConfigError(f"the source has no message at {asked}", hint=hint or "it has none at all")


def key_of(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the columns of a key: of `COLUMN=VALUE`, or of JSON as `verify` shows it. Raises ConfigError for less."""
    found: dict[str, str | None] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            try:
                members = json.loads(text, parse_int=str, parse_float=str)
            except ValueError:
                raise ConfigError(f"--key: {text} is no JSON", hint='as {"id":7}, or id=7') from None
            found |= {name: None if value is None else str(value) for name, value in members.items()}
            continue
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigError(f"--key cannot be {text!r}", hint='write COLUMN=VALUE, or JSON, as id=7 or {"id":7}')
        found[name] = value
    return found


def commit_ts_range(text: str) -> tuple[int, int]:
    """Return the first and the last commit-ts of a TSO, of a time, or of two of them.

    A time stands for all of its millisecond. Raises ConfigError for anything else, and for two in the wrong order.
    """
    begin, dots, end = text.partition("..")
    end = end if dots else begin
    first, last = read_tso(begin or "0"), read_tso(end) if end else _NEWEST
    if first is None or last is None or not (begin or end):
        raise ConfigError(
            f"--commit-ts cannot be {text!r}",
            hint="write a TSO or a time, as 2026-01-31T12:00Z, or two of them with .. between, as FROM..TO",
        )
    last = last if end.isdecimal() else last | _LAST_LOGICAL
    if last < first:
        raise ConfigError(f"--commit-ts: {text} ends before it begins")
    return first, last
