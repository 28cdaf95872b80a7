"""The row count and hash that each table must have, computed from the batches of a checkpoint.

The hash is the sum of a hash of each row. It is never read back from a table, so that `prove` finds a row which
somebody else changes. A file for each table in the checkpoint keeps both. The file is written before rows are, with the
numbers that will hold afterwards, and again when they do. After a crash between, the table's history shows whether the
rows were written.

A hash passes over null, so that a column which is added takes no work. If columns are renamed or dropped, the hash of
each row changes: the table is read once, and both hashes are computed. If columns are widened or filled, it is read
again afterwards. The hash before may differ from the one that it should be. That difference is carried over, so that no
change of the shape hides it. If a run is killed at that work, the next one finds the difference in the file, and reads
the table once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import TerminalError
from tidecast.replica._report import TableReport
from tidecast.replica.plan import Plan
from tidecast.replica.targets import TargetTable
from tidecast.spark import evaluated_once, sql_column
from tidecast.storage import AnyPath, StateFile

_LOST = "it was not there, although the batches before had made it: it has the rows since then alone"
_HIGH, _LOW, _ROWS = "sum of high halves", "sum of low halves", "rows more"
_HASH = "_tidecast hash"
_BITS = 64


@dataclass(frozen=True)
class RowSum:
    """A number of rows and the sum of their hashes, modulo 2^64 with a sign; equal rows count as often as they are."""

    rows: int = 0
    hash: int = 0

    @classmethod
    def of(cls, row: Row | Mapping[str, Any]) -> RowSum:
        """Return the sum in a row that has the aggregates of `row_sum`, null for nothing."""
        return cls(row[_ROWS] or 0, _wrapped(((row[_HIGH] or 0) << 32) + (row[_LOW] or 0)))

    def __add__(self, other: RowSum) -> RowSum:
        """Return that of the rows of both."""
        return RowSum(self.rows + other.rows, _wrapped(self.hash + other.hash))

    def __sub__(self, other: RowSum) -> RowSum:
        """Return what is left when the other's rows are gone."""
        return RowSum(self.rows - other.rows, _wrapped(self.hash - other.hash))


def _wrapped(number: int) -> int:
    half = 1 << (_BITS - 1)
    return (number + half) % (2 * half) - half


def row_hash(values: Mapping[str, str]) -> str:
    """Return the hash of a row, whose columns have these values; as SQL, which Spark takes in one call.

    Spark's hash passes over null, so that each value goes with a number for its column. The order of the columns and
    the case of their names have no say.
    """
    by_name = sorted((name.lower(), value) for name, value in values.items())
    return f"xxhash64({', '.join(f'nvl2({value}, {_number(name)}L, NULL), {value}' for name, value in by_name)})"


def column_hash(columns: Mapping[str, T.DataType]) -> int:
    """Return a number for the names and types of a table's columns, in whatever order."""
    return _number(json.dumps(sorted((name.lower(), kind.simpleString()) for name, kind in columns.items())))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def row_sum(rows: str, gained: str, lost: str = "CAST(NULL AS BIGINT)") -> list[Column]:
    """Return the aggregates of which `RowSum.of` makes a sum: of hashes that come and hashes that go, null for none.

    `rows` is the aggregate of the number of rows that become more. All are SQL. Halves of hashes, both with a sign, as
    sums of whole ones would leave the range of a bigint, which is an error under ANSI rules.
    """
    halves = {_HIGH: "shiftright({0}, 32)", _LOW: "shiftright(shiftleft({0}, 32), 32)"}
    sums = [
        F.expr(f"sum(coalesce({half.format(gained)}, 0) - coalesce({half.format(lost)}, 0))").alias(name)
        for name, half in halves.items()
    ]
    return [F.expr(rows).alias(_ROWS), *sums]


def measured(frame: DataFrame) -> RowSum:
    """Return the row count and hash of a frame."""
    return _measured(frame, [{name: name for name in frame.columns}])[0]


def _measured(frame: DataFrame, called: Sequence[Mapping[str, str]]) -> list[RowSum]:
    """Return them under several names of the columns, of which some may be left out, in one pass."""
    hashes = [F.expr(row_hash({now: sql_column(was) for was, now in names.items()})) for names in called]
    rows = frame.select(*(evaluated_once(one).alias(f"{_HASH} {n}") for n, one in enumerate(hashes)))
    sums = (F.struct(*row_sum("count(1)", f"`{_HASH} {n}`")).alias(str(n)) for n in range(len(hashes)))
    return [RowSum.of(found) for found in rows.agg(*sums).collect()[0]]


@dataclass(frozen=True)
class _State:
    """The file of a table.

    `settled` is what its rows come to, since a version or before the first one. `pending` is what they will come to
    with the next write after `version` of the table, which was `made` so. `carried` is what they lack while the columns
    are changed; then `settled` does not hold.
    """

    version: int | None
    settled: RowSum
    pending: RowSum | None = None
    carried: RowSum | None = None
    made: str | None = None

    def is_of_another(self, place: TargetTable) -> bool:
        """Tell whether the table was re-created since."""
        return self.carried is None and self.version is not None and place.made_anew_since(self.version, self.made)


