"""The notes on how a table was made, and the errors of a run with other options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from tidecast._errors import ConfigError, TableRefused
from tidecast._policy import DdlKind, DdlPolicy, OnDdl, OnUnrepresentable
from tidecast.model import TableSchema
from tidecast.replica.settle import Origin
from tidecast.replica.tables import Contents
from tidecast.replica.targets import CONTENTS

KEYSPACE, VERSIONS, TEXTS = "tidecast.keyspace", "tidecast.versions", "tidecast.unrepresentable"
SOURCES, SAFE = "tidecast.sources", ' ",[]'


def check_contents(
    name: str, contents: Contents, notes: Mapping[str, str] | None, versions: Sequence[TableSchema]
) -> None:
    """Raise ConfigError where a table, which remembers `notes`, holds something else, TableRefused where it cannot."""
    held = Contents.from_text(notes.get(CONTENTS, "")) if notes is not None else contents
    if held != contents:
        hint = "use the same, or replicate to another place"
        raise ConfigError(f"the table was made with {held.options}", where=name, hint=hint)
    for version in versions:
        if column := contents.clash([c.name for c in version.columns]):
            raise TableRefused(
                f"column {column} of the source has the name of a metadata column", hint="another --mode"
            )


def check_texts(name: str, notes: Mapping[str, str] | None, *, texts: bool) -> None:
    """Raise ConfigError where a table, which remembers `notes`, keeps dates and times in another form."""
    if notes is not None and (TEXTS in notes) is not texts:
        held = "with" if TEXTS in notes else "without"
        hint = "do the same, or replicate to another place"
        option = f"--on-unrepresentable {OnUnrepresentable.STRING}"
        raise ConfigError(f"the table was made {held} {option}", where=name, hint=hint)


def has_several_sources(notes: Mapping[str, str]) -> bool:
    """Tell whether several tables of the source become the one that remembers this."""
    return len(json.loads(unquote(notes.get(SOURCES, "[]")))) > 1


def sources_of(name: str, origin: Origin, notes: Mapping[str, str] | None, on_ddl: DdlPolicy) -> list[str]:
    """Return the tables that become this one, with those that a table remembers in `notes`.

    Raises ConfigError where one of several would drop or rename what another has still.
    """
    held = [] if notes is None else json.loads(unquote(notes.get(SOURCES, quote(json.dumps([name])))))
    sources = sorted({*held, *origin.sources})
    kind = next((k for k in (DdlKind.DROP_COLUMN, DdlKind.RENAME_COLUMN) if on_ddl.carries_out(k)), None)
    if len(sources) > 1 and kind:
        cause = f"{', '.join(sources)} become one table, from which --ddl {on_ddl.of(kind)} would drop columns of the "
        raise ConfigError(f"{cause}others", where=name, hint=f"--ddl {OnDdl.LENIENT}")
    return sources or [name]
