"""Lines of a storage sink's files, with the schema files of older TiCDC."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from decoded_batches import said
from storage_sink import StorageSinkFolder, number, tso

from tidecast._csv_format import CsvFormat
from tidecast.protocols import DecodeOptions, protocol_named

pytestmark = pytest.mark.unit


def test_an_enum_whose_elements_nothing_tells_is_text(tmp_path: Path) -> None:
    folder = StorageSinkFolder(tmp_path / "sink")
    told = [number("id", key=True), *({"ColumnName": kind, "ColumnType": kind.upper()} for kind in ("enum", "set"))]
    folder.schema(1, "t", told, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `enum` ENUM('a'), `set` SET('a', 'b'))", 3)
    (file,) = (folder.table("t") / "meta").iterdir()
    data = folder.rows(1, "t", 1, ("I", 2, (1, "a", "a,b")))
    records = pa.RecordBatch.from_pydict(
        {
            "topic": ["shop/t"] * 2,
            "offset": pa.array([1, 2], pa.int64()),
            "key": [str(path.relative_to(folder.root)).encode() for path in (file, data)],
            "value": [file.read_bytes(), data.read_bytes().rstrip()],
        }
    )
    make = protocol_named("csv").reader
    assert make
    reader = make(DecodeOptions(csv=CsvFormat(include_commit_ts=True)))
    ((_, change),) = reader.controls(records).ddl
    found = said(reader.decoder.decode(records))[1]
    assert found[1:4] == ({"id": 1, "enum": "a", "set": "a,b"}, "c", tso(2))
    assert change.schema
    assert [str(column.data_type) for column in change.schema.columns] == ["int", *["varchar(16383)"] * 2]
