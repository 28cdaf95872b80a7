"""The certificates that this Python trusts, in the form that Java reads."""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

from tidecast.runtime._cache import cache_dir, write_once

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # Java's own default: what is public needs no secret


def trust_store() -> Path | None:
    """A Java trust store with Python's authorities, so that both sides trust a private one; None if Python has none."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return None
    content = _java_key_store(certificates)
    return write_once(cache_dir() / "java" / f"trust-{hashlib.sha256(content).hexdigest()[:16]}.jks", content)


def _java_key_store(certificates: Sequence[bytes]) -> bytes:
    """The JKS format: a head, one entry per certificate, and a salted digest over both."""
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts += [struct.pack(">I", _TRUSTED_CERTIFICATE), _text(f"ca-{number}"), struct.pack(">Q", 0)]
        parts += [_text("X.509"), struct.pack(">I", len(certificate)), certificate]
    body = b"".join(parts)
    salt = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(salt + body, usedforsecurity=False).digest()


def _text(text: str) -> bytes:
    encoded = text.encode("ascii")
    return struct.pack(">H", len(encoded)) + encoded
