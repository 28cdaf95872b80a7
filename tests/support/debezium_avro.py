"""Debezium's envelope as Avro, written by hand: schemas as TiCDC and Confluent's converter have them, and messages."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
from decoded_batches import Message, batch, said

from tidecast.protocols import RoutedTable, Rows
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder
from tidecast.registry import CONFLUENT, RegisteredSchema, Registry, header

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


def read(messages: list[Message], *subjects: Subject) -> dict[int, tuple[Any, ...]]:
    return said(decoder(*subjects).decode(batch(messages)))


def only_rows(messages: list[Message], *subjects: Subject) -> Rows:
    (rows,) = decoder(*subjects).decode(batch(messages)).rows
    return rows


def semantic(kind: str, name: str, version: int | None = 1, **parameters: str) -> Json:
    found: Json = {"connect.name": name, "type": kind}
    if version:
        found["connect.version"] = version
    return found | ({"connect.parameters": parameters} if parameters else {})


PRECISE = semantic("bytes", "org.apache.kafka.connect.data.Decimal", None, precision="10", scale="4")
PRECISE |= {"logicalType": "decimal", "precision": 10, "scale": 4}
COLUMNS: list[tuple[str, str, Any, Any, Any]] = [
    ("id", "int", "int", 7, 7),
    ("tiny", "tinyint unsigned", {"connect.type": "int16", "type": "int"}, 255, 255),
    ("u", "bigint unsigned", "long", 2**63 - 1, 2**63 - 1),
    ("us", "bigint unsigned", "string", "18446744073709551615", 2**64 - 1),
    ("f", "float", "float", 1.5, 1.5),
    ("d", "double", "double", 1e300, 1e300),
    ("n", "decimal", PRECISE, Decimal("-1.2345"), Decimal("-1.2345")),
    ("ns", "decimal", "string", "12.3400", "12.3400"),
    ("v", "varchar", "string", "中文", "中文"),
    ("b", "varbinary", "bytes", b"\0\xff", b"\0\xff"),
    ("bit", "bit", "boolean", True, b"\1"),
    ("bits", "bit", semantic("bytes", "io.debezium.data.Bits", length="12"), b"\x01\x0a", b"\x0a\x01"),
    ("e", "enum", semantic("string", "io.debezium.data.Enum", allowed="a\\,b,c"), "a,b", "a,b"),
    ("s", "set", semantic("string", "io.debezium.data.EnumSet", allowed="x,y"), "x,y", "x,y"),
    ("j", "json", semantic("string", "io.debezium.data.Json"), '{"k": 1}', '{"k": 1}'),
    ("day", "date", semantic("int", "io.debezium.time.Date"), 19691, "2023-11-30"),
    ("at", "datetime", semantic("long", "io.debezium.time.Timestamp"), 1701347696000, "2023-11-30 12:34:56"),
    ("at6", "datetime", semantic("long", "io.debezium.time.MicroTimestamp"), -1, "1969-12-31 23:59:59.999999"),
    ("ts", "timestamp", semantic("string", "io.debezium.time.ZonedTimestamp"), "2023-11-30T12:34:56Z", None),
    ("dur", "time", semantic("long", "io.debezium.time.MicroTime"), -45296123000, "-12:34:56.123000"),
    ("y", "year", semantic("int", "io.debezium.time.Year"), 2023, 2023),
    ("vec", "vector", semantic("string", "io.debezium.data.TiDBVectorFloat32", None), "[1,2.5]", "[1,2.5]"),
]
FIELDS = [optional(name, kind, tidb_type=tidb_type) for name, tidb_type, kind, _, _ in COLUMNS]
WRITTEN = {name: value for name, _, _, value, _ in COLUMNS}
READ = {name: value for name, _, _, _, value in COLUMNS} | {"ts": "2023-11-30 12:34:56"}
NOTHING = dict.fromkeys(READ) | {"id": 8}
VALUES, KEYS = Subject(2, envelope(FIELDS)), Subject(1, key(FIELDS[:1]))


def fastavro_reads(message: bytes, registry: Registry) -> tuple[Json, Json]:
    """Return a message's schema and what fastavro reads in it, to its end."""
    schema_id = CONFLUENT.schema_id(message)
    assert schema_id is not None
    known = registry.schema(schema_id)
    assert known is not None
    schema = json.loads(known.text)
    subject = Subject(int(str(schema_id)), schema)
    return schema, subject.content(message)


def written(codec: Any, table: RoutedTable, rows: Rows) -> tuple[list[bytes], list[bytes]]:
    codec.prepare_key(table)
    codec.prepare_value(table)
    encoder = codec.encoder
    assert encoder.unencodable(table, rows).null_count == len(rows.at)
    return encoder.key(table, rows).to_pylist(), encoder.value(table, rows).to_pylist()
