"""Where bootstraps stand among the rows of their partition."""

from __future__ import annotations

import json

import pyarrow as pa
from growing_topic import ID, row, table

from tidecast.protocols import DecodeOptions
from tidecast.protocols.simple._read import SimpleReader
from tidecast.sources._bootstraps import between, bootstraps_of, placed

_TS = (1_700_000_000_000 << 18) + 1


def test_a_bootstrap_stands_behind_rows_some_of_which_have_no_commit_ts() -> None:
    bootstrap = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table(_TS, ID)}
    said = [row(_TS, _TS, id=1), row(0, _TS, id=2), bootstrap]
    values = [json.dumps(one).encode() for one in said]
    messages = pa.RecordBatch.from_pydict(
        {
            "topic": ["top"] * 3,
            "partition": pa.array([0] * 3, pa.int32()),
            "offset": [0, 1, 2],
            "key": pa.array([None] * 3, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    reader = SimpleReader(DecodeOptions(ordered=False))
    told = messages.slice(2)
    controls = reader.controls(told)
    starts = bootstraps_of(told, controls)
    highest = {name: number for name, _, number in between(starts, reader.decoder.decode(messages), messages)}
    assert [one.position for one in placed(told, controls, starts, highest)] == [_TS]
