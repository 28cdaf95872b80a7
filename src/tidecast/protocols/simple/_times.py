"""TIMESTAMP values of messages, which name their time zone. Source: Simple protocol, row values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values import TEXT, is_zone, nulls, shift_zone

_UTC = "UTC"


def utc_of(value: pa.Array, location: pa.Array, zone: str) -> pa.Array:
    """Return TIMESTAMP text of the time zone `location`, of `zone` where that is null, as UTC shows it.

    Null for a location that is no time zone.
    """
    if location.null_count == len(location):
        return shift_zone(value, zone, _UTC)
    encoded = pc.fill_null(location, zone).dictionary_encode()
    zones = encoded.dictionary.to_pylist()
    if len(zones) == 1:
        return _shifted(value, zones[0])
    codes = np.asarray(encoded.indices)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes, minlength=len(zones)))[:-1])
    shifted = [_shifted(value.take(pa.array(rows)), name) for name, rows in zip(zones, parts, strict=True)]
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return pa.concat_arrays(shifted).take(pa.array(places))


def _shifted(value: pa.Array, zone: str) -> pa.Array:
    return shift_zone(value, zone, _UTC) if zone == _UTC or is_zone(zone) else nulls(len(value), TEXT)
