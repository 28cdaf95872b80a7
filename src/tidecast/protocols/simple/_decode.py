"""Simple JSON messages to events. Source: TiCDC Simple protocol."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import (
    CHECKSUM,
    RECORD,
    Ddl,
    Events,
    Op,
    Reason,
    SchemaHistory,
    TableChanges,
    TableSchema,
    evaluated_once,
)
from tidecast.protocols.simple._schema import table_schema
from tidecast.protocols.simple._values import fallible, value

ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
BOOTSTRAP, WATERMARK = "BOOTSTRAP", "WATERMARK"

_SIDES = ("old", "data")
_UNREADABLE = "unreadable"
_TEXTS = T.MapType(T.StringType(), T.StringType())

MESSAGE = T.StructType(
    [
        T.StructField("version", T.IntegerType()),
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("tableID", T.LongType()),
        T.StructField("type", T.StringType()),
        T.StructField("sql", T.StringType()),
        T.StructField("commitTs", T.LongType()),
        T.StructField("schemaVersion", T.LongType()),
        T.StructField("claimCheckLocation", T.StringType()),
        T.StructField("handleKeyOnly", T.BooleanType()),
        T.StructField("checksum", CHECKSUM),
        T.StructField("data", _TEXTS),
        T.StructField("old", _TEXTS),
        T.StructField("tableSchema", T.StringType()),
        T.StructField("preTableSchema", T.StringType()),
        T.StructField(_UNREADABLE, T.StringType()),
    ]
)
"""A message, its schemas left as JSON text: there are few of them, and the driver reads them."""


def decode(records: DataFrame, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of Simple JSON messages.

    In: the columns of `RECORD`. `ordered`: see `Events`. `zone`: that of TIMESTAMP values which name none, as old
    messages have them. Every schema that the batch shows, by a schema change or a bootstrap, serves all its rows,
    whichever came first. The messages are read once and kept by Spark: see `Events.release`.
    """
    parsed = _parse(records).persist()
    position = "offset" if ordered else "commit_ts"
    history, ddl, broken = _schemas(parsed, ordered)
    tables, unknown = [], []
    for row in _row_counts(parsed, position):
        key = (row["database"], row["table"], row["schema_version"])
        here = parsed.where(_is_row() & (F.col("database") == key[0]) & (F.col("table") == key[1]))
        here = here.where(F.col("schema_version") == key[2])
        if key in history:
            frame = _rows(here, history[key], zone)
            tables.append(TableChanges(history[key], frame, row["rows"], row["rows_from"], row["upserts_from"]))
        else:
            unknown.append(key)
    tables.sort(key=lambda t: (t.rows_from is None, t.rows_from))
    summary = parsed.where(_is_row() | (F.col("type") == WATERMARK)).agg(
        F.max(F.when(F.col("type") == WATERMARK, F.col("commit_ts"))).alias("watermark"),
        F.max(F.col("checksum").isNotNull() & _is_row()).alias("checksums"),
    )
    totals = summary.collect()[0]
    return Events(
        tables=tuple(tables),
        rejected=_rejected(parsed, unknown, broken),
        ddl=ddl,
        watermark=totals["watermark"],
        ordered=ordered,
        position=position,
        dated=True,
        checksums=bool(totals["checksums"]),
        kept=(parsed,),
    )


def _is_row() -> Column:
    return F.col("reason").isNull() & F.col("type").isin(*ROW_OPS)


