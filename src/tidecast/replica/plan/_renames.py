"""Tables that the source renames: the table follows, and what comes under its old name goes to it.

One statement may rename several tables, which then pass names on in its order. A rename is refused if nothing shows
whether another table had one of its names before or after it.

After a rename that was not carried out its names mean other tables at the source. No table takes their rows: each keeps
to the span of time in which its name meant the table that its first row was of, and remembers when that began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from pyspark.sql import functions as F

from tidecast._errors import ConfigError, TableRefused
from tidecast.model import RECORD, Ddl, Events, Op, Reason, TableChanges, TableSchema, read_statement
from tidecast.replica.tables import Name, Routes
from tidecast.sources import narrowed
from tidecast.spark import union

_LAST = (1 << 63) - 1
"""The highest commit-ts; a row without one comes behind it."""
SINCE = "tidecast.since"
"""From which commit-ts on a table's name means it, where that is not from the beginning."""


@dataclass(frozen=True)
class Rename:
    """A table's old and new name, in the target and (`was`, `becomes`) at the source, and since when.

    `objection` is why it cannot be carried out, as far as its statement tells.
    """

    commit_ts: int
    sql: str
    old: Name
    new: Name
    was: str
    becomes: str
    objection: str | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Return what identifies it."""
        return self.commit_ts, self.sql

    @property
    def mark(self) -> str:
        """Return the table's note on it: a statement may rename a table twice."""
        return f"{self.commit_ts} {quote('.'.join(self.new))}"

    @classmethod
    def of(cls, change: Ddl, routes: Routes) -> Rename | None:
        """Return what a schema change, as the source names its table, renames; None where it renames none."""
        statement, becomes = change.statement, (change.database, change.table)
        was = statement.renamed_from(becomes[0]) if statement else None
        if statement is None or was is None or statement.subject != "TABLE":
            return None
        told = all((*was, *becomes)) and (statement.name[0] or routes.name(*becomes) == becomes)
        objection = None if told else "its statement does not tell the table's database"
        if change.before and (change.before.database, change.before.table) != was:  # such as in upper case
            objection = f"its statement calls the table otherwise than {change.before.name}"
        return cls(
            change.commit_ts,
            change.sql,
            routes.name(*was),
            routes.name(*becomes),
            ".".join(was),
            ".".join(becomes),
            objection,
        )

    @classmethod
    def journaled(cls, commit_ts: int, sql: str, new: Name, routes: Routes) -> Rename | None:
        """Return one that was carried out; `new` is its new name in the target."""
        statement = read_statement(sql)
        if statement is None or statement.renamed is None:
            return None
        was = statement.name[0] or new[0], statement.name[1]
        told = ".".join(was) if statement.name[0] else ""
        return cls(commit_ts, sql, routes.name(*was), new, told, ".".join(new))


