"""Tables from a storage sink's files: statements, replays and restarts change nothing in the result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from full import full
from pyspark.sql import SparkSession
from storage_sink import StorageSinkFolder, number, text, tso

import tidecast
from tidecast._errors import ConfigError, SourceChanged
from tidecast.config import configured_source
from tidecast.sources import decode_records, read_records, source_errors
from tidecast.topics import read_dead_letters

_COLUMNS = [number("id", key=True), text("v")]
_CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"


class Sink:
    """A sink's folder with a table, and its replica."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder = spark, StorageSinkFolder(folder / "sink", **options)
        self.uri = f"file://{folder}/sink?protocol={'csv' if self.folder.kind == 'csv' else 'canal-json'}"
        self.to, self.checkpoint = str(folder / "tables"), str(folder / "checkpoint")

    def run(self, **options: Any) -> tidecast.Replicated:
        """Apply what is new."""
        options = {"ddl": "evolve", "to": self.to, "checkpoint": self.checkpoint, **options}
        return tidecast.replicate(self.uri, spark=self.spark, **options)

    def rows(self, name: str = "t") -> list[tuple[Any, ...]]:
        """Return a table's rows in order."""
        return sorted(map(tuple, self.spark.read.format("delta").load(f"{self.to}/shop/{name}").collect()))

    def dead_letters(self) -> list[str]:
        """Return why messages could not be applied."""
        letters = read_dead_letters(self.spark, Path(self.to, "_dead_letters"))
        return [row["detail"] for row in letters.frame.select("detail").collect()] if letters else []


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    """Return a sink with a table of two rows."""
    made = Sink(spark, tmp_path)
    made.folder.schema(1, "t", _COLUMNS, _CREATE, 3)
    made.folder.rows(1, "t", 1, ("I", 2, (1, 'a "quoted", line')), ("I", 3, (2, "two\r\nlines")))
    made.folder.checkpoint(3)
    return made


def test_files_are_applied_once_and_then_what_is_new(sink: Sink) -> None:
    sink.run()
    assert sink.rows() == [(1, 'a "quoted", line'), (2, "two\r\nlines")]
    assert sum(table.rows for table in sink.run().tables) == 0
    sink.folder.rows(1, "t", 2, ("U", 4, (1, None)), ("D", 5, (2, "two\r\nlines")), ("I", 6, (3, "\\N")))
    sink.folder.checkpoint(6)
    assert sum(table.rows for table in sink.run().tables) == 3
    assert sink.rows() == [(1, None), (3, "\\N")]
    assert {one.verdict for one in tidecast.prove(sink.to, spark=sink.spark).tables} == {"equal"}


