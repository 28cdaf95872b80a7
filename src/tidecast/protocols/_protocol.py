"""The description of a protocol: its names, its reader, its writer, and its abilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from tidecast._csv_format import CsvFormat
from tidecast._errors import ConfigError
from tidecast.model import SchemaHistory, TableSchema
from tidecast.protocols._codec import Codec, CodecOptions
from tidecast.protocols._decoded import Reader
from tidecast.protocols._description import Description
from tidecast.registry import Registry


@dataclass(frozen=True)
class DecodeOptions:
    """The settings that reading a batch of messages takes beside them.

    `ordered`: see `tidecast.model.Events`. `registry` is there for a protocol that needs one. `zone` is that of
    TIMESTAMP text which names none. `history` is what earlier batches have shown of schemas, None for the first.
    `subjects` tells whether a subject of the registry is likely to be of the messages. `csv` is how files of a storage
    sink are written that the messages are lines of; None for messages of topics. `select` leaves of a table what those
    lines have of it.
    """

    ordered: bool = False
    registry: Registry | None = None
    zone: str = "UTC"
    history: SchemaHistory | None = None
    subjects: Callable[[str], bool] = lambda subject: True
    csv: CsvFormat | None = None
    select: Callable[[TableSchema], TableSchema] = lambda schema: schema


CodecFactory = Callable[[CodecOptions, Registry | None, bytes], Codec]
"""Makes a codec with the registry, if there is one, and the `Codec.state` of the run before."""


@dataclass(frozen=True)
class WireProtocol:
    """One of TiCDC's protocols of messages.

    `name` is TiCDC's spelling, `title` that of texts for people, `aliases` are further names in URIs. It is read
    where it has a `reader`, from the columns of `tidecast.model.RECORD`, and written where it has a `codec`.
    `describe` explains one message by its key and value; `looks_like` tells whether a value is one of this protocol's.
    `wrong_options` are TiCDC's objections to a changefeed's options, in its words.

    Its abilities are `needs_registry` and `one_table_per_topic`. With `watermarks` TiCDC sends these wherever it sends
    a commit-ts, with `bootstraps` messages repeat a table's schema. So many of a topic's partitions get a schema change
    as `ddl_partitions` says, None for all. With `zoned_checksums` they depend on a time zone that messages do not name.
    `compressed` are the parts that `large-message-handle-compression` packs, key or value. With `large_messages`,
    `large-message-handle-option` may be set. `claim_check_locations` takes values (binary), and returns where each says
    that its whole message lies (string), null for a whole one.
    `files` is the suffix of its files in TiCDC's storage sink, empty where that does not have it; `topics` tells
    whether Kafka has it.
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    reader: Callable[[DecodeOptions], Reader] | None = None
    codec: CodecFactory | None = None
    describe: Callable[[bytes | None, bytes | None], Description] = lambda key, value: Description()
    looks_like: Callable[[bytes], bool] = lambda value: False
    wrong_options: Callable[[CodecOptions], Iterable[str]] = lambda options: ()
    needs_registry: bool = False
    one_table_per_topic: bool = False
    zoned_checksums: bool = False
    watermarks: bool = False
    bootstraps: bool = False
    compressed: tuple[str, ...] = ()
    large_messages: Callable[[CodecOptions], bool] = lambda options: False
    ddl_partitions: int | None = None
    claim_check_locations: Callable[[pa.Array], pa.Array] | None = None
    files: str = ""
    topics: bool = True

    def check_registry(self, registry: Registry | None) -> None:
        """Raise ConfigError where this protocol needs a registry and there is none."""
        if self.needs_registry and registry is None:
            raise missing_registry(self.title)


def missing_registry(title: str) -> ConfigError:
    """Return the error for a protocol that needs a registry and has none."""
    return ConfigError(
        f'{title} protocol requires parameter "schema-registry"',
        code="CDC:ErrCodecInvalidConfig",
        hint="--schema-registry http://host:8081, or file:///folder",
    )
