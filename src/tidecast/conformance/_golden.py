"""The golden messages that come with the kit: what TiCDC's own encoders made of the same events in each protocol."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table version; `type` is MySQL's, `default` whether it has one, `key` whether it tells the row."""

    name: str
    type: str
    key: bool
    default: bool
    virtual: bool


@dataclass(frozen=True)
class Event:
    """An event in the source, before any protocol; values as TiDB shows them."""

    n: int
    kind: str
    db: str = ""
    table: str = ""
    op: str | None = None
    commit_ts: str | None = None
    schema_version: str = ""
    old: Row | None = None
    new: Row | None = None
    query: str | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class Message:
    """The message that an encoder made of event `n`; `damaged` says what somebody changed in it."""

    n: int
    kind: str
    topic: str
    key: bytes | None
    value: bytes | None
    db: str = ""
    table: str = ""
    damaged: str | None = None


@dataclass
class Golden:
    """All of it: columns by table and version, events by number, messages and schemas by variant."""

    columns: dict[tuple[str, str, str], list[Column]] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)
    schemas: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def columns_of(self, event: Event) -> list[Column]:
        """Return the columns of the table as it was when a row changed."""
        return self.columns[event.db, event.table, event.schema_version]


@cache
def golden() -> Golden:
    """Return the golden messages."""
    found = Golden()
    packed = files(__package__).joinpath("golden.jsonl.xz").read_bytes()
    for line in lzma.decompress(packed).decode().strip().split("\n"):  # others end lines at U+2028, too
        ((kind, said),) = json.loads(line).items()
        match kind:
            case "table":
                place = said["database"], said["table"], said["version"]
                found.columns[place] = [Column(**column) for column in said["columns"]]
            case "event":
                found.events[said["n"]] = Event(**said)
            case "message":
                said |= {name: _bytes(said[name]) for name in ("key", "value")}
                found.messages.setdefault(said.pop("variant"), []).append(Message(**said))
            case "schema":
                found.schemas.setdefault(said.pop("variant"), []).append(said)
    return found


def _bytes(content: Mapping[str, str] | None) -> bytes | None:
    if content is None:
        return None
    return content["text"].encode() if "text" in content else base64.b64decode(content["base64"])
