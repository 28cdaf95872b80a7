"""Events as tables take them: each row verified while it is as it was sent, then in columns that tables shall have."""

from __future__ import annotations

from dataclasses import replace

from tidecast._policy import OnUnrepresentable
from tidecast.checksum import with_verdict
from tidecast.model import Ddl, Events, TableChanges, TableSchema
from tidecast.replica._columns import as_text


def prepared(events: Events, on_unrepresentable: OnUnrepresentable) -> Events:
    """Return events whose changes have the column `verification` (see `with_verdict`) and the columns of their tables.

    What the model has as text anyway, such as dates, needs no other values to be text in a table.
    """
    texts = on_unrepresentable is OnUnrepresentable.STRING

    def schema(given: TableSchema) -> TableSchema:
        if not texts:
            return given
        return replace(given, columns=tuple(replace(c, data_type=as_text(c.data_type)) for c in given.columns))

    def changes(given: TableChanges) -> TableChanges:
        return replace(given, schema=schema(given.schema), frame=with_verdict(given))

    def ddl(given: Ddl) -> Ddl:
        return replace(given, schema=schema(given.schema)) if given.schema else given

    return replace(events, tables=tuple(map(changes, events.tables)), ddl=tuple(map(ddl, events.ddl)))
