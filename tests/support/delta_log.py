"""A Delta table read from its log with pyarrow alone, for table features that delta-rs does not know.

It knows column mapping by name and type widening, and refuses what else a reader must know.
Source: Other documents, Delta protocol.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

_KNOWN = {"columnMapping", "typeWidening", "timestampNtz"}
_TYPES = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


class DeltaLog:
    """What the log of a table says, up to its newest commit."""

    def __init__(self, table: Path) -> None:
        commits = sorted((table / "_delta_log").glob("*.json"))
        assert commits[0].name == f"{0:020}.json"
        self._table = table
        self.version = len(commits) - 1
        self.files: set[str] = set()
        self.ever: set[str] = set()
        """All files that were ever in the table."""
        self.properties: dict[str, str] = {}
        self.operations: list[str] = []
        for commit in commits:
            for action in map(json.loads, commit.read_text().splitlines()):
                self._take(action)

    def _take(self, action: dict[str, Any]) -> None:
        if said := action.get("add"):
            assert not said.get("deletionVector")
            self.files.add(said["path"])
            self.ever.add(said["path"])
        elif said := action.get("remove"):
            self.files.discard(said["path"])
        elif said := action.get("metaData"):
            self.fields = json.loads(said["schemaString"])["fields"]
            self.properties = said["configuration"]
        elif said := action.get("protocol"):
            self.reader = said["minReaderVersion"]
            assert set(said.get("readerFeatures", ())) <= _KNOWN
        elif said := action.get("commitInfo"):
            self.operations.append(said["operation"])

    def types(self) -> dict[str, str]:
        """Return each column's type."""
        return {field["name"]: field["type"] for field in self.fields}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, sorted by their first column."""
        schema = pa.schema([(f["name"], self._type(f["type"])) for f in self.fields])
        rows: list[dict[str, Any]] = []
        for file in self.files:
            there = pq.read_table(self._table / unquote(file), partitioning=None)
            columns = []
            for field in self.fields:
                name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
                kind = self._type(field["type"])
                found = name in there.column_names
                columns.append(there[name].cast(kind) if found else pa.nulls(there.num_rows, kind))
            rows += pa.table(columns, schema=schema).to_pylist()
        return sorted(rows, key=lambda row: str(next(iter(row.values()))))

    def _type(self, name: str) -> pa.DataType:
        if name.startswith("decimal"):
            precision, scale = map(int, name.removeprefix("decimal(").rstrip(")").split(","))
            return pa.decimal128(precision, scale)
        return _TYPES[name]
