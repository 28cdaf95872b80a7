"""What is to be read in the folder of a storage sink: files in order, each once, and none before it is whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from storage_sink import DAY, StorageSinkFolder, number, text, tso

from tidecast._csv_format import CsvFormat
from tidecast._errors import ConfigError, SourceChanged
from tidecast.topics import Offsets, StorageSink
from tidecast.topics._sink_layout import METADATA, Writer, data_file, offset_of, place_of, rank_of, writer_of
from tidecast.topics._sink_lines import Splitting
from tidecast.topics._sink_listing import is_storage_sink

pytestmark = pytest.mark.unit

_COLUMNS = [number("id", key=True), text("v")]
_ROW = ("I", 2, (1, "one"))


@pytest.fixture
def folder(tmp_path: Path) -> StorageSinkFolder:
    """Return a sink's folder with a table."""
    made = StorageSinkFolder(tmp_path / "sink")
    made.schema(1, "t", _COLUMNS, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", 3)
    made.checkpoint(1)
    return made


def source(folder: StorageSinkFolder) -> StorageSink:
    """Return the folder as a source."""
    return StorageSink(folder.root, csv=True, params={})


def taken(before: Offsets, after: Offsets) -> dict[str, int]:
    """Return the last file by place, of those places that moved."""
    found = {}
    for place, end in after.ends.items():
        parsed = place_of(place)
        if parsed and before.ends.get(place) != end:
            found[place.rpartition("/")[0].rpartition("/")[2] + "/" + place.rpartition("/")[2]] = (
                ((end - 1) >> 25) % 4096
            ) + parsed[1] * 4096
    return found


def files(folder: StorageSinkFolder, before: Offsets | None = None) -> list[str]:
    """Return the names of the files that a read would take now."""
    topics = source(folder)
    until = topics.end_offsets(before)
    return [
        file.path
        for file, _ in sorted(
            topics._files(before or Offsets(), until, anew=set(), all_there=before is not None),
            key=lambda one: until.ends[one[0].writer.place(one[0].index // 4096)],
        )
    ]


def test_files_come_by_version_then_date_then_index(folder: StorageSinkFolder) -> None:
    folder.schema(5, "t", [*_COLUMNS, number("n")], "ALTER TABLE t ADD COLUMN n INT", 5)
    folder.rows(5, "t", 1, _ROW, path="2026-11-27")
    folder.rows(1, "t", 1, _ROW, path="2026-11-27")
    folder.rows(1, "t", 1, _ROW, path="2026-11-26")
    folder.rows(1, "t", 2, _ROW, path="2026-11-26")
    assert [file.partition("shop/t/")[2].replace("0" * 19, "") for file in files(folder)] == [
        f"{tso(1)}/2026-11-26/CDC1.csv",
        f"{tso(1)}/2026-11-26/CDC2.csv",
        f"{tso(1)}/2026-11-27/CDC1.csv",
        f"{tso(5)}/2026-11-27/CDC1.csv",
    ]


def test_a_schema_file_stands_before_its_rows_and_behind_those_of_older_versions(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    folder.schema(5, "t", _COLUMNS, "TRUNCATE TABLE t", 11)
    folder.rows(5, "t", 1, _ROW)
    ends = source(folder).end_offsets().ends
    by_rank = sorted((rank_of(end - 1), place) for place, end in ends.items() if place != METADATA)
    kinds = ["schema" if "/meta/" in place else "rows" for _, place in by_rank]
    assert kinds == ["schema", "rows", "schema", "rows"]


def test_a_version_that_is_no_tso_is_read(folder: StorageSinkFolder) -> None:
    # A changefeed of ours calls the versions of Avro by their schemas' numbers.
    data = folder.root / "shop" / "t" / "2" / DAY
    (data / "meta").mkdir(parents=True)
    (data / "CDC000001.csv").write_text("line")
    (data / "meta" / "CDC.index").write_text("CDC000001.csv\n")
    assert files(folder) == [f"shop/t/2/{DAY}/CDC000001.csv"]
    for version in (3, 4):
        shutil.copytree(data, folder.root / "shop" / "t" / str(version) / DAY)
    before = source(folder).end_offsets()
    (data / "CDC000002.csv").write_text("line")
    (data / "meta" / "CDC.index").write_text("CDC000002.csv\n")
    assert files(folder, before) == [f"shop/t/2/{DAY}/CDC000002.csv"]  # it may not be closed


def test_a_table_named_meta_has_its_folder_beside_the_schema_files_of_its_database(tmp_path: Path) -> None:
    made = StorageSinkFolder(tmp_path / "sink")
    made.schema(1, "", [], "CREATE DATABASE shop", 1)
    made.schema(2, "meta", _COLUMNS, "CREATE TABLE meta (id INT PRIMARY KEY, v VARCHAR(20))", 3)
    made.rows(2, "meta", 1, _ROW)
    assert is_storage_sink(made.root)
    assert files(made) == [f"shop/meta/{tso(2)}/{DAY}/CDC{1:020}.csv"]
    schemas = [place for place in source(made).end_offsets().ends if "/schema_" in place]
    assert [place.rpartition("/")[0] for place in sorted(schemas)] == ["shop/meta/meta", "shop/meta"]


@pytest.mark.parametrize("name", [".t", "_t"])
def test_a_name_may_begin_as_those_of_hidden_folders_do(folder: StorageSinkFolder, name: str) -> None:
    folder.schema(2, name, _COLUMNS, f"CREATE TABLE `{name}` (id INT PRIMARY KEY, v VARCHAR(20))", 3)
    folder.rows(2, name, 1, _ROW)
    assert files(folder) == [f"shop/{name}/{tso(2)}/{DAY}/CDC{1:020}.csv"]
    folder.root.joinpath("shop").rename(folder.root / ".shop")
    assert files(folder) == [f".shop/{name}/{tso(2)}/{DAY}/CDC{1:020}.csv"]
    assert is_storage_sink(folder.root)


@pytest.mark.parametrize(
    ("sql", "others"),
    [("RENAME TABLE t TO u", True), ("CREATE TABLE u LIKE t", True), ("CREATE TABLE u (id INT)", False)],
)
def test_a_table_that_has_its_columns_from_another_comes_with_the_schema_files_of_that(
    folder: StorageSinkFolder, sql: str, others: bool
) -> None:
    """Statements on the other one alone tell which of them are virtual."""
    folder.checkpoint(3)
    before = source(folder).end_offsets()
    folder.schema(2, "u", _COLUMNS, sql)
    for index in (1, 2):
        folder.rows(2, "u", index, ("I", 2, (1, "one")))
        until = source(folder).end_offsets(before)
        told = source(folder)._control_records(before, until, {"shop/u"})
        shown = dict(zip(told.column("topic").to_pylist(), told.column("offset").to_pylist(), strict=True))
        assert set(shown) == ({"shop/t", "shop/u"} if others else {"shop/u"})
        assert not shown.get("shop/t")  # its statement is none of this batch
        before = until


def test_a_rename_waits_until_all_files_of_its_statement_are_there(folder: StorageSinkFolder) -> None:
    before = source(folder).end_offsets()
    folder.rows(1, "t", 1, _ROW)
    folder.schema(5, "u", _COLUMNS, "RENAME TABLE `shop`.`t` TO `shop`.`u`")
    folder.rows(5, "u", 1, ("I", 6, (2, "two")))
    for second in (4, 5):  # TiCDC may be carrying out the statement of a checkpoint-ts
        folder.checkpoint(second)
        waiting = source(folder).end_offsets(before)
        assert (taken(before, waiting), waiting.ends[METADATA]) == ({f"{DAY}/CDC+0": 1}, tso(1))
        assert not any(name.startswith("shop/u/") for name in waiting.ends)
    folder.schema(5, "t", _COLUMNS, "RENAME TABLE `shop`.`v` TO `shop`.`t`")
    folder.checkpoint(6)
    done = source(folder).end_offsets(waiting)
    new = [name.rpartition("_")[0] for name in done.ends if name not in waiting.ends]
    assert new == [f"shop/t/meta/schema_{tso(5)}", f"shop/u/meta/schema_{tso(5)}", ""]
    assert f"shop/u/{tso(5)}/{DAY}/CDC+0" in done.ends
    assert done.ends[METADATA] == tso(6)


def test_without_metadata_no_rename_waits(folder: StorageSinkFolder) -> None:
    (folder.root / METADATA).unlink()
    folder.schema(5, "u", _COLUMNS, "RENAME TABLE `shop`.`t` TO `shop`.`u`")
    folder.rows(5, "u", 1, ("I", 6, (2, "two")))
    assert files(folder) == [f"shop/u/{tso(5)}/{DAY}/CDC{1:020}.csv"]


def test_without_metadata_no_file_that_is_gone_is_waited_for(folder: StorageSinkFolder) -> None:
    """Its rows expired, and the index stayed; nothing would ever tell that it does not come."""
    (folder.root / METADATA).unlink()
    folder.rows(1, "t", 1, _ROW, path="2026-11-26").unlink()
    folder.rows(1, "t", 1, _ROW, path="2026-11-27")
    assert files(folder) == [f"shop/t/{tso(1)}/2026-11-27/CDC{1:020}.csv"]


def test_a_checkpoint_takes_each_file_once(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    first = source(folder).end_offsets()
    assert source(folder).end_offsets(first) == first
    assert files(folder, first) == []
    folder.rows(1, "t", 2, _ROW)
    folder.rows(1, "t", 3, _ROW)
    second = source(folder).end_offsets(first)
    assert taken(first, second) == {f"{DAY}/CDC+0": 3}
    assert [Path(file).name[-5] for file in files(folder, first)] == ["2", "3"]
    folder.rows(1, "t", 1, _ROW, path="2026-11-28")
    third = source(folder).end_offsets(second)
    assert taken(second, third) == {"2026-11-28/CDC+0": 1}
    (old, new) = (rank_of(third.ends[f"shop/t/{tso(1)}/{day}/CDC+0"] - 1) for day in (DAY, "2026-11-28"))
    assert old < new


def test_a_file_beyond_its_index_waits_and_the_checkpoint_ts_with_it(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    before = source(folder).end_offsets()
    folder.checkpoint(2)
    late = folder.rows(1, "t", 2, _ROW, indexed=False)
    waiting = source(folder).end_offsets(before)
    assert waiting == before
    assert waiting.ends[METADATA] == tso(1)
    folder.rows(1, "t", 2, _ROW)
    done = source(folder).end_offsets(before)
    assert taken(before, done) == {f"{DAY}/CDC+0": 2}
    assert done.ends[METADATA] == tso(2)
    assert late.exists()


def test_a_file_beyond_its_index_is_taken_once_the_checkpoint_ts_is_later(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    before = source(folder).end_offsets()
    late = folder.rows(1, "t", 2, _ROW, indexed=False)
    _written_at(late, tso(50) >> 18)
    folder.checkpoint(49)
    assert source(folder).end_offsets(before) == before
    folder.checkpoint(51)
    done = source(folder).end_offsets(before)
    assert taken(before, done) == {f"{DAY}/CDC+0": 2}
    # A changefeed that died before it wrote the index writes this file again, with what follows.
    assert source(folder).end_offsets(done) == done
    again = folder.rows(1, "t", 2, ("I", 60, (2, "two")))
    _written_at(again, tso(60) >> 18)
    later = source(folder).end_offsets(done)
    assert later.differs(done, f"shop/t/{tso(1)}/{DAY}/CDC+0")
    assert [Path(file).name[-5] for file in files_between(folder, done, later)] == ["2"]


@pytest.mark.parametrize("begun", [False, True])
def test_a_file_that_its_index_names_first_waits(folder: StorageSinkFolder, begun: bool) -> None:
    """As older TiCDC does."""
    first = folder.rows(1, "t", 1, _ROW)
    folder.checkpoint(3)
    before = source(folder).end_offsets()
    late = folder.rows(1, "t", 2, _ROW)
    index = first.parent / "meta" / "CDC.index"
    _written_at(index, tso(50) >> 18)
    whole = late.read_bytes()
    late.write_bytes(b"") if begun else late.unlink()
    folder.schema(5, "t", _COLUMNS)
    folder.rows(5, "t", 1, _ROW)
    folder.checkpoint(49)
    assert source(folder).end_offsets(before) == before
    assert not any(str(tso(5)) in place for place in source(folder).end_offsets().ends)
    late.write_bytes(whole)
    assert files(folder, before) == [f"shop/t/{tso(v)}/{DAY}/CDC{n:020}.csv" for v, n in ((1, 2), (5, 1))]
    assert source(folder).end_offsets(before).ends[METADATA] == tso(49)


def test_a_file_that_its_index_names_in_vain_is_told(folder: StorageSinkFolder) -> None:
    """TiCDC died before it wrote it, or somebody removed it."""
    folder.rows(1, "t", 1, _ROW)
    before = source(folder).end_offsets()
    late = folder.rows(1, "t", 2, _ROW)
    _written_at(late.parent / "meta" / "CDC.index", tso(50) >> 18)
    late.unlink()
    folder.rows(1, "t", 1, _ROW, path="2026-11-28")
    folder.checkpoint(51)
    with pytest.raises(SourceChanged, match="file 2 of") as told:
        source(folder).end_offsets(before)
    left = Offsets(told.value.remaining)
    assert [Path(file).parent.name for file in files(folder, left)] == ["2026-11-28"]
    late.write_bytes(b"")
    assert source(folder).end_offsets(before).ends[METADATA] == tso(51)


@pytest.mark.parametrize("half", ["", "CDC0000"])
def test_an_index_that_is_half_written_lets_the_checkpoint_ts_wait(folder: StorageSinkFolder, half: str) -> None:
    folder.rows(1, "t", 1, _ROW)
    folder.checkpoint(3)
    before = source(folder).end_offsets()
    index = folder.rows(1, "t", 2, _ROW).parent / "meta" / "CDC.index"
    whole = index.read_text()
    index.write_text(half)
    folder.checkpoint(5)
    assert source(folder).end_offsets(before) == before
    index.write_text(whole)
    assert files(folder, before) == [f"shop/t/{tso(1)}/{DAY}/CDC{2:020}.csv"]
    assert source(folder).end_offsets(before).ends["metadata"] == tso(5)


def test_a_read_tells_what_it_leaves_out(folder: StorageSinkFolder, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads a folder once, as `compare` does, has no watermark that waits."""
    for index in (1, 2, 3, 4):
        made = folder.rows(1, "t", index, _ROW, indexed=index < 4)
    at = made.parent.relative_to(folder.root)
    assert left_out(folder, caplog) == f"{at}/{made.name}"
    made.with_name(f"CDC{2:020}.csv").unlink()
    assert left_out(folder, caplog) == f"{at}/{made.name} and 1 more"
    made.unlink()
    assert left_out(folder, caplog) == f"{at}/CDC{2:020}.csv"
    (made.parent / "meta" / "CDC.index").write_text("")
    assert left_out(folder, caplog) == f"{at}/meta/CDC.index"
    folder.rows(1, "t", 3, _ROW)
    folder.rows(1, "t", 2, _ROW, indexed=False)
    assert left_out(folder, caplog) == ""


def left_out(folder: StorageSinkFolder, caplog: pytest.LogCaptureFixture) -> str:
    """Return what a warning of a read says that is left out."""
    caplog.clear()
    source(folder)._present_end(None)
    return caplog.text.partition("not whole yet: ")[2].strip()


def test_a_file_that_waits_is_found_behind_a_newer_version(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    late = folder.rows(1, "t", 2, _ROW, indexed=False)
    _written_at(late, tso(50) >> 18)
    folder.schema(5, "t", _COLUMNS)
    folder.rows(5, "t", 1, _ROW)
    before = source(folder).end_offsets()
    assert METADATA not in before.ends
    folder.checkpoint(51)
    done = source(folder).end_offsets(before)
    assert taken(before, done) == {f"{DAY}/CDC+0": 2}
    assert done.ends[METADATA] == tso(51)


def files_between(folder: StorageSinkFolder, before: Offsets, until: Offsets) -> list[str]:
    """Return the files that a read takes."""
    topics = source(folder)
    return [file.path for file, _ in topics._files(before, until, anew=topics._rewound(before), all_there=True)]


def test_a_file_that_went_before_it_was_read_is_told(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    first = source(folder).end_offsets()
    folder.rows(1, "t", 2, _ROW).unlink()
    folder.rows(1, "t", 3, _ROW)
    with pytest.raises(SourceChanged, match=r"file 2 of shop/t/.* went before being read") as told:
        source(folder).end_offsets(first)
    # `--on-data-loss continue` goes on with what is there.
    left = Offsets(told.value.remaining)
    assert [Path(file).name[-5] for file in files(folder, left)] == ["3"]


def test_old_files_may_be_gone_at_the_first_read(folder: StorageSinkFolder) -> None:
    for index in (1, 2, 3):
        made = folder.rows(1, "t", index, _ROW)
    for index in (1, 2):
        made.with_name(f"CDC{index:020}.csv").unlink()
    assert [Path(file).name[-5] for file in files(folder)] == ["3"]


def test_a_gap_ends_the_first_read_before_it(folder: StorageSinkFolder) -> None:
    for index in (1, 2, 3):
        made = folder.rows(1, "t", index, _ROW)
    made.with_name(f"CDC{2:020}.csv").unlink()
    folder.schema(5, "t", _COLUMNS, "TRUNCATE TABLE t", 11)
    first = source(folder).end_offsets()
    assert taken(Offsets(), first) == {f"{DAY}/CDC+0": 1}
    assert METADATA not in first.ends  # what it covers is not all read
    assert not any(str(tso(5)) in place for place in first.ends)
    with pytest.raises(SourceChanged, match="file 2 of"):
        source(folder).end_offsets(first)


def test_an_index_that_goes_back_is_told(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW)
    folder.rows(1, "t", 2, _ROW)
    first = source(folder).end_offsets()
    shutil.rmtree(folder.table("t") / str(tso(1)))
    folder.rows(1, "t", 1, _ROW)
    with pytest.raises(SourceChanged, match="written anew") as told:
        source(folder).end_offsets(first)
    assert [Path(file).name[-5] for file in files(folder, Offsets(told.value.remaining))] == ["1"]


@pytest.mark.parametrize("path", ["", "2026", "2026-11", "2026-11-27", "105", "105/2026-11-27"])
def test_date_separators_and_partitions(folder: StorageSinkFolder, path: str) -> None:
    file = folder.rows(1, "t", 1, _ROW, path=path)
    first = source(folder).end_offsets()
    assert files(folder) == [file.relative_to(folder.root).as_posix()]
    following = folder.rows(1, "t", 2, _ROW, path=path)
    assert files(folder, first) == [following.relative_to(folder.root).as_posix()]


def test_tables_over_several_nodes(folder: StorageSinkFolder) -> None:
    folder.rows(1, "t", 1, _ROW, prefix="CDC_0a1b")
    folder.rows(1, "t", 1, _ROW, prefix="CDC_9f_8e")
    first = source(folder).end_offsets()
    assert len(files(folder)) == 2
    folder.rows(1, "t", 2, _ROW, prefix="CDC_9f_8e")
    assert [Path(file).name for file in files(folder, first)] == [f"CDC_9f_8e_{2:020}.csv"]


def test_a_table_by_its_number(tmp_path: Path) -> None:
    folder = StorageSinkFolder(tmp_path / "sink", by_id=True, ids={"t": 105})
    folder.schema(1, "t", _COLUMNS)
    file = folder.rows(1, "t", 1, _ROW)
    assert files(folder) == [file.relative_to(folder.root).as_posix()]
    assert writer_of(f"105/{tso(1)}/{DAY}", "CDC") == Writer("105", tso(1), (DAY,))


@pytest.mark.parametrize("digits", [6, 20])
def test_more_files_than_one_segment_has(folder: StorageSinkFolder, digits: int) -> None:
    folder.digits = digits
    made = folder.rows(1, "t", 4097, _ROW)
    for index in (4094, 4095, 4096):
        shutil.copy(made, made.with_name(f"CDC{index:0{digits}}.csv"))
    first = source(folder).end_offsets()
    assert [int(Path(file).stem[3:]) for file in files(folder)] == [4094, 4095, 4096, 4097]
    assert taken(Offsets(), first) == {f"{DAY}/CDC+0": 4095, f"{DAY}/CDC+1": 4097}
    folder.rows(1, "t", 4098, _ROW)
    assert [int(Path(file).stem[3:]) for file in files(folder, first)] == [4098]


def test_a_bounded_batch_takes_the_oldest_files_and_lets_the_checkpoint_ts_wait(folder: StorageSinkFolder) -> None:
    for index in (1, 2, 3):
        folder.rows(1, "t", index, *[("I", 2, (n, "x" * 20)) for n in range(100)])
    folder.schema(5, "t", _COLUMNS, "TRUNCATE TABLE t", 11)
    offsets, seen = None, []
    for _ in range(4):
        after = source(folder).end_offsets(offsets, limit=1)
        seen.append([*taken(offsets or Offsets(), after).values(), METADATA in after.ends])
        offsets = after
    assert seen == [[1, False], [2, False], [3, True], [True]]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    (tmp_path / "topic" / "part.parquet").write_bytes(b"")
    with pytest.raises(ConfigError, match="no schema file"):
        StorageSink(tmp_path, csv=True, params={}).end_offsets()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("CDC000001.csv", ("CDC", 1)),
        ("CDC00000000000000000012.json", ("CDC", 12)),
        ("CDC_5f_a-1_000007.csv", ("CDC_5f_a-1", 7)),
        ("CDC.index", None),
        ("CDC1.csv", None),
        ("x.csv", None),
    ],
)
def test_names_of_data_files(name: str, found: tuple[str, int] | None) -> None:
    assert data_file(name) == found


def _written_at(file: Path, millis: int) -> None:
    os.utime(file, (millis / 1000, millis / 1000))


def test_small_files_are_split_into_one_batch() -> None:
    folder = f"shop/t/{tso(1)}"
    keys = [f"{folder}/CDC{n:06}.csv" for n in (1, 2, 3)]
    lines = {keys[0]: ["a", "b"], keys[1]: [], keys[2]: ["c"]}
    contents = ["".join(f'"I","t","shop",1,"{value}"\r\n' for value in lines[key]).encode() for key in keys]
    told = (b"shop/t/meta/schema_1_1.json", b"{}")
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["shop/t", None, None, None]),
            "offset": pa.array([0, None, None, None], pa.int64()),
            "key": pa.array([told[0], *map(str.encode, keys)]),
            "value": pa.array([told[1], *contents]),
        }
    )
    (made,) = Splitting(CsvFormat(), {f"{folder}/CDC+0": 7})(batch)
    at = [(key, line) for key in keys for line in range(1, len(lines[key]) + 1)]
    assert made.schema == batch.schema
    assert made.column("key").to_pylist() == [told[0], *(key.encode() for key, _ in at)]
    assert made.column("offset").to_pylist() == [0, offset_of(7, 1, 1), offset_of(7, 1, 2), offset_of(7, 3, 1)]
    assert made.column("topic").to_pylist() == ["shop/t"] * 4
    assert [value[-2:-1] for value in made.column("value").to_pylist()[1:]] == [b"a", b"b", b"c"]
