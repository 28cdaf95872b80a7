"""The exit codes of all commands except `cli`, which has those of TiCDC's client."""

MISMATCH = 1
"""Rows do not match their checksums, or tables differ from what they should be."""
WRONG_CALL = 2
FAILED = 3
INTERRUPTED = 130
"""As shells have it for Ctrl-C."""
