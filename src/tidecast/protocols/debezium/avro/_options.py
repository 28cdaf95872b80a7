"""Options of Debezium as Avro. Source: Debezium protocol, Avro."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidecast.protocols.debezium._options import DebeziumOptions


@dataclass(frozen=True)
class DebeziumAvroOptions(DebeziumOptions):
    """How events become messages; the names are those of TiCDC's sink URI. `disable_schema` stays as it is."""

    decimal_handling_mode: Literal["precise", "string"] = "precise"
    bigint_unsigned_handling_mode: Literal["long", "string"] = "long"
