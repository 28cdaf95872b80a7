"""Positions in the folder of TiCDC's storage sink, as a checkpoint has them. Source: Storage sink, layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.storage import Entry
from tidecast.topics._base import Offsets
from tidecast.topics._sink_layout import (
    FILES_OF_SEGMENT,
    LINE_BITS,
    METADATA,
    RANK_BITS,
    DataFile,
    Writer,
    place_of,
    rank_of,
)
from tidecast.topics._sink_listing import Known

_BYTES_OF_ROW = 128
"""The length that a row is taken to have where a batch is bounded by rows: nothing tells how many a file has."""

Item = tuple[tuple[object, ...], DataFile | str]
"""A data file, or the path of a schema file, with its place in the order of all."""


def is_of_storage_sink(offsets: Mapping[str, int]) -> bool:
    """Tell whether a position is one in the folder of a storage sink, by the names of its places."""
    return METADATA in offsets or any(map(place_of, offsets))


def sequence_name() -> Column:
    """Return the sequence in which a message's offset tells what came before it: its topic and partition.

    Of a storage sink's folder it has the number of its segment, too: files of other folders and nodes of the table may
    come later and have lower offsets.
    """
    rank = F.shiftright("offset", RANK_BITS)
    return F.concat_ws("/", "topic", F.col("partition").cast("string"), F.when(rank > 0, rank.cast("string")))


def files_by_table(ends: Mapping[str, int]) -> dict[str, int]:
    """Return by a table's folder how many data files have been written up to a position."""
    found: dict[str, int] = {}
    for writer, last in known_files(Offsets(ends)).last.items():
        found[writer.table] = found.get(writer.table, 0) + last
    return found


def order_of(writer: Writer, index: int) -> tuple[object, ...]:
    """Return where a data file stands among all files."""
    version, parts, prefix = writer.order
    return (version, 1, parts, prefix, writer.table, index)


def place_of_item(item: DataFile | str) -> str:
    """Return what a checkpoint calls the segment of a data file, or a schema file."""
    return item if isinstance(item, str) else item.writer.place(item.index // FILES_OF_SEGMENT)


def last_of(segment: int, end: int) -> int:
    """Return the index of the last file before the end of a segment."""
    return segment * FILES_OF_SEGMENT + ((end - 1) >> LINE_BITS) % FILES_OF_SEGMENT


def highest_rank(offsets: Offsets) -> int:
    """Return the number of the last segment, 0 for none."""
    return max((rank_of(end - 1) for name, end in offsets.ends.items() if name != METADATA), default=0)


def known_files(offsets: Offsets, rewound: set[str] | frozenset[str] = frozenset()) -> Known:
    """Return the files that were read up to a position; of `rewound` places without the last one."""
    last: dict[Writer, int] = {}
    schemas = []
    for name, end in offsets.ends.items():
        if parsed := place_of(name):
            writer, segment = parsed
            last[writer] = max(last.get(writer, 0), last_of(segment, end) - (name in rewound))
        elif name != METADATA:
            schemas.append(name)
    return Known(last, frozenset(schemas))


def bounded(items: Sequence[Item], listed: Mapping[Writer, Mapping[int, Entry]], rows: int) -> list[Item]:
    """Return the first items whose data files are likely to have so many rows; at least one, if there is one."""
    taken: list[Item] = []
    total = 0
    for item in items:
        file = item[1]
        size = listed[file.writer][file.index].size if isinstance(file, DataFile) else 0
        if total and size and total + size > rows * _BYTES_OF_ROW:
            break
        total += size
        taken.append(item)
    return taken
