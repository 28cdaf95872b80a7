"""Expression tricks, each beside its plain form: how many times as fast it is, on one core.

The tests hold both to the same values; here is what a trick is for. One that gains nothing can go. Both forms run in
turn, so that what else the machine does meets both; compare ratios, not seconds.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import chain
from operator import or_

import fastavro
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from bench.orders import SCHEMA, inserted_rows
from bench.race import Contestant, Results, consume, parser, race, report, tell
from tidecast.checksum import _bytes
from tidecast.expressions import _real_text, has_any, unsigned_number
from tidecast.protocols import debezium, simple
from tidecast.protocols.avro import _wide
from tidecast.protocols.debezium import DebeziumOptions
from tidecast.protocols.debezium import _decode_envelope as envelope
from tidecast.protocols.debezium._decode_schema import fields_of
from tidecast.protocols.debezium._decode_values import json_type
from tidecast.protocols.debezium._unknown_fields import _listed, unknown_fields
from tidecast.protocols.simple import SimpleOptions, _avro, _json
from tidecast.runtime import spark_session
from tidecast.spark import block_collapse_project, called, evaluated_once, java_version, let

FEW = 10
"""Python writes one in so many rows."""

PLAIN, GAINS = "plain form", 1.0

Pair = tuple[str, Callable[[], object], Callable[[], object], int]
"""What it is called, the trick, the plain form, and that this one does one in so many rows."""


def _pair(name: str, frame: DataFrame, trick: Column, plain: Column) -> Pair:
    forms = [frame.select(column.alias("x")) for column in (trick, plain)]
    return name, lambda: consume(forms[0]), lambda: consume(forms[1]), 1


def _numbers(spark: SparkSession, rows: int) -> Iterator[Pair]:
    x, text = F.col("x"), F.col("x").cast("string")
    prices, large = (
        spark.range(rows).coalesce(1).select(made.alias("x")).cache()
        for made in (F.round(F.rand(1) * 1e5, 2), F.rand(2) * 1e16)
    )
    searched = called(_real_text._search(_real_text._DOUBLE), x)
    yield _pair("double text, prices: only the rest is searched", prices, _real_text.searched_text(x, False), searched)
    if java_version(spark) >= _real_text._JAVA_IS_SHORTEST:
        forms = _real_text.java_text(x, False), _real_text.searched_text(x, False)
        yield _pair("double text, 1e7 to 1e16: Java 19's digits", large, *forms)
    whole = spark.range(rows).coalesce(1).select(F.pmod(F.xxhash64("id"), F.lit(10**12)).alias("x")).cache()
    number = text.try_cast("decimal(20,0)")
    known = F.when((number >= 0) & (number < F.lit(2.0**64)) & (number.cast("string") == text), number)
    yield _pair("unsigned number: short ones as bigint", whole, unsigned_number(text), known)
    hexed = F.lpad(F.hex(x), 16, "0")
    turned = F.unhex(F.concat(*(F.substring(hexed, at, 2) for at in range(15, 0, -2))))
    yield _pair("small integers through Avro", whole, _bytes._small(x), turned)
    yield _pair("integers: bytes turned round by bits", whole, _bytes._int64(x), turned)
    length = F.pmod(x, F.lit(200)).cast("int")
    looked_up = _bytes._raw(F.substring(_bytes._small(length), 1, 4))
    yield _pair("lengths looked up", whole, _bytes._length(length), looked_up)
    digits = F.concat(text, F.lit("123456789.50"))
    unsigned = F.replace(digits, F.lit("."), F.lit(""))
    yield _pair(
        "decimals of 38 digits or fewer", whole, _wide.bytes_of(digits), _wide._long_bytes(unsigned, F.lit(False))
    )


def _texts(changes: DataFrame) -> Iterator[Pair]:
    note = changes.select(F.col("data.note").alias("x")).cache()
    x = F.col("x")
    yield _pair(
        "characters by one table", note, has_any(x, _json._UNSAFE), reduce(or_, map(x.contains, sorted(_json._UNSAFE)))
    )
    record = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", "string"]} for n in "abc"]}
    words = F.struct(*(F.concat(x, F.lit(n)).alias(n) for n in "abc"))
    avro = note.select(to_avro(words, json.dumps(record)).alias("m")).cache()
    quick = json.dumps(record).replace('"string"', '"bytes"')
    read = from_avro("m", quick)
    strings = F.struct(*(read[n].cast("string") for n in "abc"))
    yield _pair("Avro's strings read as bytes", avro, strings, from_avro("m", json.dumps(record)))
    named = F.expr("transform(array(1), one -> " + let("v", "length(concat(x, x, x))", "v * v + v * v + v") + ")")
    one = "length(concat(x, x, x))"
    plain = F.expr(f"transform(array(1), one -> {one} * {one} + {one} * {one} + {one})")
    yield _pair("a named value in a function", note, named, plain)


def _plans(changes: DataFrame) -> Iterator[Pair]:
    known = F.to_json("data")
    json_rows = changes.select(known.alias("j")).cache()
    read = F.from_json("j", changes.schema["data"].dataType.simpleString())

    def used(frame: DataFrame) -> DataFrame:
        return frame.where(F.col("m.id") > 0).select(F.col("m.qty") + F.col("m.flag"), F.concat("m.sku", "m.title"))

    once, plain = used(json_rows.select(evaluated_once(read).alias("m"))), used(json_rows.select(read.alias("m")))
    yield "evaluated once", lambda: consume(once), lambda: consume(plain), 1
    names = [f"c{n}" for n in range(60)]
    wide = changes.select(*(F.concat("data.sku", F.lit(name)).alias(name) for name in names)).cache()
    step = wide.select("c0", *(F.upper(name).alias(f"u{name}") for name in names))

    def summed(frame: DataFrame) -> DataFrame:
        row = F.struct(*(F.col(f"u{name}").alias(name) for name in names))
        made = frame.select(F.when(F.col("c0").isNotNull(), row).alias("row"))
        return made.select(F.crc32(F.concat_ws("", *(F.col("row")[name] for name in names)).cast("binary")))

    apart, together = summed(block_collapse_project(step, "c0")), summed(step)
    yield "wide rows in two steps", lambda: consume(apart), lambda: consume(together), 1


def _messages(changes: DataFrame) -> Iterator[Pair]:
    table_id, build_ts = F.lit(1).cast("bigint").alias("table_id"), F.lit(1708936343598)
    rows = changes.withColumn("table_id", table_id)
    avro = simple.encode_value(SCHEMA, SimpleOptions("avro"), build_ts=build_ts)
    some = rows.where(F.col("n") % FEW == 0).select(avro.alias("m")).toArrow()["m"].to_pylist()
    schema, head = fastavro.parse_schema(_avro.DML), len(_avro.beginning(_avro.DML))
    read = [fastavro.schemaless_reader(io.BytesIO(one[head:]), schema) for one in some]

    def fastavro_write() -> None:
        for one in read:
            fastavro.schemaless_writer(io.BytesIO(), schema, one)

    written = rows.select(avro)
    yield "Avro joined from pieces, beside fastavro", lambda: consume(written), fastavro_write, FEW
    columns = sorted(SCHEMA.columns, key=lambda c: c.name.encode())
    values = [_json._value(c.data_type, F.col("data")[c.name], "UTC") for c in columns]
    joined, spark = _json._row(columns, "data", F.lit(True), "", "UTC"), _json._any_row(columns, values, "data", "UTC")
    yield _pair("JSON joined from pieces, beside to_json", rows, joined, spark)

    options = DebeziumOptions(enable_tidb_extension=True, disable_schema=True)
    encoded = rows.select("op", debezium.encode_value(SCHEMA, options).alias("value")).cache()
    length = encoded.select(envelope.head_length("value")).head(1)[0][0]
    fields = fields_of(SCHEMA)
    image = ", ".join(f"`{f.column.name}` {json_type(f).simpleString()}" for f in fields)
    kind = f"payload struct<before: struct<{image}>, after: struct<{image}>>"
    cut, uncut = (
        F.from_json(m, kind) for m in (envelope.without_head("value", length, None), envelope.payload("value"))
    )
    yield _pair("Debezium: heads cut off", encoded, cut, uncut)
    message, headed = envelope.without_head("value", length, None), envelope.has_head("value", length)
    step = encoded.select("op", message.alias("m"), headed.alias("headed"), cut["payload"].alias("p"))
    settled = step.select(
        "op", "m", "headed", F.col("p.before").alias("before"), F.col("p.after").alias("after")
    ).cache()
    sides = {name: F.col(name) for name in ("before", "after")}
    counted = unknown_fields(F.col("m"), F.col("headed"), sides, fields)
    yield _pair("Debezium: commas counted", settled, counted, F.coalesce(*_listed(F.col("m"), sides, fields)))


def main() -> None:
    """Be the program."""
    options = parser(__doc__, rows=500_000, rounds=5).parse_args()
    spark = spark_session("bench", cores=1, conf={"spark.sql.ansi.enabled": "false"})
    changes = inserted_rows(spark, options.rows).cache()
    results: Results = []
    for name, trick, plain, one_in in chain(
        _numbers(spark, options.rows), _texts(changes), _plans(changes), _messages(changes)
    ):
        if options.only in name:
            racing = [Contestant(name, trick, {PLAIN: GAINS}), Contestant(PLAIN, plain, one_in=one_in)]
            race(racing, options.rounds)
            results += report(racing)[:1]
    spark.stop()
    tell(results, options)


if __name__ == "__main__":
    main()
