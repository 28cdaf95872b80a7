"""CSV in the register of protocols."""

from __future__ import annotations

from functools import partial

from tidecast._csv_format import CsvFormat
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols._sink_files import SinkReader
from tidecast.protocols.csv._columns import CsvDecoder


def _reader(options: DecodeOptions) -> SinkReader:
    return SinkReader(partial(CsvDecoder, form=options.csv or CsvFormat(), zone=options.zone))


PROTOCOL = WireProtocol("csv", "CSV", reader=_reader, files=True, topics=False)
