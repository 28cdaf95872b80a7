"""TiCDC's row checksum, and the verdict per row."""

from tidecast.checksum._rows import Verdict, Verdicts, explained, row_checksums, verdicts

__all__ = [
    "Verdict",
    "Verdicts",
    "explained",
    "row_checksums",
    "verdicts",
]
