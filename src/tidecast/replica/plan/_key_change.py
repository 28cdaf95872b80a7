"""A table that gets another key: its rows come in two parts, those by the old key first, then those by the new one.

The change itself is metadata, between the two. Rows by the old key that come in a later batch cannot be placed any
more, and go to the dead letters; with `--resolved-only` there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import functions as F

from tidecast._policy import CARRY_OUT, DdlPolicy, OnDdl
from tidecast.model import TableChanges
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._shapes import OnNewKey
from tidecast.replica.tables import Contents, Shape
from tidecast.replica.targets import TargetTable, key_note
from tidecast.spark import sql_name

BY_FORMER_KEY = "of before the table got its key"
_NOTE = "tidecast.rekeyed"
"""Says with which batch, and from which version on, a table has its key."""

_FOLLOWING = (*CARRY_OUT, OnDdl.LENIENT)


def on_new_key(contents: Contents, sources: Sequence[str], on_ddl: DdlPolicy, batch: str | None) -> OnNewKey:
    """Return what another key means for a table.

    Without a checkpoint nothing tells whether rows by the old key were applied; versions of rows (`history`) and
    several sources keep the key that they have.
    """
    if contents.is_log:
        return OnNewKey.NO_KEY
    follows = batch is not None and on_ddl.default in _FOLLOWING and len(sources) < 2 and not contents.is_history
    return OnNewKey.FOLLOW if follows else OnNewKey.REFUSE


def notes_of(evolution: Evolution, batch: str | None) -> Mapping[str, str]:
    """Return the notes of a table that gets another key with a batch."""
    if evolution.rekeyed is None:
        return {}
    return {**key_note(evolution.shape.key), _NOTE: f"{batch}/{evolution.rekeyed}"}


def rekeyed_by(notes: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the batch with which a table got its key, and the version that gave it; None where it had it always."""
    batch, _, version = notes.get(_NOTE, "").rpartition("/")
    return (batch, int(version)) if batch else None


def is_before(change: TableChanges, version: int, key: Sequence[str]) -> bool:
    """Tell whether changes are of before a table got its key with a version.

    The number of a group of deletes may be none of the table's, as with Avro: then they show the key alone.
    """
    schema = change.schema
    if change.upserts_from is None and len(schema.columns) == len(schema.handle_key):
        return set(schema.handle_key) != set(key)
    return schema.version < version


def is_later(change: TableChanges, evolution: Evolution) -> bool:
    """Tell whether changes are by a key that the table gets after this part of the batch."""
    if not evolution.later:
        return False
    first = evolution.later[0]
    return not is_before(change, first.version, first.handle_key)


def objection(place: TargetTable, present: Shape, evolution: Evolution) -> str | None:
    """Return why the new key does not identify the table's rows, None if it does."""
    names = list(evolution.shape.key or ())
    for move in reversed(evolution.moves):
        former = dict(move.renamed)
        names = [former.get(name, name) for name in names]
    change = next(what for kind, what in evolution.news if kind is None)
    if lacking := [name for name in names if name not in present.columns]:
        return f"{change}, of which the table's older rows have no {', '.join(lacking)}"
    columns = [F.col(sql_name(name)) for name in names]
    found = place.read().groupBy(columns).count()
    unfit = reduce(or_, (F.col(sql_name(name)).isNull() for name in names), F.col("count") > 1)
    return None if found.where(unfit).isEmpty() else f"{change}, which does not tell all the table's rows apart"
