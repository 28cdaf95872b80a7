"""How far a topic has been read: the state that `TopicStream` keeps in a folder, and those who watch look at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from tidecast._counted import counted
from tidecast._errors import ConfigError, TerminalError
from tidecast._uri import REMOTE_SCHEMES, Place
from tidecast.model import Ddl, SchemaHistory, checked
from tidecast.storage import AnyPath, StateFile, entry
from tidecast.topics import Int64, Offsets

STATE, WAITING = "progress.json", "waiting"


@dataclass(frozen=True)
class Progress:
    """How far a stream has been read: the offsets, the highest watermark by place, the batches that were committed.

    `watermark` is the commit-ts up to which every partition has been read, None as long as that is not known. `waiting`
    names the folder of rows that wait: `rows_waiting` whose schema has not come yet, and `rows_unresolved` with a
    commit-ts above `watermark`, as have the schema changes `ddl_unresolved`. `checkpoint` tells this state from
    a later one in its place. `tables` are the tables that had rows:
    database and name. `source` is what the messages were read from, see `source_name`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    offsets: Offsets | None
    watermarks: Mapping[str, Int64]
    watermark: Int64 | None
    batch: Int64
    waiting: Annotated[str, Field(pattern=rf"^{WAITING}-[0-9]+$")] | None
    rows_waiting: Int64
    tables: Sequence[tuple[str, str]]
    source: str
    rows_unresolved: Int64 = 0
    ddl_unresolved: Sequence[Ddl] = ()
    checkpoint: str = ""

    def without(self, remaining: Mapping[str, int]) -> Progress:
        """Return what is true where messages went before they were read; see `SourceChanged.remaining`."""
        known = self.offsets or Offsets()
        dropped = known.ends.keys() - remaining.keys()
        anew = {_topic(place) for place in dropped}
        gone = dropped | (anew - Offsets(remaining).topics)
        return replace(
            self,
            offsets=Offsets(remaining, {name: id_ for name, id_ in known.ids.items() if name not in gone}),
            watermarks={at: ts for at, ts in self.watermarks.items() if not anew or (at and _topic(at) not in anew)},
            watermark=None,
        )

    @property
    def waits(self) -> Sequence[str]:
        """The rows that wait, for people."""
        kinds = ((self.rows_waiting, "for the schemas of their tables"), (self.rows_unresolved, "for a resolved-ts"))
        return [f"{counted(rows, 'row waits', 'rows wait')} {what}" for rows, what in kinds if rows]

    @property
    def covered(self) -> int:
        """The commit-ts up to which whatever comes next is a repetition, and left out; -1 where nothing tells it.

        That is the lowest watermark of all partitions of Kafka, each of which may be behind the others.
        """
        if self.rows_waiting:  # they come later, whatever their commit-ts; those unresolved lie above
            return -1
        ends = self.offsets.ends if self.offsets else {}
        places = [""] if "" in self.watermarks else list(ends)
        return min((self.watermarks.get(place, -1) for place in places), default=-1)


_PROGRESS = TypeAdapter(Progress)


def source_name(place: Place) -> str:
    """Return what stays the same of a source whose brokers, credentials or parameters change.

    That is the name of its topic in Kafka, or its path; without the last part where `topics` chooses what is read.
    """
    folder, _, name = place.path.rstrip("/").rpartition("/")
    store = place.root.partition("://")[2]
    files = f"{REMOTE_SCHEMES[place.scheme]}://{store}" if place.root else "file://"
    if place.root and not name and "topics" not in place.params:
        return files
    return ("kafka topic " if place.is_kafka else f"{files}{folder}/") + ("" if "topics" in place.params else name)


def may_be_same(one: str, other: str) -> bool:
    """Tell whether two names of sources may be of the same one; one without a last part may have any."""
    short, long = sorted((one, other), key=len)
    more = long.removeprefix(short)
    return not more or (short.endswith((" ", "/")) and long.startswith(short) and "/" not in more)


def parsed_state(state: bytes) -> tuple[Progress, bytes]:
    """Return the content of a file of state: the progress, and the schemas that the stream has shown, as JSON.

    Raises ValueError, TypeError or LookupError where it says something else; see `no_state`.
    """
    members = from_json(state)  # unlike Python's own it bears any nesting
    if not isinstance(members, dict) or not isinstance(members.get("progress"), dict):
        raise ValueError("it tells no progress")
    progress, schemas = members["progress"], to_json(members["schemas"])
    for schema in SchemaHistory(schemas):
        checked(schema)
    return _PROGRESS.validate_json(to_json(progress)), schemas


def state_of(progress: Progress, schemas: bytes) -> bytes:
    """Return what a file of state says of a progress."""
    state = {"progress": _PROGRESS.dump_python(progress, mode="json"), "schemas": json.loads(schemas)}
    return json.dumps(state).encode()


def no_state(error: Exception, file: AnyPath) -> TerminalError:
    """Return the error for a file whose state cannot be used."""
    hint = "remove the folder to read the topic from its start, or bring back a copy of it"
    return TerminalError(f"this is no state of a topic: {_words(error)}", where=str(file), hint=hint)


def read_progress(folder: AnyPath) -> Progress:
    """Return how far the stream has been read that keeps its state in a folder, which may be at work meanwhile.

    Raises ConfigError where the folder has no state, TerminalError where that is damaged.
    """
    file = folder / STATE
    try:
        state = StateFile(file).look()
        if state is not None:
            return parsed_state(state)[0]
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise no_state(error, file) from None
    there = f"the folder has no {STATE}" if entry(folder) else "there is no such folder"
    hint = "name the one that replicate was given, which has committed a batch"
    raise ConfigError(f"no checkpoint: {there}", where=str(folder), hint=hint)


def check_source_of(progress: Progress, place: Place, file: AnyPath) -> None:
    """Raise ConfigError where a state, which lies in a file, is of another source than a place."""
    if not may_be_same(progress.source, source := source_name(place)):
        raise ConfigError(
            f"this is the state of another source: {progress.source}, not {source}",
            where=str(file),
            hint="give each source a --checkpoint, or a server's --data-dir, of its own",
        )


def _words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{error.args[0]} is missing" if isinstance(error, LookupError) else str(error)


def _topic(place: str) -> str:
    return place.rpartition("/")[0]
