"""Simple in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.simple._claim import claim_check_location
from tidecast.protocols.simple._codec import SimpleCodec, wrong_options
from tidecast.protocols.simple._describe import describe, looks_like
from tidecast.protocols.simple._read import SimpleReader

PROTOCOL = WireProtocol(
    "simple",
    "Simple",
    reader=SimpleReader,
    codec=SimpleCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    bootstraps=True,
    compressed=("value",),
    large_messages=lambda options: True,
    claim_check_location=claim_check_location,
)
