"""What tidecast answers to the conformance kit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

import tidecast
from tidecast.model import Kind, TableSchema
from tidecast.sources import with_verdict
from tidecast.spark import parallel_map

Said = dict[str, Any]


def cases_of(kit: Path) -> list[Said]:
    """Return the cases of a kit."""
    return [json.loads(line) for line in (kit / "cases.jsonl").read_text().splitlines()]


def write_answers(spark: SparkSession, kit: Path, cases: Iterable[Said], results: Path, folder: Path) -> None:
    """Answer cases of a kit; tables are made in a folder."""
    folder.mkdir()
    with results.open("w") as out:
        for case in cases:
            answered = _messages if case["answer"] == "messages" else _tables
            said = answered(spark, kit, case, folder)
            out.writelines(json.dumps({"case": case["case"], **answer}, default=str) + "\n" for answer in said)


def _place(kit: Path, case: Said, messages: Path) -> tuple[str, Said]:
    registry = case["schema_registry"] and f"file://{kit / case['schema_registry']}"
    return f"file://{messages}?protocol={case['protocol']}", {"schema_registry": registry, "tz": case["time_zone"]}


def _messages(spark: SparkSession, kit: Path, case: Said, folder: Path) -> Iterator[Said]:
    # Where messages have no number, the order of the file is that of all, and schema changes tell their lines.
    lines = map(json.loads, (kit / case["messages"]).read_text().splitlines())
    without = [json.dumps({"key": line["key"], "value": line["value"]}) + "\n" for line in lines]
    messages = folder / f"{case['case']}.jsonl"
    messages.write_text("".join(without))
    uri, options = _place(kit, case, messages)
    with tidecast.read(spark, uri, **options) as events:
        checked = parallel_map(lambda t: with_verdict(t).where("reason IS NULL").collect(), events.tables)
        for changes, rows in zip(events.tables, checked, strict=True):
            for row in rows:
                yield _row(changes.schema, row)
        for ddl in events.ddl:
            yield {"offset": ddl.position, "kind": "ddl", "sql": ddl.sql, "commit_ts": ddl.commit_ts}
        if events.watermarks is not None:
            for row in events.watermarks.collect():
                yield {"offset": row["offset"], "kind": "watermark", "commit_ts": row["commit_ts"]}
        for row in events.dead_letters().collect():
            yield {"offset": row["offset"], "kind": "error", "reason": f"{row['reason']}: {row['detail']}"}


def _row(schema: TableSchema, row: Row) -> Said:
    kinds = {column.name: column.data_type.kind for column in schema.columns}
    sides = {
        side: {name: _value(kinds[name], value) for name, value in zip(row[ours].__fields__, row[ours], strict=True)}
        for side, ours in (("old", "old"), ("new", "data"))
        if row[ours] is not None
    }
    place = {"database": schema.database, "table": schema.table}
    verdict = row["verification"]["verdict"]
    told = {"op": row["op"], **place, "commit_ts": row["commit_ts"], "checksum": verdict}
    return {"offset": row["offset"], "kind": "row", **told, **sides}


def _value(kind: Kind, value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return str(int.from_bytes(value, "big")) if kind is Kind.BIT else bytes(value).hex()
    return f"{value:f}" if isinstance(value, Decimal) else value


def _tables(spark: SparkSession, kit: Path, case: Said, folder: Path) -> Iterator[Said]:
    uri, options = _place(kit, case, kit / case["messages"])
    where = folder / case["case"]
    tidecast.replicate(uri, str(where), spark=spark, **options)
    for table in sorted(where.glob("*/*")):
        if (table / "_delta_log").is_dir():
            for row in spark.read.format("delta").load(str(table)).collect():
                yield {"table": f"{table.parent.name}.{table.name}", "row": row.asDict()}
