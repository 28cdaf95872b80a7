"""Messages that cannot be used, with the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.model import RECORD
from tidecast.spark import with_looked_up

_CAUSE = {"reason": pa.string(), "detail": pa.string()}
CAUSE = tuple(_CAUSE)
"""The columns that say why a message cannot be used."""


def given_causes(records: DataFrame) -> tuple[str, ...]:
    """Return those of `CAUSE` that records have, as those that were unpacked."""
    return tuple(name for name in CAUSE if name in records.columns)


def cause_columns(given: Sequence[str]) -> list[Column]:
    """Return `CAUSE` of records that have those that are `given`; the others are null."""
    return [F.col(name) if name in given else F.lit(None).cast("string").alias(name) for name in CAUSE]


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
