"""Compare two places: one table, several, or those that a topic makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from tidecast._counted import counted
from tidecast._errors import ConfigError, TableRefused, TidecastError
from tidecast._progress import Progress, no_progress
from tidecast._uri import redact_uri
from tidecast.replica.check._compare import ComparedTable, TableRows, compare_rows
from tidecast.replica.check._places import damage, tables_in
from tidecast.replica.check._topic_rows import TopicTables
from tidecast.replica.plan import waiting_since
from tidecast.replica.tables import ROWS_ALONE, Contents, Name
from tidecast.replica.targets import CONTENTS, TableState, Target, TargetTable
from tidecast.sources import Database, database_errors
from tidecast.topics import kafka_errors


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: each table, and warnings, which are no differences."""

    tables: tuple[ComparedTable, ...]
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether all tables are the same on both sides."""
        return all(table.ok for table in self.tables)


class Side(Protocol):
    """One of two places that are compared."""

    @property
    def single(self) -> bool:
        """Tell whether it is one table, whatever its name."""
        return False

    def names(self) -> Iterable[Name]:
        """Return the tables that are there."""
        ...

    def unread(self) -> int:
        """Return how many messages cannot be read, whose rows are in none of the tables."""
        return 0

    def contents(self, name: Name) -> Contents | None:
        """Return what a table holds beside the source's columns, None where it has no form of its own."""
        return None

    def rows(self, name: Name, contents: Contents) -> AbstractContextManager[tuple[TableRows | None, int]]:
        """Give a table's rows, None where it has none, and the number of changes that did not get into it."""
        ...


@dataclass(frozen=True)
class OneTable(Side):
    """A table by itself."""

    name: Name
    place: TargetTable
    single: bool = True

    def names(self) -> Iterable[Name]:
        """Return its name."""
        return [self.name]

    def contents(self, name: Name) -> Contents | None:
        """Return what it was made with."""
        return _contents_of(self.place.seen())

    @contextmanager
    def rows(self, name: Name, contents: Contents) -> Iterator[tuple[TableRows | None, int]]:
        """Give its rows; those of a log have no key."""
        state = self.place.seen()
        contents = _contents_of(state)
        yield TableRows(self.place.read_now(), () if contents.is_log else contents.row_key(state.shape.key or ())), 0


@dataclass(frozen=True)
class AllTables(Side):
    """The tables in a folder or a catalog."""

    spark: SparkSession
    target: Target

    def names(self) -> Iterable[Name]:
        """Return the tables that lie there."""
        return tables_in(self.spark, self.target)

    def _table(self, name: Name) -> OneTable:
        return OneTable(name, self.target.table(self.spark, *name, make_database=False))

    def waits(self, name: Name) -> bool:
        """Tell whether no row has come to a table yet."""
        place = self._table(name).place
        return waiting_since(place, place.seen()) is not None

    def contents(self, name: Name) -> Contents | None:
        """Return what a table was made with."""
        return self._table(name).contents(name)

    def rows(self, name: Name, contents: Contents) -> AbstractContextManager[tuple[TableRows | None, int]]:
        """Give a table's rows."""
        return self._table(name).rows(name, contents)


@dataclass(frozen=True)
class Topic(Side):
    """A topic, and the tables that it makes, with the contents of those on the other side."""

    uri: str
    tables: TopicTables

    def names(self) -> Iterable[Name]:
        """Return the tables that have row changes."""
        return self.tables.names()

    def unread(self) -> int:
        """Return how many messages cannot be read."""
        with kafka_errors(redact_uri(self.uri)):
            return self.tables.unread()

    @contextmanager
    def rows(self, name: Name, contents: Contents) -> Iterator[tuple[TableRows | None, int]]:
        """Give the rows of a table."""
        with kafka_errors(redact_uri(self.uri)), self.tables.rows(name, contents) as found:
            yield found


@dataclass(frozen=True)
class Rows(Side):
    """A database of MySQL or TiDB, whose tables are as `replicate` would make them of its rows."""

    database: Database
    tables: TopicTables

    def names(self) -> Iterable[Name]:
        """Return its tables."""
        return self.tables.names()

    @contextmanager
    def rows(self, name: Name, contents: Contents) -> Iterator[tuple[TableRows | None, int]]:
        """Give a table's rows. Raises TableRefused where the other side has what a database does not know."""
        if contents.is_history or contents.is_log:
            cause = f"a database has no --mode {contents.mode}"
            raise TableRefused(cause, hint="compare with the topic, or with a table of the rows alone")
        with database_errors(self.database), self.tables.rows(name, ROWS_ALONE) as found:
            yield found


