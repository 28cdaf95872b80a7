"""Debezium as Avro, as a changefeed writes it. Source: Debezium protocol, Avro."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import orjson

from tidecast.model import Ddl
from tidecast.protocols._codec import CodecOptions, Message, RoutedTable, time_of_building
from tidecast.protocols._registered import Part, RegisteringCodec
from tidecast.protocols.debezium._encode_ddl import DdlHistory
from tidecast.protocols.debezium._lossy import damages_of_forms
from tidecast.protocols.debezium.avro._control import Control, ddl_parts, encode_avro_watermark, watermark_parts
from tidecast.protocols.debezium.avro._encoder import DebeziumAvroEncoder
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._schema import goes_as_text, is_large, key_schema, value_schema
from tidecast.registry import Registry, header

_NOT_SENT = "numbers from 2^63 on are not sent (avro-bigint-unsigned-handling-mode=string sends them)"


class DebeziumAvroCodec(RegisteringCodec):
    """Debezium as Avro: two schema ids per topic and table version, registered before the first row that needs them."""

    title = "Debezium Avro"
    code = "CDC:ErrDebeziumEncodeFailed"

    def __init__(self, options: CodecOptions, registry: Registry | None, state: bytes) -> None:
        super().__init__(options, registry)
        self._options = DebeziumAvroOptions(
            output_old_value=options.debezium_output_old_value,
            enable_tidb_extension=options.enable_tidb_extension,
            cluster_id=options.cluster_id,
            zone=options.zone,
            decimal_handling_mode=self._decimals,
            bigint_unsigned_handling_mode=self._large,
        )
        self._build_ts = time_of_building()
        first, history = orjson.loads(state or b'["",""]')
        self._first_database: str = first
        self._history = DdlHistory(history.encode())

    @property
    def encoder(self) -> DebeziumAvroEncoder:
        """The encoder of rows, with the schemas that were registered."""
        return DebeziumAvroEncoder(self._options, self._build_ts, dict(self._ids))

    def state(self) -> bytes:
        """Return the first database of a schema change, and the details that these gave beyond their schemas."""
        return orjson.dumps([self._first_database, self._history.state().decode()])

    def subject(self, topic: str, part: Part) -> str:
        """Return the subject of a topic's keys or values, which has the topic as it is."""
        return f"{topic}-{part}"

    def schema_text(self, table: RoutedTable, part: Part) -> str:
        """See `RegisteringCodec.schema_text`."""
        if part == "key":
            return key_schema(table.schema, self._options)
        return value_schema(table.schema, self._options, table.columns)

    def deletes_need_value(self, *, of_key: bool) -> bool:
        """Return True: a delete is an envelope, too."""
        return True

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what Debezium's forms do to values, and which have none."""
        columns = [c for c in table.selected.columns if not c.virtual]
        large = [c.name for c in columns if is_large(c) and not goes_as_text(c, self._options)]
        damages = [(c.name, damage) for c in columns for damage in damages_of_forms(c, self._options)]
        return [*((name, _NOT_SENT) for name in large), *damages]

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change; none without `avro-enable-watermark` and TiDB's extension."""
        if not self._controls:
            return []
        first = self._first_database or ddl.database
        parts = ddl_parts(ddl, self._options, self._history, build_ts=self._build_ts, database=first)
        if parts is None:
            return []
        self._first_database = first
        key, value = (self._head(part) + part.encoded() for part in parts)
        return [(key, value)]

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to a watermark's message; None without what schema changes need, too."""
        if not self._controls:
            return None
        key, value = map(self._head, watermark_parts(0, self._options, self._build_ts))
        return partial(encode_avro_watermark, options=self._options, build_ts=self._build_ts, heads=(key, value))

    def _head(self, part: Control) -> bytes:
        """Return what messages with a schema begin with, which is registered by then."""
        return header(self._registry.register(part.subject, part.schema))
