"""The Python processes of a local session's tasks: all imported before, and no archive read twice."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def test_tasks_find_all_imported_and_archives_known(spark: SparkSession) -> None:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys
        import zipimport

        kept = zipimport.zipimporter.invalidate_caches.__name__
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"kept": [kept], "there": ["tidecast.replica" in sys.modules]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(look, "kept string, there boolean").collect()
    assert (row["kept"], row["there"]) == ("_keep", True)


def test_tasks_import_from_an_archive_that_is_added_later(spark: SparkSession, tmp_path: Path) -> None:
    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from added_to_tasks import ANSWER  # type: ignore[import-not-found]

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [ANSWER]})

    spark.range(2).mapInArrow(lambda batches: batches, "id bigint").collect()  # the processes run
    with zipfile.ZipFile(tmp_path / "added.zip", "w") as archive:
        archive.writestr("added_to_tasks.py", "ANSWER = 42\n")
    spark.sparkContext.addPyFile(str(tmp_path / "added.zip"))
    (row,) = spark.range(1).coalesce(1).mapInArrow(ask, "answer bigint").collect()
    assert row["answer"] == 42
