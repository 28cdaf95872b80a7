"""CSV in the register of protocols."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidecast._csv_format import CsvFormat
from tidecast.model import TableSchema
from tidecast.protocols._codec import CodecOptions
from tidecast.protocols._description import Description
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols._schema_file import text_if_unlisted
from tidecast.protocols._sink_codec import SinkCodec
from tidecast.protocols._sink_files import SinkReader, describe_file
from tidecast.protocols.csv._columns import CsvDecoder
from tidecast.protocols.csv._encoder import CsvEncoder


def _reader(options: DecodeOptions) -> SinkReader:
    def select(schema: TableSchema) -> TableSchema:
        shown = options.select(schema)
        return replace(shown, columns=tuple(map(text_if_unlisted, shown.columns)))

    return SinkReader(partial(CsvDecoder, form=options.csv or CsvFormat(), zone=options.zone), select)


def _codec(options: CodecOptions, registry: object, state: bytes) -> SinkCodec:
    form = options.csv or CsvFormat()
    codec = SinkCodec(CsvEncoder(form, options.zone), options, state)
    codec.needs_commit_ts = form.include_commit_ts
    return codec


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what the record of a schema file or of `metadata` says: a line alone says nothing."""
    return describe_file(key, value) or Description()


PROTOCOL = WireProtocol("csv", "CSV", reader=_reader, codec=_codec, describe=describe, files="csv", topics=False)
