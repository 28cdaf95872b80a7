"""An Avro topic written message by message, with schemas of the test's own, and the tables that it becomes."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import SparkSession

import tidecast

Schema = dict[str, Any]


def column(avro: str, tidb: str, *, null: bool = False, **more: Any) -> Schema:
    """Return the type of a field as TiCDC writes it; `more` are further connect.parameters, or `logicalType` etc."""
    logical: Schema = {k: more.pop(k) for k in ("logicalType", "precision", "scale") if k in more}
    block: Schema = {"type": avro, "connect.parameters": {"tidb_type": tidb, **more}, **logical}
    return {"default": None, "type": ["null", block]} if null else {"type": block}


INT, BIGINT = column("int", "INT"), column("long", "BIGINT")
TEXT, NUMBER = column("string", "TEXT", null=True), column("int", "INT", null=True)
_EXTENSION: list[Schema] = [
    {"default": "", "name": "_tidb_op", "type": "string"},
    {"default": 0, "name": "_tidb_commit_ts", "type": "long"},
    {"default": 0, "name": "_tidb_commit_physical_time", "type": "long"},
]


class AvroTopic:
    """A topic in a folder, with its registry, and Delta tables beside it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._schemas: dict[int, Any] = {}
        self._lines: list[dict[str, Any]] = []
        self._sent = 0

    def register(
        self, schema_id: int, table: str = "t", *, keyspace: str = "default", extension: bool = True, **columns: Schema
    ) -> int:
        """Register a schema; a value's carries the operation and the commit-ts, a key's (columns `id`) does not."""
        fields: list[Schema] = [{"name": name, **members} for name, members in columns.items()]
        fields += _EXTENSION if extension and list(columns) != ["id"] else []
        schema = {"type": "record", "name": table, "namespace": f"{keyspace}.d", "fields": fields}
        folder = self._folder / "schemas" / "subjects" / f"s{schema_id}"
        folder.mkdir(parents=True)
        members = {"id": schema_id, "version": 1, "schema": json.dumps(schema)}
        (folder / "1.json").write_text(json.dumps(members))
        self._schemas[schema_id] = fastavro.parse_schema(schema)
        return schema_id

    def _message(self, schema_id: int, row: dict[str, Any]) -> str:
        out = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, self._schemas[schema_id], row)
        return base64.b64encode(out.getvalue()).decode()

    def put(self, key: int | None, value: int, *, ts: int = 0, topic: str = "t", **row: Any) -> None:
        """Write an insert; a row's `id` is its key."""
        members = {**row, "_tidb_op": "c", "_tidb_commit_ts": ts << 18, "_tidb_commit_physical_time": ts}
        self._send(topic, self._message(key, {"id": row["id"]}) if key else None, self._message(value, members))

    def delete(self, key: int, topic: str = "t", *, ts: int = 0, **row: Any) -> None:
        """Write a delete, with its commit-ts as `avro-enable-watermark` sends it, if one is given."""
        timed = b"\3" + (ts << 18).to_bytes(8, "big")
        self._send(topic, self._message(key, row), base64.b64encode(timed).decode() if ts else None)

    def repeat_last(self) -> None:
        """Write the last message once more, at its place."""
        self._lines.append(self._lines[-1])

    def _send(self, topic: str, key: str | None, value: str | None) -> None:
        place = {"topic": topic, "partition": 0, "offset": len(self._lines), "timestamp": 1_700_000_000_000}
        self._lines.append({**place, "key": key, "value": value})

    def write(self) -> str:
        """Write what came since the last time to one more file of each topic, and return the URI of all topics."""
        topics = self._folder / "topics"
        for topic in {line["topic"] for line in self._lines[self._sent :]}:
            (topics / topic).mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(line) + "\n" for line in self._lines[self._sent :] if line["topic"] == topic]
            (topics / topic / f"part-{self._sent:05}.jsonl").write_text("".join(lines))
        self._sent = len(self._lines)
        return f"file://{topics}/t?protocol=avro&topics=.*"

    @property
    def registry(self) -> str:
        """The URI of the registry."""
        return f"file://{self._folder}/schemas"

    def replicate(self, **options: Any) -> tidecast.Replicated:
        """Apply the topic to the tables, what came since the last time as one more file."""
        return tidecast.replicate(
            self.write(),
            str(self._folder / "tables"),
            schema_registry=self.registry,
            tz="UTC",
            spark=self._spark,
            **options,
        )

    def rows(self, table: str = "t") -> list[tuple[Any, ...]]:
        """Return the rows of a table, in order."""
        frame = self._spark.read.format("delta").load(f"{self._folder}/tables/d/{table}")
        return sorted(map(tuple, frame.collect()), key=lambda row: str(row[0]))

    def dead_letters(self) -> list[tuple[int, str, str]]:
        """Return offset, reason and detail of the dead letters, in order."""
        files = (self._folder / "tables" / "_dead_letters").glob("*.jsonl")
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted((x["offset"], x["reason"], x["detail"]) for x in records)
