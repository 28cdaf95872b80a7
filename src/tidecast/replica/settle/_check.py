"""Each row change before it is applied: does it fit its checksum, and can the table take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from tidecast import model
from tidecast._counted import counted
from tidecast._errors import CorruptedData
from tidecast._policy import OnError, OnMismatch, OnUnrepresentable
from tidecast.checksum import Verdict
from tidecast.model import RECORD, Op, Reason, TableChanges, TableSchema
from tidecast.replica.tables import may_be_unrepresentable, table_value
from tidecast.spark import reused, union

_PLACE = ("topic", "partition", "offset")

# Rows of a table that is refused as a whole have no verdict, nor has the second row of an update that changes a key.
_TALLIES: Mapping[str, tuple[Verdict | None, bool]] = {
    **{f"fits {verdict}": (verdict, True) for verdict in Verdict},
    **{f"refused {verdict}": (verdict, False) for verdict in Verdict},
    "refused unchecked": (None, False),
}
_CORRUPTED, _FIRST, _LAST = "corrupted rows", "first commit_ts", "last commit_ts"


def doubtful_columns(changes: Sequence[TableChanges]) -> list[str]:
    """Return the columns that may have values which the table cannot hold."""
    columns = (c for change in changes for c in change.schema.columns)
    return list(dict.fromkeys(c.name for c in columns if may_be_unrepresentable(c.data_type)))


@dataclass(frozen=True)
class Policy:
    """The policy for messages that cannot be applied, and for rows that do not match their checksums.

    A mismatch that goes to the dead letters is a message that cannot be applied, so that `on_error` says what is done.
    """

    on_error: OnError
    on_mismatch: OnMismatch
    on_unrepresentable: OnUnrepresentable = OnUnrepresentable.NULL

    @property
    def stops(self) -> bool:
        """Tell whether a message may stop the run, so that all are checked before any is applied."""
        return self.on_error is OnError.FAIL or self.on_mismatch is OnMismatch.FAIL

    @property
    def stops_at_mismatch(self) -> bool:
        """Tell whether a mismatch stops the run."""
        return self.stops and self.on_mismatch is not OnMismatch.APPLY


@dataclass(frozen=True)
class Checked:
    """How many row changes of a table there are: by verdict, and by whether they can be applied.

    `corrupted` counts those that the source itself found damaged. `commit_ts` has the lowest and the highest one of
    those that can be applied, none where none has one.
    """

    rows: Mapping[tuple[str | None, bool], int]
    corrupted: int = 0
    commit_ts: tuple[int, ...] = ()

    @classmethod
    def of(cls, row: Row) -> Checked:
        """Return the counts in a row that has `tallies`, null for none."""
        range_ = (row[_FIRST], row[_LAST]) if row[_FIRST] is not None else ()
        return cls({kind: row[name] or 0 for name, kind in _TALLIES.items()}, row[_CORRUPTED] or 0, range_)

    def __add__(self, other: Checked) -> Checked:
        """Return both together."""
        times = self.commit_ts + other.commit_ts
        ends = (min(times), max(times)) if times else ()
        return Checked(Counter(self.rows) + Counter(other.rows), self.corrupted + other.corrupted, ends)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.rows.values())

    @property
    def applicable(self) -> int:
        """Those that can be applied."""
        return sum(n for (_, fits), n in self.rows.items() if fits)

    @property
    def refused(self) -> int:
        """Those that could be read, and are not applied."""
        return sum(n for (verdict, fits), n in self.rows.items() if not fits and verdict != Verdict.UNREADABLE)

    @property
    def verdicts(self) -> dict[str, int]:
        """The number by verdict, of every verdict; rows of a table that is refused as a whole are not checked."""
        counts: Counter[str | None] = Counter()
        for (verdict, _), n in self.rows.items():
            counts[verdict] += n
        return {str(verdict): counts[verdict] for verdict in Verdict}


def check(
    changes: TableChanges, policy: Policy, refusal: tuple[Reason, str] | None = None, *, log: bool = False
) -> TableChanges:
    """Return changes with the verdict on each in `verdict`, and in `reason` and `detail` why it is not applied.

    `refusal` is why none of them can be; in a `log` a delete has a row, too. In: the frame's columns and
    `verification` (see `with_verdict`). Out: the frame's columns, `verdict` string (see `tidecast.checksum.Verdict`)
    and `corrupted` boolean (the source itself found the row damaged).
    """
    verification = F.col("verification")
    cause = F.when(F.col("reason").isNotNull(), F.struct("reason", "detail"))
    key, image = changes.schema.handle_key, image_of_key()
    if refusal:
        cause = cause.otherwise(_cause(refusal[0], F.lit(refusal[1])))
    elif key:
        missing = {name: image[name].isNull() for name in key}
        names = F.concat_ws(", ", *(F.when(is_null, F.lit(name)) for name, is_null in missing.items()))
        detail = F.concat(F.lit("NULL in the key: "), names)
        cause = cause.when(reduce(or_, missing.values()), _cause(Reason.BAD_VALUE, detail))
        wrong_key = unrepresentable_key(changes.schema)
        if wrong_key is not None:
            cause = cause.when(wrong_key, _cause(Reason.BAD_VALUE, F.lit("a key that the table cannot hold")))
    if not refusal and policy.on_unrepresentable is OnUnrepresentable.FAIL:
        lost = unrepresentable_columns(changes.schema, F.coalesce("data", "old") if log else F.col("data"))
        detail = F.concat(F.lit("the table cannot hold the value of "), lost)
        cause = cause.when(lost != "", _cause(Reason.BAD_VALUE, detail))
    if not refusal and policy.on_mismatch is not OnMismatch.APPLY:
        cause = cause.when(
            verification["verdict"] == Verdict.MISMATCH, _cause(Reason.CHECKSUM_MISMATCH, _difference(verification))
        )
    frame = changes.frame.withColumn("cause", cause)
    outcome = ("verification.verdict", "verification.corrupted", "cause.reason", "cause.detail")
    columns = [name for name in changes.frame.columns if name not in ("reason", "detail", "verification")]
    return replace(changes, source=frame.select(*columns, *outcome))


def refuse(changes: TableChanges, cause: str) -> TableChanges:
    """Return changes as `check` does, all of them refused because their table cannot be used."""
    unread = F.col("reason").isNotNull()
    frame = changes.frame.select(
        *RECORD.fieldNames(),
        "commit_ts",
        F.when(unread, F.lit(Verdict.UNREADABLE)).alias("verdict"),
        F.lit(False).alias("corrupted"),
        F.when(unread, F.col("reason")).otherwise(F.lit(Reason.TABLE_REFUSED)).alias("reason"),
        F.when(unread, F.col("detail")).otherwise(F.lit(cause)).alias("detail"),
    )
    return replace(changes, source=frame)


def _cause(reason: Reason, detail: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def _difference(verification: Column) -> Column:
    expected = F.coalesce(verification["expected"].cast("string"), F.lit("no number"))
    return F.concat(F.lit("expected "), expected, F.lit(", actual "), verification["actual"].cast("string"))


def unrepresentable_key(schema: TableSchema) -> Column | None:
    """Return whether the table cannot hold a row's key, None where it can hold every key of this version."""
    tests = _lost(map(schema.column, schema.handle_key), image_of_key())
    return reduce(or_, tests.values()) if tests else None


