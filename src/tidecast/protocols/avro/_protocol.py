"""Avro in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.avro._codec import AvroCodec, wrong_options
from tidecast.protocols.avro._describe import describe, looks_like
from tidecast.protocols.avro._read import AvroReader

PROTOCOL = WireProtocol(
    "avro",
    "Avro",
    aliases=("flat-avro",),
    reader=AvroReader,
    codec=AvroCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    needs_registry=True,
    needs_commit_ts=False,
    one_table_per_topic=True,
    zoned_checksums=True,
)
