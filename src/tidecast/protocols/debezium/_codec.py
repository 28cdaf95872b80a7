"""Debezium as a changefeed writes it. Source: Debezium protocol, options, messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidecast.model import Ddl
from tidecast.protocols._codec import Codec, CodecOptions, Message, RoutedTable, time_of_building
from tidecast.protocols.debezium._encode import encode_watermark, tail
from tidecast.protocols.debezium._encode_ddl import DdlHistory, encode_ddl
from tidecast.protocols.debezium._encoder import DebeziumEncoder
from tidecast.protocols.debezium._lossy import lossy_columns
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import key_schema, value_schema


class DebeziumCodec(Codec):
    """Debezium: every message brings its own schema, unless told not to."""

    def __init__(self, options: CodecOptions, registry: object, state: bytes) -> None:
        self._build_ts = time_of_building()
        self._options = DebeziumOptions(
            disable_schema=options.debezium_disable_schema,
            output_old_value=options.debezium_output_old_value,
            enable_tidb_extension=options.enable_tidb_extension,
            cluster_id=options.cluster_id,
            zone=options.zone,
        )
        self._history = DdlHistory(state)
        self._whole = options.compressed  # nothing can be joined to what is packed

    @property
    def encoder(self) -> DebeziumEncoder:
        """The encoder of rows."""
        return DebeziumEncoder(self._options, self._build_ts, self._whole)

    def state(self) -> bytes:
        """Return the details that schema changes gave beyond their schemas."""
        return self._history.state()

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what Debezium's forms do to values."""
        return lossy_columns(table.selected, self._options)

    def tails(self, table: RoutedTable) -> Message:
        """Return the schemas that messages bring, nothing where keys and values have them already."""
        if self._whole:
            return b"", b""
        schemas = (key_schema(table.schema, self._options), value_schema(table.schema, self._options, table.columns))
        key, value = (tail(schema, self._options) for schema in schemas)
        return key, value

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change, none where the statement changes no table's columns."""
        message = encode_ddl(ddl, self._options, self._history, build_ts=self._build_ts)
        return [message] if message else []

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to a watermark's message; None without TiDB's extension."""
        if not self._options.enable_tidb_extension:
            return None
        return partial(encode_watermark, options=self._options, build_ts=self._build_ts)
