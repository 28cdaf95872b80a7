"""Schema files of TiCDC's storage sink, as TiCDC's own code wrote them, and what reads them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_data import lines

from tidecast.model import Column, DataType, InvalidSchema, Kind, TableSchema
from tidecast.protocols._schema_file import read_schema_file, schema_checksum, schema_files, write_schema_file
from tidecast.protocols.debezium._schema import form

_BIT_DEFAULTS = {"b1n": 1, "b5": 0b10101, "b9": 0b100000001, "b10": 65, "b24": 0, "b64": (1 << 64) - 1}
GOLDEN = [line for line in lines(Path("tests/golden/public/csv.jsonl.gz")) if line["kind"] == "schema"]


def told(*files: dict[str, Any], taken: bool = False) -> pa.RecordBatch:
    """Return schema files as the messages that tell them."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": [f"{one['Schema']}/{one['Table']}" for one in files],
            "offset": pa.array([0 if taken else 1] * len(files), pa.int64()),
            "value": pa.array([json.dumps(one).encode() for one in files], pa.binary()),
        }
    )


def a_file(version: int, sql: str, *columns: dict[str, str], table: str = "t") -> dict[str, Any]:
    """Return the members of a schema file."""
    return {"Table": table, "Schema": "db", "TableVersion": version, "Query": sql, "TableColumns": [*columns]}


def a_column(name: str, type_: str = "INT", **more: str) -> dict[str, str]:
    """Return a column of a schema file."""
    return {"ColumnName": name, "ColumnType": type_, **more}


def test_the_checksum_is_that_of_the_file_name() -> None:
    wrong = []
    for line in GOLDEN:
        in_name = re.search(r"_([0-9]{10})\.json$", line["path"])
        assert in_name
        if schema_checksum(line["schema"]) != int(in_name[1]):
            wrong.append(line)
    # A BIT default that is no UTF-8 stands in the file as U+FFFD: its text cannot give the checksum again.
    assert {"\ufffd" in str(json.loads(line["schema"])) for line in wrong} == {True}
    assert len(wrong) == 2


def test_tables_are_those_of_the_simple_protocol() -> None:
    shown: dict[str, Any] = {}
    for message in lines(Path("tests/golden/public/events.jsonl.gz")):
        if message.get("table_info"):
            shown.setdefault(str(message["n"]), message["table_info"])
    compared = 0
    for line in GOLDEN:
        info = shown.get(line["n"])
        schema = read_schema_file(line["schema"]).schema
        assert schema
        if info is None:
            continue
        compared += 1
        assert [column.name for column in schema.columns] == [column["name"] for column in info["columns"]]
        for column in schema.columns:
            assert column.data_type.kind is not Kind.UNKNOWN
            assert (column.id is not None) == line["output_column_id"]
    assert compared


def test_a_time_without_a_scale_has_no_digits_after_the_point() -> None:
    columns = [a_column("at", "DATETIME"), a_column("at3", "DATETIME", ColumnScale="3"), a_column("span", "TIME")]
    schema = read_schema_file(json.dumps(a_file(1, "", *columns))).schema
    assert schema
    kinds = [column.data_type for column in schema.columns]
    assert kinds == [
        DataType("datetime", length=19),
        DataType("datetime", length=23, decimal=3),
        DataType("time", length=10),
    ]
    # Debezium shows milliseconds of these, but microseconds where digits are unknown.
    assert form(kinds[0]).name == "io.debezium.time.Timestamp"


def test_a_time_of_unknown_digits_is_written_with_all() -> None:
    columns = (Column("at", DataType("datetime")), Column("at0", DataType("datetime", length=19)))
    _, text = write_schema_file(TableSchema("d", "t", 0, 1, columns))
    assert json.loads(text)["TableColumns"] == [
        {"ColumnName": "at", "ColumnType": "DATETIME", "ColumnScale": "6"},
        {"ColumnName": "at0", "ColumnType": "DATETIME"},
    ]


def test_virtual_columns_are_left_out_as_rows_do_not_have_them() -> None:
    (file,) = (json.loads(g["schema"]) for g in GOLDEN if "/t_gen/" in g["path"] and not g["output_column_id"])
    read = schema_files(told(file))
    (schema,) = read.tables.values()
    assert [column.name for column in schema.columns] == ["id", "a", "b", "s_sum", "name", "s_len", "j", "s_j"]
    assert [change.type for _, change in read.changes] == ["CREATE"]


def test_a_virtual_column_stays_virtual_through_later_statements_and_a_rename() -> None:
    first = a_file(10, "CREATE TABLE t (a INT, v INT AS (a+1) VIRTUAL)", a_column("a"), a_column("v"))
    second = a_file(20, "ALTER TABLE t ADD COLUMN b INT", a_column("a"), a_column("v"), a_column("b"))
    sql = "RENAME TABLE db.t TO db.u"
    third = a_file(30, sql, a_column("a"), a_column("v"), a_column("b"), table="u")
    read = schema_files(told(third, second, first))
    columns = {key: [column.name for column in schema.columns] for key, schema in read.tables.items()}
    assert columns == {b"db/t/10/": ["a"], b"db/t/20/": ["a", "b"], b"db/u/30/": ["a", "b"]}
    assert [(change.type, change.commit_ts) for _, change in read.changes] == [
        ("CREATE", 10),
        ("ALTER", 20),
        ("RENAME", 30),
    ]