def unrepresentable_columns(schema: TableSchema, image: Column) -> Column:
    """Return the names of the columns whose values in a row the table cannot hold, empty where it holds all."""
    return F.concat_ws(", ", *(F.when(lost, F.lit(name)) for name, lost in _lost(schema.columns, image).items()))


def _lost(columns: Iterable[model.Column], image: Column) -> dict[str, Column]:
    return {
        c.name: image[c.name].isNotNull() & table_value(image[c.name], c.data_type).isNull()
        for c in columns
        if may_be_unrepresentable(c.data_type)
    }


def image_of_key() -> Column:
    """Return the row that tells which one is meant."""
    return F.when(F.col("op") == F.lit(Op.DELETE), F.col("old")).otherwise(F.col("data"))


def count(changes: Sequence[TableChanges]) -> Checked:
    """Count the row changes of a table that have been checked."""
    if not changes:
        return Checked({})
    fits = F.col("reason").isNull().alias("fits")
    rows = union([c.frame.select("verdict", fits, "corrupted", "commit_ts") for c in changes])
    return Checked.of(rows.agg(*tallies()).collect()[0])


@reused()
def tallies() -> tuple[Column, ...]:
    """Return the aggregates of which `Checked.of` makes counts.

    They read `verdict`, `fits`, `corrupted` and `commit_ts`.
    """
    fits = F.col("fits")
    return (
        *(
            F.count_if(F.col("verdict").eqNullSafe(F.lit(verdict)) & (fits if can else ~fits)).alias(name)
            for name, (verdict, can) in _TALLIES.items()
        ),
        F.count_if("corrupted").alias(_CORRUPTED),
        F.min(F.when(fits, F.col("commit_ts"))).alias(_FIRST),
        F.max(F.when(fits, F.col("commit_ts"))).alias(_LAST),
    )


def sums_of_tallies() -> list[Column]:
    """Return the sums of `tallies` that were made in groups."""
    sums = [F.sum(name).alias(name) for name in (*_TALLIES, _CORRUPTED)]
    return [*sums, F.min(_FIRST).alias(_FIRST), F.max(_LAST).alias(_LAST)]


def misfits(rows: int) -> str:
    """Return how many rows do not fit their checksums, in words."""
    return counted(rows, "row does not fit its checksum", "rows do not fit their checksums")


def refuse_mismatches(changes: Sequence[TableChanges]) -> None:
    """Raise CorruptedData if some of the row changes, which have been checked, do not fit their checksums."""
    wrong = union([c.frame.where(F.col("verdict") == Verdict.MISMATCH).select(_first_place(c)) for c in changes])
    (row,) = wrong.agg(F.count("*").alias("n"), F.min("first").alias("first")).collect()
    if row["n"]:
        first = row["first"]
        raise CorruptedData(
            f"{misfits(row['n'])}; the first is of {first['table']}{first['difference']}",
            where=" ".join(f"{name} {first[name]}" for name in _PLACE if first[name] is not None),
            hint="verify shows them, --on-mismatch dead-letter sets them aside",
        )


def _first_place(changes: TableChanges) -> Column:
    difference = F.when(F.col("reason") == Reason.CHECKSUM_MISMATCH, F.concat(F.lit(": "), F.col("detail")))
    return F.struct(
        "offset",
        "topic",
        "partition",
        F.lit(changes.schema.name).alias("table"),
        F.coalesce(difference, F.lit("")).alias("difference"),
    ).alias("first")
