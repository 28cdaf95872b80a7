"""What `avro-enable-watermark` sends: schema changes, which are the golden ones, and deletes with their commit-ts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from golden_data import lines

from tidecast.model import Column, DataType, Ddl, Index, TableSchema
from tidecast.protocols import RoutedTable, Rows
from tidecast.protocols._registered import schema_key
from tidecast.protocols.avro import encode_ddl
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import schema_change
from tidecast.protocols.avro._encoder import AvroEncoder
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import key_schema, value_schema
from tidecast.protocols.simple import table_schema
from tidecast.registry import CONFLUENT, FRAMINGS, RegisteredSchema, header


def test_schema_changes_are_the_golden_messages(golden: Callable[[str], Path]) -> None:
    twins = {m["n"]: json.loads(base64.b64decode(m["value"])) for m in lines(golden("simple-json.jsonl.gz"))}
    wanted = [m for m in lines(golden("avro-watermark.jsonl.gz")) if m["kind"] == "ddl"]
    assert len(wanted) == 85
    for message in wanted:
        said = twins[message["n"]]
        schema = table_schema(json.dumps(said["tableSchema"])) if "tableSchema" in said else None
        got = encode_ddl(Ddl(said["type"], said["sql"], said["commitTs"], schema))
        assert got == base64.b64decode(message["value"]), said["sql"]


def test_the_number_of_an_action_that_no_golden_message_has() -> None:
    message = encode_ddl(Ddl("QUERY", "ALTER TABLE `d`.`t` REMOVE TTL", 1))
    assert json.loads(message[1:])["type"] == 67


@pytest.mark.parametrize(("named", "shown"), [("`e`.`n`", ("e", "n")), ("`n`", ("d", "n"))])
def test_an_exchange_of_partitions_is_about_the_other_table(named: str, shown: tuple[str, str]) -> None:
    sql = f"ALTER TABLE `d`.`t` EXCHANGE PARTITION `p` WITH TABLE {named}"
    said = json.loads(encode_ddl(Ddl("ALTER", sql, 1, _T))[1:])
    assert (said["schema"], said["table"], said["type"]) == (*shown, 42)


@pytest.mark.parametrize(
    ("ddl_type", "clause"),
    [
        ("CINDEX", "ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `d`.`u`(`id`)"),
        ("ALTER", "ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `d`.`u`(`id`)"),
        ("QUERY", "/*T![ttl] TTL = `a` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */"),
        ("QUERY", "/*T![ttl] REMOVE TTL */"),
        ("ALTER", "COMMENT = 'x'"),
    ],
)
def test_the_type_of_a_schema_change_is_read_back(ddl_type: str, clause: str) -> None:
    change = Ddl(ddl_type, f"ALTER TABLE `d`.`t` {clause}", 1, named=("d", "t"))
    assert schema_change(encode_ddl(change)) == change


_TSO = 464041517479886883
_T = TableSchema(
    "d",
    "t",
    1,
    1,
    (Column("id", DataType("int"), nullable=False, id=1), Column("n", DataType("int"), id=2)),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)
_OPTIONS = AvroOptions(enable_tidb_extension=True, timed_deletes=True)
_SCHEMAS = {header(n): RegisteredSchema(text(_T, _OPTIONS), n) for n, text in ((1, key_schema), (2, value_schema))}


def _encoded(*changes: tuple[str, int, int | None]) -> pa.RecordBatch:
    """Return the messages of changes: an operation, a commit-ts, and the number, None for a row without values."""
    row = pa.struct({"id": pa.int32(), "n": pa.int32()})
    old = [{"id": 7, "n": n} if op == "d" else None for op, _, n in changes]
    data = [None if op == "d" else {"id": 7, "n": n} for op, _, n in changes]
    rows = Rows.of_changes(
        _T,
        pa.RecordBatch.from_pydict(
            {
                "op": [op for op, _, _ in changes],
                "commit_ts": pa.array([commit_ts for _, commit_ts, _ in changes], pa.int64()),
                "old": pa.array(old, row),
                "data": pa.array(data, row),
            }
        ),
    )
    table = RoutedTable(_T, _T, "topic")
    encoder = AvroEncoder(_OPTIONS, {schema_key(table, "key"): 1, schema_key(table, "value"): 2})
    return pa.RecordBatch.from_arrays([encoder.key(table, rows), encoder.value(table, rows)], names=["key", "value"])


@pytest.mark.unit
def test_deletes_tell_their_commit_ts() -> None:
    """A delete whose commit-ts nobody knows stays a tombstone."""
    sent = _encoded(("c", _TSO, 1), ("d", _TSO + 1, 1), ("d", 0, 1))
    assert sent.column("value").to_pylist()[1:] == [bytes.fromhex("0306709b4d326c0024"), None]
    assert _encoded(("d", _TSO + 1, 1)).column("value").to_pylist() == [bytes.fromhex("0306709b4d326c0024")]
    decoded = AvroDecoder(CONFLUENT, _SCHEMAS).decode(sent)
    assert not decoded.rejected
    read = {
        at: (op, commit_ts, old, data)
        for rows in decoded.rows
        for at, op, commit_ts, old, data in zip(
            rows.at, *(part.to_pylist() for part in (rows.op, rows.commit_ts, rows.old, rows.data)), strict=True
        )
    }
    assert read == {
        0: ("c", _TSO, None, {"id": 7, "n": 1}),
        1: ("d", _TSO + 1, {"id": 7}, None),
        2: ("d", None, {"id": 7}, None),
    }


@pytest.mark.unit
def test_what_only_begins_as_such_a_delete_is_not_one() -> None:
    """Nine bytes: a message cut in a registry of Glue, a delete without a key, one byte more, another first byte."""
    key, value = _encoded(("d", _TSO, 1)).to_pydict().values()
    in_glue = header(UUID(int=1))
    schemas = _SCHEMAS | {in_glue: _SCHEMAS[header(1)]}
    for framing, keys, values in (
        (FRAMINGS[1], [in_glue + key[0][5:]], [b"\x03\x00" + bytes(7)]),
        (CONFLUENT, [None], value),
        (CONFLUENT, key, [value[0] + b"\x00"]),
        (CONFLUENT, key, [b"\x04" + value[0][1:]]),
    ):
        batch = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        decoded = AvroDecoder(framing, schemas).decode(batch)
        assert [len(one.at) for one in decoded.rejected] == [1]
        assert not decoded.rows
    impossible = pa.RecordBatch.from_pydict({"key": key, "value": [b"\x03" + b"\xff" * 8]})
    (rows,) = AvroDecoder(CONFLUENT, _SCHEMAS).decode(impossible).rows
    assert rows.detail.to_pylist() == ["not of its column's type: _tidb_commit_ts"]
