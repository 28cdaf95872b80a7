"""Topics as files: what is appended, in which order, and where the next records go on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import TerminalError
from tidecast._uri import parse_place
from tidecast.model import RECORD, Reason
from tidecast.spark import evaluated_once, small_table
from tidecast.topics import first_dead_letters, open_topics, write_dead_letters
from tidecast.topics._files import FileTopics
from tidecast.topics._write_files import known_ends

KINDS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "sequence": pa.int64(),
}

Record = tuple[str, int, bytes | None, bytes | None, int | None]

records = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
        st.none() | st.binary(max_size=3),
        st.none() | st.binary(max_size=3),
        st.none() | st.integers(-3, 3) | st.integers(-(2**62), 2**62),
    ),
    max_size=60,
)


def as_frame(spark: SparkSession, rows: list[Record]) -> DataFrame:
    return small_table(spark, rows, KINDS)


def written(folder: Path) -> list[dict[str, Any]]:
    """What lies in all topics of a folder, by topic, partition and offset."""
    files = sorted(folder.glob("*/*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize("most", [50_000, 4], ids=["a file a partition", "several files"])
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(first=records, second=records)
def test_records_keep_their_order_and_offsets_go_on(
    first: list[Record],
    second: list[Record],
    most: int,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidecast.topics._write_files._RANGE_ROWS", most)
    folder = tmp_path_factory.mktemp("topics")
    topics = FileTopics(folder / "a", "a")
    for batch, counts in ((first, None), (second, Counter(row[:2] for row in second))):
        topics.write(as_frame(spark, batch), counts=counts)
    found = written(folder)
    for place in {(row[0], row[1]) for row in [*first, *second]}:
        mine = [row for row in found if (row["topic"], row["partition"]) == place]
        assert [row["offset"] for row in mine] == list(range(len(mine)))
        batches = [[row for row in batch if row[:2] == place] for batch in (first, second)]
        assert len(mine) == sum(map(len, batches))
        # Records of one sequence may come in any order.
        start = 0
        for batch in batches:
            got = [(row["key"], row["value"]) for row in mine[start : start + len(batch)]]
            start += len(batch)
            by_sequence: dict[int | None, list[tuple[bytes | None, bytes | None]]] = {}
            for _, _, key, value, sequence in batch:
                by_sequence.setdefault(sequence, []).append((key, value))
            for sequence in sorted(by_sequence, key=lambda s: (s is not None, s or 0)):
                equal, got = got[: len(by_sequence[sequence])], got[len(by_sequence[sequence]) :]
                assert sorted(equal, key=repr) == sorted(by_sequence[sequence], key=repr)
    assert not list(folder.glob(".staging-*"))


def test_a_large_batch_is_cut_into_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidecast.topics._write_files._RANGE_ROWS", 100)
    FileTopics(tmp_path / "a", "a").write(as_frame(spark, [("a", 0, None, b"%d" % n, n) for n in range(400)]))
    files = [pq.read_table(file)["offset"].to_pylist() for file in sorted((tmp_path / "a").glob("*.parquet"))]
    assert len(files) == 4
    assert [offset for file in files for offset in file] == list(range(400))


@pytest.mark.parametrize("lines", [False, True], ids=["parquet", "jsonl"])
def test_the_end_of_a_topic_is_in_its_files_names(lines: bool, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/a" + ("?format=jsonl" if lines else "")
    topics = open_topics(parse_place(uri))
    topics.write(as_frame(spark, [("a", 0, b"", b"x", 1), ("a", 0, b"", b"y", 2), ("a", 1, b"", b"z", 3)]))
    topics.write(as_frame(spark, [("a", 1, b"", b"z", 3)]))
    files = [f for f in (tmp_path / "a").iterdir() if f.name.startswith("part-")]
    assert known_ends(files) == {0: 2, 1: 2}
    # Whose name says nothing must be read.
    other = files[0].with_name("another" + "".join(files[0].suffixes))
    files[0].rename(other)
    assert known_ends([other]) is None
    topics.write(as_frame(spark, [("a", 0, b"", b"w", 1), ("a", 1, b"", b"w", 2)]))
    frame = topics.read(spark).frame
    ends = {r["partition"]: (r["n"], r["last"]) for r in _ends(frame)}
    assert ends == {0: (3, 2), 1: (3, 2)}


def _ends(frame: DataFrame) -> list[Any]:
    return frame.groupBy("partition").agg(F.count("*").alias("n"), F.max("offset").alias("last")).collect()


def test_what_completes_records_sees_them_in_order(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Record] = [("a", 0, b"k", b"%d" % n, -n) for n in range(20)]
    frame = as_frame(spark, rows).withColumn("plan", F.lit(1))
    FileTopics(tmp_path / "a", "a").write(
        frame, lambda ordered: ordered.withColumn("value", F.concat("value", F.lit(b"!"), F.col("plan").cast("binary")))
    )
    assert [row["value"] for row in written(tmp_path)] == [b"%d!\0\0\0\1" % n for n in reversed(range(20))]


def test_fewer_records_than_were_counted_fail_the_run(spark: SparkSession, tmp_path: Path) -> None:
    topics = FileTopics(tmp_path / "a", "a")
    with pytest.raises(TerminalError, match="only 1 of 2 records"):
        topics.write(as_frame(spark, [("a", 0, b"k", b"v", 1)]), counts={("a", 0): 2})
    assert written(tmp_path) == []


def test_many_files_of_few_records_are_few_messages(spark: SparkSession, tmp_path: Path) -> None:
    topics = FileTopics(tmp_path / "a", "a")
    topics.write(as_frame(spark, [("a", 0, b"k", b"v", 1)]))
    (file,) = (tmp_path / "a").rglob("*.parquet")
    for n in range(120):
        (file.parent / f"{n}.parquet").write_bytes(file.read_bytes())
    read = topics.read(spark)
    assert (read.few, read.frame.count()) == (True, 121)


def test_dead_letters_are_told_from_those_that_lie_there_by_their_text_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """However long the way on which their columns were made: Spark must not put it together to one expression."""
    none = {field.name: F.lit(None).cast(field.dataType) for field in RECORD}
    columns = {**none, "offset": F.col("id"), "reason": F.lit(Reason.BAD_VALUE), "detail": F.lit("odd")}
    letters = spark.range(2).select(*(column.alias(name) for name, column in columns.items()))
    for _ in range(12):
        turned = "reverse(" * 200 + "detail" + ")" * 200
        letters = letters.withColumn("detail", evaluated_once(F.expr(turned)))
    for _ in range(2):
        assert write_dead_letters(letters, tmp_path) == {Reason.BAD_VALUE: 2}
    assert first_dead_letters(tmp_path, 9, lambda letter: letter.detail == "odd")[1] == 2


def test_lines_of_several_files_without_offsets_are_a_warning(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their numbers do not tell which is newer: in Canal-JSON without a commit-ts nothing does."""
    topics, before = FileTopics(tmp_path, "t"), None
    for n, named in enumerate(['"offset": 0, ', '"offset": 1, ', ""]):
        (tmp_path / f"{n}.jsonl").write_text(f'{{{named}"value": "YQ=="}}\n')
        offsets = topics.end_offsets(before)
        assert topics.read(spark, before, offsets).frame.count() == 1
        assert caplog.text.count("lines without an offset") == (n == 2)
        before = offsets
