"""All tables at one time of their source: which of their versions, and the rows of these."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import ConfigError, TerminalError
from tidecast._tso import to_datetime
from tidecast.replica.state import read_ledger
from tidecast.replica.targets import parse_target


@dataclass(frozen=True)
class SourceSnapshot:
    """How far a source was applied: up to `resolved_ts`, all of it and nothing later, by batch number `batch`."""

    source: str
    batch: int
    resolved_ts: int


@dataclass(frozen=True)
class TableSnapshot:
    """The version of a table, and what Spark SQL calls the table."""

    database: str
    table: str
    where: str
    version: int
    _spark: SparkSession = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """`database.table`, for people."""
        return f"{self.database}.{self.table}"

    @property
    def query(self) -> str:
        """The query of its rows."""
        return f"SELECT * FROM {self.where} VERSION AS OF {self.version}"

    def read(self) -> DataFrame:
        """Return the rows that the table had.

        Raises TerminalError for a version that the table's log no longer has. Of one whose files alone were cleaned up
        Spark tells when the rows are read.
        """
        try:
            return self._spark.sql(self.query)
        except (AnalysisException, IllegalArgumentException) as error:  # Delta's, and Iceberg's
            cause = str(error).strip().partition("\n")[0]
            raise TerminalError(f"this version is no longer there: {cause}", where=self.name) from None


@dataclass(frozen=True)
class Snapshot:
    """Tables at a time of their source, or of each of their sources."""

    as_of: int
    sources: tuple[SourceSnapshot, ...]
    tables: tuple[TableSnapshot, ...]

    def table(self, name: str) -> DataFrame:
        """Return the rows of the table `database.table`. Raises ConfigError for one that there is not."""
        for table in self.tables:
            if table.name == name:
                return table.read()
        there = ", ".join(table.name for table in self.tables) or "none"
        raise ConfigError(f"there is no table {name!r} at this time", hint=f"there are: {there}")


def snapshot(spark: SparkSession, to: str, as_of: int) -> Snapshot:
    """Find the tables in `to` as their source was at the commit-ts `as_of`, or at the last one before that is known.

    The ledger tells it: a batch counts after which nothing above its resolved-ts had been applied, and before which no
    message was lost. That is every batch with `resolved_only`, else one that a watermark ended. A table that came later
    is left out. The ledger does not know of other writers, such as a run without a checkpoint.

    Raises ConfigError for a place without a ledger. Raises TerminalError if no batch so old counts, if several sources
    are applied to one table, which is then at no time of any, and if a table was re-created since.
    """
    target = parse_target(to)
    target.check(spark)
    placed, chosen = _batches(read_ledger(spark, target, to), as_of)
    sources = [SourceSnapshot(row["of"], *row["chosen"][1:]) for row in chosen.collect()]
    if not sources:
        raise TerminalError(
            f"the ledger has no batch up to {_told(as_of)} that ended at one time of its source",
            where=to,
            hint="with --resolved-only each batch does",
        )
    rows = _versions(placed, chosen).collect()
    names = Counter((row["database"], row["table"]) for row in rows)
    places = {name: target.table(spark, *name, make_database=False) for name in names}
    for row in rows:
        place, name = places[row["database"], row["table"]], (row["database"], row["table"])
        if row["another"] and place.counts_versions and place.exists():
            raise TerminalError(
                "the table was made anew since, and its versions count from 0 again", where=".".join(name)
            )
    if several := [".".join(name) for name, sources_of in names.items() if sources_of > 1]:
        raise TerminalError("several sources are applied to this table: it is at no time of one", where=several[0])
    found = [(row["database"], row["table"], row["version"]) for row in rows]
    return Snapshot(
        as_of,
        tuple(sorted(sources, key=lambda source: source.source)),
        tuple(TableSnapshot(name, table, places[name, table].name, version, spark) for name, table, version in found),
    )


def _batches(ledger: DataFrame, as_of: int) -> tuple[DataFrame, DataFrame]:
    """Return the batches of each source with their place in its order, and the one that counts at a commit-ts."""
    # A batch that was applied once more after a crash has two rows; a new checkpoint begins with number 1 again.
    first = Window.partitionBy("source", "checkpoint")
    batches = ledger.withColumn("begun_at", F.min("applied_at").over(first))
    in_order = Window.partitionBy("source").orderBy("begun_at", "batch", "applied_at")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.greatest(F.array_max(F.transform("tables", lambda table: table["last_commit_ts"])), "begun_ts")
    sound = F.coalesce("has_commit_ts", F.lit(False)) & F.col("lost").isNull()
    placed = batches.select(
        "source",
        "batch",
        "resolved_ts",
        "tables",
        F.row_number().over(in_order).alias("place"),
        F.max(last).over(so_far).alias("highest"),
        F.bool_and(sound).over(so_far).alias("sound"),
    )
    at_one_time = F.col("sound") & (F.coalesce("highest", F.lit(-1)) <= F.col("resolved_ts"))
    chosen = (
        placed.where(at_one_time & (F.col("resolved_ts") <= F.lit(as_of)))
        .groupBy(F.col("source").alias("of"))
        .agg(F.max_by(F.struct("place", "batch", "resolved_ts"), "place").alias("chosen"))
    )
    return placed, chosen


def _versions(placed: DataFrame, chosen: DataFrame) -> DataFrame:
    """Return the version of each table after the batch that counts, and whether later batches tell of `another` table.

    That one has a lower version, or other rows in the same one; or a batch dropped or renamed the table.
    """
    of_chosen = placed.join(chosen, F.col("source") == F.col("of"))
    tables = of_chosen.select(
        "source", "place", F.col("chosen.place").alias("upto"), F.explode("tables").alias("of_table")
    )
    proof = [name for name in ("row_count", "row_hash") if name in tables.select("of_table.*").columns]
    known = F.coalesce("of_table.version", *(f"of_table.{name}" for name in proof[:1]))
    tables = tables.where(known.isNotNull())  # a batch that dropped a table tells no version of it
    told = F.struct("of_table.version", *(F.col(f"of_table.{name}") for name in proof))
    by = Window.partitionBy("source", "of_table.database", "of_table.table")
    before, then = F.col("place") <= F.col("upto"), F.col("then")
    found = tables.withColumn("told", told).withColumn(
        "then", F.max_by("told", F.when(before, F.col("place"))).over(by)
    )
    version = F.col("told.version")
    another = version.isNull() | (version < then["version"])
    for name in proof:
        another |= (version == then["version"]) & F.coalesce(F.col("told")[name] != then[name], F.lit(False))
    return (
        found.groupBy("source", "of_table.database", "of_table.table")
        .agg(F.first(then["version"]).alias("version"), F.bool_or(~before & another).alias("another"))
        .where("version IS NOT NULL")
        .orderBy("database", "table")
    )


def _told(ts: int) -> str:
    return f"{ts} ({to_datetime(ts).isoformat(timespec='milliseconds')})"
