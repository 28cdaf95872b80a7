"""Tables that are called otherwise in messages than in their source."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import TerminalError
from tidecast.cli import _show

TARGETS = """
[sink]
dispatchers = [
    {matcher = ["d.*"], topic = "of_{schema}_{table}", target-schema = "archive", target-table = "{table}_r"},
]
"""


@pytest.fixture
def topic(tmp_path: Path) -> GrowingTopic:
    found = GrowingTopic(tmp_path / "source")
    found.grow(
        [
            ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", 1, table(1, ID)),
            row(2, 1, id=1),
            row(3, 1, id=1, kind="DELETE"),
            {**ddl("RENAME TABLE `d`.`t` TO `d`.`u`", 4, table(4, ID, name="u")), "preTableSchema": table(1, ID)},
            row(5, 4, name="u", id=2),
            watermark(6),
        ]
    )
    return found


def published(source: str, spark: SparkSession, folder: Path, sink: str, config: str = TARGETS) -> tidecast.Published:
    file = folder / "feed.toml"
    file.write_text(config)
    return tidecast.convert(source, f"file://{folder}/sink/{sink}", config=str(file), tz="UTC", spark=spark)


def messages(spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    """Return the messages of a topic in the order of their offsets."""
    records = sorted((json.loads(line.value) for line in spark.read.text(str(folder)).collect()), key=_offset)
    return [json.loads(base64.b64decode(record["value"])) for record in records]


def _offset(record: dict[str, Any]) -> int:
    offset: int = record["offset"]
    return offset


def test_messages_name_the_target_and_topics_the_source(
    topic: GrowingTopic, spark: SparkSession, tmp_path: Path
) -> None:
    done = published(topic.uri, spark, tmp_path, "out?protocol=simple&partition-num=1&format=jsonl")
    assert done.messages == {("d.t", "of_d_t"): 2, ("d.u", "of_d_u"): 1}
    said = [m for m in messages(spark, tmp_path / "sink/of_d_t") if m["type"] != "WATERMARK"]
    statements = [m["sql"] for m in said if "sql" in m]
    assert statements == [
        "CREATE TABLE `archive`.`t_r` (`id` INT PRIMARY KEY)",
        "RENAME TABLE `archive`.`t_r` TO `archive`.`u_r`",
    ]
    schemas = [m[name] for m in said for name in ("tableSchema", "preTableSchema") if m.get(name)]
    assert {(s["schema"], s["table"]) for s in schemas} == {("archive", "t_r"), ("archive", "u_r")}
    assert {(m["database"], m["table"]) for m in said if "database" in m} == {("archive", "t_r")}
    said = [m for m in messages(spark, tmp_path / "sink/of_d_u") if m["type"] == "INSERT"]
    assert [(m["database"], m["table"], m["data"]) for m in said] == [("archive", "u_r", {"id": "2"})]
    # Whoever reads this has the target's tables.
    source = f"file://{tmp_path}/sink/out?protocol=simple&topics=of_.%2A"
    tidecast.replicate(source, f"file://{tmp_path}/tables", spark=spark, tz="UTC")
    assert [p.name for p in (tmp_path / "tables/archive").iterdir()] == ["u_r"]


def test_files_of_a_storage_sink_lie_under_the_target(topic: GrowingTopic, spark: SparkSession, tmp_path: Path) -> None:
    published(topic.uri, spark, tmp_path, "files?protocol=csv")
    found = {file.relative_to(tmp_path / "sink/files") for file in (tmp_path / "sink/files").rglob("*")}
    assert {path.parts[:2] for path in found if len(path.parts) > 1} == {("archive", "t_r"), ("archive", "u_r")}
    for file in (tmp_path / "sink/files").rglob("schema_*.json"):
        told = json.loads(file.read_text())
        assert (told["Schema"], told["Table"]) == file.relative_to(tmp_path / "sink/files").parts[:2]
        assert "`d`" not in told["Query"]


def test_a_plan_tells_the_target(topic: GrowingTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "feed.toml").write_text(TARGETS)
    planned = tidecast.plan(topic.uri, f"file://{tmp_path}/x?protocol=csv", config=str(tmp_path / "feed.toml"))
    assert [(p.table, p.target, p.topic.rpartition("/")[0]) for p in planned] == [
        ("d.t", "archive.t_r", "archive/t_r"),
        ("d.u", "archive.u_r", "archive/u_r"),
    ]
    _show.planned(planned, as_json=False)
    assert "d.u → archive.u_r" in capsys.readouterr().out


def test_two_tables_of_one_name_end_a_run_before_the_second(
    topic: GrowingTopic, spark: SparkSession, tmp_path: Path
) -> None:
    one = '[sink]\ndispatchers = [{matcher = ["d.*"], target-table = "all"}]\n'
    first = GrowingTopic(tmp_path / "first")
    first.grow(
        [
            ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", 1, table(1, ID)),
            row(2, 1, id=1),
            ddl("CREATE TABLE `d`.`w` (`id` INT PRIMARY KEY)", 3, {**table(3, ID, name="w"), "tableID": 8}),
            {**row(4, 3, name="w", id=2), "tableID": 8},
        ]
    )
    with pytest.raises(
        TerminalError, match=r"`d`\.`all` is mapped by both source `d`\.`t` and source `d`\.`w`"
    ) as error:
        published(first.uri, spark, tmp_path, "out?protocol=simple&partition-num=1&format=jsonl", one)
    assert error.value.code == "CDC:ErrTableRouteConflict"
    assert [m["commitTs"] for m in messages(spark, tmp_path / "sink/out") if m["type"] != "BOOTSTRAP"] == [1, 2]
    # A table may have the name of one that was renamed.
    published(topic.uri, spark, tmp_path, "other?protocol=simple&format=jsonl", one)
