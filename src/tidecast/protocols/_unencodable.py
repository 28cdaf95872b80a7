"""Rows that have no form in a protocol, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, Kind
from tidecast.protocols._decoded import TAG, Rows
from tidecast.values import DIGITS, field, refused, to_numpy

REALS = (Kind.FLOAT, Kind.DOUBLE)
_NUMBERED = (Kind.ENUM, Kind.SET, Kind.BIT)


def first_named(found: Sequence[tuple[str, np.ndarray]], count: int) -> pa.Array:
    """Return for each of `count` rows the first text whose flags hold for it, null without one."""
    chosen = np.full(count, -1)
    for number, (_, flags) in enumerate(found):
        chosen[flags & (chosen < 0)] = number
    return pa.array([text for text, _ in found], TAG).take(pa.array(chosen, mask=chosen < 0))


def no_form(column: Column, title: str) -> str:
    """Return why a value of a column cannot be written; `title` is the protocol's."""
    return f"column {column.name} holds nothing that {title} can say"


def without_digits(
    columns: Iterable[Column], rows: Rows, title: str, others: Iterable[tuple[str, np.ndarray]] = ()
) -> pa.Array:
    """Name the column: a number that is not finite, an element that is none, a BIT beyond 64 bits.

    `columns` are those that messages may show. `title` is the protocol's. `others` are further causes, which come
    after these.
    """
    return first_named([*beyond_digits(columns, rows, title, REALS + _NUMBERED), *others], len(rows.at))


def beyond_digits(
    columns: Iterable[Column], rows: Rows, title: str, kinds: Sequence[Kind]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the columns of some kinds with such values, in words, and which rows have one; see `without_digits`."""
    for column in columns:
        kind = column.data_type.kind
        for side in (rows.old, rows.data) if kind in kinds else ():
            value = field(side, column.name)
            if kind in REALS:
                wrong = ~np.isfinite(to_numpy(value))
            else:
                wrong = refused(value, DIGITS[kind](column.data_type, value))
            if wrong is not None:
                yield no_form(column, title), wrong


def no_element(column: Column, value: pa.Array) -> np.ndarray | None:
    """Return which values of an ENUM are the invalid one, 0, which is `''`; None where none can be told to be it."""
    if column.data_type.kind is not Kind.ENUM or "" in column.data_type.elements:
        return None
    return np.asarray(pc.fill_null(pc.equal(value, ""), False))
