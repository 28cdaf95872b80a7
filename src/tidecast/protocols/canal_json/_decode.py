"""Canal-JSON messages to events. Source: Canal-JSON protocol.

A row's message tells its columns with their types, so that messages which tell the same make a table version. A message
is read once, its rows as maps; those of a version become lists of texts in the order of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidecast.model import RECORD, Ddl, Events, InvalidSchema, Op, Reason, TableChanges, TableSchema
from tidecast.protocols._rejected import rejected, with_causes
from tidecast.protocols.canal_json._parse import DDL, WATERMARK, is_row, parse
from tidecast.protocols.canal_json._rows import rows_of
from tidecast.protocols.canal_json._schema import table_schema
from tidecast.spark import parallel_map


def decode(records: DataFrame, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of Canal-JSON messages, TiCDC's or those of Canal itself.

    In: the columns of `RECORD`, and where messages were unpacked `reason` and `detail`: why one could not be.
    `ordered`: see `Events`. `zone` is that of TIMESTAMP text, TiCDC's server's. A version of a table is what rows show
    of it: its columns, their types and the primary key; its number is the commit-ts of its first row, or its moment
    where rows have none. `commit_ts` is null without TiDB's extension. Schema changes have no table; what they change
    shows in the rows that follow. The messages are read once and kept by Spark: see `Events.release`.
    """
    parsed = parse(records).persist()
    stats = _collect_stats(parsed)
    found = [row for row in stats if row["shape"] is not None]
    ops = {op for row in stats for op in row["ops"]}
    refused: list[tuple[_Group, str]] = []
    versions: list[tuple[_Group, TableSchema]] = []
    for row in found:
        group = _Group(row)
        try:
            versions.append((group, group.schema()))
        except InvalidSchema as error:
            refused.append((group, str(error)))
    has_commit_ts = not any(group.row["lacks_commit_ts"] for group, _ in versions)
    order = "commit_ts" if has_commit_ts and not ordered else "offset"
    position = order if ordered or has_commit_ts else None

    def changes(one: tuple[_Group, TableSchema]) -> TableChanges:
        group, schema = one
        row, frame = group.row, rows_of(parsed.where(group.mine), schema, group.row["ops"], zone)
        return TableChanges(schema, frame, row["rows"], row[f"rows_from_{order}"], row[f"upserts_from_{order}"])

    tables = parallel_map(changes, versions)
    tables.sort(key=lambda t: (t.rows_from is None, t.rows_from, t.schema.version))
    watermarks = parsed.where(F.col("reason").isNull() & (F.col("op") == WATERMARK))
    return Events(
        tables=tuple(tables),
        rejected=_rejected(parsed, refused),
        ddl=tuple(_schema_changes(parsed, position)) if DDL in ops else (),
        watermarks=watermarks.select(*RECORD.fieldNames(), "commit_ts") if WATERMARK in ops else None,
        watermark=max((row["watermark"] for row in stats if row["watermark"] is not None), default=None),
        ordered=ordered,
        position=position,
        has_commit_ts=has_commit_ts,
        cached=(parsed,),
    )


@dataclass(frozen=True)
class _Group:
    """The rows that tell the same of one table: a row of `_collect_stats`."""

    row: Row

    @property
    def key(self) -> tuple[str, str, int]:
        """Database, table and shape."""
        return self.row["database"], self.row["table"], self.row["shape"]

    @property
    def mine(self) -> Column:
        """Whether a row is of this group."""
        database, table, shape = self.key
        return is_row() & (F.col("database") == database) & (F.col("table") == table) & (F.col("shape") == F.lit(shape))

    def schema(self) -> TableSchema:
        """Return the table. Raises InvalidSchema where there can be none like that."""
        types = {entry["key"]: entry["value"] for entry in self.row["types"]}
        return table_schema(self.key[:2], self.row["since"], self.row["columns"], types, self.row["keys"])


def _collect_stats(parsed: DataFrame) -> list[Row]:
    """Count the rows of each group; what is no row counts in a group of its own, which has no shape."""
    upsert = F.col("op") != Op.DELETE
    return (
        parsed.where(F.col("reason").isNull())
        .groupBy(*(F.when(is_row(), F.col(name)).alias(name) for name in ("database", "table", "shape")))
        .agg(
            F.sum(F.size("rows")).alias("rows"),
            *(F.min(name).alias(f"rows_from_{name}") for name in ("offset", "commit_ts")),
            *(F.min(F.when(upsert, F.col(name))).alias(f"upserts_from_{name}") for name in ("offset", "commit_ts")),
            F.min("since").alias("since"),
            F.max(F.col("commit_ts").isNull()).alias("lacks_commit_ts"),
            F.max(F.when(F.col("op") == WATERMARK, F.col("commit_ts"))).alias("watermark"),
            F.collect_set("op").alias("ops"),
            *(F.first(name).alias(name) for name in ("keys", "columns", "types")),
        )
        .collect()
    )


def _schema_changes(parsed: DataFrame, position: str | None) -> Iterator[Ddl]:
    """Yield the schema changes, each once, however often it was sent."""
    place = F.col(position) if position else F.lit(None).cast("bigint")
    rows = (
        parsed.where(F.col("reason").isNull() & (F.col("op") == DDL))
        .groupBy("type", "sql", "since", "database", "table")
        .agg(F.min(place).alias("position"), F.min("offset").alias("offset"))
        .collect()
    )
    for row in sorted(rows, key=lambda r: (r["since"], r["offset"])):
        named = (row["database"], row["table"] or "") if row["database"] else None
        yield Ddl(row["type"], row["sql"], row["since"], position=row["position"], named=named)


def _rejected(parsed: DataFrame, refused: Sequence[tuple[_Group, str]]) -> DataFrame:
    """Return the messages that cannot be used; the groups that are refused may be thousands."""
    if refused:
        kinds = {"database": pa.string(), "table": pa.string(), "shape": pa.int64()}
        causes = [(*group.key, str(Reason.FOREIGN_SCHEMA), why) for group, why in refused]
        keys = {name: (kind, F.when(is_row(), F.col(name))) for name, kind in kinds.items()}
        parsed = with_causes(parsed, keys, causes)
    return rejected(parsed)
