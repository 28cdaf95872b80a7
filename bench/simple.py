"""Simple, in JSON and in Avro: tidecast beside Spark alone, fastavro and orjson, on one core each.

The table, and how the contestants take turns, are those of the benchmark of Avro with row checksums. Spark alone reads
the same bytes into the same columns as text, or writes a message of the same members, in the table's order and with no
thought for how Go escapes text; orjson and fastavro read into Python's objects, and write such objects.
"""

from __future__ import annotations

import importlib
import io
import json
from typing import Any

import fastavro
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from bench.orders import SCHEMA
from bench.race import Contestant, consume, run
from bench.topics import as_records, with_messages
from tidecast.model import CHECKSUM, Kind, TableChanges
from tidecast.model import Column as TableColumn
from tidecast.protocols import simple
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions
from tidecast.sources import decode_records
from tidecast.spark import MAX_LENGTH, union
from tidecast.topics import Records

orjson: Any
try:
    orjson = importlib.import_module("orjson")
except ImportError:  # shown where it is there; nothing is measured against it
    orjson = None

BUILD_TS = 1708936343598
BEFORE_A_ROW = 3

FROM_JSON, TO_JSON, FROM_AVRO = "Spark: from_json", "Spark: to_json", "Spark: from_avro"
FASTAVRO_READ, FASTAVRO_WRITE = "fastavro: schemaless_reader", "fastavro: schemaless_writer"

_VALUES: list[Any] = ["null", "long", "float", "double", "string", "bytes"]
_TIMESTAMP = {
    "type": "record",
    "name": "Timestamp",
    "fields": [{"name": n, "type": "string"} for n in ("location", "value")],
}
_UNSIGNED = {"type": "record", "name": "UnsignedBigint", "fields": [{"name": "value", "type": "long"}]}
_CHECKSUM = {
    "type": "record",
    "name": "Checksum",
    "fields": [
        {"name": "version", "type": "int"},
        {"name": "corrupted", "type": "boolean"},
        {"name": "current", "type": "long"},
        {"name": "previous", "type": "long"},
    ],
}
ROW: dict[str, Any] = {
    "type": "record",
    "name": "DML",
    "fields": [
        {"name": "version", "type": "int"},
        {"name": "database", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "tableID", "type": "long"},
        {"name": "type", "type": {"type": "enum", "name": "DMLType", "symbols": ["INSERT", "UPDATE", "DELETE"]}},
        {"name": "commitTs", "type": "long"},
        {"name": "buildTs", "type": "long"},
        {"name": "schemaVersion", "type": "long"},
        {"name": "claimCheckLocation", "type": ["null", "string"]},
        {"name": "handleKeyOnly", "type": ["null", "boolean"]},
        {"name": "checksum", "type": ["null", _CHECKSUM]},
        {"name": "data", "type": ["null", {"type": "map", "values": [*_VALUES, _TIMESTAMP, _UNSIGNED]}]},
        {"name": "old", "type": ["null", {"type": "map", "values": [*_VALUES, "Timestamp", "UnsignedBigint"]}]},
    ],
}
"""A row's record as others have it from the protocol's schema."""

MESSAGE = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in ("database", "table", "type")),
        *(T.StructField(name, T.LongType()) for name in ("tableID", "commitTs", "buildTs", "schemaVersion")),
        T.StructField("data", T.StructType([T.StructField(c.name, T.StringType()) for c in SCHEMA.columns])),
        T.StructField("old", T.StructType([T.StructField(c.name, T.StringType()) for c in SCHEMA.columns])),
    ]
)


def messages(changes: DataFrame, options: SimpleOptions) -> DataFrame:
    """Return a table's bootstrap and its rows as a topic's records."""
    bootstrap = F.lit(simple.encode_bootstrap(SCHEMA, options, BUILD_TS))
    head = as_records(changes.sparkSession.range(1), offset=F.lit(-1), value=bootstrap)
    made = with_messages(changes, SCHEMA, SimpleEncoder(options, BUILD_TS))
    rows = as_records(made, topic=F.lit("shop"), partition=F.lit(0), offset=F.col("n"), value=F.col("value"))
    return union([head, rows]).coalesce(1)


