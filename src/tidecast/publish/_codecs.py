"""Codecs: what each protocol makes of a changefeed's events, behind one face."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast.config import ChangefeedConfig
from tidecast.model import Ddl, TableSchema
from tidecast.protocols import avro, debezium, simple
from tidecast.registry import Registry, subject_for

Message = tuple[bytes | None, bytes]
"""Key and value of a message."""


@dataclass(frozen=True)
class RoutedTable:
    """One table version on its way out: whole, with the columns that its selector lets through, and its topic."""

    schema: TableSchema
    selected: TableSchema
    topic: str

    @property
    def columns(self) -> frozenset[str] | None:
        """The names of the columns that leave, None for all."""
        return None if self.selected is self.schema else frozenset(c.name for c in self.selected.columns)


class Codec(Protocol):
    """How a protocol writes events. Columns read those of a table's changes (see `tidecast.model.TableChanges`)."""

    checksums: bool
    """Whether messages carry the row's checksum."""

    @property
    def schemas(self) -> int:
        """How many registered schemas the rows have needed so far."""

    def state(self) -> bytes:
        """Return what the codec of the changefeed's next run must know, empty for nothing."""

    def prepare_key(self, table: RoutedTable) -> None:
        """Do what must be done before a row of this table leaves. Raises SchemaRefused, EncodeError."""

    def prepare_value(self, table: RoutedTable) -> None:
        """Do what must be done before a row that is not a delete leaves. Raises SchemaRefused, EncodeError."""

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return subject and text of the schemas that a table's messages need in the registry."""

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return the columns some of whose values the protocol's form damages, and how."""

    def unencodable(self, table: RoutedTable) -> Column:
        """Return why a row has no form in the protocol, null for one that has."""

    def key(self, table: RoutedTable) -> Column:
        """Return a row's key: binary."""

    def value(self, table: RoutedTable) -> Column:
        """Return a row's value: binary."""

    def reduced(self, table: RoutedTable, location: Column | None) -> Column:
        """Return the value with the handle key alone, and where the whole one lies."""

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the messages of a schema change; none where the protocol does not tell it."""

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return the message that repeats a schema, None where the protocol has none."""

    def watermark(self, commit_ts: Column) -> tuple[Column, Column] | None:
        """Return key and value of a watermark, None where the protocol has none."""


def codec_for(
    config: ChangefeedConfig, registry: Registry | None, zone: str, cluster_id: str, state: bytes = b""
) -> Codec:
    """Return the codec of a changefeed. `zone` is that of TIMESTAMP text; `state` is what the codec before it left.

    Raises ConfigError for a protocol that is not written here, and for Avro without a registry.
    """
    check_protocol(config.protocol)
    return _CODECS[config.protocol](config, registry, zone, cluster_id, state)


