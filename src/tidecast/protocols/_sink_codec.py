"""The files of a storage sink beside those of rows: schema files and `metadata`. Source: Storage sink, layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from tidecast._errors import ConfigError
from tidecast.model import Ddl, TableSchema, ddl_action
from tidecast.protocols._codec import Codec, CodecOptions, Encoder, Message
from tidecast.protocols._schema_file import write_schema_file

FILE = b"/"
"""What the key of a message begins with that is a whole file: its path below the sink's folder follows."""
_KEPT = 1000


class SinkCodec(Codec):
    """The codec of files: rows by an encoder of lines, schema changes as schema files, watermarks as `metadata`.

    TiCDC calls a table version by the commit-ts of the statement that made it. Some sources call it by another number,
    and send the statement before its rows; `state` keeps these pairs for the next run.
    """

    def __init__(self, encoder: Encoder, options: CodecOptions, state: bytes) -> None:
        self._encoder, self._options = encoder, options
        told: list[tuple[str, str, int, int]] = json.loads(state or b"[]")
        self._made = {(database, table, version): made for database, table, version, made in told}

    @property
    def encoder(self) -> Encoder:
        """The encoder of rows."""
        return self._encoder

    def state(self) -> bytes:
        """Return the last table versions whose statements came, as JSON."""
        kept = list(self._made.items())[-_KEPT:]
        return json.dumps([[*name, made] for name, made in kept]).encode()

    def learn(self, made: Iterable[tuple[TableSchema, int]]) -> None:
        """Take note of table versions, and of the commit-ts of the statements that made them."""
        for schema, commit_ts in made:
            if not schema.view:
                self._made.pop(schema.key, None)
                self._made[schema.key] = commit_ts

    def folder(self, schema: TableSchema) -> str:
        """Return the folder of a table version's rows, in place of a topic."""
        return f"{self._path(schema)}/{self._version(schema)}"

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the schema file of a statement, and of a table that gets a partition's rows its columns."""
        schema = ddl.schema or TableSchema(ddl.database, ddl.table, 0, ddl.commit_ts, ())
        told = self._file(schema, ddl.commit_ts, ddl.sql, ddl_action(ddl.sql, ddl.type).number)
        other = ddl.before if ddl.exchanged else None
        return [told, self._file(other, ddl.commit_ts, "", 0)] if other else [told]

    def bootstrap(self, schema: TableSchema) -> Message | None:
        """Return the schema file of a table version; it takes the place of none that is there."""
        return self._file(schema, self._version(schema), "", 0)

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to the file `metadata`."""
        return _metadata

    def _file(self, schema: TableSchema, version: int, sql: str, kind: int) -> Message:
        name, text = write_schema_file(schema, sql=sql, kind=kind, column_ids=self._options.column_ids, version=version)
        return FILE + f"{self._path(schema)}/meta/{name}".encode(), text.encode()

    def _path(self, schema: TableSchema) -> str:
        """Return the folder of a table. Raises ConfigError where it is to be the table's number, which nobody tells."""
        if self._options.table_id_as_path and schema.table:
            if schema.table_id:
                return str(schema.table_id)
            what = f"use-table-id-as-path takes the numbers of tables, and nothing tells that of {schema.name}"
            raise ConfigError(what, hint="of the protocols only simple tells them: leave use-table-id-as-path out")
        return f"{schema.database}/{schema.table}" if schema.table else schema.database

    def _version(self, schema: TableSchema) -> int:
        return self._made.get(schema.key, schema.version)


def _metadata(commit_ts: int) -> Message:
    return FILE + b"metadata", json.dumps({"checkpoint-ts": commit_ts}, separators=(",", ":")).encode()
