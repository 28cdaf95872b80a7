"""Where bootstraps stand in a source without one order: behind the highest commit-ts before them in their partition.

Source: Simple protocol, BOOTSTRAP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Bootstrap
from tidecast.protocols import Controls, Decoded
from tidecast.values import to_numpy

Partition = tuple[str, int | None]
Starts = Mapping[Partition, np.ndarray]
"""The offsets of bootstraps in each partition, ascending: a message is before all of them, between two, or behind."""


def bootstraps_of(told: pa.RecordBatch, controls: Controls) -> Starts:
    """Return where bootstraps are. In: control messages, and what they say."""
    found: dict[Partition, list[int]] = {}
    partitions, offsets = _partitions(told), told.column("offset").to_pylist()
    for places, _ in controls.bootstraps:
        for place in places:
            found.setdefault(partitions[place], []).append(offsets[place])
    return {partition: np.array(sorted(some)) for partition, some in found.items()}


def between(starts: Starts, decoded: Decoded, messages: pa.RecordBatch) -> Iterator[tuple[bytes, int, int]]:
    """Yield the highest commit-ts between bootstraps: a name of the place, a message there, and the number.

    Those of schema changes are not among them.
    """
    times = np.full(messages.num_rows, -1)
    for rows in decoded.rows:
        times[rows.at] = to_numpy(rows.commit_ts)
    at, watermarks = decoded.watermarks
    times[at] = watermarks
    offsets = np.asarray(messages.column("offset"))
    for partition, some in starts.items():
        mine = np.flatnonzero(_is_of(messages, partition) & (times >= 0))
        behind = np.searchsorted(some, offsets[mine], side="right")  # how many bootstraps are before each
        for number in np.unique(behind[behind < len(some)]):
            chosen = mine[behind == number]
            yield _name(partition, int(number)), int(chosen[0]), int(times[chosen].max())


def placed(
    told: pa.RecordBatch, controls: Controls, starts: Starts, highest: Mapping[bytes, int]
) -> tuple[Bootstrap, ...]:
    """Return bootstraps with their positions: their offsets, or where there are `starts` the highest commit-ts before.

    `highest` are the numbers that `between` found, by their names.
    """
    offsets = told.column("offset").to_pylist()
    before = _before(told, controls, starts, highest)
    return tuple(
        replace(one, position=min(before[place] if starts else offsets[place] for place in places))
        for places, one in controls.bootstraps
    )


def _before(
    told: pa.RecordBatch, controls: Controls, starts: Starts, highest: Mapping[bytes, int]
) -> Mapping[int, int]:
    """Return the highest commit-ts before each bootstrap in its partition, 0 for none, by its place."""
    if not starts:
        return {}
    partitions, offsets = _partitions(told), told.column("offset").to_pylist()
    times = {partition: [0] * len(some) for partition, some in starts.items()}
    for place, commit_ts in controls.times:
        if (partition := partitions[place]) in starts:
            number = int(np.searchsorted(starts[partition], offsets[place]))
            if number < len(times[partition]):
                times[partition][number] = max(times[partition][number], commit_ts)
    for partition, some in times.items():
        found = (highest.get(_name(partition, number), 0) for number in range(len(some)))
        times[partition] = [*accumulate(map(max, some, found), max)]
    return {
        place: times[partitions[place]][int(np.searchsorted(starts[partitions[place]], offsets[place]))]
        for places, _ in controls.bootstraps
        for place in places
    }


def _partitions(messages: pa.RecordBatch) -> list[Partition]:
    return [*zip(*(messages.column(name).to_pylist() for name in ("topic", "partition")), strict=True)]


def _is_of(messages: pa.RecordBatch, partition: Partition) -> np.ndarray:
    flags = [
        pc.is_null(messages.column(name))
        if value is None
        else pc.fill_null(pc.equal(messages.column(name), value), False)
        for name, value in zip(("topic", "partition"), partition, strict=True)
    ]
    both: np.ndarray = np.asarray(flags[0]) & np.asarray(flags[1])
    return both


def _name(partition: Partition, number: int) -> bytes:
    return f"{partition[0]}/{partition[1]}/{number}".encode()
