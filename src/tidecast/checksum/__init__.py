"""TiCDC's row checksum as a column expression, and the verdict per row."""

from tidecast.checksum._row import explain, row_checksum
from tidecast.checksum._rows import Verdicts, explained, row_checksums, verdicts
from tidecast.checksum._verdict import Verdict, verdict

__all__ = [
    "Verdict",
    "Verdicts",
    "explain",
    "explained",
    "row_checksum",
    "row_checksums",
    "verdict",
    "verdicts",
]