@dataclass
class Renames:
    """The renames of a batch to carry out, those carried out before, and those that were not: `left`.

    `refused` has causes by commit-ts and SQL. `since` is when the span began that a table keeps to, by its name.
    """

    of_batch: Sequence[Rename] = ()
    before: Sequence[Rename] = ()
    refused: dict[tuple[int, str], str] = field(default_factory=dict)
    left: Sequence[Rename] = ()
    since: dict[Name, int] = field(default_factory=dict)
    _done: list[Rename] = field(default_factory=list)

    def pending(self) -> list[Rename]:
        """Return the renames of the batch that are still to be carried out, in their order."""
        done = {one.key for one in self.before}
        fresh = dict.fromkeys(one for one in self.of_batch if one.key not in done and one.old != one.new)
        return sorted(fresh, key=lambda one: one.commit_ts)

    def is_apart(self, rename: Rename) -> bool:
        """Tell whether a rename that was not carried out has the new name of this one."""
        return any(rename.new in (one.old, one.new) for one in self._left)

    @property
    def done(self) -> Sequence[Rename]:
        """The renames that tables have followed with this batch."""
        return self._done

    def follow_up(self, rename: Rename) -> None:
        """Take note that tables have followed a rename."""
        self._done.append(rename)

    def refuse(self, rename: Rename, cause: str) -> None:
        """Take note that a rename is not carried out."""
        self.refused[rename.key] = cause
        self.left = [*self.left, rename]

    def check_sources(self, sources: Callable[[Name], set[str]]) -> None:
        """Raise ConfigError where another table comes to the name that a renamed one had in the target.

        One that is called so in the target afterwards, too, is still one of those that become it.
        """
        for one in (known for known in self._known if known.old != known.new):
            others = {name for name in sources(one.old) if name.lower() != one.was.lower()}
            if one.was and others:
                cause = f"{min(others)} comes to the same table as {one.was}, which was renamed"
                raise ConfigError(cause, where=".".join(one.old), hint="give it another target, or another place")

    def check(
        self,
        rename: Rename,
        events: Events,
        sources: Callable[[Name], set[str]],
        removals: Iterable[tuple[int, Name]],
    ) -> None:
        """Raise TableRefused where anything else has the new name, or has had it after the last rename away from it.

        `sources` tells which tables of the source come to a name, `removals` when one was truncated or dropped.
        """
        if rename.objection:
            raise TableRefused(rename.objection)
        if any(len(sources(name)) > 1 for name in (rename.old, rename.new)):
            raise TableRefused("several tables become this one")
        at, new = rename.commit_ts, rename.new
        carried = [one for one in self._known if one.old != one.new]
        # Of one commit-ts those came first in the statement that are carried out.
        free = max((one.commit_ts for one in carried if one.old == new and one.commit_ts <= at), default=-1)
        if any(one.new == new and one.commit_ts > free for one in carried):
            raise TableRefused("another table got the new name")
        if any(one.new == rename.old and one.commit_ts > at for one in carried):
            raise TableRefused("another table has the old name since")
        if any(one.old in (rename.old, new) and one.commit_ts > at for one in carried):
            raise TableRefused("a later rename of the table came before it")
        said = [(c.commit_ts, (c.database, c.table)) for c in events.ddl if (c.commit_ts, c.sql) != rename.key]
        if any(name == new and free < ts < at for ts, name in [*said, *removals]):
            raise TableRefused("another table had the new name before")
        for changes in events.tables:
            if (changes.schema.database, changes.schema.table) == new:
                ts = F.col("commit_ts")
                if not narrowed(changes, "commit_ts").frame.where((ts > F.lit(free)) & (ts < F.lit(at))).isEmpty():
                    raise TableRefused("rows of another table that had the new name before are among the messages")

    def keep_apart(self, events: Events, there: Callable[[Name], int | None]) -> None:
        """Settle which table each name of a rename that was not carried out means to the target.

        `there` tells since when the name of a table that is there means it, and None where there is no table: it will
        be the one of the first row, or statement, of these events. A statement may spell a name in other letters.
        """
        spelled = {_folded(name): name for name in _names(events)}
        self.left = [replace(one, old=spelled.get(_folded(one.old), one.old)) for one in self.left]
        for name in {name for one in self._left for name in (one.old, one.new)}:
            began = there(name)
            if began is None:
                moved = max((one.commit_ts for one in self._known if one.old == name != one.new), default=0)
                first = min((at for at in self._told_of(name, events) if at >= moved), default=0)
                began = self._start(name, first)
            self.since[name] = began

    def _told_of(self, name: Name, events: Events) -> Iterator[int]:
        """Yield the commit-ts of what has a name: of statements, of schemas, and of the first rows."""
        yield from (c.commit_ts for c in events.ddl if (c.database, c.table) == name)
        yield from (b.schema.version for b in events.bootstraps if (b.schema.database, b.schema.table) == name)
        for changes in events.tables:
            if (changes.schema.database, changes.schema.table) == name:
                (found,) = narrowed(changes, "commit_ts").frame.agg(F.min("commit_ts")).collect()
                yield from (at for at in found if at is not None)

    @property
    def _left(self) -> list[Rename]:
        done = {one.key for one in self._known}
        return [one for one in dict.fromkeys(self.left) if one.key not in done and one.old != one.new]

    def _start(self, name: Name, commit_ts: int) -> int:
        """Return when the span of a commit-ts began in which a name meant one table, 0 for the first."""
        starts = (one.commit_ts for one in self._left if name in (one.old, one.new))
        return max((at for at in starts if at <= commit_ts), default=0)

    def is_left(self, change: Ddl) -> bool:
        """Tell whether a schema change is a rename that was not carried out."""
        return (change.commit_ts, change.sql) in {one.key for one in self._left}

    def carried_out(self, rename: Rename) -> bool:
        """Tell whether a rename was carried out."""
        return rename.key in {one.key for one in self._known}

    @property
    def _known(self) -> list[Rename]:
        return sorted(dict.fromkeys([*self.before, *self._done]), key=lambda one: one.commit_ts)

    @property
    def free(self) -> Mapping[Name, int]:
        """The names that tables had and no table was renamed to since, and until when."""
        free = dict[Name, int]()
        for one in self._known:
            if one.old != one.new:
                free[one.old] = one.commit_ts
                free.pop(one.new, None)
        return free

    def now(self, name: Name, commit_ts: int) -> Name | None:
        """Return what a table is called now that had a name before a commit-ts; None where another took its name."""
        then = name
        for one in self._known:
            if one.commit_ts <= commit_ts or one.old == one.new:
                continue
            if one.old == name:
                name = one.new
            elif one.new == name:
                return None
        since = self.since.get(name) if name == then else None
        is_another = since is not None and self._start(name, commit_ts) != self._start(name, since)
        return None if is_another else name

    def now_of(self, change: Ddl) -> Name | None:
        """Return what the table of a schema change is called now, see `now`."""
        return self.now((change.database, change.table), change.commit_ts)

    def former(self, name: Name) -> list[Name]:
        """Return the names that a table had."""
        return [one.old for one in self._known if self.now(one.old, one.commit_ts - 1) == name != one.old]

    def follow(self, events: Events) -> Events:
        """Return events under the names that their tables have now.

        Rows of a table whose name another one took are rejected, as nothing tells where they belong.
        """
        if not self._known and not self.since:
            return events
        parts = [part for changes in events.tables for part in self._parts(changes)]
        tables = tuple(_called(changes, name) for name, changes in parts if name)
        lost = [
            narrowed(changes, *RECORD.fieldNames()).frame.select(
                "*",
                F.lit(str(Reason.TABLE_REFUSED)).alias("reason"),
                F.lit(f"{changes.schema.name}: {self._why_apart(changes)}").alias("detail"),
            )
            for name, changes in parts
            if name is None
        ]
        ddl = tuple(self._ddl(change, name) for change in events.ddl if (name := self.now_of(change)))
        shown = ((one, (one.schema.database, one.schema.table)) for one in events.bootstraps)
        bootstraps = tuple(
            replace(one, schema=replace(one.schema, database=now[0], table=now[1]))
            for one, name in shown
            if (now := self.now(name, one.schema.version))
        )
        rejected = union([events.rejected, *lost]) if lost else events.rejected
        return replace(events, tables=tables, ddl=ddl, bootstraps=bootstraps, rejected=rejected)

    def _why_apart(self, changes: TableChanges) -> str:
        if (changes.schema.database, changes.schema.table) in self.since:
            return "this name meant another table then, as a RENAME TABLE was not carried out"
        return "another table was renamed to this name since"

    def _ddl(self, change: Ddl, now: Name) -> Ddl:
        # A rename has the new name; another action in the same statement is refused.
        if change.schema:
            return replace(change, schema=replace(change.schema, database=now[0], table=now[1]))
        return replace(change, named=now) if change.table else change

    def _parts(self, changes: TableChanges) -> list[tuple[Name | None, TableChanges]]:
        name = changes.schema.database, changes.schema.table
        both = [*self._known, *self._left]
        ends = sorted({one.commit_ts for one in both if name in (one.old, one.new) and one.old != one.new})
        if not ends:
            return [(name, changes)]
        at, upsert = F.col("commit_ts"), F.col("op") != F.lit(Op.DELETE)
        spans = list(zip([-1, *ends], [*(end - 1 for end in ends), _LAST], strict=True))
        tests = [F.coalesce(at.between(F.lit(first), F.lit(last)), F.lit(last == _LAST)) for first, last in spans]
        counts = [F.count_if(test).alias(f"{n} all") for n, test in enumerate(tests)]
        counts += [F.min(F.when(test & upsert, at)).alias(f"{n} upserts") for n, test in enumerate(tests)]
        counts += [F.min(F.when(test, at)).alias(f"{n} from") for n, test in enumerate(tests)]
        (found,) = narrowed(changes, "op", "commit_ts").frame.agg(*counts).collect()
        return [
            (
                self.now(name, first),
                replace(
                    changes.within(first, last, untimed=last == _LAST),
                    rows=found[f"{n} all"],
                    rows_from=found[f"{n} from"],
                    upserts_from=found[f"{n} upserts"],
                ),
            )
            for n, (first, last) in enumerate(spans)
            if found[f"{n} all"]
        ]


def _folded(name: Name) -> Name:
    return name[0].lower(), name[1].lower()


def _names(events: Events) -> Iterator[Name]:
    yield from ((changes.schema.database, changes.schema.table) for changes in events.tables)
    yield from ((one.schema.database, one.schema.table) for one in events.bootstraps)
    yield from ((change.database, change.table) for change in events.ddl)


def _called(changes: TableChanges, name: Name) -> TableChanges:
    schema: TableSchema = replace(changes.schema, database=name[0], table=name[1])
    return replace(changes, schema=schema)


def renames(changes: Iterable[Ddl], routes: Routes) -> list[Rename]:
    """Return the renames among schema changes, as the source names tables."""
    found = (Rename.of(change, routes) for change in changes)
    return [one for one in found if one is not None]


def renamed_before(told: Iterable[tuple[int, str, Name]], routes: Routes) -> list[Rename]:
    """Return the renames that the journal tells, in its order, each with its commit-ts, its SQL and the new name."""
    found = (Rename.journaled(commit_ts, sql, name, routes) for commit_ts, sql, name in told)
    return [one for one in found if one is not None]
