"""The verdict that a checksum gives on its row. Source: Avro protocol, corrupted rows, consumers compared."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """The result of a row's check."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"
    ZERO = "zero"
    DELETE = "delete"
    UNREADABLE = "unreadable"
