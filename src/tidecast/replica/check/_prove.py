"""Compare the row count and hash of tables with the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._counted import counted
from tidecast._errors import ConfigError, TerminalError
from tidecast._progress import Progress, no_progress
from tidecast.replica._report import PROOF
from tidecast.replica.check._places import damage, tables_in
from tidecast.replica.state import RowSum, column_hash, measured
from tidecast.replica.tables import Name
from tidecast.replica.targets import Target, TargetTable, parse_target
from tidecast.spark import parallel_map

_NO_STATE = "no ledger state: it was made before, or by a run without --checkpoint or with another one"


class ProofVerdict(StrEnum):
    """The verdict on a table.

    `equal`: its rows come to what the ledger tells. `differs`: they do not, or its columns are others. `gone`: there is
    no such table any more. `unreadable`: a file of it is damaged, or missing. `not-proven`: the ledger tells nothing.
    """

    EQUAL = "equal"
    DIFFERS = "differs"
    GONE = "gone"
    UNREADABLE = "unreadable"
    NOT_PROVEN = "not-proven"


@dataclass(frozen=True)
class ProvenTable:
    """The proof of one table.

    `rows` is how many it has, `expected` how many the ledger tells, None where that is not known; `detail` says in
    words what is wrong, empty where nothing is.
    """

    table: str
    verdict: ProofVerdict
    rows: int | None = None
    expected: int | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether nothing is known to be wrong with it."""
        return self.verdict in (ProofVerdict.EQUAL, ProofVerdict.NOT_PROVEN)


@dataclass(frozen=True)
class Proven:
    """The proof of each table in a place."""

    tables: tuple[ProvenTable, ...]

    @property
    def ok(self) -> bool:
        """Tell whether nothing is known to be wrong with any table; those that are not proven do not count."""
        return all(table.ok for table in self.tables)


@dataclass(frozen=True)
class _Told:
    """The newest ledger entry of a table; `version` is None if that batch dropped the table."""

    version: int | None
    sources: int
    sum: RowSum | None
    columns: int | None


def prove(spark: SparkSession, to: str, *, progress: Progress = no_progress) -> Proven:
    """Compute the row count and hash of each table in `to`, and compare them with the ledger.

    `to` is a folder or a catalog that `replicate` with a checkpoint has written to. The tables are read as they are
    now, so that it does not matter how often they were compacted since their last batch.

    Raises ConfigError where there is no table, and TerminalError where the ledger cannot be read.
    """
    target = parse_target(to)
    target.check(spark)
    told, there = _told(target.ledger(spark, make_database=False)), tables_in(spark, target)
    names = sorted({*(name for name, of in told.items() if of.version is not None), *there})
    if not names:
        raise ConfigError("there are no tables", where=to, hint="name what replicate was given as --to")
    done = iter(range(1, len(names) + 1))

    def one(name: Name) -> ProvenTable:
        proven = _proven(spark, target, name, told.get(name))
        progress(proven.table, next(done), len(names))
        return proven

    return Proven(tuple(parallel_map(one, names)))


def _told(ledger: TargetTable) -> Mapping[Name, _Told]:
    """Return the newest ledger entry of each table that existed after a batch, or was dropped by it."""
    try:
        if not ledger.exists():
            return {}
        rows = ledger.read()
        tables = rows.schema["tables"].dataType
        assert isinstance(tables, T.ArrayType)
        assert isinstance(tables.elementType, T.StructType)
        known = tables.elementType.fieldNames()  # a ledger of before has no proof in it
        proof = {n: F.col(f"table.{n}") if n in known else F.lit(None).cast("bigint") for n in ("version", *PROOF)}
        newest = F.max_by(F.struct(*(column.alias(name) for name, column in proof.items())), "at")
        told = F.coalesce(*list(proof.values())[:2])
        each = rows.select(F.struct("applied_at", "batch").alias("at"), "source", F.explode("tables").alias("table"))
        of_table = each.where(told.isNotNull()).groupBy("table.database", "table.table")
        found = of_table.agg(newest.alias("newest"), F.count_distinct("source").alias("sources")).collect()
    except Exception as error:
        where = ledger.shown
        raise TerminalError(f"the ledger cannot be read: {damage(error)}", where=where) from error
    return {(row["database"], row["table"]): _of(row["newest"].asDict(), row["sources"]) for row in found}


def _of(newest: Mapping[str, int | None], sources: int) -> _Told:
    version, rows, hashed, columns = (newest[name] for name in ("version", *PROOF))
    known = None if rows is None or hashed is None else RowSum(rows, hashed)
    return _Told(version, sources, known if version is not None else None, columns)


def _proven(spark: SparkSession, target: Target, name: Name, told: _Told | None) -> ProvenTable:
    table, expected = ".".join(name), told.sum.rows if told and told.sum else None
    try:
        place = target.table(spark, *name, make_database=False)
        if not place.exists():
            return ProvenTable(table, ProofVerdict.GONE, None, expected, "the ledger knows it, and it is not there")
        if told is None or told.sum is None:
            return ProvenTable(table, ProofVerdict.NOT_PROVEN, detail=_NO_STATE)
        rows = place.read()
        found, columns = measured(rows), column_hash({f.name: f.dataType for f in rows.schema.fields})
        wrong = _difference(found, told.sum)
        if columns != told.columns:
            wrong.append("its columns have other names or types")
        if not wrong:
            return ProvenTable(table, ProofVerdict.EQUAL, found.rows, expected)
        if (version := place.version()) != told.version:
            wrong.append(
                f"its last batch in the ledger made version {told.version}, and it is at {version}: changed by hand, "
                "by a run without --checkpoint or with another one, or by one that is at work or was killed"
            )
        if told.sources > 1:
            wrong.append(f"{told.sources} sources are applied to it, of which none knows what the others do")
        return ProvenTable(table, ProofVerdict.DIFFERS, found.rows, expected, "; ".join(wrong))
    except Exception as error:  # Spark's errors at a damaged file are of many kinds, and Delta's are no PySpark ones
        return ProvenTable(table, ProofVerdict.UNREADABLE, None, expected, damage(error))


def _difference(found: RowSum, told: RowSum) -> list[str]:
    if found.rows != told.rows:
        more = found.rows - told.rows
        return [f"{counted(abs(more), 'row', 'rows')} {'more' if more > 0 else 'fewer'} than its batches made"]
    return ["as many rows as its batches made, but others"] if found != told else []
