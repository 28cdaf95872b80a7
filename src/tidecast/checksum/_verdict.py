"""What a row's checksum says about it. Source: Avro protocol, corrupted rows, consumers compared."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """What became of a row's check."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"
    ZERO = "zero"
    DELETE = "delete"
    UNREADABLE = "unreadable"
