"""Bytes and events, a folder per protocol; the register of them; what every protocol is."""

from tidecast.protocols._codec import Codec, CodecOptions, Encoder, Message, RoutedTable
from tidecast.protocols._decoded import (
    CHECKSUM,
    Controls,
    Decoded,
    Decoder,
    Marks,
    Reader,
    Rejected,
    Rows,
    TableVersion,
)
from tidecast.protocols._description import Description
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
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
from tidecast.protocols._sink_codec import SinkCodec

__all__ = [
    "CHECKSUM",
    "Codec",
    "CodecOptions",
    "Controls",
    "DecodeOptions",
    "Decoded",
    "Decoder",
    "Description",
    "Encoder",
    "Marks",
    "Message",
    "Reader",
    "Rejected",
    "RoutedTable",
    "Rows",
    "SinkCodec",
    "TableVersion",
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