def _written_by_spark() -> Column:
    """Return a row's message as `to_json` alone writes it."""

    def shown(column: TableColumn) -> Column:
        value = F.col("data")[column.name]
        if column.data_type.kind is Kind.TIMESTAMP:
            return F.struct(F.lit("UTC").alias("location"), value.alias("value"))
        return value.cast("string")

    known = {"version": 1, "database": "shop", "table": "orders", "tableID": 1, "type": "INSERT"}
    members = {name: F.lit(value) for name, value in known.items()}
    members |= {"commitTs": F.col("commit_ts"), "buildTs": F.lit(BUILD_TS), "schemaVersion": F.lit(SCHEMA.version)}
    members["data"] = F.struct(*(shown(c).alias(c.name) for c in SCHEMA.columns))
    return F.to_json(F.struct(*(c.alias(n) for n, c in members.items())), {"ignoreNullFields": "false"})


def contestants(changes: DataFrame) -> list[Contestant]:
    """Return the contestants, ready to run."""
    nothing = {"table_id": F.lit(None).cast("bigint"), "checksum": F.lit(None).cast(CHECKSUM)}
    changes = changes.withColumns(nothing).cache()
    records = {name: messages(changes, SimpleOptions(name)).cache() for name in ("json", "avro")}
    rows = {name: frame.where("offset >= 0").select("value").cache() for name, frame in records.items()}
    values = {name: frame.toArrow()["value"].to_pylist() for name, frame in rows.items()}
    parsed = fastavro.parse_schema(ROW)

    def read(value: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(value[BEFORE_A_ROW:]), parsed, return_record_name=True)

    rows_in_avro = [read(value) for value in values["avro"]]

    def fastavro_read() -> None:
        for value in values["avro"]:
            read(value)

    def fastavro_write() -> None:
        for row in rows_in_avro:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, row)
            out.getvalue()

    told_json = F.from_json(F.col("value").cast("string"), MESSAGE)
    told_avro = from_avro(F.substring("value", BEFORE_A_ROW + 1, MAX_LENGTH), json.dumps(ROW), {"mode": "PERMISSIVE"})
    bare_json = rows["json"].select(told_json.alias("m")).select("m.*")
    bare_avro = rows["avro"].select(told_avro.alias("m")).select("m.*")
    bare_text = changes.select(_written_by_spark().cast("binary"))

    def find(name: str) -> TableChanges:
        (table,) = decode_records(Records(records[name], ordered=True), "simple").tables
        return table

    def find_anew(name: str) -> None:
        decode_records(Records(records[name].where("offset >= -1"), ordered=True), "simple").release()

    tables = {name: find(name) for name in records}
    for name, table in tables.items():
        wrong = table.frame.where("reason is not null").count()
        assert wrong == 0, f"{wrong} rows cannot be read in {name}"

    decoded = {name: table.frame.drop("key", "value") for name, table in tables.items()}

    def plan(name: str) -> DataFrame:
        return with_messages(changes, SCHEMA, SimpleEncoder(SimpleOptions(name), BUILD_TS))  # type: ignore[arg-type]

    encoded = {name: plan(name) for name in records}

    racing = [
        Contestant("tidecast: decode JSON", lambda: consume(decoded["json"]), {FROM_JSON: 0.8}),
        Contestant(FROM_JSON, lambda: consume(bare_json)),
        Contestant("tidecast: decode Avro", lambda: consume(decoded["avro"]), {FROM_AVRO: 0.6, FASTAVRO_READ: 2.0}),
        Contestant(FROM_AVRO, lambda: consume(bare_avro)),
        Contestant(FASTAVRO_READ, fastavro_read),
        Contestant("tidecast: find tables of JSON, once a batch", lambda: find_anew("json")),
        Contestant("tidecast: find tables of Avro, once a batch", lambda: find_anew("avro")),
        Contestant("tidecast: plan JSON, once a batch and table", lambda: plan("json")),
        Contestant("tidecast: plan Avro, once a batch and table", lambda: plan("avro")),
        Contestant("tidecast: encode JSON", lambda: consume(encoded["json"]), {TO_JSON: 0.7}),
        Contestant(TO_JSON, lambda: consume(bare_text)),
        Contestant("tidecast: encode Avro", lambda: consume(encoded["avro"]), {FASTAVRO_WRITE: 2.0}),
        Contestant(FASTAVRO_WRITE, fastavro_write),
    ]
    if orjson:
        objects = [orjson.loads(value) for value in values["json"]]
        racing += [
            Contestant("orjson: loads", lambda: [orjson.loads(value) for value in values["json"]]),
            Contestant("orjson: dumps", lambda: [orjson.dumps(one) for one in objects]),
        ]
    return racing


if __name__ == "__main__":
    run(__doc__, 200_000, contestants)
