"""The longest texts of Spark."""

from __future__ import annotations

MAX_LENGTH = (1 << 31) - 1
"""More characters or bytes than any text has: a length for what is left of one."""

LONG_TEXTS = {"maxStringLen": str(MAX_LENGTH)}
"""Options with which Spark reads JSON that holds texts so long; without, it takes none above 20 million characters."""
