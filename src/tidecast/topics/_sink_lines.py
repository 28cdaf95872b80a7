"""Files of TiCDC's storage sink to records, a line each; and what a file shows of how it was written.

Source: Storage sink, CSV files, Canal-JSON files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._csv_format import TOLD_BY, CsvFormat
from tidecast._errors import ConfigError
from tidecast.model import Reason, latest_tso
from tidecast.topics._sink_layout import FILES_OF_SEGMENT, LINE_BITS, data_file, offset_of, writer_of

HEADER = b"ticdc-meta$operation"
_OPERATIONS = b"IUD"
_COMMIT_TS = re.compile(rb"[0-9]{16,19}")
_TRUTHS = (b"true", b"false")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_WHOLE_TYPES = re.compile(rb'"mysqlType":\s*\{[^}]*\(')
"""What a line of Canal-JSON has whose types tell their numbers."""
_AT_ONCE = 10_000
_CUT_OFF = "the last line of its file has no end: the file is cut off, or the terminator is another one"
_MOST_LINES = (1 << LINE_BITS) - 1
_TOO_MANY = f"its file has more than {_MOST_LINES} lines"


@dataclass(frozen=True)
class Splitting:
    """How files become records. `ranks` are those of segments."""

    form: CsvFormat
    ranks: Mapping[str, int]

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield records, with the columns of the batch.

        In: columns of `tidecast.model.RECORD`, `reason`, `detail`, among them `topic`, `key` and `value`. What has no
        topic is a whole file, `value` its content. `key` is its path below the sink's folder, and that of its lines,
        `topic` that of the table's folder; `offset` see `tidecast.topics._sink_layout.offset_of`, lines count from 1.
        """
        held: list[pa.RecordBatch] = []
        for made in self._each(batch):
            held.append(made)
            if sum(one.num_rows for one in held) >= _AT_ONCE:
                yield from _together(held)
                held = []
        yield from _together(held)

    def _each(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the records of a batch that are there, and those of each file."""
        whole = np.asarray(pc.is_null(batch.column("topic")))
        if not whole.all():
            yield batch.filter(pa.array(~whole))
        for place in np.flatnonzero(whole):
            for made in self._lines(batch.slice(place, 1)):
                columns = [made.get(f.name, pa.nulls(len(made["value"]), f.type)).cast(f.type) for f in batch.schema]
                yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _lines(self, one: pa.RecordBatch) -> Iterator[Mapping[str, pa.Array]]:
        """Yield columns of the records of a file."""
        path, written = one.column("key")[0].as_py().decode(), None
        if "timestamp" in one.schema.names:
            written = one.column("timestamp")
        folder, _, name = path.rpartition("/")
        file = data_file(name)
        writer = writer_of(folder, file[0]) if file else None
        assert file
        assert writer
        offset = offset_of(self.ranks[writer.place(file[1] // FILES_OF_SEGMENT)], file[1])
        for columns in _records(one.column("value")[0].as_buffer(), self.form, writer.table, path, offset):
            same = pa.array(np.zeros(len(columns["value"]), np.int64))
            yield columns if written is None else columns | {"timestamp": written.take(same)}


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the records of several files as one batch: each batch costs whoever reads it."""
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def _records(content: pa.Buffer, form: CsvFormat, table: str, path: str, offset: int) -> Iterator[dict[str, pa.Array]]:
    """Yield columns of the records of a file."""
    data = content.to_pybytes()
    starts, ends, first, whole = line_spans(data, form)
    for begin in range(0, len(starts), _AT_ONCE):
        spans = zip(starts[begin : begin + _AT_ONCE], ends[begin : begin + _AT_ONCE], strict=True)
        lines = [data[start:end] for start, end in spans]
        numbers = np.arange(first + begin, first + begin + len(lines), dtype=np.int64)
        last = begin + len(lines) == len(starts)
        cut: list[str | None] = [*[None] * (len(lines) - 1), None if whole or not last else _CUT_OFF]
        if numbers[-1] > _MOST_LINES:
            cut = [_TOO_MANY if number > _MOST_LINES else why for number, why in zip(numbers, cut, strict=True)]
        same = pa.array(np.zeros(len(lines), np.int64))
        yield {
            "topic": pa.array([table], pa.string()).take(same),
            "partition": pa.array(np.zeros(len(lines), np.int32)),
            "offset": pa.array(offset + numbers),
            "key": pa.array([path.encode()], pa.binary()).take(same),
            "value": pa.array(lines, pa.binary()),
            "reason": pa.array([None if why is None else str(Reason.TRUNCATED) for why in cut], pa.string()),
            "detail": pa.array(
                [why and f"{path}, line {n}: {why}" for n, why in zip(numbers, cut, strict=True)], pa.string()
            ),
        }


def line_spans(content: bytes, form: CsvFormat) -> tuple[np.ndarray, np.ndarray, int, bool]:
    """Return where the rows of a file begin and end, without terminators and header.

    Besides, the number of the first one's line, from 1 on, and whether the last one has ended. Line breaks within
    quotation marks belong to a value. A row that lost a mark spoils no other: `"I",` behind a terminator never stands
    in a value, whose marks are doubled.
    """
    ending = form.terminator.encode()
    data = np.frombuffer(content, np.uint8)
    at = _found(data, ending)
    if form.quote:
        at = _outside_quotes(data, at, ending, form)
    starts = np.concatenate([[0], at + len(ending)])
    ends = np.concatenate([at, [len(data)]])
    whole = bool(starts[-1] == ends[-1])
    if whole:
        starts, ends = starts[:-1], ends[:-1]
    if form.output_field_header and HEADER in content[: len(HEADER) + 1]:
        return starts[1:], ends[1:], 2, whole
    return starts, ends, 1, whole


def _found(data: np.ndarray, text: bytes) -> np.ndarray:
    """Return where a text stands in some bytes."""
    at = np.flatnonzero(data[: max(len(data) - len(text) + 1, 0)] == text[0])
    for n, byte in enumerate(text[1:], 1):
        at = at[data[at + n] == byte]
    return at


def _outside_quotes(data: np.ndarray, at: np.ndarray, ending: bytes, form: CsvFormat) -> np.ndarray:
    """Return those terminators at which a row ends."""
    mark, after = ord(form.quote), at + len(ending)
    begins = np.stack([data.take(after + n, mode="clip") for n in range(4)])
    sure = (begins[0] == mark) & (begins[2] == mark) & (begins[3] == ord(form.delimiter[0]))
    sure &= np.isin(begins[1], np.frombuffer(_OPERATIONS, np.uint8)) & (after + 3 < len(data))
    marks = np.flatnonzero(data == mark)
    before = np.searchsorted(marks, at)
    # The marks since the last row that surely began: an even number of them leaves no value open.
    last = np.maximum.accumulate(np.where(sure, before, 0))
    since = np.concatenate([[0], last[:-1]]) if len(last) else last
    rows: np.ndarray = at[sure | ((before - since) % 2 == 0)]
    return rows


@dataclass(frozen=True)
class Shown:
    """The table that a file is of, by its schema files: its names, and how many columns its rows show.

    Where the table's number is its folder, one statement may give it several names, each a database's and its own.
    """

    names: Sequence[tuple[str, str]]
    columns: int


class TooShort(Exception):
    """The beginning of a file holds no whole row."""


def seen(
    form: CsvFormat, params: Mapping[str, str], sample: bytes, shown: Shown | None, *, whole: bool = True
) -> CsvFormat:
    """Return a format with what the beginning of a file shows; settings that the parameters tell are taken for true.

    `shown` is None for files of another kind than CSV, `whole` tells that the sample is all of the file. Raises
    ConfigError where rows may or may not have a commit-ts, TooShort where the sample ends before the first row does.
    """
    headed = HEADER in sample[: len(HEADER) + 1]
    first = (_LINE_END.split(sample, 1)[1:] or [b""])[0] if headed else sample
    plain = shown is None or first[:1] in (b"I", b"U", b"D")
    quote = "" if plain else first[:1].decode("ascii", "replace") or form.quote
    form = _told(form, params, {"quote": quote, "output_field_header": headed})
    # No name has a line end, and marks in names have no meaning.
    text = sample if headed or not shown else re.sub(_quoted(form), b"", sample, flags=re.S)
    ending = _LINE_END.search(text)
    if not whole and (ending is None or (ending[0] == b"\r" and sample.endswith(b"\r"))):
        raise TooShort
    form = _told(form, params, {"terminator": ending[0].decode() if ending else form.terminator})
    if shown is None:
        form = _told(form, params, {"content_compatible": _WHOLE_TYPES.search(sample) is not None})
        return replace(form, quote="", output_field_header=False)
    match = re.search(_beginning(form, shown), sample, re.S)
    if match is None and not whole:
        raise TooShort
    if match is None:
        return form
    form = _told(form, params, {"delimiter": match["delimiter"].decode("ascii", "replace")})
    if form.output_field_header:
        header = sample.partition(form.terminator.encode())[0]
        timed, updates = (b"ticdc-meta$" + name in header for name in (b"commit-ts", b"is-update"))
    else:
        row = sample[match.start("row") :]
        timed, updates = _meta(row, match.end() - match.start("row"), form, params, shown, whole=whole)
    return _told(form, params, {"include_commit_ts": timed, "output_old_value": updates})


def _beginning(form: CsvFormat, shown: Shown) -> bytes:
    """Return a regular expression of the first fields of a row, which one of a table's begins with alone."""
    mark = re.escape(form.quote.encode())

    def text(name: str) -> bytes:
        if form.quote:
            return mark + re.escape(name.replace(form.quote, form.quote * 2).encode()) + mark
        return b"".join(rb"\\?%b" % re.escape(character.encode()) for character in name)

    names = rb"|".join(rb"%b(?P=delimiter)%b" % (text(table), text(database)) for database, table in shown.names)
    return rb"(?:\A|%b)(?P<row>%b[IUD]%b(?P<delimiter>.{1,3}?)(?:%b)(?P=delimiter))" % (
        re.escape(form.terminator.encode()),
        *(mark, mark),
        names,
    )


def _meta(
    row: bytes, begins: int, form: CsvFormat, params: Mapping[str, str], shown: Shown, *, whole: bool
) -> tuple[bool, bool]:
    """Return whether rows have a commit-ts and whether they tell updates, by how many fields the first one has.

    That can be less than with all columns, as some may be left out. So what may as well be the first column's value is
    only believed where the number is right; among quotation marks nothing but the latter is an unquoted truth.
    """
    starts, ends, _, ended = line_spans(row, replace(form, output_field_header=False))
    if len(starts) == 1 and not ended and not whole:
        raise TooShort
    extra = field_count(row[int(starts[0]) : int(ends[0])], form) - 3 - form.output_handle_key - shown.columns
    fields = [*row[begins : int(ends[0])].split(form.delimiter.encode(), 2), b""]
    # Ids of other services with as many digits are later than any commit-ts.
    stamp = _COMMIT_TS.fullmatch(fields[0]) is not None and int(fields[0]) < latest_tso()
    timed = form.include_commit_ts if TOLD_BY["include_commit_ts"] in params else stamp
    updates = fields[timed] in _TRUTHS
    maybe = {"include_commit_ts": timed, "output_old_value": updates}
    doubtful = [name for name, there in maybe.items() if there and TOLD_BY[name] not in params]
    if doubtful and extra < timed + updates and not (form.quote and updates):
        said = {"include_commit_ts": "a commit-ts", "output_old_value": "whether they are half of an update"}
        raise ConfigError(
            f"the rows of {'.'.join(shown.names[-1])} may begin with {said[doubtful[0]]} or not: they have "
            f"{extra + shown.columns} fields, the table {shown.columns} columns",
            where="source",
            hint=f"say it in the source's URI: {TOLD_BY[doubtful[0]]}=true or =false, as [sink.csv] has it",
        )
    return timed, updates


def field_count(line: bytes, form: CsvFormat) -> int:
    """Return how many fields a row has."""
    delimiter = re.escape(form.delimiter.encode())
    return len(re.findall(delimiter, re.sub(_quoted(form), b"", line, flags=re.S))) + 1


def _quoted(form: CsvFormat) -> bytes:
    """Return a regular expression of what neither a delimiter nor a line end can be in."""
    mark = re.escape(form.quote.encode())
    return rb"%b(?:[^%b]|%b%b)*%b" % (mark, mark, mark, mark, mark) if mark else rb"\\."


def _told(form: CsvFormat, params: Mapping[str, str], found: Mapping[str, Any]) -> CsvFormat:
    return replace(form, **{name: value for name, value in found.items() if TOLD_BY[name] not in params})
