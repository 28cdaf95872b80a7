"""The protocols that there are. A protocol is a folder with a `PROTOCOL`, and a line here."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tidecast._errors import ConfigError
from tidecast.protocols._codec import Codec, CodecOptions
from tidecast.protocols._protocol import CodecFactory, WireProtocol
from tidecast.registry import Registry

_FOLDERS = (
    "avro",
    "canal_json",
    "csv",
    "debezium",
    "debezium.avro",
    "simple",
)

_TICDCS_OWN = (WireProtocol("open-protocol", "Open", aliases=("default",), large_messages=lambda options: True),)
"""Those that TiCDC has and we do not: a configuration that names one gets TiCDC's own checks."""

_LIKELIEST = "simple"
"""What a message is taken for that looks like none."""


@cache
def all_protocols() -> tuple[WireProtocol, ...]:
    """Return every protocol of TiCDC's, by name; those in folders are imported with the first call."""
    ours = (import_module(f"tidecast.protocols.{folder}").PROTOCOL for folder in _FOLDERS)
    return tuple(sorted((*ours, *_TICDCS_OWN), key=lambda protocol: protocol.name))


def known_names(*, readable: bool = False) -> list[str]:
    """Return the names that a URI may have for a protocol, or for one that is read here."""
    return sorted(n for p in all_protocols() if p.reader or not readable for n in (p.name, *p.aliases))


def find_protocol(name: str) -> WireProtocol | None:
    """Return the protocol of a name, None for a name that TiCDC does not know."""
    return next((p for p in all_protocols() if name.lower() in (p.name, *p.aliases)), None)


def protocol_named(name: str) -> WireProtocol:
    """Return the protocol of a name. Raises ConfigError for a name that TiCDC does not know."""
    protocol = find_protocol(name)
    if protocol is None:
        raise ConfigError(
            f"unknown '{name}' message protocol",
            code="CDC:ErrSinkUnknownProtocol",
            hint=f"one of {', '.join(known_names())}",
        )
    return protocol


def guess_protocol(value: bytes) -> WireProtocol:
    """Return the protocol that a message's value looks like."""
    return next((p for p in all_protocols() if p.looks_like(value)), protocol_named(_LIKELIEST))


def check_readable(protocol: str) -> str:
    """Return a protocol's name in lower case. Raises ConfigError for one that is not read here."""
    if protocol.lower() not in known_names(readable=True):
        raise ConfigError(
            f"unknown '{protocol}' message protocol for a source" if protocol else "the source names no protocol",
            code="CDC:ErrSinkUnknownProtocol",
            hint=f"write ?protocol=… behind it: one of {', '.join(known_names(readable=True))}",
        )
    return protocol.lower()


def check_writable(name: str) -> None:
    """Raise ConfigError for a protocol of TiCDC's that is not written here."""
    _codec_factory(name)


def codec_for(name: str, options: CodecOptions, registry: Registry | None = None, state: bytes = b"") -> Codec:
    """Return the codec of a protocol; `state` is what the codec before it left.

    Raises ConfigError for a protocol that is not written here, and for one that needs a registry and has none.
    """
    return _codec_factory(name)(options, registry, state)


def _codec_factory(name: str) -> CodecFactory:
    make = protocol_named(name).codec
    if make is None:
        raise ConfigError(
            f"protocol {name} is not written by tidecast",
            code="CDC:ErrSinkUnknownProtocol",
            hint=f"use one of {', '.join(p.name for p in all_protocols() if p.codec)}",
        )
    return make
