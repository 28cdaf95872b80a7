"""The counts of a batch of messages, found in one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidecast._errors import CorruptedData, TidecastError
from tidecast.model import Events
from tidecast.publish._batch import Stop
from tidecast.publish._fit import Fitting
from tidecast.publish._rows import MOVED
from tidecast.spark import reused


@dataclass(frozen=True)
class BatchStats:
    """How many rows of each table version can leave, by its number, how many cannot, and where the run must stop.

    `partitions` counts those that can leave by table version and partition. `moved` tells whether updates were split;
    `several_origins` whether rows are of several partitions of the source. `untimed` counts rows without a commit-ts.
    """

    rows: Mapping[int, int] = field(default_factory=dict)
    partitions: Mapping[tuple[int, int], int] = field(default_factory=dict)
    unsendable: int = 0
    claims: int = 0
    moved: bool = False
    several_origins: bool = False
    untimed: int = 0
    stop: Stop | None = None


def collect_stats(fitted: DataFrame, events: Events, fitting: Fitting, names: Sequence[str]) -> BatchStats:
    """Count messages (see `FITTED`). A row that is too large, or damaged under `error`, stops the run.

    `names` are those of the tables, by their numbers.
    """
    groups, counts = _counted(events.position)
    rows = fitted.groupBy(*groups).agg(*counts).collect()
    stops = sorted((r for r in rows if r["stop"]), key=lambda r: r["stop"]["place"]["position"])
    sendable = Counter[int]()
    for row in rows:
        sendable.update({row["plan"]: row["rows"]} if row["sendable"] else {})
    return BatchStats(
        rows=sendable,
        partitions={(r["plan"], r["partition"]): r["rows"] for r in rows if r["sendable"]},
        unsendable=sum(r["rows"] for r in rows if not r["sendable"]),
        claims=sum(r["claims"] for r in rows),
        moved=any(r["moved"] for r in rows),
        several_origins=len({r[name] for r in rows for name in ("first_origin", "last_origin")}) > 1,
        untimed=sum(r["untimed"] for r in rows if r["sendable"]),
        stop=_stop(stops[0]["stop"], events, fitting, names[stops[0]["plan"]]) if stops else None,
    )


@reused()
def _counted(position: str | None) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the groups in which messages are counted, and the counts; `position` as in `Events`."""
    at = F.col(f"source.{position}") if position else F.lit(0).cast("bigint")
    place = F.struct(at.alias("position"), "stop", "topic", "source.partition", "source.offset")
    where = F.struct(place.alias("place"), F.col("source.topic").alias("origin"))
    origin = F.struct("source.topic", "source.partition")
    return (F.col("plan"), F.col("reason").isNull().alias("sendable"), F.col("partition")), (
        F.count("*").alias("rows"),
        F.count("location").alias("claims"),
        F.count_if(F.col("source.commit_ts").isNull()).alias("untimed"),
        F.max(MOVED).alias("moved"),
        F.min(origin).alias("first_origin"),
        F.max(origin).alias("last_origin"),
        F.min(F.when(F.col("stop").isNotNull(), where)).alias("stop"),
    )


def _stop(found: Row, events: Events, fitting: Fitting, table: str) -> Stop:
    place = found["place"]
    where = f"topic {found['origin']} partition {place['partition']} offset {place['offset']}"
    if place["stop"]:
        error: TidecastError = fitting.too_large(table, place["stop"], where)
    else:
        error = CorruptedData("the source found this row damaged", code="CDC:ErrCorruptedDataMutation", where=where)
    return Stop(place["position"] if events.position else None, error)
