"""A present table brought to a batch's columns and types: as metadata where the format can, else by new files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import TableRefused
from tidecast.model import Op
from tidecast.replica.apply._changes import filled
from tidecast.replica.plan import AlterTable, Plan, RemakeTable
from tidecast.replica.tables import OP
from tidecast.replica.targets import key_note
from tidecast.spark import sql_name


def alter(plan: Plan, action: AlterTable) -> None:
    """Give a present table other columns, names and types; its rows get new columns' defaults.

    Writes the notes first. The table keeps the list of columns to rename and drop until that is done, and its present
    columns show which ones are still to be added and widened. So the next run completes one that ended halfway.
    """
    place = plan.place
    if not place.takes(name for pair in action.steps for name in pair):
        raise TableRefused("a column is renamed or dropped in whose name Spark would look for a variable")
    if action.steps:
        place.follow(action.steps, action.key, action.notes)
    elif action.notes:
        place.remember(action.notes)
    if action.added or action.widened:
        _grow(plan, action)
    if action.order and place.takes(action.order):
        place.reorder(action.order)


def remake(plan: Plan, action: RemakeTable) -> None:
    """Give a table without rows other columns and another key, whatever it had; what it remembers is last.

    A run that ends before that does it once more.
    """
    if action.columns:
        plan.place.rewrite(no_rows(plan))
    if action.notes:
        others = {} if plan.present and action.key == plan.present.key else key_note(action.key)
        plan.place.remember({**others, **action.notes, **({} if plan.merges else plan.place.notes_of_appends)})


def no_rows(plan: Plan) -> DataFrame:
    """Return the rows of the table that a plan makes, none, in its columns."""
    columns = {**plan.evolution.shape.columns, **plan.contents.columns}
    nothing = plan.place.spark.range(0)
    return nothing.select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))


def names_afterwards(plan: Plan, action: AlterTable) -> Mapping[str, str] | None:
    """Return what `alter` will call each of the table's columns, without those that it drops; None if values change.

    The columns are all of the table's, those that the source does not have, too.
    """
    if plan.present is None or action.changes_values:
        return None
    names = {name: name for name in (*plan.present.columns, *plan.contents.columns)}
    for old, new in action.steps:
        names = {was: new if now == old else now for was, now in names.items() if new or now != old}
    return names


def _grow(plan: Plan, action: AlterTable) -> None:
    """Add the columns that the table lacks, and widen those that are too narrow."""
    place, shall = plan.place, plan.evolution.shape.columns
    there = plan.evolution.moved.columns if plan.evolution.moved else {}

    def had(default: Column) -> Column:  # the row of a delete in a log has none, see `at_the_door`
        return F.when(F.col(OP) != str(Op.DELETE), default) if plan.contents.is_log else default

    if action.fills or not place.takes([*action.added, *action.widened]) or not _widens(plan, there, action.widened):
        columns = [
            (F.col(sql_name(name)).cast(kind) if name in there else had(filled(name, plan.evolution))).alias(name)
            for name, kind in shall.items()
        ]
        columns += map(F.col, plan.contents.columns)
        place.rewrite(place.read().select(columns))
        return
    if action.added:
        place.add(action.added)
    if action.widened:
        place.widen(action.widened)


def _widens(plan: Plan, there: Mapping[str, T.DataType], wider: Mapping[str, T.DataType]) -> bool:
    return not wider or plan.place.widens(there, wider)
