"""Events as a program gets them: what is in them, and each table's rows as one DataFrame."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields

from pyspark.sql import DataFrame

from tidecast import model
from tidecast._errors import ConfigError
from tidecast.api._table import table_frame
from tidecast.model import TableChanges

_SHOWN = 5


@dataclass(frozen=True)
class TableSummary:
    """The summary of one table's events.

    `versions` are its versions in the order of their first rows, `rows` the number of its row changes. `ops` are the
    operations that are known to be among them, `upsert` (an insert or an update) and `delete`: without reading the
    rows, deletes are only known where one comes first, or where they have a schema of their own, as in Avro.
    """

    database: str
    table: str
    versions: tuple[int, ...]
    rows: int
    ops: tuple[str, ...]

    @property
    def name(self) -> str:
        """`database.table`, as `Events.table` takes it."""
        return f"{self.database}.{self.table}"

    def __str__(self) -> str:
        versions = ", ".join(map(str, self.versions))
        return f"{self.name}: {self.rows:,} row changes ({', '.join(self.ops)}), versions {versions}"


@dataclass(frozen=True)
class Events(model.Events):
    """The events of a source or of a DataFrame: row changes by table version, schema changes, watermarks, dead letters.

    `changes()` lists the tables, `table(name)` gives the rows of one, `dead_letters()` what could not be read. Below
    them lie `tables` (see `TableChanges`), `ddl` and `bootstraps` (see `Ddl`, `Bootstrap`), `watermarks` (a DataFrame,
    None where the source has none) and `watermark` (the highest, a TSO), `rejected` (messages of no table version),
    `has_commit_ts` (whether every row has its commit-ts) and `history` (what was shown of schemas, for the next batch);
    the others tell other parts of tidecast how the rows may be ordered. Spark keeps the messages until `release()`, or
    until the end of a `with` block.
    """

    @classmethod
    def of(cls, events: model.Events) -> Events:
        """Return the same events as a program gets them."""
        return cls(**{field.name: getattr(events, field.name) for field in fields(events)})

    def changes(self) -> list[TableSummary]:
        """Return what there is of each table, in the order of its first row. Reads no rows, and starts no job."""
        return [_summary(*name, versions) for name, versions in self._by_table().items()]

    def table(self, name: str) -> DataFrame:
        """Return the row changes of a table, of all its versions, as one DataFrame. Starts no job.

        `name` is `database.table`, as `changes()` gives it. Out: the row's columns, and beside them

        - `_op` string: `c`, `u` or `d`;
        - `_commit_ts` bigint: TSO, null where the message does not tell it, as Avro's deletes do not;
        - `_verdict` string: what the row's checksum says (see `tidecast.checksum.Verdict`);
        - `_topic` string, `_partition` int, `_offset` bigint, `_timestamp` timestamp: the message that it came in.

        The row is the one after the change; of a delete it is the one before, of which Avro has the key alone. Its
        columns have the types of the model, which hold all that the messages hold: DATE, DATETIME and TIME are MySQL's
        text, TIMESTAMP is that text in UTC (`F.to_timestamp(F.concat("at", F.lit("Z")))`); `tidecast.replicate` turns
        them into dates and timestamps. A column that a version lacks is null in its rows; one whose type changed has
        the type that holds both. The order of the rows is that of `_commit_ts`, or of `_offset` within a partition.
        Rows that cannot be read are not among them, but among `dead_letters()`.

        Raises ConfigError for a table that has no row changes here, for one that two databases or keyspaces have under
        this name, for a column that no type holds in all versions, and for one with a name of those above.
        """
        found = {key: versions for key, versions in self._by_table().items() if ".".join(key) == name}
        if not found:
            raise ConfigError(f"there are no row changes of {name}", hint=self._near(name))
        versions = [changes for of_one in found.values() for changes in of_one]
        keyspaces = {changes.keyspace for changes in versions if changes.keyspace}
        if len(found) > 1 or len(keyspaces) > 1:
            raise ConfigError(
                f"{name} is the name of two tables: {' and '.join(sorted(keyspaces)) or ' and '.join(map(str, found))}",
                hint="take their versions one by one: events.tables",
            )
        return table_frame(versions)

    def _by_table(self) -> dict[tuple[str, str], list[TableChanges]]:
        tables: dict[tuple[str, str], list[TableChanges]] = {}
        for changes in self.tables:
            tables.setdefault((changes.schema.database, changes.schema.table), []).append(changes)
        return tables

    def _near(self, name: str) -> str:
        """Return what to do about an unknown name."""
        names = {".".join(key) for key in self._by_table()}
        near = difflib.get_close_matches(name, names, n=_SHOWN)
        if near:
            return f"did you mean {' or '.join(near)}?"
        if not names:
            return "there are none of any table; events.dead_letters() has the messages that could not be read"
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"there are {', '.join(sorted(names)[:_SHOWN])}{more}: events.changes() lists them"


def _summary(database: str, table: str, versions: list[TableChanges]) -> TableSummary:
    upserts = any(v.upserts_from is not None for v in versions)
    deletes = any(v.rows_from is not None and v.rows_from != v.upserts_from for v in versions)
    ops = [name for name, there in (("upsert", upserts), ("delete", deletes)) if there]
    numbers = dict.fromkeys(v.schema.version for v in versions)
    return TableSummary(database, table, tuple(numbers), sum(v.rows for v in versions), tuple(ops))
