"""Rows of Canal-JSON that look alike before and after a schema change are of two versions of their table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tidecast.model import TableSchema
from tidecast.protocols import DecodeOptions
from tidecast.protocols.canal_json._protocol import _of_files
from tidecast.protocols.canal_json._read import CanalReader


def message(commit_ts: int, **members: Any) -> bytes:
    head = {"database": "d", "table": "t", "es": 1, "_tidb": {"commitTs": commit_ts}}
    return json.dumps({**head, **members}).encode()


def change(commit_ts: int, sql: str) -> bytes:
    return message(commit_ts, isDdl=True, type="ALTER", sql=sql)


def row(commit_ts: int) -> bytes:
    types = {"mysqlType": {"id": "int", "a": "int"}, "sqlType": {"id": 4, "a": 4}}
    return message(commit_ts, isDdl=False, type="INSERT", pkNames=["id"], **types, data=[{"id": "1", "a": "2"}])


def test_a_schema_change_begins_a_version() -> None:
    changes = [change(20, "ALTER TABLE t DROP COLUMN a"), change(30, "ALTER TABLE t ADD COLUMN a INT")]
    values = [row(15), *changes, row(35), row(31), row(12)]
    messages = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": values})
    reader = CanalReader(DecodeOptions(ordered=True))
    reader.controls(messages.append_column("offset", pa.array(range(len(values)))))
    found = reader.decoder.decode(messages).rows
    assert [(part.version.schema.version, part.at.tolist()) for part in found] == [(12, [0, 5]), (31, [3, 4])]
    assert len({part.version.name for part in found}) == 2


def test_a_folder_of_a_storage_sink_begins_one_too() -> None:
    tables = {b"%d" % since: TableSchema("d", "t", 0, since, ()) for since in (30, 10, 20)}
    values = [row(15), row(35), row(31), row(12)]
    messages = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": values})
    found = _of_files("UTC", tables).decode(messages).rows
    assert [(part.version.schema.version, part.at.tolist()) for part in found] == [(12, [0, 3]), (31, [1, 2])]
