"""Events as tables take them: each row verified while it is as it was sent, then in columns that tables shall have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidecast._policy import OnUnrepresentable
from tidecast.checksum import with_verdict
from tidecast.model import Ddl, Events, TableChanges, TableSchema
from tidecast.replica._columns import as_text
from tidecast.replica._ddl import Name
from tidecast.replica._mask import Masks


@dataclass(frozen=True)
class Prepared:
    """Events whose changes have the column `verification` (see `with_verdict`), and the columns of their tables.

    `masked` tells for each table which of its columns are masked, and how.
    """

    events: Events
    masked: Mapping[Name, Mapping[str, str]]


def prepared(events: Events, on_unrepresentable: OnUnrepresentable, masks: Masks) -> Prepared:
    """Return events for tables. Raises ConfigError for a mask that cannot be.

    What the model has as text anyway, such as dates, needs no other values to be text in a table.
    """
    texts, masked = on_unrepresentable is OnUnrepresentable.STRING, defaultdict[Name, dict[str, str]](dict)

    def schema(given: TableSchema) -> TableSchema:
        masked[given.database, given.table] |= masks.text_of(given)
        shown = masks.schema(given)
        if not texts:
            return shown
        return replace(shown, columns=tuple(replace(c, data_type=as_text(c.data_type)) for c in shown.columns))

    def changes(given: TableChanges) -> TableChanges:
        frame = masks.frame(given.schema, with_verdict(given))
        return replace(given, schema=schema(given.schema), frame=frame)

    def ddl(given: Ddl) -> Ddl:
        masks.check_renames(given)
        return replace(given, schema=schema(given.schema)) if given.schema else given

    tables, statements = tuple(map(changes, events.tables)), tuple(map(ddl, events.ddl))
    return Prepared(replace(events, tables=tables, ddl=statements), masked)
