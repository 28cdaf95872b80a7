"""Events as tables take them: each row is verified as it was sent, then gets the columns of its table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast._policy import OnUnrepresentable
from tidecast.model import Ddl, Events, TableChanges, TableSchema, row_type
from tidecast.replica.settle._identity import as_sent
from tidecast.replica.tables import Settings, as_text
from tidecast.sources import columns_of, then, verified

_IMAGES = ("old", "data")


@dataclass(frozen=True)
class Origin:
    """Where a table comes from: the names of its source tables, and its columns that are masked, and how.

    `seen` has each column of the source tables with its mask, None for one without.
    """

    sources: set[str] = field(default_factory=set)
    masked: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """Events whose changes have the column `verification` (see `verified`), and the names and columns of tables."""

    events: Events
    origins: Mapping[tuple[str, str], Origin]

    def sources(self, name: tuple[str, str]) -> set[str]:
        """Return the tables of the source that become a table."""
        return self.origins[name].sources if name in self.origins else set()

    def origin(self, name: tuple[str, str], former: Iterable[tuple[str, str]]) -> Origin:
        """Return where a table comes from; its rows may all have come under one of the names that it had."""
        if name in self.origins:
            return self.origins[name]
        masked, seen = dict[str, str](), dict[str, str | None]()
        for old in former:
            masked |= self.origins[old].masked if old in self.origins else {}
            seen |= self.origins[old].seen if old in self.origins else {}
        return Origin(set(), masked, seen)


def prepared(events: Events, on_unrepresentable: OnUnrepresentable, settings: Settings) -> Prepared:
    """Return events for tables. Raises ConfigError for a mask or a key that cannot be.

    The model has dates as text anyway, so that their values stay the same where a table keeps text.
    """
    texts, masks = on_unrepresentable is OnUnrepresentable.STRING, settings.masks
    origins = defaultdict[tuple[str, str], Origin](Origin)

    def schema(given: TableSchema) -> TableSchema:
        given = settings.keys.schema(given)
        shown = settings.routes.schema(masks.schema(given))
        origin = origins[shown.database, shown.table]
        origin.sources.add(given.name)
        origin.masked.update(asked := masks.text_of(given))
        for column in given.columns:
            if origin.seen.setdefault(column.name, asked.get(column.name)) != asked.get(column.name):
                hint = "give all tables that become this one the same mask"
                raise ConfigError(f"mask: column {column.name} is not masked alike", where=shown.name, hint=hint)
        if not texts:
            return shown
        return replace(shown, columns=tuple(replace(c, data_type=as_text(c.data_type)) for c in shown.columns))

    def changes(given: TableChanges) -> TableChanges:
        shown, found, mask = schema(given.schema), verified(given), masks.rows(given.schema)
        if mask or shown.name != given.schema.name:
            found = as_sent(found, given.schema)
        if mask:
            row = row_type(masks.schema(given.schema))
            columns = (T.StructField(f.name, row) if f.name in _IMAGES else f for f in columns_of(found).fields)
            found = then(found, partial(_masked, mask), T.StructType([*columns]))
        return replace(found, schema=shown)

    def ddl(given: Ddl) -> Ddl:
        masks.check_renames(given)
        if given.schema:
            return replace(given, schema=schema(given.schema))
        return replace(given, named=settings.routes.name(given.database, given.table)) if given.table else given

    tables, statements = tuple(map(changes, events.tables)), tuple(map(ddl, events.ddl))
    shown = tuple(replace(one, schema=schema(one.schema)) for one in events.bootstraps)
    return Prepared(replace(events, tables=tables, ddl=statements, bootstraps=shown), origins)


def _masked(mask: Callable[[pa.StructArray], pa.StructArray], rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in rows.schema.names}
    return pa.RecordBatch.from_pydict(columns | {side: mask(columns[side]) for side in _IMAGES})
