"""Simple as a changefeed writes it. Source: Simple protocol, messages, options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidecast.model import Ddl, TableSchema
from tidecast.protocols._codec import Codec, CodecOptions, Message, time_of_building
from tidecast.protocols.simple._encode import encode_bootstrap, encode_ddl, encode_watermark
from tidecast.protocols.simple._encoder import SimpleEncoder
from tidecast.protocols.simple._options import SimpleOptions


class SimpleCodec(Codec):
    """Simple, as JSON or as Avro: schemas travel with the messages, which keep every value."""

    def __init__(self, options: CodecOptions, registry: object, state: bytes) -> None:
        self._build_ts = time_of_building()
        self.checksums = options.checksums
        self._options = SimpleOptions(
            encoding_format="avro" if options.encoding_format == "avro" else "json", zone=options.zone
        )

    @property
    def encoder(self) -> SimpleEncoder:
        """The encoder of rows."""
        return SimpleEncoder(self._options, self._build_ts)

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change."""
        return [(None, encode_ddl(ddl, self._options, self._build_ts))]

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return the message that repeats a schema."""
        return b"", encode_bootstrap(schema, self._options, self._build_ts)

    @property
    def watermark(self) -> Callable[[int], Message]:
        """A function from a TSO to a watermark's message."""
        return partial(encode_watermark, options=self._options, build_ts=self._build_ts)


def wrong_options(options: CodecOptions) -> Iterator[str]:
    """Yield what is wrong with a changefeed's options for Simple, in TiCDC's words."""
    if options.encoding_format not in ("json", "avro"):
        yield f"unsupported encoding format type: {options.encoding_format} for the simple protocol"
