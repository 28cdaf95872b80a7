"""Avro as a changefeed writes it. Source: Avro protocol, codec options; Changefeed configuration, topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidecast.model import Ddl, TableSchema
from tidecast.protocols._codec import CodecOptions, Message, RoutedTable
from tidecast.protocols._registered import AS_TEXT, Part, RegisteringCodec, wrong_registry_options
from tidecast.protocols.avro._control import encode_ddl, encode_watermark
from tidecast.protocols.avro._encoder import AvroEncoder
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import key_schema, value_schema
from tidecast.registry import Registry

_NEGATIVE = "numbers from 2^63 on become negative (avro-bigint-unsigned-handling-mode=string keeps them)"


class AvroCodec(RegisteringCodec):
    """Avro: a schema id per topic and table version, registered before the first row that needs it."""

    title = "Avro"
    code = "CDC:ErrAvroEncodeFailed"

    def __init__(self, options: CodecOptions, registry: Registry | None, state: bytes) -> None:
        super().__init__(options, registry)
        self.checksums, self.needs_commit_ts = options.checksums, options.enable_tidb_extension
        self._options = AvroOptions(
            enable_tidb_extension=options.enable_tidb_extension,
            decimal_handling_mode=self._decimals,
            bigint_unsigned_handling_mode=self._large,
            checksum=options.checksums,
            include_before_value=options.avro_include_before_value,
            timed_deletes=self._controls and not options.avro_include_before_value,
            zone=options.zone,
        )

    @property
    def encoder(self) -> AvroEncoder:
        """The encoder of rows, with the schemas that were registered."""
        return AvroEncoder(self._options, dict(self._ids))

    def schema_text(self, table: RoutedTable, part: Part) -> str:
        """See `RegisteringCodec.schema_text`."""
        return (key_schema if part == "key" else value_schema)(table.selected, self._options)

    def deletes_need_value(self, *, of_key: bool) -> bool:
        """Tell whether deletes show the row before them; those of which only the key is known are tombstones."""
        return self._options.include_before_value and not of_key

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what a reader of Avro alone takes for something else."""
        return lossy_columns(table.selected, self._options)

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message that `avro-enable-watermark` sends. Source: Avro protocol, DDL and watermark messages."""
        return [(None, encode_ddl(ddl))] if self._controls else []

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to the message that `avro-enable-watermark` sends."""
        return encode_watermark if self._controls else None


def lossy_columns(schema: TableSchema, options: AvroOptions) -> list[tuple[str, str]]:
    """Return the columns with values that a reader without TiDB's types misreads, and what it takes them for.

    A reader that knows TiDB's types (see `decode`) gets all of them back. Source: Avro protocol, column types.
    """
    if options.bigint_unsigned_handling_mode != "long":
        return []
    types = [(c.name, c.data_type) for c in schema.columns if not c.virtual]
    return [(name, _NEGATIVE) for name, one in types if one.mysql_type == "bigint" and one.unsigned]


def wrong_options(options: CodecOptions) -> Iterator[str]:
    """Yield what is wrong with a changefeed's options for Avro, in TiCDC's words."""
    yield from wrong_registry_options(options, "Avro", "avro")
    needed = {
        "enable-tidb-extension=true": options.enable_tidb_extension,
        "avro-decimal-handling-mode=string": options.avro_decimal_handling_mode == AS_TEXT,
        "avro-bigint-unsigned-handling-mode=string": options.avro_bigint_unsigned_handling_mode == AS_TEXT,
    }
    if options.checksums and not all(needed.values()):
        missing = " and ".join(option for option, given in needed.items() if not given)
        yield f"Avro protocol with row level checksum needs {missing}"
