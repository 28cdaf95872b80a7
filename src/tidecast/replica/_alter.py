"""A present table brought to a batch's columns and types: as metadata where the format can, else by new files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast._errors import TableRefused
from tidecast.replica._changes import filled
from tidecast.replica._columns import fills
from tidecast.replica._evolve import Evolution, Shape, steps
from tidecast.replica._plan import Plan
from tidecast.replica.targets import key_note
from tidecast.spark import sql_name


def evolve(plan: Plan) -> None:
    """Give a present table the columns, names and types of its evolution; its rows get new columns' defaults.

    What the table shall remember is written first. Which columns are to be added and widened is told by those that are
    there, and a table keeps what is to be renamed and dropped: a run that ends halfway is completed by the next one,
    whatever that one's batch shows.
    """
    evolution = plan.evolution
    if plan.present and plan.waited:
        _remake(plan, plan.present)
        return
    if plan.present is None or evolution.moved is None or evolution.clash:
        return
    to_do = steps(plan.present.columns, evolution.moves)
    if not plan.place.takes(name for pair in to_do for name in pair):
        raise TableRefused("a column is renamed or dropped in whose name Spark would look for a variable")
    if to_do:
        plan.place.follow(to_do, evolution.moved.key, plan.notes)
    elif plan.notes:
        plan.place.remember(plan.notes)
    if evolution.changes:
        _grow(plan, evolution.moved)
    if (order := _order(plan)) and plan.place.takes(order):
        plan.place.reorder(order)


def no_rows(plan: Plan) -> DataFrame:
    """Return the rows of the table that a plan makes, none, in its columns."""
    columns = {**plan.evolution.shape.columns, **plan.contents.columns}
    nothing = plan.place.spark.range(0)
    return nothing.select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))


def _remake(plan: Plan, present: Shape) -> None:
    """Give a table without rows the columns and the key of its evolution, whatever it had; what it remembers is last.

    A run that ends before that does it once more.
    """
    shape = plan.evolution.shape
    if shape.columns != present.columns:
        plan.place.rewrite(no_rows(plan))
    if plan.notes:
        others = {} if plan.key == present.key else key_note(plan.key)
        plan.place.remember({**others, **plan.notes, **({} if plan.merges else plan.place.notes_of_appends)})


def _order(plan: Plan) -> list[str]:
    """Return the order that the table's columns of the source shall have, empty where it is so or is not asked for."""
    there = list(plan.evolution.shape.columns)
    order = [name for name in plan.evolution.order if name in there]
    order += [name for name in there if name not in order]
    return order if plan.evolution.order and order != there else []


def alters_rows(plan: Plan) -> bool:
    """Tell whether `evolve` will change what the table's rows hold, or under which names and types."""
    evolution = plan.evolution
    if plan.present is None or evolution.moved is None or evolution.clash:
        return False
    return bool(steps(plan.present.columns, evolution.moves)) or _alters_values(evolution, evolution.moved)


def names_afterwards(plan: Plan) -> Mapping[str, str] | None:
    """Return what `evolve` will call each of the table's columns, without those that it drops; None if values change.

    The columns are all of the table's, those that the source does not have, too.
    """
    evolution = plan.evolution
    if plan.present is None or evolution.moved is None or _alters_values(evolution, evolution.moved):
        return None
    names = {name: name for name in (*plan.present.columns, *plan.contents.columns)}
    for old, new in steps(plan.present.columns, evolution.moves):
        names = {was: new if now == old else now for was, now in names.items() if new or now != old}
    return names


def _alters_values(evolution: Evolution, there: Shape) -> bool:
    defined = evolution.defined
    return any(
        kind != there.columns[name] if name in there.columns else name in defined and fills(defined[name])
        for name, kind in evolution.shape.columns.items()
    )


def _grow(plan: Plan, present: Shape) -> None:
    """Add the columns that the table lacks, and widen those that are too narrow."""
    there, shall, defined = present.columns, plan.evolution.shape.columns, plan.evolution.defined
    added = {name: kind for name, kind in shall.items() if name not in there}
    wider = {name: kind for name, kind in shall.items() if name in there and kind != there[name]}
    if (
        any(name in defined and fills(defined[name]) for name in added)
        or not plan.place.takes([*added, *wider])
        or (wider and not plan.place.widens(there, wider))
    ):
        columns = [
            (F.col(sql_name(name)).cast(kind) if name in there else filled(name, plan.evolution)).alias(name)
            for name, kind in shall.items()
        ]
        columns += map(F.col, plan.contents.columns)
        plan.place.rewrite(plan.place.read().select(columns))
        return
    if added:
        plan.place.add(added)
    if wider:
        plan.place.widen(wider)
