"""Messages that cannot be used, with the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.model import RECORD
from tidecast.spark import with_looked_up

_CAUSE = {"reason": pa.string(), "detail": pa.string()}


def with_causes(
    messages: DataFrame,
    keys: Mapping[str, tuple[pa.DataType, Column]],
    causes: Sequence[tuple[object, ...]],
) -> DataFrame:
    """Return messages with a `reason` and a `detail` for those that are refused by what they have in common.

    `keys` are what tells a group of messages, by name: its type, and what a message has of it. `causes` has a tuple for
    each group that is refused, maybe thousands: its keys, the reason, the detail; of several for one group the last
    counts. A message that has a reason keeps it.
    """
    kinds = {name: kind for name, (kind, _) in keys.items()} | _CAUSE
    columns = {name: column for name, (_, column) in keys.items()}
    # A group that came twice would find each of its messages twice.
    once = {cause[: len(keys)]: cause for cause in causes}
    return with_looked_up(messages, columns, list(once.values()), kinds)


def rejected(messages: DataFrame) -> DataFrame:
    """Return the messages that have a `reason`: the columns of `RECORD`, `reason` and `detail`."""
    return messages.where(F.col("reason").isNotNull()).select(*RECORD.fieldNames(), *_CAUSE)
