"""Avro as a changefeed writes it. Source: Avro protocol, codec options; Changefeed configuration, topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tidecast.model import Ddl, TableSchema
from tidecast.protocols._codec import CodecOptions, Message, RoutedTable, WithoutTails
from tidecast.protocols._protocol import missing_registry
from tidecast.protocols.avro._control import encode_ddl, encode_watermark
from tidecast.protocols.avro._encoder import AvroEncoder, check_decimals, schema_key
from tidecast.protocols.avro._lossy import lossy_columns
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import key_schema, value_schema
from tidecast.registry import Registry, SchemaId, subject_for

_TEXT = "string"
"""The mode of a number that goes as text."""


class AvroCodec(WithoutTails):
    """Avro: a schema id per topic and table version, registered before the first row that needs it."""

    def __init__(self, options: CodecOptions, registry: Registry | None, state: bytes) -> None:
        if registry is None:
            raise missing_registry("Avro")
        self._registry = registry
        self.checksums = options.checksums
        self._options = AvroOptions(
            enable_tidb_extension=options.enable_tidb_extension,
            decimal_handling_mode="string" if options.avro_decimal_handling_mode == _TEXT else "precise",
            bigint_unsigned_handling_mode="string" if options.avro_bigint_unsigned_handling_mode == _TEXT else "long",
            checksum=options.checksums,
            zone=options.zone,
        )
        self._controls = options.enable_tidb_extension and options.avro_enable_watermark
        self._ids: dict[tuple[str, str, str, int], SchemaId] = {}

    @property
    def schemas(self) -> int:
        """The number of schemas that the rows have needed so far."""
        return len(set(self._ids.values()))

    @property
    def encoder(self) -> AvroEncoder:
        """The encoder of rows, with the schemas that were registered."""
        return AvroEncoder(self._options, dict(self._ids))

    def state(self) -> bytes:
        """Return nothing: the registry knows the schemas."""
        return b""

    def prepare_key(self, table: RoutedTable) -> None:
        """Register the key's schema."""
        self._prepare(table, "key", key_schema)

    def prepare_value(self, table: RoutedTable) -> None:
        """Register the value's schema."""
        self._prepare(table, "value", value_schema)

    def _prepare(
        self, table: RoutedTable, part: Literal["key", "value"], schema_of: Callable[[TableSchema, AvroOptions], str]
    ) -> None:
        text = schema_of(table.selected, self._options)
        check_decimals(table.selected, self._options)
        self._ids[schema_key(table, part)] = self._registry.register(subject_for(table.topic, part), text)

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return the schemas of key and value."""
        return [
            (subject_for(table.topic, "key"), key_schema(table.selected, self._options)),
            (subject_for(table.topic, "value"), value_schema(table.selected, self._options)),
        ]

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what a reader of Avro alone takes for something else."""
        return lossy_columns(table.selected, self._options)

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message that `avro-enable-watermark` sends. Source: Avro protocol, DDL and watermark messages."""
        return [(None, encode_ddl(ddl))] if self._controls else []

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return None: the registry has the schemas."""
        return None

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to the message that `avro-enable-watermark` sends."""
        return encode_watermark if self._controls else None


def wrong_options(options: CodecOptions) -> Iterator[str]:
    """Yield what is wrong with a changefeed's options for Avro, in TiCDC's words."""
    if options.force_replicate:
        yield "force-replicate must be disabled, when using avro protocol"
    if not options.schema_registry:
        yield (
            'Avro protocol requires parameter "schema-registry" or "glue-schema-registry" '
            "to specify the schema registry"
        )
    for name, mode, other in (
        ("avro-decimal-handling-mode", options.avro_decimal_handling_mode, "precise"),
        ("avro-bigint-unsigned-handling-mode", options.avro_bigint_unsigned_handling_mode, "long"),
    ):
        if mode not in (_TEXT, other):
            yield f'{name} value could only be "{_TEXT}" or "{other}"'
    needed = {
        "enable-tidb-extension=true": options.enable_tidb_extension,
        "avro-decimal-handling-mode=string": options.avro_decimal_handling_mode == _TEXT,
        "avro-bigint-unsigned-handling-mode=string": options.avro_bigint_unsigned_handling_mode == _TEXT,
    }
    if options.checksums and not all(needed.values()):
        missing = " and ".join(option for option, given in needed.items() if not given)
        yield f"Avro protocol with row level checksum needs {missing}"
