"""Messages explained in the command's own process, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from tidecast.checksum import Verdict, verdicts
from tidecast.checksum import explained as checksum_bytes
from tidecast.inspection._inspected import ColumnShown, Inspected, Place, RowShown, explained, problem_text
from tidecast.model import DataType
from tidecast.protocols import Decoded, DecodeOptions, Reader, Rejected, Rows, protocol_named
from tidecast.values import arrow_type, shortest_text, valid

Value: TypeAlias = int | float | Decimal | str | bytes | None
"""A value of the model in Python; see `tidecast.values.arrow_type`."""


def inspect_alone(value: bytes, protocol: str, options: DecodeOptions) -> list[Inspected]:
    """Explain one message of a protocol that has a reader."""
    make = protocol_named(protocol).reader
    assert make is not None
    return inspect_by(make(options), value, protocol)


def inspect_by(reader: Reader, value: bytes, protocol: str) -> list[Inspected]:
    """Explain one message by a reader of its protocol, which keeps what it learns of schemas."""
    columns = {"key": pa.array([None], pa.binary()), "value": pa.array([value], pa.binary())}
    message = pa.RecordBatch.from_pydict(columns | {"offset": pa.array([0], pa.int64())})
    decoded = reader.decoder.decode(message)
    if decoded.unknown and reader.learn([name for name, _ in decoded.unknown]):
        decoded = reader.decoder.decode(message)
    rows = shown_by_place(decoded)[0]
    problem = problems([*decoded.rejected, *decoded.rows]).get(0)
    if decoded.control.size and (wrong := reader.controls(message).rejected):
        problem = problem_text(wrong[0].reason[0].as_py(), wrong[0].detail[0].as_py())
    own = reader.decoder.describe(None, value)
    return explained(Place(), None, value, protocol, [] if problem else rows, problem, own)


def shown_by_place(decoded: Decoded) -> defaultdict[int, list[RowShown]]:
    """Return the rows that can be read, by where their messages stand in the batch."""
    found = defaultdict[int, list[RowShown]](list)
    for rows in decoded.rows:
        good = rows.take(~valid(rows.reason))
        for at, shown in zip(good.at.tolist(), rows_shown(good), strict=True):
            found[at].append(shown)
    return found


def problems(parts: Iterable[Rejected | Rows]) -> dict[int, str]:
    """Return why messages cannot be used, by where they stand in their batch."""
    return {
        int(at): problem_text(reason, detail)
        for part in parts
        for at, reason, detail in zip(part.at, part.reason.to_pylist(), part.detail.to_pylist(), strict=True)
        if reason is not None
    }


def rows_shown(rows: Rows) -> Sequence[RowShown]:
    """Return rows as they are shown, with the bytes that each column gives to the checksum of the new row."""
    schema = rows.version.schema
    judged = verdicts(schema, op=rows.op, old=rows.old, data=rows.data, checksum=rows.checksum, reason=rows.reason)
    shown = {c.name: _sides(rows, n) for n, c in enumerate(schema.columns)}
    checked = {name: column.to_pylist() for name, column in checksum_bytes(schema, rows.data).items()}
    return [
        RowShown(
            op,
            schema.name,
            commit_ts,
            [
                ColumnShown(
                    c.name,
                    str(c.data_type),
                    value_text(c.data_type, shown[c.name][0][n]),
                    value_text(c.data_type, shown[c.name][1][n]),
                    _hexed(checked[c.name][n] if c.name in checked else None),
                )
                for c in schema.columns
            ],
            str(Verdict.NONE) if verdict == Verdict.DELETE else verdict,
            expected,
            actual,
            corrupted,
        )
        for n, (op, commit_ts, verdict, expected, actual, corrupted) in enumerate(
            zip(
                *(column.to_pylist() for column in (rows.op, rows.commit_ts)),
                *(column.to_pylist() for column in (judged.verdict, judged.expected, judged.actual, judged.corrupted)),
                strict=True,
            )
        )
    ]


def _sides(rows: Rows, column: int) -> tuple[list[Value], list[Value]]:
    """Return a column's values before and after each change."""
    return rows.old.field(column).to_pylist(), rows.data.field(column).to_pylist()


def _hexed(content: bytes | None) -> str | None:
    return None if content is None else content.hex().upper()


def value_text(data_type: DataType, value: Value) -> str | None:
    """Return a value as text for people, bytes as hexadecimal digits; null stays."""
    match value:
        case None | str():
            return value
        case bytes():
            return f"0x{value.hex().upper()}"
        case float():
            (text,) = shortest_text(pa.array([value], arrow_type(data_type))).to_pylist()
            return str(text)
        case int() | Decimal():
            return str(value)
