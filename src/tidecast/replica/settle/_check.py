"""Each row change before it is applied: does it fit its checksum, and can the table take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast import model
from tidecast._counted import counted
from tidecast._errors import CorruptedData
from tidecast._policy import OnError, OnMismatch, OnUnrepresentable
from tidecast.checksum import Verdict
from tidecast.model import RECORD, Op, Reason, TableChanges, TableSchema
from tidecast.replica.settle._identity import row_image
from tidecast.replica.tables import may_be_unrepresentable, table_value
from tidecast.sources import VERIFICATION, chosen, columns_of, in_one_pass, narrowed, then, then_with
from tidecast.spark import reused
from tidecast.values import TEXT, joined, valid

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
    def of(cls, row: Row | Mapping[str, Any]) -> Checked:
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

    `refusal` is why none of them can be; in a `log` a delete has a row, too. In: the changes' columns and
    `verification` (see `verified`). Out: the changes' columns, `verdict` string (see `tidecast.checksum.Verdict`)
    and `corrupted` boolean (the source itself found the row damaged).
    """
    fields = [f for f in columns_of(changes).fields if f.name not in ("reason", "detail", "verification")]
    step = partial(_checked, _Check(changes.schema, policy, refusal, log))
    return then(changes, step, T.StructType([*fields, *_OUTCOME]))


def refuse(changes: TableChanges, cause: str) -> TableChanges:
    """Return changes as `check` does, all of them refused because their table cannot be used."""
    commit_ts = T.StructField("commit_ts", T.LongType())
    return then(changes, partial(_refused, cause), T.StructType([*RECORD.fields, commit_ts, *_OUTCOME]))


_OUTCOME = (
    T.StructField("verdict", T.StringType()),
    T.StructField("corrupted", T.BooleanType()),
    T.StructField("reason", T.StringType()),
    T.StructField("detail", T.StringType()),
)


@dataclass(frozen=True)
class _Check:
    """The arguments of `check`."""

    schema: TableSchema
    policy: Policy
    refusal: tuple[Reason, str] | None
    log: bool


class _Cause:
    """Why rows are not applied: of each row the first cause that is found."""

    def __init__(self, reason: pa.Array, detail: pa.Array) -> None:
        self.reason, self.detail = reason.cast(TEXT), detail.cast(TEXT)

    def add(self, which: np.ndarray, reason: Reason, detail: pa.Array | str) -> None:
        """Note that a cause is true of some rows."""
        here = pa.array(which & ~valid(self.reason))
        self.reason = pc.if_else(here, pa.scalar(str(reason), TEXT), self.reason)
        self.detail = pc.if_else(here, pa.scalar(detail, TEXT) if isinstance(detail, str) else detail, self.detail)


def _checked(asked: _Check, rows: pa.RecordBatch) -> pa.RecordBatch:
    schema, policy = asked.schema, asked.policy
    verification = {f.name: part for f, part in zip(VERIFICATION, rows.column("verification").flatten(), strict=True)}
    cause = _Cause(rows.column("reason"), rows.column("detail"))
    if asked.refusal:
        cause.add(np.ones(rows.num_rows, bool), *asked.refusal)
    elif schema.handle_key:
        image = columns_in(key_image(rows))
        lacking = {name: ~valid(image[name]) for name in schema.handle_key}
        if any(lack.any() for lack in lacking.values()):
            names = joined(["NULL in the key: ", _listed(lacking)], TEXT)
            cause.add(reduce(or_, lacking.values()), Reason.BAD_VALUE, names)
        lost = unrepresentable(map(schema.column, schema.handle_key), image)
        if lost:
            cause.add(reduce(or_, lost.values()), Reason.BAD_VALUE, "a key that the table cannot hold")
    if not asked.refusal and policy.on_unrepresentable is OnUnrepresentable.FAIL:
        lost = unrepresentable(schema.columns, columns_in(row_image(rows, of_deletes=asked.log)))
        if lost:
            names = joined(["the table cannot hold the value of ", _listed(lost)], TEXT)
            cause.add(reduce(or_, lost.values()), Reason.BAD_VALUE, names)
    if not asked.refusal and policy.on_mismatch is not OnMismatch.APPLY:
        wrong = np.asarray(pc.fill_null(pc.equal(verification["verdict"], str(Verdict.MISMATCH)), False))
        if wrong.any():
            cause.add(wrong, Reason.CHECKSUM_MISMATCH, _difference(verification))
    columns = {n: rows.column(n) for n in rows.schema.names if n not in ("reason", "detail", "verification")}
    outcome = {"verdict": verification["verdict"], "corrupted": verification["corrupted"]}
    return pa.RecordBatch.from_pydict({**columns, **outcome, "reason": cause.reason, "detail": cause.detail})


