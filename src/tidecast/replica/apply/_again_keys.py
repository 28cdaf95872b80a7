"""The keys of a table that dead letters which are applied once more may change."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast._errors import TableRefused
from tidecast.replica.apply._changes import changes_of, refused_keys
from tidecast.replica.plan import BY_FORMER_KEY, Plan
from tidecast.replica.state import Again, at_places
from tidecast.spark import union

_PLACE = ("topic", "partition", "offset")
_SET_BACK = (
    "another message of its key, which is not older, cannot be applied now, and may have been: retry with the options "
    "with which it can, such as --on-mismatch apply"
)


def keys_of_letters(plan: Plan, again: Again) -> DataFrame:
    """Return the keys, `key`, of dead letters: all messages of these keys decide what they become.

    If a message of a key cannot be applied, and no newer one can, the key and its dead letters stay as they are. The
    message may have been applied under other options. Raises TableRefused if such a message has no readable key and is
    no dead letter. Messages of before the table got its key are older than all that can be applied, and count for none.
    """
    changes = changes_of(plan).where("key IS NOT NULL")
    refused = [refused_keys(change, plan.evolution) for change in plan.rows.accepted]
    others = [c for c, _, cause in plan.rows.refused if cause != BY_FORMER_KEY]
    hidden = [c.frame.where(F.col("reason").isNotNull()) for c in others]
    unknown = [
        *(frame.where("key IS NULL").select(*_PLACE, "reason", "detail") for frame in refused),
        *(frame.select(*_PLACE, "reason", "detail") for frame in hidden),
    ]
    if unknown:
        for row in at_places(union(unknown), again.places, "left_anti").orderBy(*_PLACE).limit(1).collect():
            at = " ".join(f"{name} {row[name]}" for name in _PLACE if row[name] is not None)
            raise TableRefused(
                f"{at} is no dead letter, and cannot be applied now ({row['reason']}: {row['detail'] or ''})",
                hint="retry with the options that it was applied with",
            )
    letters = again.letters(changes)
    asked = letters.select("key").distinct()
    if not refused:
        return asked
    newest = changes.groupBy("key").agg(F.max("commit_ts").alias("newest"))
    of_refused = union([frame.where("key IS NOT NULL").select("key", "commit_ts") for frame in refused])
    stays = asked.join(newest, "key").join(of_refused, "key")
    blocked = stays.where(F.coalesce(F.col("commit_ts") >= F.col("newest"), F.lit(True))).select("key").distinct()
    kept = letters.join(blocked, "key", "left_semi")
    if kept.isEmpty():
        return asked
    again.keep([c.frame for c in plan.rows.accepted], kept, _SET_BACK)
    return asked.join(blocked, "key", "left_anti")
