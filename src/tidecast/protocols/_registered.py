"""Messages whose schemas are in a registry: their framing, and how the schemas are looked up and registered.

Source: Avro protocol, wire format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._errors import EncodeError
from tidecast.model import Column, Kind, Reason, TableSchema, sanitize
from tidecast.protocols._codec import Codec, CodecOptions, RoutedTable
from tidecast.protocols._decoded import TAG, Decoder, Reader, Rejected, TableVersion
from tidecast.protocols._description import Description
from tidecast.protocols._protocol import DecodeOptions, missing_registry
from tidecast.registry import FRAMINGS, Framing, RegisteredSchema, Registry, SchemaId, header, subject_for

Part = Literal["key", "value"]

Schemas = Mapping[bytes, RegisteredSchema | None]
"""Registered schemas by the bytes that their messages begin with; None stands for one that the registry lacks."""


SchemaIds = Mapping[tuple[str, str, str, int], SchemaId]
"""The ids of registered schemas, see `schema_key`."""

AS_TEXT = "string"
"""The mode of a number that goes as text."""


def schema_key(table: RoutedTable, part: str) -> tuple[str, str, str, int]:
    """Return what tells the schema of a table version's keys or values, as `part` says, from all others."""
    return table.topic, part, table.schema.name, table.schema.version


class RegisteringCodec(Codec):
    """The common part of protocols whose rows leave by a schema in a registry.

    `title` is the protocol's, `code` TiCDC's for a row without a form.
    """

    title: str
    code: str

    def __init__(self, options: CodecOptions, registry: Registry | None) -> None:
        if registry is None:
            raise missing_registry(self.title)
        self._registry = registry
        self._ids: dict[tuple[str, str, str, int], SchemaId] = {}
        decimals, large = options.avro_decimal_handling_mode, options.avro_bigint_unsigned_handling_mode
        self._decimals: Literal["precise", "string"] = "string" if decimals == AS_TEXT else "precise"
        self._large: Literal["long", "string"] = "string" if large == AS_TEXT else "long"
        self._controls = options.enable_tidb_extension and options.avro_enable_watermark

    def schema_text(self, table: RoutedTable, part: Part) -> str:
        """Return the schema of a table's keys or values. Raises EncodeError for a table that has none."""
        raise NotImplementedError

    def subject(self, topic: str, part: Part) -> str:
        """Return the subject of a topic's keys or values."""
        return subject_for(topic, part)

    @property
    def schemas(self) -> int:
        """The number of schemas that the rows have needed so far."""
        return len(set(self._ids.values()))

    def prepare_key(self, table: RoutedTable) -> None:
        """Register the key's schema."""
        self._prepare(table, "key")

    def prepare_value(self, table: RoutedTable) -> None:
        """Register the value's schema."""
        self._prepare(table, "value")

    def _prepare(self, table: RoutedTable, part: Part) -> None:
        text = self.schema_text(table, part)
        if self._decimals == "precise":
            self._check_decimals(table.selected)
        self._ids[schema_key(table, part)] = self._registry.register(self.subject(table.topic, part), text)

    def _check_decimals(self, schema: TableSchema) -> None:
        """Raise EncodeError for a DECIMAL whose precision is not known, which its bytes need."""
        for column in schema.columns:
            if column.data_type.kind is Kind.DECIMAL and not column.data_type.length:
                raise EncodeError(
                    "a decimal of unknown precision cannot be written in mode precise",
                    code=self.code,
                    where=f"{schema.name} column {column.name}",
                    hint="set avro-decimal-handling-mode=string",
                )

    def schemas_of(self, table: RoutedTable) -> Sequence[tuple[str, str]]:
        """Return the schemas of key and value."""
        parts: tuple[Part, Part] = ("key", "value")
        return [(self.subject(table.topic, part), self.schema_text(table, part)) for part in parts]


def check_names(schema: TableSchema, columns: Sequence[Column]) -> None:
    """Raise EncodeError where two columns of a table have one name in Avro."""
    names = Counter(sanitize(c.name) for c in columns)
    if clash := [c.name for c in columns if names[sanitize(c.name)] > 1]:
        raise name_clash(f"columns {', '.join(clash)} have one name in Avro", schema)


def name_clash(what: str, schema: TableSchema) -> EncodeError:
    """Return the error for a name that something else has already."""
    hint = "rename one, or leave one out with a column selector"
    return EncodeError(what, code="CDC:ErrAvroSchemaAPIError", where=schema.name, hint=hint)


def wrong_registry_options(options: CodecOptions, title: str, name: str) -> Iterator[str]:
    """Yield what is wrong with options that such a protocol has, in TiCDC's words."""
    if options.force_replicate:
        yield f"force-replicate must be disabled, when using {name} protocol"
    if not options.schema_registry:
        yield (
            f'{title} protocol requires parameter "schema-registry" or "glue-schema-registry" '
            "to specify the schema registry"
        )
    for option, mode, other in (
        ("avro-decimal-handling-mode", options.avro_decimal_handling_mode, "precise"),
        ("avro-bigint-unsigned-handling-mode", options.avro_bigint_unsigned_handling_mode, "long"),
    ):
        if mode not in (AS_TEXT, other):
            yield f'{option} value could only be "{AS_TEXT}" or "{other}"'


