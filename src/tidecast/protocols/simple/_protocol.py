"""Simple in the register of protocols."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidecast.model import Events
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols.simple._claim import claim_check_location
from tidecast.protocols.simple._codec import SimpleCodec, wrong_options
from tidecast.protocols.simple._decode import decode
from tidecast.protocols.simple._describe import describe, looks_like
from tidecast.protocols.simple._plain import read_plain


def _decode(records: DataFrame, options: DecodeOptions) -> Events:
    return decode(records, ordered=options.ordered, zone=options.zone, history=options.history)


PROTOCOL = WireProtocol(
    "simple",
    "Simple",
    decode=_decode,
    codec=SimpleCodec,
    describe=describe,
    looks_like=looks_like,
    read_plain=read_plain,
    wrong_options=wrong_options,
    reads_avro=True,
    bootstraps=True,
    compressed=("value",),
    large_messages=lambda options: True,
    claim_check_location=claim_check_location,
)
