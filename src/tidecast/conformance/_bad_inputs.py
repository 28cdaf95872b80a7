"""Messages that nobody can read, among good ones that must be read all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidecast.conformance._cases import PROTOCOLS, Case, Cell, expected_of
from tidecast.conformance._golden import Message, golden

_TABLE = "t_hash"
"""A table of plain types, whose rows carry what is damaged."""

Damage = Callable[[bytes], bytes]


def _edited(edit: Callable[[dict[str, Any]], object]) -> Damage:
    """Return a damage that changes what a JSON message says."""

    def damage(value: bytes) -> bytes:
        said = json.loads(value)
        edit(said)
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

    return damage


def _saying(**members: Any) -> Damage:
    return _edited(lambda said: said.update(members))


_ANY: Mapping[str, Damage] = {
    "cut off": lambda value: value[: len(value) // 2],
    "of other bytes": lambda value: b"\x07" + value[::-1],
}
_JSON: Mapping[str, Damage] = {
    **_ANY,
    "with more after its end": lambda value: value + b"}",
    "no object": lambda value: b"[]",
}
_DAMAGES: Mapping[str, Mapping[str, Damage]] = {
    "avro": {
        **_ANY,
        "with more after its end": lambda value: value + b"\x00",
        "of an unknown schema": lambda value: value[:1] + (99_999_999).to_bytes(4, "big") + value[5:],
        "with another magic byte": lambda value: b"\x05" + value[1:],
        "with a length beyond its end": lambda value: value[:5] + b"\x02" + b"\xfe\xff\xff\x7f" + value[6:],
    },
    "canal-json": {
        **_JSON,
        "of an unknown type": _saying(type="REPLACE"),
        "without its row": _saying(data=[]),
        "without types": _saying(mysqlType=None),
        "with letters as a number": _edited(lambda said: said["data"][0].update(id="one")),
    },
    "debezium": {
        **_JSON,
        "of an unknown operation": _edited(lambda said: said["payload"].update(op="x")),
        "without its row": _edited(lambda said: said["payload"].update(before=None, after=None)),
        "with letters as a number": _edited(lambda said: said["payload"]["after"].update(id="one")),
    },
    "simple": {
        **_JSON,
        "of an unknown type": _saying(type="REPLACE"),
        "without its row": _edited(lambda said: said.pop("data")),
        "of an unknown schema": _saying(schemaVersion=1),
        "with letters as a number": _edited(lambda said: said["data"].update(id="one")),
    },
    "simple-avro": _ANY,
}
"""What can be wrong with an INSERT of each protocol."""


def bad_input_cases() -> Iterator[Case]:
    """Yield a case for each protocol: each bad message follows a good one, and a good one comes at the end."""
    known = golden()
    for name, damages in _DAMAGES.items():
        protocol = PROTOCOLS[name]
        case = Case(f"{name}.bad-inputs", protocol.name, "messages", protocol.variant, name)
        messages = [m for m in known.messages[protocol.variant] if m.table == _TABLE and not m.damaged]
        rows = [m for m in messages if m.kind == "dml" and known.events[m.n].op == "insert"]
        for message in messages:
            if message.kind != "dml":
                case.add(message)
        for row, damage in zip(rows, damages.values(), strict=False):
            _add_good(case, name, row)
            bad = replace(row, value=damage(row.value or b""))
            case.cells.append(Cell("bad input", case.add(bad), "error", "kind", "error"))
        _add_good(case, name, rows[len(damages)])
        yield case


def _add_good(case: Case, name: str, row: Message) -> None:
    offset = case.add(row)
    for cell in expected_of(golden(), PROTOCOLS[name], row, offset):
        if cell.cell == "op" or cell.cell.startswith("new."):
            case.cells.append(replace(cell, feature="good rows among bad ones"))
