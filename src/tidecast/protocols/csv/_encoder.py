"""Rows on Arrow columns to lines of CSV. Source: Storage sink, CSV files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._csv_format import CsvFormat
from tidecast.model import Column, Kind, Op
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._json_text import with_exponent
from tidecast.protocols._unencodable import no_element, no_form, without_digits
from tidecast.values import (
    BYTES,
    TEXT,
    base64_text,
    bit_number,
    decimal_text,
    field,
    joined,
    null_where,
    rewritten,
    shift_zone,
    to_numpy,
    valid,
)

_OPERATIONS = {Op.CREATE: "I", Op.UPDATE: "U", Op.DELETE: "D"}
_TITLE = "CSV"
_LETTERS = {"\r": "r", "\n": "n"}
_EXPONENTS = range(-4, 6)
"""The exponents of the numbers that Go's `%v` writes without one."""


@dataclass(frozen=True)
class CsvEncoder(Encoder):
    """Makes lines of CSV; see `Encoder`. A line has no terminator at its end. `zone` is that of TIMESTAMP text."""

    form: CsvFormat
    zone: str = "UTC"

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: a number that is not finite, an element that is none or 0, a BIT beyond 64 bits."""
        sides = [rows.image, rows.old] if self.form.output_old_value else [rows.image]
        invalid = [
            (no_form(column, _TITLE), flags & valid(side))
            for column in table.shown
            for side in sides
            if (flags := no_element(column, field(side, column.name))) is not None
        ]
        return without_digits(table.shown, rows, _TITLE, invalid)

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return the header of the file that a line goes to, null where files have none."""
        if not self.form.output_field_header:
            return pa.nulls(len(rows.at), BYTES)
        return pa.array([csv_header(table, self.form).encode()] * len(rows.at), BYTES)

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return a row's line; with `output-old-value` two lines for an update, of the row before and after."""
        line = self._lines(table, rows, rows.image, rows.op, pa.array([False] * len(rows.at)))
        updates = np.asarray(pc.equal(rows.op, Op.UPDATE.value))
        if not self.form.output_old_value or not updates.any():
            return line
        yes = pa.array([True] * len(rows.at))
        before = self._lines(table, rows, rows.old, pa.array(["d"] * len(rows.at), TEXT), yes)
        after = self._lines(table, rows, rows.data, pa.array(["c"] * len(rows.at), TEXT), yes)
        # Nobody can delete a row that nobody knows: the update is then an insert alone.
        both = joined([before, self.form.terminator.encode(), after], BYTES)
        known = pc.if_else(pc.is_valid(rows.old), both, after)
        return pc.if_else(pa.array(updates), known, line)

    def reduced(self, table: RoutedTable, rows: Rows, location: pa.Array | None) -> pa.Array:
        """Return the whole lines: files have no largest message."""
        return self.value(table, rows)

    def _lines(self, table: RoutedTable, rows: Rows, image: pa.StructArray, op: pa.Array, update: pa.Array) -> pa.Array:
        letters = {one.value: letter for one, letter in _OPERATIONS.items()}
        told: dict[str, pa.Array | str] = {
            "operation": self._quoted(pa.array([letters[one] for one in op.to_pylist()], TEXT)),
            "table": self._constant(table.schema.table),
            "schema": self._constant(table.schema.database),
            "commit-ts": pa.array(to_numpy(rows.commit_ts)).cast(TEXT),
            "is-update": update.cast(TEXT),
        }
        pieces: list[pa.Array | str] = []
        for name in self.form.meta:
            pieces += [told[name], self.form.delimiter]
        for column in table.shown:
            pieces += [pc.fill_null(self._text(column, field(image, column.name)), self.form.null), self.form.delimiter]
        return joined(pieces[:-1], TEXT).cast(BYTES)

    def _constant(self, text: str) -> str:
        return str(self._quoted(pa.array([text], TEXT))[0].as_py())

    def _text(self, column: Column, value: pa.Array) -> pa.Array:
        """Return a column's values as fields; null for NULL."""
        kind = column.data_type.kind
        if kind in _NUMBERS:
            return null_where(_NUMBERS[kind](value).cast(TEXT), ~valid(value))
        if kind is Kind.TIMESTAMP:
            value = shift_zone(value, "UTC", self.zone)
        if kind is Kind.BINARY:
            value = self._of_bytes(value)
        return self._quoted(decimal_text(value) if kind is Kind.DECIMAL else value.cast(TEXT))

    def _of_bytes(self, value: pa.Array) -> pa.Array:
        if self.form.binary_encoding_method == "base64":
            return base64_text(value)
        return pa.array([None if one is None else one.hex() for one in value.to_pylist()], TEXT)

    def _quoted(self, text: pa.Array) -> pa.Array:
        if self.form.quote:
            mark = self.form.quote
            doubled = pc.replace_substring(text, mark, mark * 2)
            return null_where(joined([mark, doubled, mark], TEXT), ~valid(text))
        special = re.compile(rf"{re.escape(self.form.delimiter)}|[\\\r\n]")
        odd = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(text, special.pattern), False)))
        return rewritten(text, odd, lambda one: special.sub(_escaped, one))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{_LETTERS.get(character, character)}" for character in found[0])


def csv_header(table: RoutedTable, form: CsvFormat) -> str:
    """Return the line that names a file's fields, without a terminator. Names are neither quoted nor escaped."""
    meta = (f"ticdc-meta${name}" for name in form.meta)
    return form.delimiter.join([*meta, *(column.name for column in table.selected.columns)])


def _real(value: pa.Array) -> pa.Array:
    """Return floats or doubles as Go prints them with `%v`."""
    text = value.cast(TEXT)
    size = np.abs(to_numpy(value))
    odd = np.flatnonzero(valid(value) & (size != 0) & ((size >= 10**_EXPONENTS.stop) | (size < 10.0**_EXPONENTS.start)))
    return rewritten(text, odd, _as_go)


def _as_go(text: str) -> str:
    number = Decimal(text)
    return format(number, "f") if number.adjusted() in _EXPONENTS else with_exponent(text, "+03d")


_NUMBERS: Mapping[Kind, Callable[[pa.Array], pa.Array]] = {
    Kind.INTEGER: lambda value: value,
    Kind.YEAR: lambda value: value,
    Kind.BIT: bit_number,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
}
"""What is never quoted, and how it becomes a number or its text."""
