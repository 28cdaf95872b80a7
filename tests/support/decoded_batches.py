"""Messages decoded in batches, in process: what is said of each, and how a message may be damaged."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidecast.checksum import verdicts
from tidecast.protocols import Decoded

Message = tuple[bytes | None, bytes | None]
Said = dict[int, tuple[Any, ...]]
"""What is said of each message, by its place."""


def batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Return messages as a source has them."""
    columns = zip(*messages, strict=True) if messages else ((), ())
    return pa.RecordBatch.from_arrays([pa.array(c, pa.binary()) for c in columns], names=["key", "value"])


def said(decoded: Decoded, first: int = 0) -> Said:
    """Return what is said of each message; each must be in one part, and in that once.

    Of a row: version, row, op, commit-ts, verdict, checksum, reason, detail, row before. Nothing but the reason is said
    of a bad row's values.
    """
    found: Said = {}

    def say(at: np.ndarray, *columns: Sequence[Any]) -> None:
        for place, *words in zip((at + first).tolist(), *columns, strict=True):
            assert place not in found
            found[place] = tuple(words)

    for rows in decoded.rows:
        schema = rows.version.schema
        judged = verdicts(schema, op=rows.op, old=rows.old, data=rows.data, checksum=rows.checksum, reason=rows.reason)
        good = np.asarray(rows.reason.is_null())
        images, before = (
            [row if kept else None for row, kept in zip(side.to_pylist(), good, strict=True)]
            for side in (rows.image, rows.old)
        )
        columns = (rows.op, rows.commit_ts, judged.verdict, judged.actual, rows.reason, rows.detail)
        texts = [
            [value if kept else None for value, kept in zip(c.to_pylist(), good | (n > 3), strict=True)]
            for n, c in enumerate(columns)
        ]
        say(rows.at, [rows.version.name] * len(rows.at), images, *texts, before)
    for part in decoded.rejected:
        say(part.at, part.reason.to_pylist(), part.detail.to_pylist())
    say(decoded.control, ["control"] * len(decoded.control))
    at, times = decoded.watermarks
    say(at, ["watermark"] * len(at), times.tolist())
    for name, at in decoded.unknown:
        say(at, [name] * len(at))
    return found


def damaged(r: random.Random, message: bytes, head: int) -> bytes:
    """Return a message with flipped bits, cut, or with more behind or within it; or its head and noise."""
    kind, at = r.randrange(5), r.randrange(len(message))
    match kind:
        case 0:
            return message[:at]
        case 1:
            return message[:at] + bytes([message[at] ^ 1 << r.randrange(8)]) + message[at + 1 :]
        case 2:
            return message + r.randbytes(r.randrange(1, 9))
        case 3:
            return message[:at] + r.randbytes(r.randrange(1, 12)) + message[at:]
        case _:
            return message[:head] + r.randbytes(r.randrange(40))
