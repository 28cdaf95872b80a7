"""Messages of `debezium-include-start-ts`: one member more in `source`, which changes nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from golden_data import lines

from tidecast.protocols import Decoded, DecodeOptions, protocol_named

pytestmark = pytest.mark.unit


def _with_start_ts(value: bytes) -> bytes:
    """Return a row's message as TiCDC of 2026 writes it with a start-ts."""
    message = json.loads(value)
    if not message["payload"].get("op"):
        return value
    source = message["payload"]["source"]
    message["payload"]["source"] = {
        name: one for member, said in source.items() for name, one in _in_front(member, said)
    }
    for field in message["schema"]["fields"] if "schema" in message else ():
        if field.get("field") == "source":
            field["fields"].append({"type": "int64", "optional": False, "field": "start_ts"})
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def _in_front(member: str, said: object) -> list[tuple[str, object]]:
    return [("start_ts", 464041517478314019), (member, said)] if member == "cluster_id" else [(member, said)]


def _decoded(messages: list[tuple[bytes, bytes]]) -> Decoded:
    keys, values = zip(*messages, strict=True)
    count = len(messages)
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(count), pa.int64()),
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
        }
    )
    make = protocol_named("debezium").reader
    assert make
    reader = make(DecodeOptions(ordered=True))
    reader.controls(batch)
    return reader.decoder.decode(batch)


@pytest.mark.parametrize("variant", ["debezium-ext", "debezium-noschema-ext"])
def test_rows_are_the_same(variant: str, golden: Callable[[str], Path]) -> None:
    sent = [
        tuple(base64.b64decode(m[part] or "") for part in ("key", "value"))
        for m in lines(golden(f"{variant}.jsonl.gz"))
    ]
    changed = [(key, _with_start_ts(value) if value else value) for key, value in sent]
    assert sum(one != other for one, other in zip(sent, changed, strict=True)) >= 10
    found = []
    for messages in (sent, changed):
        decoded = _decoded([(key, value) for key, value in messages])
        assert not decoded.rejected
        found.append(
            {
                int(at): row
                for rows in decoded.rows
                for at, *row in zip(
                    rows.at,
                    rows.op.to_pylist(),
                    rows.commit_ts.to_pylist(),
                    rows.old.to_pylist(),
                    rows.data.to_pylist(),
                    strict=True,
                )
            }
        )
    assert found[0] == found[1]
