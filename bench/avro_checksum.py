"""Avro with row checksums: tidecast beside fastavro and beside Spark alone, on one core each.

A table of twelve columns, inserted rows, TiCDC's extension, DECIMAL and BIGINT UNSIGNED as strings. All contestants
take turns in one run, so that what else the machine does meets all of them; compare ratios, not seconds. What a batch
costs once, however many rows it has, stands by itself.
"""

from __future__ import annotations

import io
import json

import fastavro
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from bench.orders import SCHEMA
from bench.race import Contestant, consume, run
from bench.suite import KnownSchemas
from bench.topics import HEADER, as_records, avro_encoder, with_messages
from tidecast.checksum import Verdict
from tidecast.model import TableChanges
from tidecast.protocols import avro
from tidecast.sources import decode_records, with_verdict
from tidecast.spark import MAX_LENGTH
from tidecast.topics import Records

OPTIONS = avro.AvroOptions(
    enable_tidb_extension=True,
    decimal_handling_mode="string",
    bigint_unsigned_handling_mode="string",
    checksum=True,
)
SCHEMA_ID = 1

FASTAVRO_READ, FASTAVRO_WRITE = "fastavro: schemaless_reader", "fastavro: schemaless_writer"
SPARK_READ = "Spark: from_avro"


def messages(changes: DataFrame) -> DataFrame:
    """Return changes as a topic's records."""
    columns = {
        "topic": F.lit("shop_orders"),
        "partition": F.lit(0),
        "offset": F.col("n"),
        "key": F.col("key"),
        "value": F.col("value"),
    }
    return as_records(
        with_messages(changes, SCHEMA, avro_encoder(SCHEMA, SCHEMA_ID + 1, SCHEMA_ID, OPTIONS)), **columns
    )


def contestants(changes: DataFrame) -> list[Contestant]:
    """Return the contestants, ready to run."""
    records = messages(changes).cache()
    value_schema = avro.value_schema(SCHEMA, OPTIONS)
    schemas = {SCHEMA_ID: value_schema, SCHEMA_ID + 1: avro.key_schema(SCHEMA, OPTIONS)}
    parsed = fastavro.parse_schema(json.loads(value_schema))
    values = records.select("value").toArrow()["value"].to_pylist()
    decoded = [fastavro.schemaless_reader(io.BytesIO(v[HEADER:]), parsed) for v in values]

    def fastavro_read() -> None:
        for value in values:
            fastavro.schemaless_reader(io.BytesIO(value[HEADER:]), parsed)

    def fastavro_write() -> None:
        for row in decoded:
            out = io.BytesIO(values[0][:HEADER])
            out.seek(HEADER)
            fastavro.schemaless_writer(out, parsed, row)
            out.getvalue()

    row = from_avro(F.substring("value", HEADER + 1, MAX_LENGTH), value_schema, {"mode": "PERMISSIVE"})
    bare = records.select(row.alias("row")).select("row.*")

    def find_tables() -> TableChanges:
        known = KnownSchemas(schemas)
        events = decode_records(Records(records, ordered=True), "avro", registry=known, zone=OPTIONS.zone)
        (table,) = events.tables
        return table

    table = find_tables()
    verified = with_verdict(table)
    wrong = verified.where(F.col("verification.verdict") != Verdict.MATCH).count()
    assert wrong == 0, f"{wrong} rows do not match their own checksum"

    verdicts, rows = (
        verified.select("topic", "partition", "offset", "reason", "verification"),
        verified.drop("key", "value"),
    )

    def plan() -> DataFrame:
        return messages(changes).select("value")

    encoded = plan()

    return [
        Contestant("tidecast: decode, verify", lambda: consume(verdicts), {FASTAVRO_READ: 2.5, SPARK_READ: 0.6}),
        Contestant("tidecast: decode, verify, keep rows", lambda: consume(rows)),
        Contestant("tidecast: find tables, once a batch", find_tables),
        Contestant(FASTAVRO_READ, fastavro_read),
        Contestant(SPARK_READ, lambda: consume(bare)),
        Contestant("tidecast: plan encoding, once a batch", plan),
        Contestant("tidecast: encode", lambda: consume(encoded), {FASTAVRO_WRITE: 2.0}),
        Contestant(FASTAVRO_WRITE, fastavro_write),
    ]


if __name__ == "__main__":
    run(__doc__, 400_000, contestants)
