"""Canal-JSON in a storage sink's files: statements tell columns as the rows behind them show these."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from storage_sink import StorageSinkFolder, tso

from tidecast._csv_format import CsvFormat
from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols import DecodeOptions, protocol_named
from tidecast.protocols.canal_json._schema import as_shown
from tidecast.topics._sink_lines import seen

TYPES: dict[str, tuple[dict[str, Any], str, str | int | None]] = {
    "id": ({"ColumnType": "INT", "ColumnPrecision": "11"}, "int(11)", None),
    "d": ({"ColumnType": "DECIMAL", "ColumnPrecision": "10", "ColumnScale": "2"}, "decimal(10,2)", "1.50"),
    "e": ({"ColumnType": "ENUM", "ColumnElems": ["x", "y"]}, "enum('x','y')", "2"),
    "s": ({"ColumnType": "SET", "ColumnElems": ["x", "y"]}, "set('x','y')", "3"),
    "b": ({"ColumnType": "BIT UNSIGNED", "ColumnPrecision": "5"}, "bit(5)", 49),
    "raw": ({"ColumnType": "BINARY", "ColumnPrecision": "4"}, "binary(4)", None),
    "at": ({"ColumnType": "DATETIME", "ColumnScale": "3"}, "datetime(3)", None),
}
DEFAULTS = {"d": "1.5", "e": "y", "s": "x,y", "b": "1"}


@pytest.mark.parametrize("whole", [True, False])
def test_a_statement_shows_the_types_of_rows(whole: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = StorageSinkFolder(tmp_path_factory.mktemp("sink"), kind="json")
    given = {name: {"ColumnDefault": default} for name, default in DEFAULTS.items()}
    told = [{"ColumnName": name, **members, **given.get(name, {})} for name, (members, _, _) in TYPES.items()]
    folder.schema(1, "t", told, "CREATE TABLE `t` (`id` INT)", 3)
    (file,) = (folder.table("t") / "meta").iterdir()
    types = {name: text if whole else text.partition("(")[0] for name, (_, text, _) in TYPES.items()}
    row = {"id": 0, "database": "shop", "table": "t", "pkNames": [], "isDdl": False, "type": "INSERT", "es": 1, "ts": 1}
    row |= {"sql": "", "sqlType": dict.fromkeys(TYPES, 4), "mysqlType": types, "old": None}
    row |= {"data": [dict.fromkeys(TYPES)], "_tidb": {"commitTs": tso(2)}}
    line = json.dumps(row).encode()
    records = {
        "topic": pa.array(["shop/t"] * 2),
        "offset": pa.array([1, 2], pa.int64()),
        "key": pa.array([f"shop/t/meta/{file.name}".encode(), f"shop/t/{tso(1)}/CDC000001.json".encode()]),
        "value": pa.array([file.read_bytes(), line]),
    }
    form = seen(CsvFormat(), {}, line + b"\n", None)
    assert form.content_compatible is whole
    make = protocol_named("canal-json").reader
    assert make
    reader = make(DecodeOptions(csv=form))
    ((_, change),) = reader.controls(pa.RecordBatch.from_pydict(records)).ddl
    (rows,) = reader.decoder.decode(pa.RecordBatch.from_pydict(records)).rows
    assert change.schema
    shown = {c.name: c.data_type for c in rows.version.schema.columns}
    assert {c.name: c.data_type for c in change.schema.columns} == shown
    defaults = {c.name: c.default for c in change.schema.columns if c.name in DEFAULTS}
    assert defaults == (DEFAULTS | {"b": 49} if whole else {name: TYPES[name][2] for name in DEFAULTS})


@pytest.mark.parametrize(("whole", "shown"), [(True, "varchar(16383)"), (False, "smallint unsigned")])
def test_an_enum_whose_elements_nothing_tells_is_what_rows_show(whole: bool, shown: str) -> None:
    """Older TiCDC names none in its schema files: rows hold texts, or with bare types numbers."""
    schema = TableSchema("shop", "t", 0, tso(1), (Column("e", DataType("enum", "utf8mb4", "utf8mb4_bin")),), ())
    assert [str(column.data_type) for column in as_shown(schema, whole=whole).columns] == [shown]