_STATE = TypeAdapter(_State)


@dataclass
class Proofs:
    """The proofs of one checkpoint's tables, in a folder of it."""

    folder: AnyPath
    _files: dict[str, StateFile] = field(default_factory=dict)

    def of(self, plan: Plan) -> Proof:
        """Return that of a plan's table."""
        proof = Proof(self._file(*plan.name), plan)
        proof.resume()
        return proof

    def follows(self, database: str, table: str, place: TargetTable) -> bool:
        """Tell whether the table that is there was made by these batches."""
        state = _read(self._file(database, table))
        return state is not None and not state.is_of_another(place)

    def move(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Let a table that has a new name keep its proof."""
        source = self._file(*old)
        if state := source.read():
            self._file(*new).write(state)
            source.write(b"")

    def _file(self, database: str, table: str) -> StateFile:
        name = hashlib.blake2b(json.dumps([database, table]).encode(), digest_size=16).hexdigest()
        return self._files.setdefault(name, StateFile(self.folder / f"{name}.json"))


@dataclass
class Proof:
    """The proof of one table: `now`, None if the table existed before the checkpoint.

    One that is not there, though no statement dropped it, counts as if it had its rows still: it is `lost`.
    """

    file: StateFile
    plan: Plan
    now: RowSum | None = None
    lost: bool = False
    _version: int | None = None
    _wrote: bool = False

    @property
    def _place(self) -> TargetTable:
        return self.plan.place

    def resume(self) -> None:
        """Find the table's row count and hash, also after a crash."""
        state = _read(self.file)
        if self.plan.is_new:
            gone = self.plan.present is None and not self.plan.truncated.replaces
            self.now = state.settled if state and gone else RowSum()
            self.lost = bool(self.now.rows)
            return
        if state is None:
            return
        if state.carried is not None:
            self.now = state.carried + measured(self._place.read())
            self._write(_State(self._place.version(), self.now))
            return
        version = self._version = self._place.version()
        if state.is_of_another(self._place):
            return
        self.now = state.settled
        if state.pending is not None:
            if state.version is None or self._place.written_since(state.version):
                self.now = state.pending
            self._write(_State(version, self.now))

    @contextmanager
    def writing(self, change: RowSum, *, creates: bool = False) -> Iterator[None]:
        """Within this block, rows are written that change the sum so, in one commit; which may be the table's first."""
        if self.now is None:
            yield
            return
        evolution = self.plan.evolution
        if creates:
            self._version = None
        elif self._version is None or self.plan.notes or evolution.moves or evolution.changes:
            self._version = self._place.version()
        state = _State(self._version, self.now, self.now + change)
        self._write(state)
        yield
        self._version = None
        self.now += change
        self._write(replace(state, settled=self.now, pending=None))

    @contextmanager
    def reshaping(self, *, alters_rows: bool, called: Mapping[str, str] | None) -> Iterator[None]:
        """Within this block the table gets other columns, which may alter the hashes of its rows.

        `called` are the names that its columns will have, None where their values change, too.
        """
        if self.now is None or not alters_rows:
            yield
            return
        rows = self._place.read()
        before, *after = _measured(rows, [{name: name for name in rows.columns}, *([called] if called else [])])
        carried = self.now - before
        self._write(_State(self._place.version(), self.now, carried=carried))
        yield
        self.now = carried + (after[0] if after else measured(self._place.read()))
        self._write(_State(self._place.version(), self.now))

    def told(self, report: TableReport) -> TableReport:
        """Return a report with the table's row count and hashes, 0 for a table that was dropped.

        An earlier attempt at the batch may have dropped it: then nothing is left to do but to say so.
        """
        truncated = self.plan.truncated
        gone = self.plan.present is None and truncated.dropped and not self.lost
        if (truncated.replaces or gone) and not self._wrote:
            self.file.write(b"")
            return replace(report, row_count=0, row_hash=0)
        if self.now is None or not (self.plan.present or self._wrote):
            return report
        if self.lost:
            report = replace(report, warnings=(*report.warnings, _LOST))
        columns = {**self.plan.evolution.shape.columns, **self.plan.contents.columns}
        return replace(report, row_count=self.now.rows, row_hash=self.now.hash, column_hash=column_hash(columns))

    def _write(self, state: _State) -> None:
        if state.version is not None:
            state = replace(state, made=self._place.made())
        self.file.write(json.dumps(asdict(state)).encode())
        self._wrote = True


def _read(file: StateFile) -> _State | None:
    state = file.read()
    try:
        return _STATE.validate_json(state) if state else None
    except ValidationError:
        hint = "remove it, and the table is not proven any more, or bring back a copy of the checkpoint"
        raise TerminalError("this is no state of a table's proof", where=str(file.path), hint=hint) from None
