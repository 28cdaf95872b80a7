"""Lines of CSV to columns of their fields. Source: Storage sink, CSV files."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidecast._csv_format import CsvFormat
from tidecast.values import BYTES

UNMARKED = -1
"""The number of fields of a line in which a text has no quotation marks."""
_UNESCAPED = {b"r": b"\r", b"n": b"\n"}


def fields_of(
    lines: pa.Array, form: CsvFormat, count: int, texts: Collection[int] = ()
) -> tuple[list[pa.Array], np.ndarray]:
    """Return the fields of lines as `count` columns, and how many fields each line has.

    In: large_binary, without line ends; `texts` are the places of fields that stand in quotation marks where there are
    such, unless they are NULL. Out: large_binary, null for NULL; a line with another number of fields has nulls. The
    number is 0 for a line that cannot be split, and `UNMARKED` for one with such a text. Nothing in a line changes
    another one.
    """
    pattern = _pattern_of(form, count, texts) if form.quote and texts else None
    fast = _by_arrow(lines, form, count, pattern) if form.quote and len(form.delimiter) == 1 else None
    if fast is not None:
        return fast, np.full(len(lines), count)
    split = _splitter(form)
    raw = lines.to_pylist()
    rows = [split(line) for line in raw]
    counts = np.array([len(row) for row in rows], np.int64)
    if pattern is not None:
        marked = re.compile(pattern.encode(), re.S)
        counts[[n for n in np.flatnonzero(counts == count) if not marked.fullmatch(raw[n])]] = UNMARKED
    nothing = [None] * count
    kept = (row if n == count else nothing for row, n in zip(rows, counts, strict=True))
    columns = zip(*kept, strict=True) if rows else [()] * count
    return [pa.array(column, BYTES) for column in columns], counts


def _by_arrow(lines: pa.Array, form: CsvFormat, count: int, pattern: str | None = None) -> list[pa.Array] | None:
    """Return what Arrow's reader makes of the lines, None where a line is not as it should be, as a pattern says.

    It would take text behind a closing quotation mark, and the next line for part of one where a mark is open. So lines
    are looked at first, and each gets its number, which shows that none is lost.
    """
    if not len(lines) or not pc.all(pc.match_substring_regex(lines, f"^{pattern or _pattern(form)}$")).as_py():
        return None
    numbers = pa.array(np.arange(len(lines))).cast(pa.string()).cast(BYTES)
    numbered = pc.binary_join_element_wise(
        numbers, pa.scalar(form.delimiter.encode(), BYTES), lines, pa.scalar(b"\n", BYTES), pa.scalar(b"", BYTES)
    )
    names = [str(n) for n in range(-1, count)]
    content = numbered.buffers()[2]
    assert content
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(use_threads=False, block_size=content.size + 1, column_names=names),
            csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=lambda row: "skip",
            ),
            csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[form.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ).combine_chunks()
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines) or table.column(0).null_count:
        return None
    first, *columns = (column.combine_chunks().cast(BYTES) for column in table.columns)
    return columns if first.equals(numbers) else None


@lru_cache(16)
def _splitter(form: CsvFormat) -> Callable[[bytes | None], Sequence[bytes | None]]:
    """Return a function from a line to its fields, None for NULL.

    No fields for a line whose marks do not pair, nor for one that can be split in two ways: of `|||` between `||` and
    `||` nothing tells which text the odd one is of.
    """
    null, mark = form.null.encode(), form.quote.encode()
    field = _field(form)
    whole = re.compile(_pattern(form).encode(), re.S)
    each = re.compile(rf"(?:\A|{re.escape(form.delimiter)})({field})".encode(), re.S)

    def unquoted(text: bytes) -> bytes | None:
        if text == null:
            return None
        return text[1:-1].replace(mark * 2, mark) if text[:1] == mark else text

    def unescaped(text: bytes) -> bytes | None:
        if text == null:
            return None
        if b"\\" not in text:
            return text
        return re.sub(rb"\\(.)", lambda found: _UNESCAPED.get(found[1], found[1]), text, flags=re.S)

    plain = unquoted if mark else unescaped
    delimiter = form.delimiter.encode()
    # What a field begins with behind a delimiter that could as well stand so much further to the right.
    # Between quotation marks all is quoted that is no number.
    shifts = range(1, 1 if mark else len(delimiter))
    movable = tuple(delimiter[-n:] for n in shifts if delimiter[n:] == delimiter[:-n])

    def split(line: bytes | None) -> Sequence[bytes | None]:
        if line is None or not whole.fullmatch(line):
            return ()
        fields = each.findall(line)
        if movable and any(text.startswith(movable) for text in fields):
            return ()
        return [*map(plain, fields)]  # NULL may look like an escape that is none

    return split


def _field(form: CsvFormat) -> str:
    """Return a regular expression of one field."""
    delimiter, mark = re.escape(form.delimiter), re.escape(form.quote)
    if not mark:
        return rf"(?:\\.|(?!{delimiter})[^\\])*"
    plain = rf"[^{mark}{delimiter}\r\n]" if len(form.delimiter) == 1 else rf"(?!{delimiter})[^{mark}\r\n]"
    return rf"(?:{_marked(mark)}|(?:{plain})*)"


def _marked(mark: str) -> str:
    return rf"{mark}[^{mark}]*(?:{mark}{mark}[^{mark}]*)*{mark}"


def _pattern(form: CsvFormat) -> str:
    """Return a regular expression of a line."""
    field = _field(form)
    return rf"{field}(?:{re.escape(form.delimiter)}{field})*"


def _pattern_of(form: CsvFormat, count: int, texts: Collection[int]) -> str:
    """Return a regular expression of a line with `count` fields, of which some stand in quotation marks or are NULL."""
    text = rf"(?:{_marked(re.escape(form.quote))}|{re.escape(form.null)})"
    field = _field(form)
    return re.escape(form.delimiter).join(text if n in texts else field for n in range(count))
