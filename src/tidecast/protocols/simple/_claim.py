"""Where the whole of a large message lies. Source: Simple protocol, large messages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.protocols._claim import locations_in_json
from tidecast.protocols.simple._avro import MARK
from tidecast.protocols.simple._avro_messages import AvroMessages
from tidecast.values import BYTES, spread


def claim_check_locations(values: pa.Array) -> pa.Array:
    """Return the locations that messages in JSON or Avro (binary) name, null for whole ones."""
    contents = pc.fill_null(values.cast(BYTES), b"")
    at = np.flatnonzero(pc.starts_with(contents, MARK))
    in_avro = AvroMessages(contents, at).locations.cast(pa.string())
    return pc.coalesce(spread(in_avro, at, len(values)), locations_in_json(contents))
