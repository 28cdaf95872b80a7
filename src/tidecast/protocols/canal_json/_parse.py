"""Each message's members, and why one cannot be used. Source: Canal-JSON protocol, members, rows."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.model import RECORD, Op, Reason, compose, is_tso, physical_ms
from tidecast.protocols._json_object import is_sound, parse_object
from tidecast.protocols._rejected import CAUSE, cause_columns, given_causes
from tidecast.protocols.canal_json._message import DDL_TYPES, MEMBERS, ROW_OPS
from tidecast.protocols.canal_json._message import WATERMARK as WATERMARK_TYPE
from tidecast.spark import block_collapse_project, evaluated_once

DDL, WATERMARK = "ddl", "watermark"
"""What stands for an operation in messages that are no rows."""

_LAST_MS = physical_ms((1 << 63) - 1)


def parse(records: DataFrame) -> DataFrame:
    """Return the records with what their messages say, and why one cannot be used.

    `rows` is an array of struct `row`, `old`: maps from column to text, of which a message of TiCDC's has one. `keys`
    is the primary key, `columns` the columns in the table's order, `types` their types, sorted by name; `shape` is a
    number for all three. `since` is when it happened: the commit-ts, or the first one of its millisecond.
    """
    heads = records.select(
        *RECORD.fieldNames(),
        *cause_columns(given_causes(records)),
        evaluated_once(parse_object(F.col("value"), MEMBERS)).alias("m"),
    )
    m, tidb = F.col("m"), F.col("m._tidb")
    kind, row = m["type"], m["type"].isin(*ROW_OPS)
    change = F.coalesce(m["isDdl"], F.lit(False)) | kind.isin(*DDL_TYPES)
    op = F.element_at(F.create_map(*(F.lit(x) for pair in ROW_OPS.items() for x in pair)), kind)
    op = F.when(change, DDL).when(kind == WATERMARK_TYPE, WATERMARK).otherwise(op)
    commit_ts = F.when(kind == WATERMARK_TYPE, tidb["watermarkTs"]).otherwise(tidb["commitTs"])
    columns = F.coalesce(F.map_keys(m["sqlType"]), F.map_keys(F.get(m["data"], 0)))
    types = F.array_sort(F.map_entries(m["mysqlType"]))
    keys = F.coalesce(m["pkNames"], F.array().cast("array<string>"))
    before = F.when(kind == "UPDATE", m["old"])
    rows = F.transform(m["data"], lambda one, at: F.struct(one.alias("row"), F.get(before, at).alias("old")))
    messages = heads.select(
        *RECORD.fieldNames(),
        *CAUSE,
        is_sound(m, F.col("value")).alias("sound"),
        kind.alias("type"),
        (change | row | (kind == WATERMARK_TYPE)).alias("known"),
        op.alias("op"),
        m["database"].alias("database"),
        m["table"].alias("table"),
        commit_ts.alias("commit_ts"),
        F.coalesce(commit_ts, F.when(m["es"].between(0, _LAST_MS), m["es"] * compose(1))).alias("since"),
        m["sql"].alias("sql"),
        (F.coalesce(tidb["onlyHandleKey"], F.lit(False)) | tidb["claimCheckLocation"].isNotNull()).alias("reduced"),
        # One that was damaged there would leave its whole batch without commit-ts.
        (tidb.isNotNull() & tidb["commitTs"].isNull()).alias("undated"),
        keys.alias("keys"),
        columns.alias("columns"),
        types.alias("types"),
        rows.alias("rows"),
        (F.size(m["data"]) == F.size(before)).alias("paired"),
    )
    messages = block_collapse_project(messages, "op")
    problem = F.struct("reason", "detail")
    cause = F.when(F.col("reason").isNotNull(), problem)
    for wrong, reason, detail in _problems():
        cause = cause.when(wrong, F.struct(F.lit(str(reason)).alias("reason"), detail.alias("detail")))
    checked = (*CAUSE, "sound", "known", "reduced", "undated", "paired")
    columns_left = [name for name in messages.columns if name not in checked]
    return messages.select(
        *columns_left,
        F.xxhash64("keys", "columns", "types").alias("shape"),
        evaluated_once(cause).alias("cause"),
    ).select(*columns_left, "shape", "cause.reason", "cause.detail")


def _problems() -> Iterator[tuple[Column, Reason, Column]]:
    """Yield what may be wrong with a message, the first of which is its cause."""
    nothing = F.lit(None).cast("string")
    row, op = F.col("op").isin(*ROW_OPS.values()), F.col("op")
    commit_ts, since, rows = F.col("commit_ts"), F.col("since"), F.col("rows")
    yield ~F.col("sound"), Reason.BAD_JSON, nothing
    yield ~F.coalesce(F.col("known"), F.lit(False)), Reason.BAD_MESSAGE, nothing
    yield (op == WATERMARK) & commit_ts.isNull(), Reason.BAD_MESSAGE, F.lit("a watermark without watermarkTs")
    yield ~is_tso(commit_ts), Reason.BAD_VALUE, F.format_string("commitTs %d is no time", commit_ts)
    yield ~F.coalesce(is_tso(since), F.lit(False)), Reason.BAD_VALUE, F.lit("es is no time")
    yield (op == DDL) & (F.coalesce("sql", F.lit("")) == ""), Reason.BAD_MESSAGE, F.lit("a schema change without sql")
    yield row & F.col("reduced"), Reason.INCOMPLETE, nothing
    yield row & F.col("undated"), Reason.BAD_MESSAGE, F.lit("_tidb without commitTs")
    named = F.coalesce(F.octet_length("database") > 0, F.lit(False)) & F.coalesce(
        F.octet_length("table") > 0, F.lit(False)
    )
    yield row & ~named, Reason.BAD_MESSAGE, F.lit("a row without its database and table")
    yield row & ~F.coalesce(F.size(rows) > 0, F.lit(False)), Reason.BAD_MESSAGE, F.lit("the row is missing")
    paired = F.coalesce(F.col("paired"), F.lit(False))
    yield (op == Op.UPDATE) & ~paired, Reason.BAD_MESSAGE, F.lit("the old row is missing")
    typed = F.size("columns") == F.size("types")
    typed &= F.size(F.array_except("columns", F.transform("types", lambda entry: entry["key"]))) == 0
    yield (
        row & ~F.coalesce(typed & (F.size("types") > 0), F.lit(False)),
        Reason.BAD_MESSAGE,
        F.lit("the columns of sqlType are not those of mysqlType"),
    )
    yield (
        row & (F.size(rows) > 1) & ~_have_distinct_keys(rows),
        Reason.BAD_MESSAGE,
        F.lit("several rows that may be the same one"),
    )


def _have_distinct_keys(rows: Column) -> Column:
    """Tell whether all rows of a message have different keys, before and after it: their order does not last."""

    def key(row: Column) -> Column:
        return F.transform("keys", lambda name: F.try_element_at(row, name))

    keys = F.transform(rows, lambda one: key(one["row"]))
    moved = F.exists(
        rows,
        lambda one: F.exists(
            F.coalesce(F.map_entries(one["old"]), F.array()),
            lambda entry: (
                F.array_contains(F.col("keys"), entry["key"])
                & ~entry["value"].eqNullSafe(F.try_element_at(one["row"], entry["key"]))
            ),
        ),
    )
    return (F.size("keys") > 0) & (F.size(F.array_distinct(keys)) == F.size(rows)) & ~moved


def is_row() -> Column:
    """Tell of a parsed message whether it is a good one with rows."""
    return F.col("reason").isNull() & F.col("op").isin(*ROW_OPS.values())