def _parse(records: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    message = F.from_json(text, MESSAGE, {"columnNameOfCorruptRecord": _UNREADABLE})
    m = F.col("message")
    key_known = m["database"].isNotNull() & m["table"].isNotNull() & m["schemaVersion"].isNotNull()
    image = F.when(m["type"] == "DELETE", m["old"]).otherwise(m["data"])
    reason = (
        F.when(m.isNull() | m[_UNREADABLE].isNotNull() | ~F.is_valid_utf8(text), Reason.BAD_JSON)
        .when(m["type"].isNull() | m["version"].isNull(), Reason.BAD_MESSAGE)
        .when(m["type"].isin(*DDL_TYPES, BOOTSTRAP, WATERMARK), F.lit(None).cast("string"))
        .when(~m["type"].isin(*ROW_OPS) | ~key_known | m["commitTs"].isNull(), Reason.BAD_MESSAGE)
        .when(m["handleKeyOnly"] | m["claimCheckLocation"].isNotNull(), Reason.INCOMPLETE)
        .when(image.isNull(), Reason.BAD_MESSAGE)
    )
    return records.select(*RECORD.fieldNames(), message.alias("message")).select(
        *RECORD.fieldNames(),
        reason.alias("reason"),
        m["type"].alias("type"),
        m["database"].alias("database"),
        m["table"].alias("table"),
        m["tableID"].alias("table_id"),
        m["schemaVersion"].alias("schema_version"),
        m["commitTs"].alias("commit_ts"),
        m["sql"].alias("sql"),
        m["checksum"].alias("checksum"),
        m["data"].alias("data"),
        m["old"].alias("old"),
        m["tableSchema"].alias("table_schema"),
        m["preTableSchema"].alias("pre_table_schema"),
    )


def _schemas(parsed: DataFrame, ordered: bool) -> tuple[SchemaHistory, tuple[Ddl, ...], list[Row]]:
    """Read the schema changes and bootstraps, which come once or once per partition, on the driver."""
    said = parsed.where(F.col("reason").isNull() & F.col("type").isin(*DDL_TYPES, BOOTSTRAP))
    once = said.groupBy("type", "sql", "commit_ts", "table_schema", "pre_table_schema")
    rows = once.agg(F.min("offset").alias("offset")).collect()
    history, ddl, broken = SchemaHistory(), [], []
    read: list[tuple[tuple[int, int], Row, TableSchema | None, TableSchema | None]] = []
    for row in rows:
        try:
            after, before = _read(row["table_schema"]), _read(row["pre_table_schema"])
        except (KeyError, TypeError, ValueError):
            broken.append(row)
            continue
        ts = row["commit_ts"] or (after.version if after else 0)
        read.append(((row["offset"] if ordered else ts, row["offset"]), row, after, before))
    for _, row, after, before in sorted(read, key=lambda r: r[0]):
        change = None
        if row["type"] != BOOTSTRAP:
            change = Ddl(row["type"], row["sql"] or "", row["commit_ts"], after, before)
            ddl.append(change)
        if after:
            history.add(after, change)
    return history, tuple(ddl), broken


def _read(text: str | None) -> TableSchema | None:
    return table_schema(text) if text is not None else None


def _row_counts(parsed: DataFrame, position: str) -> list[Row]:
    upsert = F.col("type") != "DELETE"
    return (
        parsed.where(_is_row())
        .groupBy("database", "table", "schema_version")
        .agg(
            F.count("*").alias("rows"),
            F.min(position).alias("rows_from"),
            F.min(F.when(upsert, F.col(position))).alias("upserts_from"),
        )
        .collect()
    )


def _rows(parsed: DataFrame, schema: TableSchema, zone: str) -> DataFrame:
    sides = F.struct(*(_struct(F.col(side), schema, zone).alias(side) for side in _SIDES))
    op = F.element_at(F.create_map(*(F.lit(x) for pair in ROW_OPS.items() for x in pair)), F.col("type"))
    typed = parsed.select(
        *RECORD.fieldNames(),
        op.alias("op"),
        "commit_ts",
        "table_id",
        "checksum",
        *(F.col(side).alias(f"{side}_texts") for side in _SIDES),
        evaluated_once(sides).alias("typed"),
    )
    wrong = F.coalesce(*(F.when(_damaged(side, schema), F.lit(side)) for side in _SIDES))
    return typed.select(
        *RECORD.fieldNames(),
        "op",
        "commit_ts",
        "table_id",
        "typed.old",
        "typed.data",
        "checksum",
        F.when(wrong.isNotNull(), F.lit(Reason.BAD_VALUE)).alias("reason"),
        F.concat(F.lit("a value in "), wrong, F.lit(" is not of its column's type")).alias("detail"),
    )


def _struct(texts: Column, schema: TableSchema, zone: str) -> Column:
    values = (value(c.data_type, texts[c.name], zone).alias(c.name) for c in schema.columns)
    return F.when(texts.isNotNull(), F.struct(*values))


def _damaged(side: str, schema: TableSchema) -> Column:
    texts, typed = F.col(f"{side}_texts"), F.col("typed")[side]
    tests: Iterable[Column] = (
        texts[c.name].isNotNull() & typed[c.name].isNull() for c in schema.columns if fallible(c.data_type)
    )
    return reduce(or_, tests, F.lit(False))


def _rejected(parsed: DataFrame, unknown: list[tuple[str, str, int]], broken: list[Row]) -> DataFrame:
    foreign = F.lit(False)
    for database, table, version in unknown:
        foreign |= (F.col("database") == database) & (F.col("table") == table) & (F.col("schema_version") == version)
    for row in broken:
        foreign |= F.col("table_schema").eqNullSafe(F.lit(row["table_schema"]))
    reason = F.coalesce(
        F.col("reason"),
        F.when(_is_row() & foreign, Reason.UNKNOWN_TABLE).when(foreign, Reason.BAD_MESSAGE),
    )
    detail = F.when(
        reason == Reason.UNKNOWN_TABLE,
        F.format_string("no schema of %s.%s in version %d", "database", "table", "schema_version"),
    )
    return parsed.select(*RECORD.fieldNames(), reason.alias("reason"), detail.alias("detail")).where(
        F.col("reason").isNotNull()
    )
