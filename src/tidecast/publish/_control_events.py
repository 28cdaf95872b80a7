"""The messages of a changefeed beside rows: schema changes, schemas repeated, watermarks; each to all partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import Ddl, Events, TableSchema, ddl_action
from tidecast.protocols import Message
from tidecast.publish._order import SEQUENCE
from tidecast.routing import Router
from tidecast.spark import mapped, small_table

_LAST = (1 << 63) - 1
_FIRST = -1
_FEW = 1_000


@dataclass(frozen=True)
class Control:
    """A message to all partitions of a topic, and the position in the source at which it is sent.

    `ahead` puts it before the rows of its position; `table` is the name of the table that it is about.
    """

    position: int | None
    topic: str
    partitions: Sequence[int]
    message: Message
    ahead: bool = False
    table: str = ""


def control_frame(spark: SparkSession, controls: Iterable[Control], events: Events) -> DataFrame:
    """Return messages as a frame: `topic`, `partition`, `key`, `value`, `sequence`."""
    last = 0 if events.ordered else _LAST - 1
    # Where rows have no order of their own, the offset of one in its partition is no place among them: all go before.
    rows = [
        (
            c.topic,
            partition,
            *c.message,
            c.position if events.position else _FIRST,
            not c.ahead,
            _FIRST if c.ahead else last,
            number,
        )
        for number, c in enumerate(controls)
        for partition in c.partitions
    ]
    kinds = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "at": pa.int64(),
        "late": pa.bool_(),
        "offset": pa.int64(),
        "number": pa.int32(),
    }
    sequence = F.struct("at", "late", "offset", "number", F.lit(0)).cast(SEQUENCE)
    return small_table(spark, rows, kinds).select("topic", "partition", "key", "value", sequence.alias("sequence"))


def ddl_topic(ddl: Ddl, router: Router, default: str) -> str:
    """Return the topic of a schema change: the table's, as it was named before a RENAME, or the default one."""
    if not ddl.table:
        return default
    database, table = ddl.renamed_from or (ddl.database, ddl.table)
    schema = ddl.schema or TableSchema(database, table, 0, 0, ())
    return router.topic_for(replace(schema, database=database, table=table))


@dataclass(frozen=True)
class TopicLifetime:
    """The positions from and up to which a topic gets watermarks; None has no end."""

    topic: str
    born: int | None = None
    gone: int | None = None


TableTopics = Mapping[tuple[str, str], str]
"""The topic of each table, by database and name."""


def topic_lifetimes(
    table_topics: TableTopics,
    ddl: Iterable[Ddl],
    tables: Iterable[TableSchema],
    wanted: Callable[[TableSchema], bool],
    router: Router,
) -> tuple[list[TopicLifetime], TableTopics]:
    """Return when the topic of each table begins and ends to be one of a changefeed, and the topics of the tables that
    are left.

    `table_topics` are the tables that were there before. Without a schema change that made it, any other table was
    there from the start. Source: Simple protocol, WATERMARK.
    """
    alive = {name: TopicLifetime(topic) for name, topic in table_topics.items()}
    ended: list[TopicLifetime] = []
    for change in table_changes(alive, ddl, tables, wanted):
        ended += [replace(alive.pop(name), gone=change.position) for name in change.gone]
        if change.come:
            alive[change.come.key[:2]] = TopicLifetime(router.topic_for(change.come), born=change.position)
    return [*ended, *alive.values()], {name: lifetime.topic for name, lifetime in alive.items()}


@dataclass(frozen=True)
class TableChange:
    """Tables that a changefeed loses, and one that it gets, at a position; None for before all rows."""

    position: int | None
    gone: Sequence[tuple[str, str]] = ()
    come: TableSchema | None = None


