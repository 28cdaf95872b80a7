"""The interface of all kinds of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import pyarrow as pa
from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from tidecast._csv_format import CsvFormat
from tidecast.spark import mapped

ANEW = (
    "--on-data-loss continue reads what is there now; for a changefeed resume --overwrite-checkpoint-ts, else a new "
    "--checkpoint"
)


Int64 = Annotated[int, Field(ge=0, lt=1 << 63)]
"""An offset, a size or a commit-ts."""


Counts = Mapping[tuple[str, int], int]
"""Numbers of records by topic and partition."""

Spans = Mapping[tuple[str, int], tuple[int, int]]
"""By topic and partition the first offset of a read, and the one after its last."""


@dataclass(frozen=True)
class Offsets:
    """A position in a place's topics, as plain data.

    `ends` has by `topic/partition` the next offset, or by file its size; `ids`, as far as they are known, by topic or
    by file what tells it from another one that takes its place under the same name.
    """

    ends: Mapping[str, Int64] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, ends: Mapping[tuple[str, int], int]) -> Offsets:
        """Return the position that is given by topic and partition."""
        return cls({f"{topic}/{partition}": end for (topic, partition), end in ends.items()})

    @property
    def topics(self) -> set[str]:
        """The topics of which it has partitions or files."""
        return {place.rpartition("/")[0] for place in self.ends}

    def differs(self, other: Offsets, place: str) -> bool:
        """Tell whether a partition or a file is not as it is in other offsets."""
        here, there = self.ids.get(place), other.ids.get(place)
        return self.ends[place] != other.ends.get(place) or bool(here and there and here != there)

    def made_anew(self, before: Offsets) -> list[str]:
        """Return the names that something else has taken since earlier offsets."""
        return sorted(name for name, known in before.ids.items() if self.ids.get(name, known) != known)


Split = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]
"""A function that makes records of a batch in which some rows are whole files yet, with the same columns."""


@dataclass(frozen=True)
class Unsplit:
    """Records before their files are split: `split` makes of `frame` what `records` has. Both have the same columns."""

    frame: DataFrame
    split: Split
    records: DataFrame


@dataclass(frozen=True)
class Records:
    """Messages as they lie in topics: the columns of `tidecast.model.RECORD`.

    `ordered` says that `offset` numbers the messages of all partitions in one sequence. `few` says that one task is
    enough for them; the frame has then one partition. `kept` says that Spark had better keep them for whoever reads
    them twice; else to read them again costs less, and gives the same. `told` are those among them that tell of others,
    where they are known already: `topic`, `partition`, `offset`, `key`, `value`. `csv` is how the files are written
    that they come from, None for messages of topics; `whole` are the files.
    """

    frame: DataFrame
    ordered: bool = False
    few: bool = False
    kept: bool = True
    told: pa.RecordBatch | None = None
    csv: CsvFormat | None = None
    whole: Unsplit | None = None

    @property
    def unsplit(self) -> tuple[DataFrame, Split | None]:
        """The frame of whole files, and what splits them, for tasks that do so themselves; no line leaves such a task.

        Where the files are split, or the records are others now, `frame` and None.
        """
        if self.whole is None or self.whole.records is not self.frame:
            return self.frame, None
        return self.whole.frame, self.whole.split

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        *,
        ordered: bool = False,
        few: bool,
        kept: bool = True,
        told: pa.RecordBatch | None = None,
        csv: CsvFormat | None = None,
        split: Split | None = None,
    ) -> Records:
        """Return messages; few of them in one partition, as what Spark need not move about takes it less work.

        With `split` the frame has whole files, of which this makes records.
        """
        frame = frame.coalesce(1) if few else frame
        records = mapped(frame, split, frame.schema) if split else frame
        return cls(records, ordered, few, kept, told, csv, Unsplit(frame, split, records) if split else None)


def first_of(count: int, places: Sequence[str]) -> str:
    """Return the first of some places, and how many there are beside these."""
    more = f" and {len(places) - count} more" if len(places) > count else ""
    return "; ".join(places[:count]) + more


@dataclass(frozen=True)
class TopicInfo:
    """A topic that can be written to, how many partitions it has, and the largest message it takes, if any is."""

    name: str
    partitions: int
    max_message_bytes: int | None = None


class _Place(Protocol):
    """The common part of sources and sinks."""

    @property
    def where(self) -> str:
        """Return the name of this place for errors, without its secrets."""


class ReadableTopics(_Place, Protocol):
    """A source: topics in Kafka or in files, or the folder of a storage sink."""

    @property
    def waits(self) -> str | None:
        """The files that the end was put before when it was last asked for, in words; None for none."""

    def end_offsets(self, after: Offsets | None = None, limit: int | None = None) -> Offsets:
        """Return the present end, or one nearer to `after`: at most `limit` messages of a partition beyond it.

        Equal to `after` where nothing is new. Costs no read of messages. Raises SourceChanged where what follows
        `after` is no longer there.
        """

    def read(
        self,
        spark: SparkSession,
        after: Offsets | None = None,
        until: Offsets | None = None,
        waiting: Collection[str] = (),
    ) -> Records:
        """Return the records from `after`, by default the start, to `until`, by default the present end.

        `waiting` are topics some of whose records were read before, and are to be understood now.
        """

    def expired_since(self, start_ts: int) -> str | None:
        """Return which messages expired that may have been younger than a TSO, None for none that are known."""

    def spans(self) -> Spans | None:
        """Return what a read from the start to the present end goes over; None where only the records tell it."""


class WritableTopics(_Place, Protocol):
    """A sink: topics in Kafka or in files, or the folder of a storage sink."""

    def look(self, topic: str) -> TopicInfo | None:
        """Return what is known of a topic, None where there is none. Makes nothing."""

    def ensure(self, topic: str) -> TopicInfo:
        """Make a topic ready to be written to, and return its partition count."""

    def write(
        self,
        frame: DataFrame,
        complete: Callable[[DataFrame], DataFrame] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """Append records to their topics, in the order of `sequence` within a topic's partition.

        In: `topic` string, `partition` int, `key` binary, `value` binary (null is a tombstone), and `sequence`, a
        bigint, or a struct that begins with one. `complete` is given the records in their order, and makes of them
        those that are written: what it adds is not moved about. `counts` are the numbers of records, where they are
        known.
        """


class Topics(ReadableTopics, WritableTopics, Protocol):
    """A place with topics that are read and written: Kafka, or files."""
