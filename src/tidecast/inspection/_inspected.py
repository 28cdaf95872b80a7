"""Messages explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidecast.model import Op, Reason, to_datetime
from tidecast.protocols import Description, protocol_named

_OPS = {Op.CREATE: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
_MUTE = (Reason.BAD_JSON, Reason.BAD_MESSAGE, Reason.BAD_MAGIC)
"""Why a message cannot even tell what it is."""


@dataclass(frozen=True)
class ColumnShown:
    """A column of a row: its type, its value before and after as text, and the bytes that the checksum takes."""

    name: str
    type: str
    old: str | None
    new: str | None
    checked: str | None


@dataclass
class Inspected:
    """One message, explained. `problem` tells why it cannot be read.

    Of a message of several rows, as Canal-JSON may have, there is one for each; `row` is its number from 1, else None.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    protocol: str
    type: str = ""
    table: str = ""
    commit_ts: int | None = None
    time: str | None = None
    key_schema_id: int | str | None = None
    value_schema_id: int | str | None = None
    sql: str | None = None
    columns: list[ColumnShown] = field(default_factory=list)
    verdict: str | None = None
    expected: int | None = None
    actual: int | None = None
    corrupted: bool | None = None
    problem: str | None = None
    row: int | None = None


@dataclass(frozen=True)
class Place:
    """Where a message lies; one that was given alone lies nowhere."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = 0


@dataclass(frozen=True)
class RowShown:
    """A row that could be read, explained."""

    op: str
    table: str
    commit_ts: int | None
    columns: Sequence[ColumnShown]
    verdict: str
    expected: int | None
    actual: int | None
    corrupted: bool


def problem_text(reason: str, detail: str | None) -> str:
    """Return why a message cannot be used, in a line."""
    return f"{reason}: {detail}" if detail else str(reason)


def explained(
    place: Place,
    key: bytes | None,
    value: bytes | None,
    protocol: str,
    rows: Sequence[RowShown] = (),
    problem: str | None = None,
    own: Description | None = None,
) -> list[Inspected]:
    """Return a message explained, from its rows if it has some, and else from its own members.

    `own` is what schemas tell of these; without it the message alone does.
    """
    own = own or protocol_named(protocol).describe(key, value)
    each = [_explained(place, value, protocol, row, problem, own) for row in (*rows,) or (None,)]
    return [replace(shown, row=number) for number, shown in enumerate(each, 1)] if len(each) > 1 else each


def _explained(
    place: Place, value: bytes | None, protocol: str, row: RowShown | None, problem: str | None, own: Description
) -> Inspected:
    shown = Inspected(place.topic, place.partition, place.offset, protocol, problem=problem)
    shown.key_schema_id, shown.value_schema_id = own.key_schema_id, own.value_schema_id
    if row is not None:
        shown.type, shown.table, shown.commit_ts = _OPS[Op(row.op)], row.table, row.commit_ts
        shown.columns = list(row.columns)
        shown.verdict, shown.corrupted = row.verdict, row.corrupted
        shown.expected, shown.actual = row.expected, row.actual
    elif value and not (problem or "").startswith(_MUTE):
        shown.type, shown.table, shown.commit_ts, shown.sql = own.type, own.table, own.commit_ts, own.sql
        shown.columns = [ColumnShown(name, kind, None, None, None) for name, kind in own.columns]
    if shown.commit_ts:
        shown.time = to_datetime(shown.commit_ts).isoformat(timespec="milliseconds")
    return shown
