"""A present table brought to a batch's columns and types: as metadata where the format can, else by new files."""

from __future__ import annotations

from pyspark.sql import functions as F

from tidecast.replica._columns import fills
from tidecast.replica._plan import Plan, filled
from tidecast.replica._target import is_widening
from tidecast.spark import sql_name


def evolve(plan: Plan) -> None:
    """Give a present table its new columns and wider types; its rows get the new columns' defaults.

    What the table shall remember is written first, and what is left to do is told by the columns that are there: a run
    that ends halfway is completed by the next one, whatever that one's batch shows.
    """
    if plan.present is None:
        return
    if plan.notes:
        plan.place.remember(plan.notes)
    there, shall = plan.present.columns, plan.evolution.shape.columns
    added = {name: kind for name, kind in shall.items() if name not in there}
    wider = {name: kind for name, kind in shall.items() if name in there and kind != there[name]}
    if not (added or wider):
        return
    defined = plan.evolution.defined
    if (
        any(name in defined and fills(defined[name]) for name in added)
        or not all(is_widening(there[name], kind) for name, kind in wider.items())
        or not plan.place.takes([*added, *wider])
        or (wider and not plan.place.widens)
    ):
        _rewrite(plan)
        return
    if added:
        plan.place.add(added)
    if wider:
        plan.place.widen(wider)


def _rewrite(plan: Plan) -> None:
    assert plan.present is not None
    columns = [
        (F.col(sql_name(name)).cast(kind) if name in plan.present.columns else filled(name, plan.evolution)).alias(name)
        for name, kind in plan.evolution.shape.columns.items()
    ]
    plan.place.rewrite(plan.place.read().select(columns))
