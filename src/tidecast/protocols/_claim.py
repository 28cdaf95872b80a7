"""Where JSON messages say that their whole lies. Source: Simple protocol, large messages."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

_MEMBER = "claimCheckLocation"


def locations_in_json(values: pa.Array, inside: str | None = None) -> pa.Array:
    """Return the locations that messages (binary) name, at their top or in the member `inside`; null for whole ones.

    An empty location is none, as for TiCDC.
    """
    found: list[str | None] = [None] * len(values)
    for at in np.flatnonzero(pc.fill_null(pc.match_substring(values, f'"{_MEMBER}"'), False)):
        try:
            members = orjson.loads(values[at].as_py())
            location = (members[inside] if inside else members)[_MEMBER]
        except (ValueError, LookupError, TypeError):
            continue
        found[at] = location if location and isinstance(location, str) else None
    return pa.array(found, pa.string())