@pytest.mark.parametrize(
    ("before", "renames"),
    [
        ("t u", "t>t_old u>t"),
        ("u", "t>t_old u>t"),  # of a table without rows there is no file
        ("a b c", "c>d b>c a>b"),
        ("a b", "a>x b>a x>b"),
        ("a b x", "b>x a>b x>a"),  # x was dropped
    ],
)
def test_renames_of_one_statement_pass_names_on(before: str, renames: str) -> None:
    files = [a_file(10, f"CREATE TABLE {name} (a INT)", a_column("a"), table=name) for name in before.split()]
    if "x" in before:
        files.append(a_file(20, "DROP TABLE `db`.`x`", a_column("a"), table="x"))
    moves = [one.split(">") for one in renames.split()]
    files += [a_file(30, f"RENAME TABLE `db`.`{old}` TO `db`.`{new}`", a_column("a"), table=new) for old, new in moves]
    batch = told(*sorted(files, key=lambda one: (one["TableVersion"], one["Table"])))
    batch = batch.set_column(1, "offset", pa.array(range(1, len(files) + 1), pa.int64()))
    changes = [change for _, change in schema_files(batch).changes if change.type == "RENAME"]
    assert [(change.renamed_from, change.table) for change in changes] == [(("db", old), new) for old, new in moves]
    positions = [change.position or 0 for change in changes]
    assert positions == sorted(positions)


def test_rows_have_the_last_name_that_a_statement_gives_their_table() -> None:
    """By `use-table-id-as-path` the files of all its names lie in one folder."""
    moves = [("a", "x"), ("x", "b")]
    files = [a_file(30, f"RENAME TABLE db.{old} TO db.{new}", a_column("a"), table=new) for old, new in moves]
    files.append(a_file(30, "RENAME TABLE db.b TO db.a", a_column("a"), table="a"))
    files += [a_file(10, "", a_column("a"), table=name) for name in "ab"]
    batch = told(*files).set_column(0, "topic", pa.array(["105", "105", "106", "105", "106"]))
    assert schema_files(batch).tables[b"105/30/"].table == "b"


def test_statements_that_were_taken_before_are_not_told_again() -> None:
    file = a_file(10, "CREATE TABLE t (a INT)", a_column("a"))
    read = schema_files(told(file, taken=True))
    assert [*read.tables] == [b"db/t/10/"]
    assert read.changes == []


def test_a_bit_default_is_a_number_where_the_text_tells_it() -> None:
    one, other = (a_column("b", "BIT UNSIGNED", ColumnPrecision="9", ColumnDefault=d) for d in ("\x01\x01", "\ufffd"))
    schemas = [read_schema_file(json.dumps(a_file(1, "", column))).schema for column in (one, other)]
    defaults = [(s.columns[0].default, s.columns[0].default_known) for s in schemas if s]
    assert defaults == [(257, True), (None, False)]


@pytest.mark.parametrize("text", ["{", "[]", '{"Table": "t", "Schema": "db", "TableVersion": "1"}', "null"])
def test_what_is_no_schema_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        read_schema_file(text)


def test_a_broken_schema_file_stops_with_its_table() -> None:
    batch = told(a_file(1, "", a_column("a", "NEWTYPE")))
    read = schema_files(batch)
    assert read.tables == {}
    ((place, why),) = read.broken
    assert place == 0
    assert "NEWTYPE" in why


def test_files_that_were_read_are_written_byte_for_byte() -> None:
    compared = 0
    for line in GOLDEN:
        file = read_schema_file(line["schema"])
        assert file.schema
        schema = file.schema
        if schema.table == "t_bit":  # of whose defaults the text does not tell all
            of_bits = tuple(replace(column, default=_BIT_DEFAULTS.get(column.name)) for column in schema.columns)
            schema = replace(schema, columns=of_bits)
        name, written = write_schema_file(schema, sql=file.sql, kind=3, column_ids=line["output_column_id"])
        assert written == line["schema"]
        assert line["path"].endswith(f"/meta/{name}")
        compared += 1
    assert compared == 82


def test_a_default_of_other_bytes_has_an_escape_for_each() -> None:
    kinds = (DataType("varbinary", length=4), DataType("varchar", "utf8mb4", "utf8mb4_bin", 4))
    columns = tuple(Column(kind.mysql_type, kind, nullable=True, default="a\ufffd") for kind in kinds)
    _, text = write_schema_file(TableSchema("db", "t", 1, 2, columns))
    assert re.findall(r'"ColumnDefault": "(.*)"', text) == ["a\\ufffd", "a\ufffd"]
