"""From which offset of a partition to which a read goes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from tidecast._errors import ConfigError, SourceChanged
from tidecast._tso import physical_ms, read_tso
from tidecast.topics._base import ANEW, Offsets, first_of
from tidecast.topics._kafka_cluster import KafkaCluster

Bounds = dict[str, dict[int, tuple[int, int]]]
"""By topic and partition the first offset to read and the one after the last."""

_SHOWN = 3
_OWN = "__"
_OFFSETS: Any = OffsetSpec  # its methods carry no types


def partition_name(topic: str, partition: int) -> str:
    """Return what `Offsets` calls a partition."""
    return f"{topic}/{partition}"


def matching(pattern: str, names: Iterable[str], where: str) -> list[str]:
    """Return the names that a regular expression matches wholly, sorted. Raises `ConfigError` for what is none.

    Names that begin with `__`, as those of Kafka's own topics do, take an expression that begins so.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no regular expression: {error}", where=where) from None
    asked = [name for name in names if pattern.startswith(_OWN) or not name.startswith(_OWN)]
    return sorted(filter(wanted.fullmatch, asked))


def start_spec(start: str) -> Any:
    """Return the `OffsetSpec` of `earliest`, `latest`, a TSO or an ISO time. Raises `ConfigError` for anything else."""
    if start == "earliest":
        return _OFFSETS.earliest()
    if start == "latest":
        return _OFFSETS.latest()
    tso = read_tso(start)
    if tso is None:
        raise ConfigError(
            f"start cannot be {start!r}",
            where="source URI",
            hint="write earliest, latest, a TSO or an ISO time, in a URI with %2B for +",
        )
    return _OFFSETS.for_timestamp(physical_ms(tso))


def read_bounds(cluster: KafkaCluster, topics: Mapping[str, int], start: str, after: Offsets | None) -> Bounds:
    """Return the bounds of a read of topics, with their partition counts, from `start` to the present end.

    Nothing may be missed of what came after `after`: then `latest` means a new partition's first message.
    """
    places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    ends = cluster.offsets(places, _OFFSETS.latest())
    starts = cluster.offsets(places, start_spec("earliest" if after and start == "latest" else start))
    bounds: Bounds = {topic: {} for topic in topics}
    for (topic, partition), end in ends.items():
        first = starts[topic, partition]
        # No offset: nothing is as new as the start. Beyond the end: it came after the end was asked for.
        bounds[topic][partition] = (end if first < 0 else min(first, end), end)
    return bounds


def between(bounds: Bounds, after: Offsets | None, until: Offsets | None) -> Bounds:
    """Return bounds narrowed to what comes after some offsets and before others."""
    begins = after.ends if after else {}

    def narrowed(place: str, start: int, end: int) -> tuple[int, int]:
        last = until.ends.get(place, start) if until else end
        return min(begins.get(place, start), last), last

    return {
        topic: {p: narrowed(partition_name(topic, p), *ends) for p, ends in partitions.items()}
        for topic, partitions in bounds.items()
    }


def check_follows(cluster: KafkaCluster, after: Offsets, bounds: Bounds, ids: Mapping[str, str], where: str) -> None:
    """Raise SourceChanged unless every message that follows some offsets is still there, or will come."""
    places = [(topic, partition) for topic, known in bounds.items() for partition in known]
    first = cluster.offsets(places, _OFFSETS.earliest())
    shorter, expired, remaining = [], [], dict(after.ends)
    for topic, partition in places:
        begin = after.ends.get(partition_name(topic, partition))
        if begin is None:
            continue
        start, end = first[topic, partition], bounds[topic][partition][1]
        place = f"topic {topic} partition {partition}"
        if end < begin:
            shorter.append(f"{place} ends at offset {end}, the checkpoint at {begin}")
            if topic in ids:
                remaining[partition_name(topic, partition)] = end
            else:  # it may be another topic of the name
                del remaining[partition_name(topic, partition)]
        elif start > begin:
            expired.append(f"{place} offsets {begin} to {start - 1}")
            remaining[partition_name(topic, partition)] = start
    anew = Offsets(ids=ids).made_anew(after)
    remaining = {place: end for place, end in remaining.items() if place.rpartition("/")[0] not in anew}
    for found, words in (
        (anew, f"made anew since the checkpoint, so that its offsets mean other messages: topic {', '.join(anew)}"),
        (shorter, f"messages that had been read are gone: {first_of(_SHOWN, shorter)}: was the topic made anew?"),
        (
            expired,
            f"messages expired before they were read: {first_of(_SHOWN, expired)}: the topic's retention is too short",
        ),
    ):
        if found:
            raise SourceChanged(words, where=where, hint=ANEW, remaining=remaining)


def expired_since(cluster: KafkaCluster, bounds: Bounds, start_ts: int) -> str | None:
    """Return which messages expired that may be younger than a TSO, None for none; see `Topics.expired_since`."""
    places = [(topic, partition) for topic, known in bounds.items() for partition in known]
    since = cluster.offsets(places, start_spec(str(start_ts)))
    starts = ((place, bounds[place[0]][place[1]][0]) for place in places)
    expired = [
        f"topic {place[0]} partition {place[1]} up to offset {at - 1}" for place, at in starts if 0 < at == since[place]
    ]
    return first_of(_SHOWN, expired) if expired else None


def for_spark(bounds: Bounds, side: int) -> str:
    """Return one side of bounds, 0 the starts or 1 the ends, as the option of Spark's Kafka source wants it."""
    return json.dumps({topic: {str(p): ends[side] for p, ends in places.items()} for topic, places in bounds.items()})
