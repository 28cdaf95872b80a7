"""Options of the Avro protocol. Source: Avro protocol, codec options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AvroOptions:
    """How rows become Avro messages; the names are those of TiCDC's sink URI.

    `checksum` writes the row checksum's fields and puts columns in column id order (`integrity-check-level =
    correctness`). `include_before_value` is `avro-include-before-value`. `timed_deletes` writes the
    commit-ts of deletes, as `avro-enable-watermark` does. `zone` is the time zone of TIMESTAMP text, `keyspace` the
    first part of every namespace.
    """

    enable_tidb_extension: bool = False
    decimal_handling_mode: Literal["precise", "string"] = "precise"
    bigint_unsigned_handling_mode: Literal["long", "string"] = "long"
    checksum: bool = False
    include_before_value: bool = False
    timed_deletes: bool = False
    zone: str = "UTC"
    keyspace: str = "default"
