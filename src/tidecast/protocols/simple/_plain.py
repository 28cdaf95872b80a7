"""One Simple message read in Python, the twin of `_decode` for a message alone. Source: Simple protocol, messages.

A row's message comes without its table's schema, so that its values cannot be read from it alone.
"""

from __future__ import annotations

from typing import Any

from tidecast.model import Reason
from tidecast.plain import PlainMessage, Problem, TakesSpark, check_commit_ts, member, need, object_of, zone_named
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.simple._avro import MARK, read_message
from tidecast.protocols.simple._decode import _read
from tidecast.protocols.simple._message import BOOTSTRAP, DDL_TYPES, ROW_OPS, WATERMARK

_NUMBERS = {"version": 32, "tableID": 64, "commitTs": 64, "buildTs": 64, "schemaVersion": 64}
"""Members that are numbers, and of how many bits."""
_TEXTS = ("type", "database", "table", "claimCheckLocation")


def read_plain(value: bytes, options: DecodeOptions) -> PlainMessage:
    """Return what one message says. Raises TakesSpark for one that is not surely sound."""
    zone_named(options.zone)
    message = _members(value)
    numbers = {name: member(message, name, int, bits=bits) for name, bits in _NUMBERS.items()}
    texts = {name: member(message, name, str) for name in _TEXTS}
    kind, commit_ts = texts["type"], numbers["commitTs"]
    reduced = member(message, "handleKeyOnly", bool) or texts["claimCheckLocation"] is not None
    checksum = member(message, "checksum", dict) or {}
    member(checksum, "corrupted", bool)
    for name, bits in (("version", 32), ("current", 64), ("previous", 64)):
        member(checksum, name, int, bits=bits)
    need(kind is not None and numbers["version"] is not None, "no message")
    if kind != BOOTSTRAP:
        need(commit_ts is not None, "no commitTs")
        check_commit_ts(commit_ts)
    if kind == WATERMARK:
        return None
    if kind in (BOOTSTRAP, *DDL_TYPES):
        try:
            sql, _, _ = _read(value)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise TakesSpark(str(error)) from None
        need(kind == BOOTSTRAP or bool(sql), "a schema change without sql")
        return None
    key = (texts["database"], texts["table"], numbers["schemaVersion"])
    need(kind in ROW_OPS and None not in key, "no row of a table")
    if reduced:
        return Problem(Reason.INCOMPLETE)
    return Problem(Reason.UNKNOWN_TABLE, "no schema of {}.{} in version {}".format(*key))


def _members(value: bytes) -> dict[str, Any]:
    if not value.startswith(MARK):
        return object_of(value)
    try:
        return read_message(value)
    except ValueError as error:
        raise TakesSpark(str(error)) from None
