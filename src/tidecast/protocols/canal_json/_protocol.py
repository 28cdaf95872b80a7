"""Canal-JSON in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.canal_json._codec import CanalCodec, wrong_options
from tidecast.protocols.canal_json._describe import describe, looks_like
from tidecast.protocols.canal_json._message import claim_check_location
from tidecast.protocols.canal_json._read import CanalReader

PROTOCOL = WireProtocol(
    "canal-json",
    "Canal-JSON",
    reader=CanalReader,
    codec=CanalCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    compressed=("value",),
    large_messages=lambda options: options.enable_tidb_extension,
    claim_check_location=claim_check_location,
    ddl_partitions=1,
)
