"""Avro's own limits, which keep a damaged length from taking all memory. Java reads them once, when it starts.

Source: Other documents, Avro's SystemLimitException.
"""

from __future__ import annotations

from tidecast._limits import LARGEST_COLLECTION, LARGEST_MESSAGE

_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": LARGEST_MESSAGE,
    "org.apache.avro.limits.string.maxLength": LARGEST_MESSAGE,
    "org.apache.avro.limits.collectionItems.maxLength": LARGEST_COLLECTION,
}
AVRO_LIMITS = " ".join(f"-D{name}={limit}" for name, limit in _LIMITS.items())
"""The limits as options of a Java that is to read Avro messages, on the driver and on executors."""