class RegistryReader(Reader):
    """Knows the schemas of the registry that messages have asked for. `title` is the protocol's."""

    title: str

    def __init__(self, options: DecodeOptions) -> None:
        if options.registry is None:
            raise missing_registry(self.title)
        self._registry = options.registry
        self._registry.check()
        self.keyless = self._registry.framing.magic
        guessed = self._registry.guess(options.subjects)
        self._schemas: Schemas = {header(n): known for n, known in guessed.items()}

    def learn(self, names: Sequence[bytes]) -> bool:
        """Ask the registry for schemas; one that it does not know is known to be missing. See `Reader.learn`."""
        framing = self._registry.framing
        # A name has the heads that rows need one behind the other.
        parts = ((name, at) for name in names for at in range(0, len(name), framing.length))
        heads = {name[at : at + framing.length] for name, at in parts} - self._schemas.keys()
        found = {}
        for head in sorted(heads):
            schema_id = framing.schema_id(head)
            assert schema_id is not None
            found[head] = self._registry.schema(schema_id)
        self._schemas = {**self._schemas, **found}
        return bool(found)


@dataclass(frozen=True)
class RegisteredDecoder(Decoder):
    """The common part of decoders of messages whose schemas are in a registry: it has those that it was given.

    `asked` are the names of the rows that are to be read, see `Decoder.only`; None for all messages.
    """

    framing: Framing
    schemas: Schemas
    asked: frozenset[bytes] | None = field(default=None, kw_only=True)

    def of(self, version: TableVersion) -> Self:
        """See `Decoder.of`."""
        heads = {version.key_begins, version.value_begins}
        return replace(self, schemas={head: schema for head, schema in self.schemas.items() if head in heads})

    def only(self, names: frozenset[bytes]) -> Self:
        """See `Decoder.only`."""
        return replace(self, asked=names)

    def groups(
        self, keys: pa.Array, values: pa.Array, at: np.ndarray
    ) -> Iterator[tuple[bytes, bytes, np.ndarray, bytes]]:
        """Yield what `groups` does, as far as it is to be read, and what is missing of schemas: heads, or nothing."""
        for key, value, places in groups(keys, values, at):
            if self.asked is None or key + value in self.asked or not {key, value}.isdisjoint(self.asked):
                yield key, value, places, b"".join(h for h in (key, value) if h and h not in self.schemas)


def describe_ids(key: bytes | None, value: bytes | None, known: Description | None = None) -> Description:
    """Return the description of a message with its schema ids, beside what is known."""
    return replace(
        known or Description(), key_schema_id=_schema_id(key or b""), value_schema_id=_schema_id(value or b"")
    )


def _schema_id(message: bytes) -> int | str | None:
    ids = (framing.schema_id(message) for framing in FRAMINGS)
    found = next((schema_id for schema_id in ids if schema_id is not None), None)
    return str(found) if isinstance(found, UUID) else found


def framed(
    keys: pa.Array, values: pa.Array, framing: Framing, rows: np.ndarray
) -> tuple[list[Rejected], tuple[pa.Array, pa.Array, np.ndarray]]:
    """Return the messages whose framing shows no schema id, and the heads of the others with where they stand.

    TiCDC's producer may send a key or a value that is empty for one that is not there.
    """
    rejected: list[Rejected] = []
    heads, lengths = [], []
    for part in (keys, values):
        heads.append(pc.fill_null(pc.binary_slice(part, 0, framing.length), b""))
        lengths.append(np.asarray(pc.binary_length(heads[-1])))
    good = rows.copy()

    def reject(wrong: np.ndarray, reason: Reason, detail: str | pa.Array) -> None:
        at = np.flatnonzero(good & wrong)
        if at.size:
            chosen = detail.take(pa.array(at)) if isinstance(detail, pa.Array) else detail
            rejected.append(Rejected.of(at, reason, chosen))
            good[at] = False

    reject((lengths[0] == 0) & (lengths[1] == 0), Reason.BAD_MESSAGE, "neither key nor value")
    size = len(framing.magic)
    for head, length in zip(heads, lengths, strict=True):
        strange = (length >= size) & ~np.asarray(pc.fill_null(pc.starts_with(head, framing.magic), False))
        if (good & strange).any():
            texts = [f"begins with {h[:size].hex()}, not with {framing.magic.hex()}" for h in head.to_pylist()]
            reject(strange, Reason.BAD_MAGIC, pa.array(texts, TAG))
        short = f"shorter than the {framing.length} bytes that tell the schema id"
        reject((length > 0) & (length < framing.length), Reason.TRUNCATED, short)
    return rejected, (*heads, np.flatnonzero(good))


def groups(keys: pa.Array, values: pa.Array, at: np.ndarray) -> Iterator[tuple[bytes, bytes, np.ndarray]]:
    """Yield the pairs of heads, and where the messages with each of them stand; in the order of their first ones."""
    if not at.size:
        return
    key, value = (part.take(pa.array(at)).dictionary_encode() for part in (keys, values))
    codes = np.asarray(key.indices).astype(np.int64) * len(value.dictionary) + np.asarray(value.indices)
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(group))[:-1])
    for number in np.argsort(first):
        row = first[number]
        yield (
            key.dictionary[key.indices[row].as_py()].as_py(),
            value.dictionary[value.indices[row].as_py()].as_py(),
            at[parts[number]],
        )