def _contents_of(state: TableState) -> Contents:
    return Contents.from_text(state.notes.get(CONTENTS, ""))


def compare(
    a: Side, b: Side, *, key: Sequence[str] = (), limit: int = 20, progress: Progress = no_progress
) -> Compared:
    """Compare the tables of two sides by their names; where one side is a single table, with that of its name or kind.

    `key` are the columns by which rows belong together, for one table alone; see `compare_rows`.

    Raises ConfigError for a `key` with several tables, or with a column that a table has not.
    """
    pairs = _pairs(a, b)
    if key and len(pairs) != 1:
        raise ConfigError(f"--key is for one table, and there are {len(pairs)}", hint="name two tables")
    tables, warnings = list[ComparedTable](), list[str]()
    for done, (label, name_a, name_b) in enumerate(pairs, 1):
        if name_a is None or name_b is None:
            if any(name and _is_nothing(side, name, other) for side, name, other in ((a, name_a, b), (b, name_b, a))):
                continue
            alone, other = ("B", "A") if name_a is None else ("A", "B")
            tables.append(ComparedTable(label, remarks=(f"it is in {alone}, and not in {other}",)))
        else:
            compared, left_out = _compared(label, (a, name_a), (b, name_b), key, limit)
            tables.append(compared)
            warnings += [f"{label}: {n:,} row changes of the topic cannot be applied" for n in left_out if n]
        progress(label, done, len(pairs))
    for label, side in (("A", a), ("B", b)):
        if unread := side.unread():
            cannot = "of the topic cannot be read, and"
            said = counted(unread, f"message {cannot} is", f"messages {cannot} are")
            warnings.append(f"{label}: {said} compared with nothing")
    return Compared(tuple(tables), tuple(warnings))


def _is_nothing(side: Side, name: Name, other: Side) -> bool:
    """Tell whether a table that the other side lacks is none here either.

    That is a topic's table that was dropped at last, or one that waits for the first row of a topic.
    """
    try:
        if isinstance(other, Topic) and isinstance(side, AllTables):
            return side.waits(name)
        with side.rows(name, ROWS_ALONE) as (rows, left_out):
            return rows is None and not left_out
    except TableRefused:
        return False
    except TidecastError:
        raise
    except Exception:  # see `prove`; what cannot be read is there
        return False


def _pairs(a: Side, b: Side) -> list[tuple[str, Name | None, Name | None]]:
    """Return which tables belong together, and what they are called, None for one that a side lacks."""
    in_a, in_b = sorted(a.names()), sorted(b.names())
    one_each = len(in_a) == len(in_b) == 1
    if one_each and (a.single or b.single):
        label = " / ".join(dict.fromkeys(".".join(found[0]) for found in (in_a, in_b)))
        return [(label, in_a[0], in_b[0])]
    names = in_a if a.single else in_b if b.single else sorted({*in_a, *in_b})
    return [(".".join(n), n if n in in_a else None, n if n in in_b else None) for n in names]


def _compared(
    label: str, a: tuple[Side, Name], b: tuple[Side, Name], key: Sequence[str], limit: int
) -> tuple[ComparedTable, list[int]]:
    """Compare two tables; return besides how many changes of topics did not get into them."""
    try:
        told = [side.contents(name) for side, name in (a, b)]
        contents = next((one for one in told if one is not None), ROWS_ALONE)
        with ExitStack() as stack:
            found = [stack.enter_context(side.rows(name, contents)) for side, name in (a, b)]
            left_out = [n for _, n in found]
            (rows_a, _), (rows_b, _) = found
            if rows_a is None or rows_b is None:
                if not any(left_out) and all(rows is None or rows.rows.isEmpty() for rows in (rows_a, rows_b)):
                    return ComparedTable(label, 0, 0), left_out  # the table was dropped, and has no row since
                side = "A" if rows_a is None else "B"
                return ComparedTable(label, remarks=(f"no row change of {side} can be applied",)), left_out
            return compare_rows(label, rows_a, rows_b, key=key, limit=limit), left_out
    except TableRefused as error:
        return ComparedTable(label, remarks=(str(error),)), []
    except TidecastError:
        raise
    except Exception as error:  # see `prove`
        return ComparedTable(label, remarks=(f"cannot be read: {damage(error)}",)), []
