"""The first place where messages or rows are not what they should be, as a person would point at it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from golden_data import Line

_AROUND = 40
_SHOWN = 10


def assert_messages_equal(got: Mapping[Any, Any], expected: Mapping[Any, Any], messages: Mapping[Any, Line]) -> None:
    """Compare messages, or the rows in them; raise AssertionError at the first that differs.

    All are by number or place; `messages` are the golden ones. The error names the event, its table, the first column
    or place that differs, and both values. Bytes and texts that are JSON are compared member by member.
    """

    def name(place: Any) -> str:
        message = messages.get(place)
        if message is None:
            return f"at {place}"
        what = f"{message['db']}.{message['table']}" if message.get("table") else message["kind"]
        where = f" at {'/'.join(map(str, place))}" if isinstance(place, tuple) else ""
        return f"event {message['n']} of {what}{where}"

    for kind, numbers in (("missing", expected.keys() - got.keys()), ("unexpected", got.keys() - expected.keys())):
        if numbers:
            shown = "; ".join(map(name, sorted(numbers)[:_SHOWN]))
            raise AssertionError(f"{len(numbers)} of {len(expected)} messages are {kind}: {shown}")
    wrong = sorted(n for n in expected if got[n] != expected[n])
    if wrong:
        place, ours, theirs = first_difference(got[wrong[0]], expected[wrong[0]])
        raise AssertionError(
            f"{len(wrong)} of {len(expected)} messages differ, first {name(wrong[0])}{place and f' at {place}'}:\n"
            f"  got      {ours}\n  expected {theirs}"
        )


def assert_rows_equal(got: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]], table: str) -> None:
    """Compare rows without an order; raise AssertionError that names the column in which a row comes nearest."""
    ours, theirs = (Counter(tuple(sorted(row.items())) for row in rows) for rows in (got, expected))
    extra, missing = [dict(r) for r in (ours - theirs).elements()], [dict(r) for r in (theirs - ours).elements()]
    if not extra and not missing:
        return
    text = f"{table}: {len(missing)} of {theirs.total()} rows are missing, {len(extra)} are unexpected"
    if not extra or not missing:
        raise AssertionError(f"{text}, first {(missing or extra)[0]}")
    wanted = missing[0]
    near = max(extra, key=lambda row: sum(row.get(name) == value for name, value in wanted.items()))
    shared = {name: value for name, value in wanted.items() if near.get(name) == value}
    lines = [
        f"  column {name}: got {near.get(name, 'no such column')!r}, expected {wanted.get(name, 'no such column')!r}"
        for name in {**wanted, **near}
        if name not in shared
    ]
    raise AssertionError("\n".join([f"{text}, first the row with {shared}", *lines]))


def first_difference(got: Any, expected: Any) -> tuple[str, str, str]:
    """Return where two values first differ, such as `value.data.price`, and what is there in each."""
    for place, ours, theirs in _differences("", got, expected):
        return place.lstrip("."), ours, theirs
    raise ValueError("the values are equal")


def _differences(place: str, got: Any, expected: Any) -> Iterator[tuple[str, str, str]]:
    if got == expected and type(got) is type(expected) and not isinstance(got, dict | list | tuple):
        return
    match got, expected:
        case (dict(), dict()):
            for name in {**expected, **got}:
                if name in got and name in expected:
                    yield from _differences(f"{place}.{name}", got[name], expected[name])
                else:
                    ours, theirs = (repr(side[name]) if name in side else "nothing" for side in (got, expected))
                    yield f"{place}.{name}", ours, theirs
        case (list(), list()) | (tuple(), tuple()) if len(got) == len(expected):
            for n, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
                yield from _differences(f"{place}[{n}]", ours, theirs)
        case (str(), str()) | (bytes(), bytes()):
            ours, theirs = _from_json(got), _from_json(expected)
            if ours is not None and theirs is not None:
                yield from _differences(place, ours, theirs)
            yield _first_character(place, got, expected)
        case _:
            yield place, repr(got), repr(expected)


def _from_json(text: str | bytes) -> Any:
    """Return an object or a list that a text is in JSON, None for any other text."""
    if text[:1] not in ("{", "[", b"{", b"["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _first_character(place: str, got: str | bytes, expected: str | bytes) -> tuple[str, str, str]:
    """Return where two texts begin to differ; long ones are cut around it."""
    at = next((n for n, pair in enumerate(zip(got, expected, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(got), len(expected)) if at is None else at
    begin = max(0, at - _AROUND)
    ours, theirs = (f"{'…' if begin else ''}{text[begin : at + _AROUND]!r}" for text in (got, expected))
    return f"{place}[{at}]" if max(len(got), len(expected)) > _AROUND else place, ours, theirs
