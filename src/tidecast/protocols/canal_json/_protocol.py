"""Canal-JSON in the register of protocols. It is read, and not written."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidecast.model import Events
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols.canal_json._decode import decode
from tidecast.protocols.canal_json._describe import describe, looks_like
from tidecast.protocols.canal_json._message import claim_check_location
from tidecast.protocols.canal_json._plain import read_plain


def _decode(records: DataFrame, options: DecodeOptions) -> Events:
    return decode(records, ordered=options.ordered, zone=options.zone)


PROTOCOL = WireProtocol(
    "canal-json",
    "Canal-JSON",
    decode=_decode,
    describe=describe,
    looks_like=looks_like,
    read_plain=read_plain,
    compressed=("value",),
    large_messages=lambda options: options.enable_tidb_extension,
    claim_check_location=claim_check_location,
)
