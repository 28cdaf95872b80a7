"""TiCDC's row checksum, and the verdict per row."""

from tidecast.checksum._rows import Verdicts, explained, row_checksums, verdicts
from tidecast.checksum._verdict import Verdict

__all__ = [
    "Verdict",
    "Verdicts",
    "explained",
    "row_checksums",
    "verdicts",
]
