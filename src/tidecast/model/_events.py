"""The events of a source: row changes by table version, schema changes, and messages that cannot be read."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model._ddl import Bootstrap, Ddl
from tidecast.model._schema import TableSchema
from tidecast.model._types import spark_type
from tidecast.spark import union

if TYPE_CHECKING:
    from tidecast.model._history import SchemaHistory

HEADERS = T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))

RECORD = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("headers", HEADERS),
    ]
)
"""The columns of a message as it lies in a topic. `partition` is null where the message went to all partitions."""

CHECKSUM = T.StructType(
    [
        T.StructField("version", T.IntegerType()),
        T.StructField("corrupted", T.BooleanType()),
        T.StructField("current", T.LongType()),
        T.StructField("previous", T.LongType()),
    ]
)
"""A row's checksum as its source carried it: TiCDC's four members, `current` of the new row, `previous` of the old.

A text that is no number counts as -1, which no row has."""


class Op(enum.StrEnum):
    """The operation on a row."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"


class Reason(enum.StrEnum):
    """Why a message went to the dead letters."""

    BAD_JSON = "bad-json"
    BAD_MESSAGE = "bad-message"
    BAD_MAGIC = "bad-magic-byte"
    BAD_VALUE = "bad-value"
    TRUNCATED = "truncated"
    UNDECODABLE = "undecodable"
    TOO_LARGE = "too-large"
    UNKNOWN_SCHEMA_ID = "unknown-schema-id"
    FOREIGN_SCHEMA = "foreign-schema"
    UNKNOWN_TABLE = "unknown-table"
    SCHEMA_CHANGE = "schema-change"
    INCOMPLETE = "incomplete-row"
    NOT_IN_PROTOCOL = "not-in-protocol"
    CHECKSUM_MISMATCH = "checksum-mismatch"
    TABLE_REFUSED = "table-refused"


def row_type(schema: TableSchema) -> T.StructType:
    """Return the struct that holds one row of a table version in the model."""
    return T.StructType([T.StructField(c.name, spark_type(c.data_type)) for c in schema.columns])


class Pipeline(Protocol):
    """Rows that go through functions of their columns, each sent to the tasks, on the way into a frame."""

    @property
    def columns(self) -> T.StructType:
        """The columns of the frame."""

    @property
    def steps(self) -> Sequence[Callable[[pa.RecordBatch], pa.RecordBatch]]:
        """The functions."""

    def __call__(self) -> DataFrame:
        """Return the frame."""

    def then(self, step: Callable[[pa.RecordBatch], pa.RecordBatch], columns: T.StructType) -> Pipeline:
        """Return the rows after one more function; `columns` is what comes out of it."""


def _within(first: int, last: int, untimed: bool, rows: pa.RecordBatch) -> pa.RecordBatch:
    at = rows.column("commit_ts")
    return rows.filter(pc.fill_null(pc.and_(pc.greater_equal(at, first), pc.less_equal(at, last)), untimed))


@dataclass(frozen=True)
class TableChanges:
    """The row changes of one table version, as one DataFrame.

    Columns of `frame`: those of `RECORD` (where the row came from), then

    - `op` string: `c`, `u` or `d`;
    - `commit_ts` bigint: TSO, null where the protocol does not tell;
    - `table_id` bigint: the physical table's, which is the partition's in a partitioned table; null where the protocol
      does not tell;
    - `old`, `data` struct (see `row_type`): the row before and after, null where there is none. `data` is null
      for a delete. A row without its non-key columns (an Avro delete) has them null, or not in its schema;
    - `checksum` struct (see `CHECKSUM`), null where the row carried none;
    - `reason` string (see `Reason`) and `detail` string: why the row cannot be read, null for a good row.

    `rows` counts them. `rows_from` and `upserts_from` are the positions (see `Events.position`) of the first row,
    and of the first row that is not a delete, None where there is none. `keyspace` is that of the database, None where
    the protocol does not tell. `shows_before` says that an update may show the row before it, too, and so change a key.
    `of_key` says that these are deletes under the schema of their key, which is no version of the table. `source` gives
    `frame`, and `name` tells the version from all others of its source. `rows_to` is the commit-ts of the last row if
    the version has the number of its first one, as nothing else tells when it began; else None.
    """

    schema: TableSchema
    source: DataFrame | Pipeline
    rows: int = 0
    rows_from: int | None = None
    upserts_from: int | None = None
    keyspace: str | None = None
    shows_before: bool = True
    of_key: bool = False
    name: str = ""
    rows_to: int | None = None

    @cached_property
    def frame(self) -> DataFrame:
        """The rows; planned when they are first asked for."""
        return self.source if isinstance(self.source, DataFrame) else self.source()

    def within(self, first: int, last: int, *, untimed: bool) -> TableChanges:
        """Return the changes whose commit-ts lies there, ends included, and with `untimed` those that have none."""
        if not isinstance(self.source, DataFrame):
            part: DataFrame | Pipeline = self.source.then(partial(_within, first, last, untimed), self.source.columns)
        else:
            at = F.col("commit_ts")
            part = self.frame.where(F.coalesce(at.between(F.lit(first), F.lit(last)), F.lit(untimed)))
        return replace(self, source=part)

    @property
    def is_whole(self) -> bool:
        """Tell whether the rows are all of the version, and just as the source gave them: `Events.rows` has them."""
        return not isinstance(self.source, DataFrame) and not self.source.steps

    @property
    def good(self) -> DataFrame:
        """The rows that could be read."""
        return self.frame.where(F.col("reason").isNull())


