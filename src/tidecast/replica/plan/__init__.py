"""Plans: the effect of a batch on each table."""

from tidecast.replica.plan._actions import (
    Action,
    AlterTable,
    Append,
    CreateTable,
    DropTable,
    KeepVersions,
    Merge,
    RemakeTable,
    RenameTable,
    SetAside,
    Truncate,
)
from tidecast.replica.plan._ddl import (
    Refused,
    carries_out,
    moves_rows,
    not_carried_out,
    stop_at_schema_changes,
    why_not_carried_out,
)
from tidecast.replica.plan._decide import plan
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._facts import Rules
from tidecast.replica.plan._key_change import BY_FORMER_KEY
from tidecast.replica.plan._notes import SAFE, SOURCES, has_several_sources
from tidecast.replica.plan._plan import Plan, refusing
from tidecast.replica.plan._renames import SINCE, Rename, Renames, renamed_before, renames
from tidecast.replica.plan._truncated import (
    NEVER,
    UNTIMED,
    Truncations,
    ended,
    is_late,
    keeps_rows,
    kind_of,
    next_truncation,
    removes_rows,
    tells_age,
    truncations,
)
from tidecast.replica.plan._waiting import Ends, Told, ends, waiting_since

__all__ = [
    "BY_FORMER_KEY",
    "NEVER",
    "SAFE",
    "SINCE",
    "SOURCES",
    "UNTIMED",
    "Action",
    "AlterTable",
    "Append",
    "CreateTable",
    "DropTable",
    "Ends",
    "Evolution",
    "KeepVersions",
    "Merge",
    "Plan",
    "Refused",
    "RemakeTable",
    "Rename",
    "RenameTable",
    "Renames",
    "Rules",
    "SetAside",
    "Told",
    "Truncate",
    "Truncations",
    "carries_out",
    "ended",
    "ends",
    "has_several_sources",
    "is_late",
    "keeps_rows",
    "kind_of",
    "moves_rows",
    "next_truncation",
    "not_carried_out",
    "plan",
    "refusing",
    "removes_rows",
    "renamed_before",
    "renames",
    "stop_at_schema_changes",
    "tells_age",
    "truncations",
    "waiting_since",
    "why_not_carried_out",
]
