"""One message explained in Python alone, without Spark."""

from __future__ import annotations

from tidecast.checksum import plain_explain, plain_verdict
from tidecast.inspection._inspected import ColumnShown, Inspected, Place, RowShown, explained, problem_text
from tidecast.plain import PlainRow, Problem, Value, value_text
from tidecast.protocols import DecodeOptions, protocol_named


def inspect_plain(value: bytes, protocol: str, options: DecodeOptions) -> Inspected:
    """Explain one message. Raises `tidecast.plain.TakesSpark` for one that is not surely sound."""
    found = protocol_named(protocol).read_plain(value, options)
    row = _shown(found) if isinstance(found, PlainRow) else None
    problem = problem_text(found.reason, found.detail) if isinstance(found, Problem) else None
    return explained(Place(), None, value, protocol, row, problem)


def _shown(row: PlainRow) -> RowShown:
    nothing: dict[str, Value] = {}
    old, new = row.old or nothing, row.data or nothing
    checked = plain_explain(row.schema, row.data) if row.data is not None else {}
    verdict = plain_verdict(row.schema, row.data, row.expected)
    columns = [
        ColumnShown(
            c.name,
            str(c.data_type),
            value_text(c.data_type, old.get(c.name)),
            value_text(c.data_type, new.get(c.name)),
            _hexed(checked.get(c.name)),
        )
        for c in row.schema.columns
    ]
    return RowShown(
        row.op,
        row.schema.name,
        row.commit_ts,
        columns,
        verdict.verdict,
        verdict.expected,
        verdict.actual,
        row.corrupted,
    )


def _hexed(content: bytes | None) -> str | None:
    return None if content is None else content.hex().upper()