class RowSource(Protocol):
    """The messages of a batch, and what reads them: all rows in one pass, whatever their tables."""

    def map(
        self, make: Callable[[Iterator[tuple[Any, pa.RecordBatch]]], Iterable[pa.RecordBatch]], out: T.StructType
    ) -> DataFrame:
        """Return what a function makes of the batches of each task.

        It gets pairs of a `tidecast.protocols.Decoded` and the messages that say this; it is pickled, and sent to the
        tasks.
        """

    def read(self, messages: pa.RecordBatch) -> Any:
        """Return what some of the messages say, a `tidecast.protocols.Decoded`, read in this process."""

    def describe(self, key: bytes | None, value: bytes | None) -> Any:
        """Return a `tidecast.protocols.Description` of one message, None where schemas tell nothing of it."""


@dataclass(frozen=True)
class Events:
    """Everything that a source gave in one batch.

    `rejected` has the columns of `RECORD` and `reason`, `detail`: messages that belong to no table version.
    `ordered` says that `offset` numbers all messages of the source in one sequence, over all partitions.
    `position` names the column by which rows of all partitions have one order, and in whose terms
    `TableChanges.rows_from` speaks: `offset`, `commit_ts`, or None where a source has no such column.
    `watermarks` has the source's watermark messages, None where it has none: the columns of `RECORD` and `commit_ts`
    bigint, a row for each partition that got one; `watermark` is the highest of them.
    `has_commit_ts` says that every row and schema change has its commit-ts; `versions_by_time` that table versions are
    numbered by these, so that one which lacks a column is surely from after its drop.
    `checksums` says that the source knows row checksums, so that a row without one stays without.
    `history` is what the source has shown of schemas so far, to be given to the reading of its next batch; None where
    schemas are kept elsewhere.
    `tasks` is in how many tasks its rows are worked on, None for as many as a shuffle has.
    `rows` reads all rows in one pass.
    `cached` are frames that Spark keeps for this batch; `release` lets go of them, and so does leaving a `with` block.
    """

    tables: tuple[TableChanges, ...]
    rejected: DataFrame
    ddl: tuple[Ddl, ...] = ()
    bootstraps: tuple[Bootstrap, ...] = ()
    watermarks: DataFrame | None = None
    watermark: int | None = None
    ordered: bool = False
    position: str | None = None
    has_commit_ts: bool = False
    versions_by_time: bool = False
    checksums: bool = False
    history: SchemaHistory | None = None
    tasks: int | None = None
    cached: tuple[DataFrame, ...] = ()
    rows: RowSource | None = None

    def release(self) -> None:
        """Let Spark forget what it keeps for this batch; its frames still work, but read their source anew."""
        for frame in self.cached:
            frame.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def dead_letters(self, tables: Iterable[TableChanges] | None = None) -> DataFrame:
        """Return the messages that could not be read: the columns of `RECORD`, `reason`, `detail`.

        `tables` are those to look into, by default all; each is decoded for it.
        """
        columns = [*RECORD.fieldNames(), "reason", "detail"]
        parts = [self.rejected.select(columns)]
        for table in self.tables if tables is None else tables:
            parts.append(table.frame.where(F.col("reason").isNotNull()).select(columns))
        return union(parts, self.tasks)
