"""Debezium's own connector for MySQL through an Avro converter: schemas and messages, written by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from debezium_avro import Json, Subject, semantic


def native(name: str, fields: list[Json], **more: Any) -> Json:
    namespace, _, last = name.rpartition(".")
    return {"type": "record", "name": last, "namespace": namespace, "fields": fields, "connect.name": name, **more}


def plain(name: str, kind: Any) -> Json:
    return {"name": name, "type": kind}


def maybe(name: str, kind: Any) -> Json:
    return {"name": name, "type": ["null", kind], "default": None}


NATIVE_DECIMAL = {
    "type": "bytes",
    "scale": 2,
    "precision": 10,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}
NATIVE_SOURCE = native(
    "io.debezium.connector.mysql.Source",
    [
        *(plain(name, "string") for name in ("version", "connector", "name")),
        plain("ts_ms", "long"),
        {
            "name": "snapshot",
            "type": [
                {
                    "type": "string",
                    "connect.version": 1,
                    "connect.parameters": {"allowed": "true,last,false,incremental"},
                    "connect.default": "false",
                    "connect.name": "io.debezium.data.Enum",
                },
                "null",
            ],
            "default": "false",
        },
        plain("db", "string"),
        *(maybe(name, "string") for name in ("sequence", "table")),
        plain("server_id", "long"),
        maybe("gtid", "string"),
        plain("file", "string"),
        plain("pos", "long"),
        plain("row", "int"),
        maybe("thread", "long"),
        maybe("query", "string"),
    ],
)
NATIVE_ORIGIN = {
    "version": "2.4.0.Final",
    "connector": "mysql",
    "name": "dbserver1",
    "ts_ms": 1701326309000,
    "snapshot": "false",
    "db": "inventory",
    "table": "customers",
    "server_id": 223344,
    "file": "mysql-bin.000003",
    "pos": 154,
    "row": 0,
    "thread": 7,
}
BLOCK = native(
    "event.block",
    [plain("id", "string"), plain("total_order", "long"), plain("data_collection_order", "long")],
    **{"connect.version": 1},
)


def native_envelope(columns: list[Json]) -> Json:
    return native(
        "dbserver1.inventory.customers.Envelope",
        [
            maybe("before", native("dbserver1.inventory.customers.Value", columns)),
            maybe("after", "Value"),
            plain("source", NATIVE_SOURCE),
            maybe("transaction", BLOCK),
            plain("op", "string"),
            maybe("ts_ms", "long"),
        ],
        **{"connect.version": 2},
    )


NATIVE_COLUMNS = [
    plain("id", "int"),
    {"name": "level", "type": {"type": "int", "connect.type": "int16", "connect.default": 3}, "default": 3},
    {"name": "email", "type": [{"type": "string", "connect.default": "none"}, "null"], "default": "none"},
    maybe("price", NATIVE_DECIMAL),
    maybe("raw", "bytes"),
    maybe("at", semantic("long", "io.debezium.time.MicroTimestamp")),
    plain("ts", semantic("string", "io.debezium.time.ZonedTimestamp")),
    maybe("connect_at", semantic("long", "org.apache.kafka.connect.data.Timestamp")),
    maybe("connect_day", semantic("int", "org.apache.kafka.connect.data.Date")),
    maybe("connect_time", semantic("int", "org.apache.kafka.connect.data.Time")),
]
NATIVE_ROW = {
    "id": 1001,
    "level": 4,
    "email": "a@b",
    "price": Decimal("-12.30"),
    "raw": b"\0\xff",
    "at": 1701347696123400,
    "ts": "2023-11-30T12:34:56Z",
    "connect_at": 1701347696000,
    "connect_day": 19691,
    "connect_time": 45296123,
}
NATIVE_READ = NATIVE_ROW | {
    "at": "2023-11-30 12:34:56.123400",
    "ts": "2023-11-30 12:34:56",
    "connect_at": "2023-11-30 12:34:56",
    "connect_day": "2023-11-30",
    "connect_time": "12:34:56.123000",
}


def native_row(op: str, before: Json | None, after: Json | None, **source: Any) -> Json:
    return {"before": before, "after": after, "source": NATIVE_ORIGIN | source, "op": op, "ts_ms": 1701326309001}


CUSTOMERS = Subject(12, native_envelope(NATIVE_COLUMNS))
CUSTOMER_KEYS = Subject(11, native("dbserver1.inventory.customers.Key", NATIVE_COLUMNS[:1]))
