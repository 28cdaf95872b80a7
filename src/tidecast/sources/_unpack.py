"""Messages as they were before they were packed. Source: Simple protocol, large messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tidecast._errors import ConfigError
from tidecast.protocols import Description, protocol_named
from tidecast.topics import Records, decompressed, fetched_claims

_COMPRESSIONS = ("none", "snappy", "lz4")


def check_compression(params: Mapping[str, str]) -> str:
    """Return how a source's URI says that values are compressed. Raises ConfigError for a way that is none."""
    compression = params.get("large-message-handle-compression", "none").lower()
    if compression not in _COMPRESSIONS:
        raise ConfigError(
            f"unknown large-message-handle-compression {compression!r}",
            code="CDC:ErrInvalidReplicaConfig",
            hint=f"write one of {', '.join(_COMPRESSIONS)}",
        )
    return compression


def is_packed(protocol: str, params: Mapping[str, str]) -> bool:
    """Tell whether a source's messages may have to be unpacked."""
    spec = protocol_named(protocol)
    compressed = bool(spec.compressed) and check_compression(params) != "none"
    return compressed or bool(params.get("claim-check-storage-uri") and spec.claim_check_locations)


def unpacked(records: Records, protocol: str, params: Mapping[str, str]) -> Records:
    """Return messages with their keys and values decompressed and fetched from the claim check's storage.

    Those that were unpacked have `reason` and `detail` beside the columns of `RECORD`: why one could not be.

    `params` are the source URI's: `large-message-handle-compression`, since no message tells it, and
    `claim-check-storage-uri`. Without the latter, messages whose whole lies elsewhere are incomplete.
    """
    spec = protocol_named(protocol)
    compression = check_compression(params) if spec.compressed else "none"
    frame = decompressed(records.frame, compression, spec.compressed)
    storage = params.get("claim-check-storage-uri")
    if storage and spec.claim_check_locations:
        about = partial(_about, spec.describe)
        frame = fetched_claims(frame, storage, spec.claim_check_locations, compression, about)
    return replace(records, frame=frame, kept=records.kept or frame is not records.frame)


def _about(describe: Callable[[bytes | None, bytes | None], Description], value: bytes) -> tuple[object, ...]:
    """Return what a message says of itself in its short form, too."""
    said = describe(None, value)
    return said.type, said.table, said.commit_ts
