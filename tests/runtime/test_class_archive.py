"""Java's archive of Spark's classes: written once, mapped from then on, and never in anybody's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from full import full

from tidecast.runtime import find_java
from tidecast.runtime._cache import cache_dir
from tidecast.runtime._class_archive import class_archive
from tidecast.runtime._java import Java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("TIDECAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDECAST_CLASS_ARCHIVE", "1")
    classes = tmp_path / "classes.jsa"
    classes.touch()
    return Java(17, tmp_path, classes)


def archive(options: str) -> Path:
    return Path(options.split()[0].partition("=")[2])


def test_it_is_written_where_it_is_wanted(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_archive(java, "-Xmx1g").startswith("-XX:ArchiveClassesAtExit=")
    monkeypatch.delenv("TIDECAST_CLASS_ARCHIVE")
    assert class_archive(java, "") == ""


def test_it_is_mapped_once_it_is_whole(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    place = archive(class_archive(java, ""))
    place.write_bytes(bytes(4) + b"as long as Java writes it")
    assert class_archive(java, "").startswith("-XX:ArchiveClassesAtExit=")
    place.write_bytes(0xF00BABA8.to_bytes(4, sys.byteorder))
    assert class_archive(java, "").startswith(f"-XX:SharedArchiveFile={place} ")
    monkeypatch.delenv("TIDECAST_CLASS_ARCHIVE")
    assert class_archive(java, "").startswith(f"-XX:SharedArchiveFile={place} ")


def test_another_java_has_another_one(java: Java, tmp_path: Path) -> None:
    (tmp_path / "other.jsa").touch()
    options = [class_archive(j, "") for j in (java, Java(17, tmp_path, tmp_path / "other.jsa"))]
    assert archive(options[0]) != archive(options[1])


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=/mine", "-XX:ArchiveClassesAtExit=/mine"])
def test_who_chooses_one_keeps_it(java: Java, given: str) -> None:
    assert class_archive(java, given) == ""


def test_a_small_java_has_none(java: Java, tmp_path: Path) -> None:
    assert class_archive(Java(21, tmp_path), "") == ""


@pytest.mark.parametrize("name", ["with blank", 'with"quote'])
def test_a_cache_of_such_a_name_has_none(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TIDECAST_CACHE", str(tmp_path / name))
    assert class_archive(java, "") == ""


def test_a_cache_that_cannot_be_written_does_no_harm(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDECAST_CACHE", str(tmp_path / "file"))
    assert class_archive(java, "") == ""


@full
@pytest.mark.spark
def test_spark_takes_its_classes_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_java().classes is None:
        pytest.skip("this Java has no archive of its own classes")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(cache_dir() / "jars")
    monkeypatch.setenv("TIDECAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDECAST_CLASS_ARCHIVE", "1")
    topic = tmp_path / "topic.jsonl"
    topic.touch()

    def verify(*options: str) -> str:
        command = [sys.executable, "-m", "tidecast", "verify", f"{topic}?protocol=simple", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout + done.stderr

    assert "warning" not in verify()  # which waits for Java, as it has its output
    monkeypatch.delenv("TIDECAST_CLASS_ARCHIVE")
    loaded = verify("--conf", "spark.driver.extraJavaOptions=-Xlog:class+load:stdout")
    assert loaded.count("source: shared objects file (top)") > 5_000
