"""Debezium JSON: tidecast beside Spark's bare JSON functions and beside orjson, on one core each.

A table of twelve columns, inserted rows, read and written with and without the schema in the message. Spark alone reads
the same bytes, or writes a message of the same members, with values as the model holds them. All contestants take turns
in one run, so that what else the machine does meets all of them; compare ratios, not seconds. What a batch costs once,
however many rows it has, stands by itself: to find its tables, and to plan and start a run, which one row shows; there
are so many rows that the latter weighs little among them. Messages with their schema take four kilobytes each, so that
only some of the rows have one: more than fit into Spark's memory measure the disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.orders import SCHEMA
from bench.race import Contestant, consume, run
from bench.simple import BUILD_TS
from bench.topics import as_records, with_messages
from tidecast.model import SchemaHistory, TableChanges
from tidecast.protocols.debezium import DebeziumEncoder, DebeziumOptions
from tidecast.sources import decode_records
from tidecast.topics import Records

ONE_IN = 10
"""One in so many rows is read and written with its schema, too."""

WITH_SCHEMA = DebeziumOptions(enable_tidb_extension=True)
WITHOUT = replace(WITH_SCHEMA, disable_schema=True)
FROM_JSON, TO_JSON = "Spark: from_json", "Spark: to_json"
READ, READ_SOME = "tidecast: decode", "tidecast: decode, as many without schema"

IMAGE = "id bigint, qty int, serial decimal(20,0), sku string, title string, note string, price double, weight double, "
IMAGE += "created bigint, updated string, state string, flag int"
PAYLOAD = (
    "payload struct<source: struct<db: string, table: string, commit_ts: bigint>, ts_ms: bigint, op: string, "
    f"before: struct<{IMAGE}>, after: struct<{IMAGE}>>"
)


def messages(changes: DataFrame, options: DebeziumOptions) -> DataFrame:
    """Return changes as a topic's records."""
    columns = {
        "topic": F.lit("shop_orders"),
        "partition": F.lit(0),
        "offset": F.col("n"),
        "key": F.col("key"),
        "value": F.col("value"),
    }
    return as_records(_made(changes, options), **columns).cache()


def _made(changes: DataFrame, options: DebeziumOptions) -> DataFrame:
    return with_messages(changes, SCHEMA, DebeziumEncoder(options, BUILD_TS, whole=True))


def _written_by_spark() -> Column:
    """Return a row's message as `to_json` alone writes it: the same members, and values as the model holds them."""
    known: dict[str, Any] = {"version": "2.4.0.Final", "connector": "TiCDC", "name": "default", "ts_ms": 1708936343000}
    known |= {"snapshot": "false", "db": "shop", "table": "orders", "server_id": 0, "gtid": None, "file": "", "pos": 0}
    known |= {"row": 0, "thread": 0, "query": None}
    members = (F.lit(value).alias(name) for name, value in known.items())
    payload = {
        "source": F.struct(*members, "commit_ts", F.lit("default").alias("cluster_id")),
        "ts_ms": F.unix_millis(F.current_timestamp()),
        "transaction": F.lit(None).cast("string"),
        "op": F.col("op"),
        "before": F.lit(None).cast("string"),
        "after": F.col("data"),
    }
    message = F.struct(F.struct(*(c.alias(n) for n, c in payload.items())).alias("payload"))
    return F.to_json(message, {"ignoreNullFields": "false"})


def contestants(changes: DataFrame) -> list[Contestant]:
    """Return the contestants, ready to run."""
    count = changes.count()
    some, one = (changes.where(F.col("n") % n == 0).cache() for n in (ONE_IN, count))
    bare, bare_some, bare_one = (messages(rows, WITHOUT) for rows in (changes, some, one))
    whole = messages(some, WITH_SCHEMA)
    values = [bytes(row[0]) for row in bare.select("value").collect()]
    decoded = [orjson.loads(value) for value in values]
    whole.count()

    def find_tables(records: DataFrame) -> TableChanges:
        known = [] if records is whole else [SCHEMA]
        history = SchemaHistory()
        for schema in known:
            history.add(schema)
        (table,) = decode_records(Records(records, ordered=True), "debezium", history=history).tables
        return table

    read_bare, read_some, read_one, read_whole = map(find_tables, (bare, bare_some, bare_one, whole))
    bad = sum(table.frame.where("reason is not null").count() for table in (read_bare, read_some, read_one, read_whole))
    assert bad == 0, f"{bad} rows cannot be read"

    def spark_read(records: DataFrame) -> None:
        parsed = F.from_json(F.col("value").cast("string"), PAYLOAD)
        consume(records.select(parsed.alias("m")).select("m.payload.*"))

    plain = changes.select(_written_by_spark())
    encoded = {options: _made(rows, options) for options, rows in ((WITHOUT, changes), (WITH_SCHEMA, some))}

    def orjson_read() -> None:
        for value in values:
            orjson.loads(value)

    def orjson_write() -> None:
        for message in decoded:
            orjson.dumps(message)

    def decode(table: TableChanges) -> None:
        consume(table.frame.drop("key", "value"))

    return [
        Contestant(READ, lambda: decode(read_bare), {FROM_JSON: 0.8}),
        Contestant(READ_SOME, lambda: decode(read_some), one_in=ONE_IN),
        Contestant("tidecast: decode, schema in message", lambda: decode(read_whole), {READ_SOME: 0.5}, ONE_IN),
        Contestant("tidecast: find tables, once a batch", lambda: find_tables(bare)),
        Contestant("tidecast: find tables, schema in message", lambda: find_tables(whole), one_in=ONE_IN),
        Contestant(FROM_JSON, lambda: spark_read(bare)),
        Contestant("tidecast: decode one row", lambda: decode(read_one), one_in=count),
        Contestant("Spark: from_json of one row", lambda: spark_read(bare_one), one_in=count),
        Contestant("orjson: loads", orjson_read),
        Contestant("tidecast: encode", lambda: consume(encoded[WITHOUT]), {TO_JSON: 0.7}),
        Contestant("tidecast: encode, schema in message", lambda: consume(encoded[WITH_SCHEMA]), one_in=ONE_IN),
        Contestant(TO_JSON, lambda: consume(plain)),
        Contestant("orjson: dumps", orjson_write),
    ]


if __name__ == "__main__":
    run(__doc__, 400_000, contestants)