@pytest.mark.parametrize("mode", ["current", "log"])
def test_rows_without_a_key_come_from_several_nodes(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """A node's next file lies before what another one has written, and comes later."""
    sink = Sink(spark, tmp_path)
    sink.folder.schema(1, "t", [number("n")])
    for node in (1, 2):
        sink.folder.rows(1, "t", 1, ("I", 2, [node]), prefix=f"CDC_{node}")
    sink.folder.checkpoint(3)
    sink.run(mode=mode)
    sink.folder.rows(1, "t", 2, ("I", 5, [3]), prefix="CDC_1")
    sink.folder.checkpoint(6)
    sink.run(mode=mode)
    assert ([row[0] for row in sink.rows()], sink.dead_letters()) == ([1, 2, 3], [])


def test_rows_that_come_again_in_a_new_file_change_nothing(sink: Sink) -> None:
    sink.run()
    sink.folder.rows(1, "t", 2, ("U", 5, (1, "newer")))
    sink.folder.checkpoint(5)
    sink.run()
    sink.folder.rows(1, "t", 3, ("I", 2, (1, "old")), ("I", 3, (2, "two\r\nlines")), ("U", 5, (1, "newer")))
    sink.run()
    assert sink.rows() == [(1, "newer"), (2, "two\r\nlines")]


def test_statements_are_carried_out_between_the_rows_of_their_versions(sink: Sink) -> None:
    wider = [*_COLUMNS, number("n")]
    sink.folder.schema(10, "t", wider, "ALTER TABLE `t` ADD COLUMN `n` INT", 5)
    sink.folder.rows(10, "t", 1, ("I", 11, (3, "three", 30)))
    sink.folder.schema(20, "t", wider, "TRUNCATE TABLE `t`", 11)
    sink.folder.rows(20, "t", 1, ("I", 21, (4, "four", 40)))
    sink.folder.checkpoint(21)
    sink.run()
    assert sink.rows() == [(4, "four", 40)]
    sink.folder.schema(30, "u", wider, "RENAME TABLE `shop`.`t` TO `shop`.`u`", 14)
    sink.folder.rows(30, "u", 1, ("I", 31, (5, "five", 50)))
    sink.folder.checkpoint(31)
    sink.run()
    assert sink.rows("u") == [(4, "four", 40), (5, "five", 50)]


def test_one_statement_passes_names_on(sink: Sink) -> None:
    """The file of the rename that comes last is named first, and a run sees it alone."""
    sink.folder.schema(1, "u", _COLUMNS, _CREATE.replace("`t`", "`u`"), 3)
    sink.folder.rows(1, "u", 1, ("I", 3, (7, "new")))
    for old, new in (("u", "t"), ("t", "t_old")):
        waits = sink.run().warnings
        assert [f"not whole yet: shop/t/meta/schema_{tso(10)}" in one for one in waits] == [True] * (old == "t")
        sink.folder.schema(10, new, _COLUMNS, f"RENAME TABLE `shop`.`{old}` TO `shop`.`{new}`", 14)
    sink.folder.rows(10, "t", 1, ("I", 11, (8, "newer")))
    sink.folder.checkpoint(11)
    assert sink.run().warnings == ()
    assert sink.rows() == [(7, "new"), (8, "newer")]
    assert [row[0] for row in sink.rows("t_old")] == [1, 2]


def test_rows_are_read_where_one_statement_gives_a_table_two_names(spark: SparkSession, tmp_path: Path) -> None:
    """Its files lie in the folder of its number, and the rows have the last of its names."""
    ids = {"a": 105, "b": 106, "x": 105}
    sink = Sink(spark, tmp_path, by_id=True, ids=ids)
    for table, row in (("a", (1, "one")), ("b", (2, "two"))):
        sink.folder.schema(1, table, _COLUMNS, _CREATE.replace("`t`", f"`{table}`"), 3)
        sink.folder.rows(1, table, 1, ("I", 2, row))
    sink.folder.checkpoint(3)
    sink.run()
    ids |= {"a": 106, "b": 105}
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        sink.folder.schema(10, new, _COLUMNS, f"RENAME TABLE `shop`.`{old}` TO `shop`.`{new}`", 14)
    sink.folder.rows(10, "b", 1, ("I", 11, (3, "three")))
    sink.folder.checkpoint(12)
    sink.run()
    assert (sink.rows("a"), sink.rows("b"), sink.dead_letters()) == ([(2, "two")], [(1, "one"), (3, "three")], [])


@full
@pytest.mark.parametrize("timed", [True, False])
def test_many_batches_make_what_one_makes(sink: Sink, timed: bool) -> None:
    sink.folder.timed = timed
    sink.folder.rows(1, "t", 1, ("I", 2, (1, "one")), ("I", 3, (2, "two")))
    sink.run()
    wider = _COLUMNS
    for second in range(10, 40, 10):
        # Without commit-ts a TRUNCATE is not carried out, see docs/limits.md.
        sql, kind = ("TRUNCATE TABLE `t`", 11) if timed else (f"ALTER TABLE `t` ADD COLUMN `n{second}` INT", 5)
        wider = wider if timed else [*wider, number(f"n{second}")]
        more = (second,) * (len(wider) - 2)
        sink.folder.schema(second, "t", wider, sql, kind)
        sink.folder.rows(second, "t", 1, ("I", second + 1, (7, "x", *more)), ("D", second + 2, (1, "one", *more)))
        sink.folder.rows(second, "t", 2, ("U", second + 3, (7, "y", *more)))
        sink.folder.checkpoint(second + 3)
        sink.run()
    expected = [(7, "y")] if timed else [(2, "two", None, None, None), (7, "y", 30, 30, 30)]
    assert sink.rows() == expected
    sink.to, sink.checkpoint = f"{sink.to}2", f"{sink.checkpoint}2"
    sink.run()
    assert sink.rows() == expected


def test_rows_above_the_checkpoint_ts_wait_with_resolved_only(sink: Sink) -> None:
    sink.folder.checkpoint(2)
    sink.run(resolved_only=True)
    assert sink.rows() == [(1, 'a "quoted", line')]
    sink.folder.checkpoint(3)
    sink.run(resolved_only=True)
    assert [row[0] for row in sink.rows()] == [1, 2]


def test_a_run_stops_where_a_file_went_before_it_was_read(sink: Sink) -> None:
    sink.run()
    sink.folder.rows(1, "t", 2, ("I", 4, (3, "three"))).unlink()
    sink.folder.rows(1, "t", 3, ("I", 5, (4, "four")))
    with pytest.raises(SourceChanged, match="file 2 of"):
        sink.run()
    assert len(sink.rows()) == 2
    sink.run(on_data_loss="continue")
    assert [row[0] for row in sink.rows()] == [1, 2, 4]


def test_lines_that_cannot_be_read_are_dead_letters_with_file_and_line(sink: Sink) -> None:
    file = sink.folder.rows(1, "t", 2, ("I", 4, (3, "three")), ("I", 5, (4, "four")), ("I", 6, (5, "five")))
    lines = file.read_bytes().split(b"\r\n")
    lines[0] = lines[0].replace(b'"three"', b'"thr')  # an open quotation mark, which would swallow the next line
    file.write_bytes(b"\r\n".join(lines) + b'"I","t","shop",' + str(tso(7)).encode() + b',6,"cut off')
    sink.folder.rows(1, "t", 3, ("I", 8, ("no number", "x")), ("I", 9, (7, "seven")))
    sink.folder.checkpoint(9)
    sink.run()
    assert [row[0] for row in sink.rows()] == [1, 2, 4, 5, 7]
    told = sorted(sink.dead_letters())
    assert [detail.partition("CDC")[2].lstrip("0").partition(":")[0] for detail in told] == [
        "2.csv, line 1",
        "2.csv, line 4",
        "3.csv, line 1",
    ]


def test_columns_that_selectors_drop_are_not_in_lines(sink: Sink, tmp_path: Path) -> None:
    config = tmp_path / "feed.toml"
    config.write_text(
        '[sink]\nprotocol = "csv"\ncolumn-selectors = [{matcher = ["shop.u"], columns = ["*", "!secret", "!sum"]}]\n'
        "[sink.csv]\ninclude-commit-ts = true\n"
    )
    columns = [number("id", key=True), text("secret"), number("n"), number("sum")]
    sink.folder.schema(4, "u", columns, "CREATE TABLE `u` (`id` INT PRIMARY KEY, `secret` TEXT, `n` INT, `sum` INT)", 3)
    sink.folder.rows(4, "u", 1, ("I", 5, (1, 10)), ("I", 6, (2, 20)), ("D", 7, (1, 10)))
    sink.folder.schema(8, "u", [*columns, text("w")], "ALTER TABLE `u` ADD COLUMN `w` TEXT", 5)
    sink.folder.rows(8, "u", 1, ("I", 9, (3, 30, "w")))
    sink.folder.checkpoint(9)
    sink.uri = configured_source(sink.uri, config)
    assert not sink.run().dead_letters
    assert sink.rows() == [(1, 'a "quoted", line'), (2, "two\r\nlines")]
    written = sink.spark.read.format("delta").load(f"{sink.to}/shop/u")
    assert written.columns == ["id", "n", "w"]
    assert sink.rows("u") == [(2, 20, None), (3, 30, "w")]


@pytest.mark.parametrize(
    ("selectors", "why"),
    [
        ("[", "column-selectors"),
        ('[{"matcher": "shop.u"}]', "column-selectors 0.matcher"),
        ('[{"columns": ["*"], "more": 1}]', "column-selectors 0.more"),
        ('[{"matcher": ["shop"], "columns": ["*"]}]', "shop"),
    ],
)
def test_what_is_no_column_selector_is_refused_before_spark_starts(tmp_path: Path, selectors: str, why: str) -> None:
    tmp_path.joinpath("metadata").touch()
    with pytest.raises(ConfigError, match=why):
        tidecast.verify(f"file://{tmp_path}?protocol=csv&column-selectors={quote(selectors)}")


def test_without_commit_ts_there_is_no_history(sink: Sink) -> None:
    sink.folder.timed = False
    sink.folder.rows(1, "t", 1, ("I", 2, (1, "one")))
    with pytest.raises(ConfigError, match="commit-ts"):
        sink.run(resolved_only=True)


def test_canal_json_files_are_read_with_the_statements_of_their_schema_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Sink(spark, tmp_path, kind="json")
    sink.folder.schema(1, "t", _COLUMNS, _CREATE, 3)
    folder = sink.folder.table("t") / str(tso(1)) / "2026-11-27"
    (folder / "meta").mkdir(parents=True)

    def message(kind: str, second: int, **row: str) -> str:
        said = {
            "id": 0,
            "database": "shop",
            "table": "t",
            "pkNames": ["id"],
            "isDdl": False,
            "type": kind,
            "es": 1,
            "ts": 1,
            "sql": "",
            "sqlType": {"id": 4, "v": 12},
            "mysqlType": {"id": "int", "v": "varchar(20)"},
            "old": None,
            "data": [row],
            "_tidb": {"commitTs": tso(second)},
        }
        return json.dumps(said) + "\r\n"

    lines = (
        message("INSERT", 2, id="1", v="one"),
        message("INSERT", 3, id="2", v="two"),
        message("DELETE", 4, id="1", v="one"),
    )
    (folder / f"CDC{1:020}.json").write_bytes("".join(lines).encode())
    (folder / "meta" / "CDC.index").write_text(f"CDC{1:020}.json\n")
    sink.folder.checkpoint(4)
    sink.run()
    assert sink.rows() == [(2, "two")]
    sink.folder.schema(10, "t", _COLUMNS, "TRUNCATE TABLE `t`", 11)
    sink.folder.checkpoint(10)
    sink.run()
    assert sink.rows() == []


def test_rows_without_a_commit_ts_get_the_default_of_a_column_that_was_added(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Sink(spark, tmp_path, kind="json")

    def rows(second: int, *there: dict[str, str]) -> None:
        folder = sink.folder.table("t") / str(tso(second)) / "2026-11-27"
        (folder / "meta").mkdir(parents=True)
        said = {"id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
        said |= {"es": (tso(second) >> 18) + 1, "ts": 1, "sql": "", "old": None}
        types = {"id": "int", "v": "varchar", "w": "varchar"}
        lines = (
            json.dumps(
                said | {"sqlType": dict.fromkeys(row, 12), "mysqlType": {c: types[c] for c in row}, "data": [row]}
            )
            for row in there
        )
        (folder / f"CDC{1:020}.json").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
        (folder / "meta" / "CDC.index").write_text(f"CDC{1:020}.json\n")
        sink.folder.checkpoint(second + 1)

    sink.folder.schema(1, "t", _COLUMNS, _CREATE, 3)
    rows(1, {"id": "1", "v": "one"})
    sink.run()
    wider = [*_COLUMNS, text("w") | {"ColumnDefault": "new"}]
    sink.folder.schema(10, "t", wider, "ALTER TABLE `t` ADD COLUMN `w` VARCHAR(20) DEFAULT 'new'", 5)
    rows(10, {"id": "2", "v": "two", "w": "2"})
    sink.run()
    assert sink.rows() == [(1, "one", "new"), (2, "two", "2")]


def test_status_counts_files(sink: Sink) -> None:
    sink.run()
    sink.folder.rows(1, "t", 2, ("I", 4, (3, "three")))
    sink.folder.rows(1, "t", 1, ("I", 5, (4, "four")), path="2026-11-28")
    sink.folder.schema(6, "u", _COLUMNS)
    sink.folder.checkpoint(6)
    told: list[dict[str, Any]] = [
        {"source": sink.uri, "checkpoint": sink.checkpoint},
        {"to": sink.to, "spark": sink.spark},
    ]
    for asked in told:
        (source,) = tidecast.status(**asked).sources
        assert [(p.topic, p.partition, p.offset, p.end, p.backlog) for p in source.places] == [("shop/t", 0, 1, 3, 2)]
        assert source.problem is None


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_tables_rows_are_read_without_the_files_of_others(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = StorageSinkFolder(tmp_path / "a b%20+é#", kind=kind)
    row = {
        "type": "INSERT",
        "es": 1,
        "data": [{"id": "1", "v": "one"}],
        "_tidb": {"commitTs": tso(2)},
        "pkNames": ["id"],
        "sqlType": {"id": 4, "v": 12},
        "mysqlType": {"id": "int", "v": "varchar(20)"},
    }
    names = ("t", "100%25 +é")
    for name in names:
        folder.schema(1, name, _COLUMNS)
        file = folder.rows(1, name, 1, ("I", 2, (1, "one")))
        if kind == "json":
            file.write_text(json.dumps(row | {"database": "shop", "table": name}) + "\r\n")
    uri = f"file://{quote(str(folder.root))}?protocol={'csv' if kind == 'csv' else 'canal-json'}"
    with tidecast.read(spark, uri, tz="UTC") as events:
        assert sorted(table.schema.table for table in events.tables) == sorted(names)
        for table in events.tables:
            (other,) = {*names} - {table.schema.table}
            folder.table(other).rename(gone := tmp_path / "gone")
            assert [row["data"].asDict() for row in table.frame.collect()] == [{"id": 1, "v": "one"}]
            gone.rename(folder.table(other))


def test_a_file_that_goes_while_it_is_read_is_not_called_damaged(spark: SparkSession, sink: Sink) -> None:
    (table,) = tidecast.read(spark, sink.uri, tz="UTC").tables
    (file,) = sink.folder.root.rglob("CDC0*")
    file.unlink()
    with pytest.raises(ConfigError, match=r"CDC0\d+1.csv: the file went while it was read"), source_errors(sink.uri):
        table.frame.collect()


def test_lines_that_come_with_others_that_waited_are_kept(spark: SparkSession, sink: Sink) -> None:
    records, protocol = read_records(spark, sink.uri)
    with decode_records(records, protocol) as alone:
        assert not alone.cached
    with decode_records(replace(records, frame=records.frame.unionByName(records.frame)), protocol) as together:
        assert together.cached
