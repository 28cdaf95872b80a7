"""Messages of small files on this machine explained in the command's own process, without Spark."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidecast.inspection._alone import problems, shown_by_place, value_text
from tidecast.inspection._inspected import Inspected, Place, explained
from tidecast.inspection._wanted import Wanted
from tidecast.protocols import Decoded, Rows
from tidecast.sources import Here
from tidecast.values import field, valid


def inspect_here(here: Here, protocol: str, wanted: Wanted) -> list[Inspected]:
    """Explain the messages of a source that are wanted."""
    messages = here.messages
    chosen = [place for place in _in_order(messages, here.ordered) if _is_at(messages, place, wanted)]
    if wanted.of_rows:
        rows = {*_wanted_rows(here.decoded, wanted)}
        chosen = [place for place in chosen if place in rows]
    chosen = chosen[-wanted.limit :] if wanted.last else chosen[: wanted.limit]
    broken = problems(here.broken)
    return [shown for place in chosen if wanted.limit for shown in _explained(here, place, protocol, broken)]


def _explained(here: Here, place: int, protocol: str, broken: Mapping[int, str]) -> list[Inspected]:
    """Return one message explained; `broken` tells why control messages cannot be used."""
    alone = _only(here.decoded, place)
    problem = problems([*alone.rejected, *alone.rows]).get(place) or broken.get(place)
    shown_columns = here.messages.slice(place, 1).select(["topic", "partition", "offset", "key", "value"])
    (shown,) = shown_columns.to_pylist()
    where = Place(shown["topic"], shown["partition"], shown["offset"])
    key, value = shown["key"], shown["value"]
    own = here.reader.decoder.describe(key, value)
    return explained(where, key, value, protocol, shown_by_place(alone)[place], problem, own)


def _only(decoded: Decoded, place: int) -> Decoded:
    """Return the content of one message of a batch."""
    rows = [r.take(r.at == place) for r in decoded.rows if (r.at == place).any()]
    return Decoded(rows, [r for r in decoded.rejected if (r.at == place).any()])


def _in_order(messages: pa.RecordBatch, ordered: bool) -> Iterator[int]:
    names = ["offset"] if ordered else ["timestamp", "topic", "partition", "offset"]
    keys = [(name, "ascending") for name in names]
    numbered = pa.Table.from_batches([messages.select(names)]).append_column("n", pa.array(np.arange(len(messages))))
    return iter(numbered.sort_by(keys).column("n").to_pylist())


def _is_at(messages: pa.RecordBatch, place: int, wanted: Wanted) -> bool:
    """Tell whether a message lies at a place that is wanted; one without a partition went to all of them."""
    topic, partition, offset = (messages.column(name)[place].as_py() for name in ("topic", "partition", "offset"))
    return (
        wanted.topic in (None, topic)
        and (wanted.partition is None or partition in (None, wanted.partition))
        and wanted.offset in (None, offset)
    )


def _wanted_rows(decoded: Decoded, wanted: Wanted) -> Iterator[int]:
    """Yield the places of messages with a row that is wanted."""
    for rows in decoded.rows:
        names = {c.name for c in rows.version.schema.columns}
        if wanted.table not in (None, rows.version.schema.name) or not wanted.key.keys() <= names:
            continue
        mine = np.ones(len(rows.at), bool)
        if wanted.commit_ts is not None:
            first, last = wanted.commit_ts
            mine &= np.array([ts is not None and first <= ts <= last for ts in rows.commit_ts.to_pylist()], bool)
        if wanted.key:
            mine &= _has_key(rows, rows.old, wanted.key) | _has_key(rows, rows.data, wanted.key)
        yield from rows.at[mine].tolist()


def _has_key(rows: Rows, side: pa.StructArray, key: Mapping[str, str | None]) -> np.ndarray:
    """Tell which rows have these values, as they are shown here; of bytes, also as `verify` shows them."""
    found = valid(side)
    for name, text in key.items():
        data_type = rows.version.schema.column(name).data_type
        values = field(side, name).to_pylist()
        found &= np.array([text in _texts(data_type, value) for value in values], bool)
    return found


def _texts(data_type: Any, value: Any) -> tuple[str | None, ...]:
    shown = value_text(data_type, value)
    return (shown, base64.b64encode(value).decode()) if isinstance(value, bytes) else (shown,)
