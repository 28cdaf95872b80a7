"""A storage sink's folder as the sink of `convert`: what is written reads back, and makes the same tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from storage_sink import StorageSinkFolder, number, text, tso

import tidecast
from tidecast._errors import ConfigError
from tidecast.config import build_config, replica_config_for, without_effect
from tidecast.config._build import file_size
from tidecast.model import Ddl, TableSchema
from tidecast.protocols import SinkCodec, codec_for

_COLUMNS = [number("id", key=True), text("v")]
_CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"


@pytest.fixture
def source(tmp_path: Path) -> StorageSinkFolder:
    """Return a folder with a table of two versions."""
    folder = StorageSinkFolder(tmp_path / "source")
    folder.schema(1, "t", _COLUMNS, _CREATE, 3)
    folder.rows(1, "t", 1, ("I", 2, (1, 'a "quoted", line')), ("I", 3, (2, "two\r\nlines")), ("I", 4, (3, None)))
    folder.schema(10, "t", [*_COLUMNS, number("n")], "ALTER TABLE `t` ADD COLUMN `n` INT", 5)
    folder.rows(10, "t", 1, ("U", 11, (1, "\\N", 7)), ("D", 12, (2, "two\r\nlines", None)))
    folder.checkpoint(12)
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files by path; today's date as DAY."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            parts = [
                "DAY" if part[:2] == "20" and part[4:5] == "-" else part for part in file.relative_to(folder).parts
            ]
            found["/".join(parts)] = file.read_bytes()
    return found


def test_csv_is_written_as_it_was_read(spark: SparkSession, tmp_path: Path, source: StorageSinkFolder) -> None:
    config = tmp_path / "feed.toml"
    config.write_text("[sink.csv]\ninclude-commit-ts = true\n")
    uri = f"file://{tmp_path}/copy?protocol=csv"
    done = tidecast.convert(f"file://{source.root}?protocol=csv", uri, config=str(config), spark=spark)
    assert (done.total, done.ddl, done.dead_letters) == (5, 2, {})
    assert _files(tmp_path / "copy") == _files(source.root)
    # What comes later goes into the next file, and leaves schema files as they are.
    source.rows(10, "t", 2, ("I", 13, (4, "four", 4)))
    source.checkpoint(13)
    again = StorageSinkFolder(tmp_path / "again")
    again.schema(1, "t", _COLUMNS, _CREATE, 3)
    again.schema(10, "t", [*_COLUMNS, number("n")], "ALTER TABLE `t` ADD COLUMN `n` INT", 5)
    again.rows(10, "t", 1, ("I", 13, (4, "four", 4)))
    again.checkpoint(13)
    tidecast.convert(f"file://{again.root}?protocol=csv", uri, config=str(config), spark=spark)
    assert _files(tmp_path / "copy") == _files(source.root)


@pytest.mark.parametrize(
    ("protocol", "config"),
    [
        ("canal-json&enable-tidb-extension=true", ""),
        (
            "csv",
            '[sink]\nterminator = "\\n"\ndate-separator = "none"\nfile-index-digit = 6\n[sink.csv]\nquote = ""\n'
            'delimiter = "|"\ninclude-commit-ts = true\noutput-field-header = true\noutput-old-value = true\n',
        ),
    ],
)
def test_what_is_written_makes_the_same_tables(
    spark: SparkSession, tmp_path: Path, source: StorageSinkFolder, protocol: str, config: str
) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(config)
    uri = f"file://{tmp_path}/copy?protocol={protocol}"
    tidecast.convert(f"file://{source.root}?protocol=csv", uri, config=str(file), spark=spark)
    rows = []
    for name, place in (("one", f"file://{source.root}?protocol=csv"), ("other", uri)):
        report = tidecast.replicate(place, str(tmp_path / name), ddl="evolve", spark=spark)
        assert not report.dead_letters
        rows.append(sorted(map(tuple, spark.read.format("delta").load(f"{tmp_path}/{name}/shop/t").collect())))
    assert rows[0] == rows[1] == [(1, "\\N", 7), (3, None, None)]
    assert json.loads((tmp_path / "copy" / "metadata").read_text()) == {"checkpoint-ts": tso(12)}


def test_files_are_as_large_as_they_may_be(spark: SparkSession, tmp_path: Path) -> None:
    source = StorageSinkFolder(tmp_path / "source")
    source.schema(1, "t", _COLUMNS, _CREATE, 3)
    rows = [("I", n, (n, "x" * 20_000)) for n in range(2, 130)]
    source.rows(1, "t", 1, *rows)
    source.schema(1, "short", _COLUMNS, _CREATE.replace("`t`", "`short`"), 3)
    source.rows(1, "short", 1, *[("I", n, (n, "x")) for n in range(2, 130)])
    config = tmp_path / "feed.toml"
    config.write_text(
        '[sink]\ndate-separator = "none"\n[sink.cloud-storage-config]\nfile-size = 1048576\n'
        "[sink.csv]\ninclude-commit-ts = true\noutput-field-header = true\n"
    )
    uri = f"file://{tmp_path}/copy?protocol=csv"
    tidecast.convert(f"file://{source.root}?protocol=csv", uri, config=str(config), spark=spark)
    files = sorted((tmp_path / "copy" / "shop" / "t" / str(tso(1))).glob("CDC*.csv"))
    lines = [file.read_bytes().decode().split("\r\n")[:-1] for file in files]
    assert [len(part) for part in lines] == [53, 53, 25]  # a MiB has 52 rows
    assert {part[0].partition(",")[0] for part in lines} == {"ticdc-meta$operation"}
    assert [line.split(",")[4] for part in lines for line in part[1:]] == [str(n) for n in range(2, 130)]
    assert len([*(tmp_path / "copy" / "shop" / "short").glob("*/CDC*.csv")]) == 1


@pytest.mark.unit
def test_a_file_has_the_least_bytes_of_ticdc() -> None:
    sizes = {size: file_size(size) for size in (None, 5, 1024, 2048, 1 << 29, 1 << 40)}
    assert sizes == {None: 64 << 20, 5: 1024, 1024: 1024, 2048: 2048, 1 << 29: 1 << 29, 1 << 40: 1 << 29}


@pytest.mark.unit
def test_an_exchange_of_a_partition_tells_both_tables() -> None:
    """TiCDC writes the columns of the other table behind the statement, which the file of the first one has."""
    config = build_config("file:///folder?protocol=csv", {})
    codec = codec_for("csv", config.codec_options("UTC"), None)
    parts, plain = (TableSchema("shop", name, 1, tso(1), ()) for name in ("parts", "plain"))
    sql = "ALTER TABLE `shop`.`parts` EXCHANGE PARTITION `p` WITH TABLE `shop`.`plain`"
    files = {key: json.loads(text) for key, text in codec.ddl(Ddl("ALTER", sql, tso(2), parts, plain)) if key and text}
    assert [key.partition(b"/meta/")[0] for key in files] == [b"/shop/parts", b"/shop/plain"]
    told = [(one["Table"], one["TableVersion"], one["Query"], one["Type"]) for one in files.values()]
    assert told == [("parts", tso(2), sql, 42), ("plain", tso(2), "", 0)]
    # Where a source tells the table before any other statement, it tells no other table.
    assert len(codec.ddl(Ddl("ALTER", "ALTER TABLE parts ADD COLUMN a INT", tso(3), parts, parts))) == 1


@pytest.mark.unit
@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_a_table_whose_number_is_not_told_has_no_folder_by_it(protocol: str) -> None:
    config = build_config(f"file:///folder?protocol={protocol}&use-table-id-as-path=true", {})
    codec = codec_for(protocol, config.codec_options("UTC"), None)
    assert isinstance(codec, SinkCodec)
    assert codec.folder(TableSchema("shop", "t", 105, tso(1), ())) == f"105/{tso(1)}"
    dropped = Ddl("DROP TABLE", "DROP TABLE t", tso(2), named=("shop", "t"))
    for ask in (lambda: codec.folder(TableSchema("shop", "t", 0, tso(1), ())), lambda: codec.ddl(dropped)):
        with pytest.raises(ConfigError, match=r"nothing tells that of shop\.t"):
            ask()


@pytest.mark.unit
def test_where_files_go() -> None:
    for uri, files in (
        ("s3://bucket/prefix?protocol=csv", True),
        ("file:///folder?protocol=canal-json", True),
        ("file:///folder?protocol=canal-json&layout=topics", False),
        ("file:///folder?protocol=simple", False),
        ("kafka://host/topic?protocol=canal-json", False),
    ):
        assert build_config(uri, {}).storage_sink is files
        # The server's answers have the width of a file's index where TiCDC's have it.
        sink = replica_config_for({}, uri)["sink"]
        assert sink.get("file_index_width") == (20 if files else None)
    assert (
        replica_config_for({"sink": {"file_index_width": 8}}, "s3://b/p?protocol=csv")["sink"]["file_index_width"] == 8
    )


@pytest.mark.unit
def test_settings_of_files_have_an_effect_there_alone() -> None:
    config = {"sink": {"protocol": "csv", "terminator": "|", "file_index_width": 8}}
    assert without_effect(config, "s3://bucket/prefix") == []
    assert without_effect({"sink": {**config["sink"], "protocol": None}}, "s3://bucket/prefix?protocol=csv") == []
    assert without_effect(config, "kafka://h/t?protocol=avro") == ["sink.file_index_width", "sink.terminator"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("uri", "file", "why"),
    [
        ("kafka://host/topic?protocol=csv", {}, "unknown 'csv' message protocol for sink"),
        ("file:///f?protocol=csv&layout=topics", {}, "no layout of topics"),
        ("file:///f?protocol=csv", {"sink": {"date-separator": "week"}}, "date separator in storage sink is invalid"),
        (
            "file:///f?protocol=csv",
            {"sink": {"delete-only-output-handle-key-columns": True}},
            "CSV protocol always output all columns for the delete event",
        ),
        ("file:///f?protocol=csv", {"sink": {"csv": {"quote": "''"}}}, "more than one character"),
        ("file:///f?protocol=csv&file-size=64MB", {}, "file-size cannot be '64MB'"),
        ("file:///f?protocol=csv&worker-count=0", {}, "invalid worker-count 0, it must be greater than 0"),
        ("file:///f?protocol=csv&flush-interval=5", {}, "flush-interval: "),
        ("file:///f?protocol=csv&spool-disk-quota=0", {}, "invalid spool-disk-quota 0, it must be greater than 0"),
    ],
)
def test_wrong_settings_are_refused(uri: str, file: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        build_config(uri, file)