def check_protocol(protocol: str) -> None:
    """Raise ConfigError for a protocol of TiCDC's that is not written here."""
    if protocol not in _CODECS:
        raise ConfigError(
            f"protocol {protocol} is not written by tidecast",
            code="CDC:ErrSinkUnknownProtocol",
            hint=f"use one of {', '.join(_CODECS)}",
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing() -> Column:
    return F.lit(None).cast("binary")


class AvroCodec:
    """Avro: a schema id per topic and table version, registered before the first row that needs it."""

    def __init__(
        self, config: ChangefeedConfig, registry: Registry | None, zone: str, cluster_id: str, state: bytes
    ) -> None:
        if registry is None:
            raise ConfigError(
                'Avro protocol requires parameter "schema-registry"',
                code="CDC:ErrCodecInvalidConfig",
                hint="--schema-registry http://host:8081, or file:///folder",
            )
        self._registry = registry
        self.checksums = config.integrity.check_level == "correctness"
        self._options = avro.AvroOptions(
            enable_tidb_extension=config.enable_tidb_extension,
            decimal_handling_mode=config.avro_decimal_handling_mode,
            bigint_unsigned_handling_mode=config.avro_bigint_unsigned_handling_mode,
            checksum=self.checksums,
            zone=zone,
        )
        self._controls = config.enable_tidb_extension and config.codec.avro_enable_watermark
        self._ids: dict[tuple[str, str, str, int], int] = {}

    @property
    def schemas(self) -> int:
        """How many schemas the rows have needed so far."""
        return len(set(self._ids.values()))

    def state(self) -> bytes:
        """Return nothing: the registry knows the schemas."""
        return b""

    def prepare_key(self, table: RoutedTable) -> None:
        """Register the key's schema."""
        self._prepare(table, "key", avro.key_schema)

    def prepare_value(self, table: RoutedTable) -> None:
        """Register the value's schema."""
        self._prepare(table, "value", avro.value_schema)

    def _prepare(
        self,
        table: RoutedTable,
        part: Literal["key", "value"],
        schema_of: Callable[[TableSchema, avro.AvroOptions], str],
    ) -> None:
        text = schema_of(table.selected, self._options)
        self._ids[_place(table, part)] = self._registry.register(subject_for(table.topic, part), text)

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return the schemas of key and value."""
        return [
            (subject_for(table.topic, "key"), avro.key_schema(table.selected, self._options)),
            (subject_for(table.topic, "value"), avro.value_schema(table.selected, self._options)),
        ]

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what a reader of Avro alone takes for something else."""
        return avro.lossy_columns(table.selected, self._options)

    def unencodable(self, table: RoutedTable) -> Column:
        """Return why a row has no form in Avro."""
        return avro.unencodable(table.selected)

    def key(self, table: RoutedTable) -> Column:
        """Return a row's key: the handle key's columns."""
        return avro.encode_key(table.selected, self._ids[_place(table, "key")], self._options)

    def value(self, table: RoutedTable) -> Column:
        """Return a row's value, null for a delete and for a schema that was not registered."""
        schema_id = self._ids.get(_place(table, "value"))
        return _nothing() if schema_id is None else avro.encode_value(table.selected, schema_id, self._options)

    def reduced(self, table: RoutedTable, location: Column | None) -> Column:
        """Return null: Avro has no form for the handle key alone."""
        return _nothing()

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message that `avro-enable-watermark` sends. Source: Avro protocol, DDL and watermark messages."""
        return [(None, avro.encode_ddl(ddl))] if self._controls else []

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return None: the registry has the schemas."""
        return None

    def watermark(self, commit_ts: Column) -> tuple[Column, Column] | None:
        """Return the message that `avro-enable-watermark` sends."""
        return (_nothing(), avro.encode_watermark(commit_ts)) if self._controls else None


def _place(table: RoutedTable, part: str) -> tuple[str, str, str, int]:
    return table.topic, part, table.schema.name, table.schema.version


class _WithoutRegistry:
    """What is common to protocols whose messages bring their schemas: a row needs no other schema to leave."""

    schemas = 0

    def __init__(self) -> None:
        self._build_ts = _now_ms()

    def state(self) -> bytes:
        """Return nothing."""
        return b""

    def prepare_key(self, table: RoutedTable) -> None:
        """Do nothing."""

    def prepare_value(self, table: RoutedTable) -> None:
        """Do nothing."""

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return nothing."""
        return []


class SimpleCodec(_WithoutRegistry):
    """Simple, as JSON or as Avro: schemas travel with the messages."""

    def __init__(
        self, config: ChangefeedConfig, registry: Registry | None, zone: str, cluster_id: str, state: bytes
    ) -> None:
        super().__init__()
        self.checksums = config.integrity.check_level == "correctness"
        self._options = simple.SimpleOptions(encoding_format=config.encoding_format, zone=zone)

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return nothing: Simple keeps every value."""
        return []

    def unencodable(self, table: RoutedTable) -> Column:
        """Return why a row has no form in Simple."""
        return simple.unencodable(table.schema)

    def key(self, table: RoutedTable) -> Column:
        """Return the empty key that TiCDC's producer makes of none."""
        return F.lit(b"")

    def value(self, table: RoutedTable) -> Column:
        """Return a row's value."""
        return self._value(table)

    def reduced(self, table: RoutedTable, location: Column | None) -> Column:
        """Return the value with the handle key alone."""
        return self._value(table, handle_key_only=True, claim_check=location)

    def _value(self, table: RoutedTable, *, handle_key_only: bool = False, claim_check: Column | None = None) -> Column:
        return simple.encode_value(
            table.schema,
            self._options,
            columns=table.columns,
            handle_key_only=handle_key_only,
            claim_check=claim_check,
            build_ts=F.lit(self._build_ts),
        )

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change."""
        return [(None, simple.encode_ddl(ddl, self._options, self._build_ts))]

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return the message that repeats a schema."""
        return b"", simple.encode_bootstrap(schema, self._options, self._build_ts)

    def watermark(self, commit_ts: Column) -> tuple[Column, Column] | None:
        """Return a watermark's message."""
        return _nothing(), simple.encode_watermark(commit_ts, self._options, F.lit(self._build_ts))


class DebeziumCodec(_WithoutRegistry):
    """Debezium: every message brings its own schema, unless told not to."""

    checksums = False

    def __init__(
        self, config: ChangefeedConfig, registry: Registry | None, zone: str, cluster_id: str, state: bytes
    ) -> None:
        super().__init__()
        self._options = debezium.DebeziumOptions(
            disable_schema=config.debezium_disable_schema,
            output_old_value=config.debezium_output_old_value,
            enable_tidb_extension=config.enable_tidb_extension,
            cluster_id=cluster_id,
            zone=zone,
        )
        self._history = debezium.DdlHistory(state)

    def state(self) -> bytes:
        """Return what schema changes have said beyond their schemas."""
        return self._history.state()

    def lossy_columns(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return what Debezium's forms do to values."""
        return debezium.lossy_columns(table.selected, self._options)

    def unencodable(self, table: RoutedTable) -> Column:
        """Return why a row has no form in Debezium."""
        return debezium.unencodable(table.schema, columns=table.columns)

    def key(self, table: RoutedTable) -> Column:
        """Return a row's key: the handle key's columns, whatever the selector says."""
        return debezium.encode_key(table.schema, self._options)

    def value(self, table: RoutedTable) -> Column:
        """Return a row's value."""
        build_ts = F.lit(self._build_ts)
        return debezium.encode_value(table.schema, self._options, columns=table.columns, build_ts=build_ts)

    def reduced(self, table: RoutedTable, location: Column | None) -> Column:
        """Return null: Debezium has no form for the handle key alone."""
        return _nothing()

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change, none where the statement changes no table's columns."""
        message = debezium.encode_ddl(ddl, self._options, self._history, build_ts=self._build_ts)
        return [message] if message else []

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return None: messages bring their schemas."""
        return None

    def watermark(self, commit_ts: Column) -> tuple[Column, Column] | None:
        """Return a watermark's message, None without TiDB's extension."""
        if not self._options.enable_tidb_extension:
            return None
        return debezium.encode_watermark(commit_ts, self._options, build_ts=F.lit(self._build_ts))


_CODECS: dict[str, Callable[[ChangefeedConfig, Registry | None, str, str, bytes], Codec]] = {
    "avro": AvroCodec,
    "debezium": DebeziumCodec,
    "simple": SimpleCodec,
}