def table_changes(
    before: Iterable[tuple[str, str]],
    ddl: Iterable[Ddl],
    tables: Iterable[TableSchema],
    wanted: Callable[[TableSchema], bool],
) -> Iterator[TableChange]:
    """Yield how the tables of a changefeed change; see `topic_lifetimes`. `before` are those that it had."""
    ddl, alive = list(ddl), set(before)
    made = {(d.database, d.table) for d in ddl if d.schema}
    for schema in tables:
        if schema.key[:2] not in made and wanted(schema):
            alive.add(schema.key[:2])
            yield TableChange(None, come=schema)
    for change in ddl:
        if ddl_action(change.sql).event == "drop schema":
            dropped = sorted(name for name in alive if name[0] == change.database)
            alive.difference_update(dropped)
            yield TableChange(change.position, dropped)
        if not change.table or change.is_view:
            continue
        name, stays = (change.database, change.table), change.schema is None or wanted(change.schema)
        gone = change.renamed_from or (name if change.type == "ERASE" or not stays else None)
        if gone in alive:
            alive.discard(gone)
            yield TableChange(change.position, [gone])
        if change.schema and change.type != "ERASE" and stays and name not in alive:
            alive.add(name)
            yield TableChange(change.position, come=change.schema)


def watermark_frame(
    events: Events,
    mark: Callable[[int], Message],
    lifetimes: Sequence[TopicLifetime],
    partitions: Callable[[str], Sequence[int]],
) -> tuple[DataFrame, int, int | None] | None:
    """Return the source's watermarks as messages to every topic that lives then, how many there are, and the highest.

    None where the source has none. `mark` makes a watermark's message. Columns as `control_frame`. A source of several
    partitions has passed a commit-ts when all of them have.
    """
    if events.watermarks is None:
        return None
    commit_ts = F.col("commit_ts")
    source = events.watermarks
    at = F.col("offset") if events.ordered else commit_ts
    if not events.ordered:
        ends = source.groupBy("topic", "partition").agg(F.max("commit_ts").alias("end"))
        source = source.crossJoin(ends.agg(F.min("end").alias("passed"))).where(commit_ts <= F.col("passed"))
    once = source.select(at.alias("at"), commit_ts).groupBy("at").agg(F.max("commit_ts").alias("commit_ts"))
    few = once.limit(_FEW + 1).collect()
    if len(few) <= _FEW:  # what the source has is then read once, and not again when the messages leave
        rows = [(row["at"], row["commit_ts"], *mark(row["commit_ts"])) for row in few]
        kinds = {"at": pa.int64(), "commit_ts": pa.int64(), "key": pa.binary(), "value": pa.binary()}
        marked = small_table(once.sparkSession, rows, kinds)
    else:
        marked = mapped(once, partial(_marked, mark), _MARKED)
    table_topics = F.array(
        *(
            F.struct(
                F.lit(lifetime.topic).alias("topic"),
                F.lit(lifetime.born).cast("bigint").alias("born"),
                F.lit(lifetime.gone).cast("bigint").alias("gone"),
                F.array(*map(F.lit, partitions(lifetime.topic))).cast("array<int>").alias("partitions"),
            )
            for lifetime in lifetimes
        )
    )
    placed = marked.select("*", F.explode(table_topics).alias("home")).where(
        (F.coalesce("home.born", F.col("at")) <= F.col("at")) & (F.coalesce("home.gone", F.col("at") + 1) > F.col("at"))
    )
    sequence = F.struct("at", F.lit(True), F.lit(0 if events.ordered else _LAST), F.lit(0), F.lit(0)).cast(SEQUENCE)
    frame = (
        placed.select("at", "key", "value", "home.topic", F.explode("home.partitions").alias("partition"))
        .distinct()
        .select("topic", "partition", "key", "value", sequence.alias("sequence"))
    )
    if len(few) <= _FEW:
        return frame, len(few), max((row["commit_ts"] for row in few), default=None)
    counted = once.agg(F.count("*").alias("count"), F.max("commit_ts").alias("highest")).collect()[0]
    return frame, counted["count"], counted["highest"]


_MARKED = T.StructType(
    [
        T.StructField("at", T.LongType()),
        T.StructField("commit_ts", T.LongType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
    ]
)


def _marked(mark: Callable[[int], Message], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    messages = [mark(commit_ts) for commit_ts in batch.column("commit_ts").to_pylist()]
    for n, name in enumerate(("key", "value")):
        batch = batch.append_column(name, pa.array([message[n] for message in messages], pa.binary()))
    yield batch
