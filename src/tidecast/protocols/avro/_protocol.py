"""Avro in the register of protocols."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidecast.model import Events
from tidecast.protocols._protocol import DecodeOptions, WireProtocol, missing_registry
from tidecast.protocols.avro._codec import AvroCodec, wrong_options
from tidecast.protocols.avro._decode import decode
from tidecast.protocols.avro._describe import describe, looks_like
from tidecast.protocols.avro._plain import read_plain


def _decode(records: DataFrame, options: DecodeOptions) -> Events:
    if options.registry is None:
        raise missing_registry("Avro")
    options.registry.check()
    return decode(records, options.registry, ordered=options.ordered, zone=options.zone, kept=options.kept)


PROTOCOL = WireProtocol(
    "avro",
    "Avro",
    aliases=("flat-avro",),
    decode=_decode,
    codec=AvroCodec,
    describe=describe,
    looks_like=looks_like,
    read_plain=read_plain,
    wrong_options=wrong_options,
    needs_registry=True,
    reads_avro=True,
    one_table_per_topic=True,
    zoned_checksums=True,
)
