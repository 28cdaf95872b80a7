"""The writing side of a protocol: what a codec does, and its options."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidecast._csv_format import CsvFormat
from tidecast.model import Column, Ddl, TableSchema
from tidecast.protocols._decoded import Rows
from tidecast.values import BYTES

Message = tuple[bytes | None, bytes]
"""Key and value of a message."""


@dataclass(frozen=True)
class CodecOptions:
    """The settings of messages, from a changefeed's configuration and the server, by TiCDC's names.

    A protocol takes those that are its own. `checksums` is `integrity-check-level = correctness`; `schema_registry`
    tells whether there is one, `compressed` whether `large-message-handle-compression` packs what the codec writes.
    `zone` is that of TIMESTAMP text. `csv` is there for files of a storage sink; so are `table_id_as_path` and
    `column_ids` (`output-column-id`).
    """

    enable_tidb_extension: bool = False
    avro_enable_watermark: bool = False
    avro_include_before_value: bool = False
    avro_decimal_handling_mode: str = "precise"
    avro_bigint_unsigned_handling_mode: str = "long"
    encoding_format: str = "json"
    debezium_disable_schema: bool = False
    debezium_include_start_ts: bool = False
    debezium_output_old_value: bool = True
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    force_replicate: bool = False
    checksums: bool = False
    schema_registry: bool = False
    compressed: bool = False
    zone: str = "UTC"
    cluster_id: str = "default"
    csv: CsvFormat | None = None
    table_id_as_path: bool = False
    column_ids: bool = False


@dataclass(frozen=True)
class RoutedTable:
    """One table version on its way out: whole, with the columns that its selector lets through, and its topic.

    The table has the name that it has in messages.
    """

    schema: TableSchema
    selected: TableSchema
    topic: str

    @property
    def columns(self) -> frozenset[str] | None:
        """The names of the columns that leave, None for all."""
        return None if self.selected is self.schema else frozenset(c.name for c in self.selected.columns)

    @property
    def shown(self) -> list[Column]:
        """The columns that leave and have values, as virtual ones have none; in the table's order."""
        return [c for c in self.selected.columns if not c.virtual]


class Encoder(Protocol):
    """Makes the messages of rows. It can be pickled and sent to Spark's tasks.

    Each method takes a table version on its way out, and its rows; `Rows.version` is not read, `Rows.old` and
    `Rows.data` hold all columns of `RoutedTable.schema`. Each returns a column with a value per row.
    """

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return why a row has no form in the protocol, as text; null for one that has."""

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return each row's key without its tail, large_binary; null where it has none.

        Without a key of a protocol's own it is the empty one that TiCDC's producer makes of none.
        """
        return pa.array([b""] * len(rows.at), BYTES)

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return each row's value without its tail, large_binary; null where it has none."""

    def reduced(self, table: RoutedTable, rows: Rows, location: pa.Array | None) -> pa.Array:
        """Return each value with the handle key alone, and where the whole one lies; null without such a form."""
        return pa.nulls(len(rows.at), BYTES)


class Codec(Protocol):
    """How a protocol writes events; by itself one whose messages bring all that their readers need to know."""

    checksums: bool = False
    """Whether messages carry the row's checksum."""
    needs_commit_ts: bool = True
    """Whether 0 stands in every row whose commit-ts is not known."""

    @property
    def schemas(self) -> int:
        """The number of registered schemas that the rows have needed so far."""
        return 0

    @property
    def encoder(self) -> Encoder:
        """The encoder of rows, with the schemas that were registered."""

    def state(self) -> bytes:
        """Return what the codec of the changefeed's next run must know, empty for nothing."""
        return b""

    def prepare_key(self, table: RoutedTable) -> None:
        """Do what must be done before a row of this table leaves. Raises SchemaRefused, EncodeError."""
        return

    def prepare_value(self, table: RoutedTable) -> None:
        """Do what must be done before a row that is not a delete leaves. Raises SchemaRefused, EncodeError."""
        return

    def deletes_need_value(self, *, of_key: bool) -> bool:
        """Tell whether deletes, too, need what `prepare_value` does. `of_key`: only their key is known."""
        return False

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return subject and text of the schemas that a table's messages need in the registry."""
        return ()

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return the columns some of whose values the protocol's form damages, and how."""
        return ()

    def tails(self, table: RoutedTable) -> Message:
        """Return the ends that all keys and all values of a table have in common, to be joined when they are written.

        Both are empty where a protocol has none, as it must where its values may be compressed or reduced.
        """
        return b"", b""

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the messages of a schema change; none where the protocol does not tell it."""

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return the message that repeats a schema, None where the protocol has none."""
        return None

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to the message of a watermark; None where the protocol has none. It can be pickled."""
        return None


def time_of_building() -> int:
    """Return the present time as messages show it that tell when they were made: milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
