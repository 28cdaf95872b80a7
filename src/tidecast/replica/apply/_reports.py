"""The report on a table whose plan was carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidecast._counted import counted
from tidecast.checksum import Verdict
from tidecast.model import Kind
from tidecast.replica._report import TableReport
from tidecast.replica.plan import SOURCES, Plan
from tidecast.replica.settle import Checked, misfits
from tidecast.replica.tables import source_type


def of_several_topics(plan: Plan, topics: Sequence[str]) -> list[str]:
    """Return a warning where tables with different names may have come together under one: Avro has no a-b."""
    if len(topics) < 2 or len(plan.sources) > 1:
        return []
    name = ".".join(plan.name)
    return [
        f"messages of several topics are named {name}: {', '.join(topics)}; if these are different tables, their rows "
        "are mixed now: remove this one, and replicate each topic to a place of its own"
    ]


def unrepresentable_by_column(plan: Plan, done: Mapping[str, int]) -> dict[str, int]:
    counts = {name: done[f"unrepresentable {n}"] for n, name in enumerate(plan.doubtful)}
    return {name: count for name, count in counts.items() if count}


def _checksum_warnings(plan: Plan, checked: Checked) -> list[str]:
    warnings = []
    if wrong := checked.verdicts[Verdict.MISMATCH]:
        zoned = any(
            source_type(c.data_type).kind is Kind.TIMESTAMP
            for change in plan.all_changes
            for c in change.schema.columns
        )
        maybe = ": is --tz the sender's time zone, in which its TIMESTAMP values are?" if zoned else ""
        warnings.append(misfits(wrong) + maybe)
    if checked.corrupted:
        damaged = counted(checked.corrupted, "row was damaged before it was", "rows were damaged before they were")
        warnings.append(f"{damaged} sent")
    return warnings


def report_of(
    plan: Plan,
    checked: Checked,
    upserted: int = 0,
    deleted: int = 0,
    unchanged: int = 0,
    unrepresentable: dict[str, int] | None = None,
    warnings: list[str] | None = None,
) -> TableReport:
    reported = [*_checksum_warnings(plan, checked), *(warnings or [])]
    if plan.facts.unfinished:
        reported.append(
            f"{len(plan.facts.unfinished)} files of a write that was not finished lie in the folder of the table"
        )
    if len(plan.sources) > 1 and SOURCES in plan.notes:
        reported.append(f"{', '.join(plan.sources)} become one table: of rows with equal keys only the newest stays")
    reported += [f"refused: {cause}" for cause in dict.fromkeys(cause for _, _, cause in plan.rows.refused)]
    reported += [
        f"column {name}: null in rows that are older than it, as nothing tells their value" for name in plan.unfilled()
    ]
    reported += [
        f"column {name}: its default in rows of those source tables, too, that lack it, or had none then"
        for name in plan.lent()
    ]
    reported += [
        f"column {name}: kept, and null in new rows, as the source has it no longer" for name in plan.evolution.kept
    ]
    reported += [
        f"column {name}: was gone from the source and has come again; rows that no message shows keep what they had"
        for name in plan.evolution.again
    ]
    reported += [f"column {name}: null, its values are computed when read and in no message" for name in plan.virtual()]
    return TableReport(
        *plan.name,
        plan.place.shown,
        checked.total,
        upserted,
        deleted,
        unchanged,
        checked.refused,
        checked.verdicts,
        unrepresentable or {},
        tuple(reported),
        *checked.commit_ts,
    )
