"""How large a message may be.

What a message says of its own size is not to be trusted: one flipped bit makes two gigabytes of a short text, and
whoever sets them aside before looking ends for want of memory.
"""

LARGEST_MESSAGE = 1 << 27
"""The most bytes that a message, unpacked, or one of its values may have: 128 MiB. TiDB takes no row above 120 MiB
(`txn-entry-size-limit`)."""

LARGEST_COLLECTION = 1 << 20
"""The most entries that an array or a map in Avro may have. A TiDB table has at most 4096 columns."""