def _refused(cause: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    reason, detail = rows.column("reason").cast(TEXT), rows.column("detail").cast(TEXT)
    unread = reason.is_valid()
    outcome = {
        "verdict": pc.if_else(unread, pa.scalar(str(Verdict.UNREADABLE), TEXT), pa.scalar(None, TEXT)),
        "corrupted": pa.repeat(False, rows.num_rows),
        "reason": pc.if_else(unread, reason, pa.scalar(str(Reason.TABLE_REFUSED), TEXT)),
        "detail": pc.if_else(unread, detail, pa.scalar(cause, TEXT)),
    }
    kept = (*RECORD.fieldNames(), "commit_ts")
    return pa.RecordBatch.from_pydict({**{name: rows.column(name) for name in kept}, **outcome})


def _difference(verification: Mapping[str, pa.Array]) -> pa.Array:
    expected = pc.coalesce(verification["expected"].cast(TEXT), pa.scalar("no number", TEXT))
    return joined(["expected ", expected, ", actual ", verification["actual"].cast(TEXT)], TEXT)


def _listed(columns: Mapping[str, np.ndarray]) -> pa.Array:
    """Return the names of the columns that are marked in each row."""
    comma, nothing = ", ", pa.scalar("", TEXT)
    names = [pc.if_else(pa.array(marked), pa.scalar(name + comma, TEXT), nothing) for name, marked in columns.items()]
    return pc.utf8_slice_codeunits(joined(names, TEXT), 0, -len(comma))


def unrepresentable(columns: Iterable[model.Column], image: Mapping[str, pa.Array]) -> dict[str, np.ndarray]:
    """Return of each column that may have values which the table cannot hold, in which rows it has one."""
    there = (c for c in columns if may_be_unrepresentable(c.data_type))
    return {c.name: valid(image[c.name]) & ~valid(table_value(image[c.name], c.data_type)) for c in there}


def columns_in(rows: pa.StructArray) -> dict[str, pa.Array]:
    """Return the columns of rows, null where there is no row."""
    return dict(zip((f.name for f in rows.type), rows.flatten(), strict=True))


def key_image(rows: pa.RecordBatch) -> pa.StructArray:
    """Return the row of each change that tells which one is meant."""
    return pc.if_else(pc.equal(rows.column("op"), str(Op.DELETE)), rows.column("old"), rows.column("data"))


def count(changes: Sequence[TableChanges]) -> Checked:
    """Count the row changes of a table that have been checked."""
    if not changes:
        return Checked({})
    fits = F.col("reason").isNull().alias("fits")
    rows = in_one_pass([narrowed(c, "verdict", "reason", "corrupted", "commit_ts") for c in changes])
    return counted_in(rows.select("verdict", fits, "corrupted", "commit_ts"))


def counted_in(rows: DataFrame) -> Checked:
    """Count rows that have what `tallies` read."""
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


def refused_rows(changes: Sequence[TableChanges]) -> DataFrame:
    """Return the messages of row changes, which have been checked, that are not applied.

    Out: the columns of `RECORD`, `reason`, `detail`, `verdict`, and `table`, the table's name.
    """
    names = (*RECORD.fieldNames(), "reason", "detail", "verdict")
    return in_one_pass([_with_name(narrowed(chosen(c, _has_reason), *names)) for c in changes])


def _has_reason(rows: pa.RecordBatch) -> pa.Array:
    return rows.column("reason").is_valid()


def _with_name(changes: TableChanges) -> TableChanges:
    return then_with(changes, partial(_named, changes.schema.name), T.StructField("table", T.StringType()))


def _named(name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("table", pa.repeat(name, rows.num_rows))


def refuse_mismatches(refused: DataFrame) -> None:
    """Raise CorruptedData if some of the rows of `refused_rows` do not fit their checksums."""
    difference = F.when(F.col("reason") == Reason.CHECKSUM_MISMATCH, F.concat(F.lit(": "), F.col("detail")))
    first = F.struct("offset", "topic", "partition", "table", F.coalesce(difference, F.lit("")).alias("difference"))
    wrong = refused.where(F.col("verdict") == Verdict.MISMATCH)
    (row,) = wrong.agg(F.count("*").alias("n"), F.min(first).alias("first")).collect()
    if row["n"]:
        first_row = row["first"]
        raise CorruptedData(
            f"{misfits(row['n'])}; the first is of {first_row['table']}{first_row['difference']}",
            where=" ".join(f"{name} {first_row[name]}" for name in _PLACE if first_row[name] is not None),
            hint="verify shows them, --on-mismatch dead-letter sets them aside",
        )
