"""Debezium's envelope as Avro, written by hand: schemas as TiCDC and Confluent's converter have them, and messages."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder
from tidecast.registry import CONFLUENT, RegisteredSchema, header

Json = dict[str, Any]
COMMIT_TS = 447984074911121426


def optional(name: str, kind: Any, **beside: Any) -> Json:
    """Return a field as TiCDC writes all columns."""
    return {"connect.field": name, "default": None, "name": name, "type": ["null", kind], **beside}


def required(name: str, kind: Any) -> Json:
    """Return a field that always has a value."""
    return {"connect.field": name, "name": name, "type": kind}


def record(name: str, fields: list[Json], **connect: Any) -> Json:
    """Return a record by its full name."""
    namespace, _, last = name.rpartition(".")
    return {"connect.name": name, **connect, "fields": fields, "name": last, "namespace": namespace, "type": "record"}


SOURCE = [
    *(required(name, "string") for name in ("version", "connector", "name")),
    required("ts_ms", "long"),
    optional("snapshot", "string"),
    *(required(name, "string") for name in ("db", "table")),
    required("server_id", "long"),
    optional("gtid", "string"),
    required("file", "string"),
    required("pos", "long"),
    required("row", "int"),
    optional("thread", "long"),
    optional("query", "string"),
    required("commit_ts", "long"),
    required("cluster_id", "string"),
]
ORIGIN = {
    "version": "2.4.0.Final",
    "connector": "TiCDC",
    "name": "a",
    "ts_ms": COMMIT_TS >> 18,
    "db": "shop",
    "table": "t",
    "server_id": 0,
    "file": "",
    "pos": 0,
    "row": 0,
    "commit_ts": COMMIT_TS,
    "cluster_id": "a",
}


def envelope(columns: list[Json], prefix: str = "a.shop.t") -> Json:
    """Return the schema of TiCDC's rows, `prefix` naming cluster, database and table."""
    space = prefix.rpartition(".")[0]
    return record(
        f"{prefix}Envelope",
        [
            optional("before", record(prefix, columns)),
            optional("after", prefix),
            required("source", record(f"{space}.Source", SOURCE)),
            required("op", "string"),
            required("ts_ms", "long"),
        ],
        **{"connect.version": 1},
    )


def key(columns: list[Json], prefix: str = "a.shop.t") -> Json:
    """Return the schema of TiCDC's keys."""
    return record(f"{prefix}Key", columns)


def row(op: str, before: Json | None, after: Json | None, **source: Any) -> Json:
    """Return what a message says."""
    return {"before": before, "after": after, "source": ORIGIN | source, "op": op, "ts_ms": 1701326309000}


class Subject:
    """A schema with an id, and messages of it."""

    def __init__(self, schema_id: int, schema: Json) -> None:
        self.id, self.schema = schema_id, schema
        self._parsed = fastavro.parse_schema(schema)

    def message(self, content: Json) -> bytes:
        """Return a message as fastavro writes it."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, content)
        return header(self.id) + out.getvalue()

    def content(self, message: bytes) -> Any:
        """Return what fastavro reads in a message, which must be all of it."""
        assert message.startswith(header(self.id))
        stream = io.BytesIO(message[CONFLUENT.length :])
        content = fastavro.schemaless_reader(stream, self._parsed, None)
        assert not stream.read(1)
        return content


def decoder(*subjects: Subject) -> DebeziumAvroDecoder:
    """Return a decoder that knows these schemas."""
    known = {header(s.id): RegisteredSchema(json.dumps(s.schema), s.id) for s in subjects}
    return DebeziumAvroDecoder(CONFLUENT, known)
