"""Bytes and events, a folder per protocol; the register of them; what every protocol is."""

from tidecast.protocols._codec import Codec, CodecOptions, Message, RoutedTable
from tidecast.protocols._protocol import DecodeOptions, Description, WireProtocol
from tidecast.protocols._register import (
    all_protocols,
    check_readable,
    check_writable,
    codec_for,
    find_protocol,
    guess_protocol,
    known_names,
    protocol_named,
)

__all__ = [
    "Codec",
    "CodecOptions",
    "DecodeOptions",
    "Description",
    "Message",
    "RoutedTable",
    "WireProtocol",
    "all_protocols",
    "check_readable",
    "check_writable",
    "codec_for",
    "find_protocol",
    "guess_protocol",
    "known_names",
    "protocol_named",
]
