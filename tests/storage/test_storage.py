"""Folders on a remote store: what can be done with them, and that one process at a time writes a state."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servers import S3Server

from tidecast import storage
from tidecast._errors import ConfigError, TerminalError, Unreachable
from tidecast._uri import parse_place
from tidecast.changefeed._feed import Feed, FeedFolder
from tidecast.storage import (
    RemotePath,
    StateFile,
    check_exclusive,
    entries,
    files_below,
    locked,
    move,
    path_of,
    remove_tree,
    replace_file,
    spark_input,
    spark_output,
    storage_path,
    write_new,
)

HINT = "end the other one"
SETTINGS = {
    "endpoint": "AWS_ENDPOINT_URL",
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
}


@pytest.fixture
def environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the store in the environment, as its driver for fsspec takes them."""
    for name, variable in SETTINGS.items():
        monkeypatch.setenv(variable, s3.spark[f"spark.hadoop.fs.s3a.{name}"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture
def folder(s3: S3Server, environment: None) -> RemotePath:
    """A folder that nobody else uses."""
    path = storage_path(f"s3a://{s3.bucket}/{uuid.uuid4().hex}", "--checkpoint")
    assert isinstance(path, RemotePath)
    return path


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> float:
    """A lease that passes soon."""
    monkeypatch.setattr(storage._lock, "LEASE_S", 1.5)
    return 1.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ftp://host/folder", "--to: ftp: is not a storage"),
        ("s3a://KEY:SECRET@bucket/folder", "no place on a storage"),
        ("s3://KEYSECRET@bucket/folder", "no place on a storage"),
        ("abfss://container:SECRET@account.dfs.core.windows.net/x", "no place on a storage"),
        ("s3a:///folder", "no place on a storage"),
        ("s3a://bucket/a/../b", "leave out what is empty"),
        ("s3a://bucket/a/%2E%2E/b", "leave out what is empty"),
        ("s3a://bucket//a", "leave out what is empty"),
        ("s3a://bucket/folder?key=SECRET", "has no \\?"),
        ("gs://bucket/folder", "tidecast\\[gcs\\]"),
        ("dbfs:/FileStore/x", "only volumes"),
    ],
)
def test_a_text_that_names_no_usable_storage_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        storage_path(text, "--to")
    assert "SECRET" not in str(caught.value).replace("KEYSECRET@bucket", "")


def test_what_spark_calls_a_path(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("s3://lake/a%20b/[c]/", "s3a://lake/a%20b/[c]"):
        path = storage_path(text, "--to")
        assert spark_output(path) == "s3a://lake/a b/[c]"
        assert spark_input(path) == "s3a://lake/a b/\\[c\\]"
        assert str(path) == f"{text.partition(':')[0]}://lake/a b/[c]"
    assert spark_output(path_of(parse_place("s3://lake/shop/orders?protocol=avro"))) == "s3a://lake/shop/orders"
    volume = storage_path("dbfs:/Volumes/main/shop/files", "--to")
    assert volume == Path("/Volumes/main/shop/files")
    assert spark_output(volume) == "file:///Volumes/main/shop/files"
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.0")
    assert spark_output(volume) == "dbfs:/Volumes/main/shop/files"


def test_files_come_are_listed_move_and_go(folder: RemotePath) -> None:
    odd = folder / "a [b]?*#%20 c"  # what fsspec takes for patterns
    replace_file(odd / "one", b"1")
    replace_file(odd / "one", b"12")
    replace_file(odd / "deep" / "two", b"2")
    replace_file(folder / "a bx c" / "kept", b"")
    folder.store.opened[0].pipe_file(f"lake{odd.path}/empty/", b"")  # what Hadoop leaves of a folder
    assert [(one.name, one.is_dir) for one in entries(odd)] == [("deep", True), ("empty", True), ("one", False)]
    (before,) = [one for one in entries(odd) if one.name == "one"]
    assert (before.size, before.path.read_bytes()) == (2, b"12")
    replace_file(odd / "one", b"13")
    (after,) = [one for one in entries(odd) if one.name == "one"]
    assert after.version != before.version
    move(odd / "one", folder / "moved [1]?")
    assert files_below(folder) == ["a [b]?*#%20 c/deep/two", "a bx c/kept", "moved [1]?"]
    assert (folder / "moved [1]?").read_bytes() == b"13"
    remove_tree(odd)
    assert files_below(folder) == ["a bx c/kept", "moved [1]?"]
    assert not odd.exists()
    assert entries(odd) == []
    with pytest.raises(FileNotFoundError, match="no such file"):
        (odd / "one").read_bytes()


def test_of_several_that_make_a_file_at_once_one_can(folder: RemotePath) -> None:
    made = []

    def make(number: int) -> None:
        try:
            write_new(folder / "file", b"%d" % number)
        except FileExistsError:
            return
        made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (folder / "file").read_bytes() == b"%d" % made[0]
    write_new(folder / "file", b"%d" % made[0])  # the same request, made twice


def test_a_store_that_writes_over_files_is_refused(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    check_exclusive(folder, "--checkpoint")
    system, _ = folder.store.opened
    put = system.pipe_file

    def careless(path: str, data: bytes, mode: str = "overwrite") -> Any:
        return put(path, data)

    monkeypatch.setattr(system, "pipe_file", careless)
    with pytest.raises(ConfigError, match="--checkpoint: this storage cannot keep two processes from writing"):
        check_exclusive(folder, "--checkpoint")
    monkeypatch.undo()
    assert entries(folder) == []


def test_a_bucket_that_is_not_there_is_told_at_once(environment: None) -> None:
    with pytest.raises(ConfigError, match="--data-dir: the folder cannot be used"):
        check_exclusive(storage_path("s3a://no-such-bucket/x", "--data-dir"), "--data-dir")


def test_a_state_is_replaced_and_belongs_to_who_read_it_last(folder: RemotePath) -> None:
    path = folder / "progress.json"
    first = StateFile(path)
    assert first.read() is None
    first.write(b"1")
    first.write(b"2")
    assert first.read() == b"2"
    second = StateFile(path)
    assert second.read() == b"2"
    with pytest.raises(TerminalError, match="another process has taken over this state"):
        first.write(b"3")
    second.write(b"4")
    second.write(b"")
    assert StateFile(path).read() is None
    assert len(entries(folder)) == 1


def test_a_state_whose_answer_was_lost_was_written(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateFile(folder / "state")
    state.write(b"1")
    system, _ = folder.store.opened
    put = system.pipe_file

    def lost(path: str, data: bytes, mode: str = "overwrite") -> Any:
        put(path, data, mode=mode)
        raise ConnectionError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(system, "pipe_file", lost)
        with pytest.raises(OSError, match="cut off"):
            state.write(b"2")
    state.write(b"3")
    assert StateFile(folder / "state").read() == b"3"


def test_a_state_that_was_not_read_is_not_overwritten(folder: RemotePath) -> None:
    StateFile(folder / "state").write(b"1")
    other = StateFile(folder / "state")
    other.write(b"2")
    assert StateFile(folder / "state").read() == b"2"


def test_one_process_at_a_time_has_a_folder(folder: RemotePath, short_lease: float) -> None:
    with locked(folder, HINT) as lock:
        with pytest.raises(TerminalError, match=f"another process uses this folder, on .*{HINT}"):
            locked(folder, HINT)
        time.sleep(2 * short_lease)  # it is renewed
        assert lock.held
        with pytest.raises(TerminalError, match="another process uses"):
            locked(folder, HINT)
    with locked(folder, HINT):
        assert [one.name for one in entries(folder)] == [".lock-000000000002"]


def test_who_lets_go_of_a_folder_locks_nobody_out(folder: RemotePath) -> None:
    locked(folder, HINT).close()
    started = time.monotonic()
    with locked(folder, HINT):
        assert time.monotonic() - started < storage._lock.LEASE_S / 2


def test_changefeeds_are_kept_and_removed(
    folder: RemotePath, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    feed = Feed("one", "kafka://h/t?protocol=avro", {}, 1, 0, created, (1, 2))
    first = FeedFolder(folder)
    first.create(feed)
    second = FeedFolder(folder)
    assert list(second.load()) == [feed]
    second.save(changed := replace(feed, retries=1))
    with pytest.raises(TerminalError, match="another process has taken over"):
        first.save(feed)
    third = FeedFolder(folder)
    assert list(third.load()) == [changed]
    with pytest.raises(TerminalError, match="something else is in the place"):
        third.create(feed)
    replace_file(folder / "one" / "dead-letters" / "part.jsonl", b"")
    replace_file(folder / "foreign" / "file", b"")
    StateFile(folder / "unborn" / "feed.json").read()
    with monkeypatch.context() as crash:
        crash.setattr("tidecast.changefeed._feed.remove_tree", lambda *_, **__: None)
        third.remove("one")
    assert list(FeedFolder(folder).load()) == []
    assert files_below(folder) == ["foreign/file"]
    assert "foreign is left alone" in caplog.text
    third.create(feed)
    assert list(FeedFolder(folder).load()) == [feed]
    FeedFolder(folder).remove("one")
    assert files_below(folder) == ["foreign/file"]


def test_who_looked_long_ago_does_not_get_a_folder(
    folder: RemotePath, short_lease: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        locked(folder, HINT).close()
    with locked(folder, HINT):
        listed = storage._lock._Lease._numbers
        answers = iter([[1]])
        monkeypatch.setattr(storage._lock._Lease, "_numbers", lambda lease: next(answers, None) or listed(lease))
        with pytest.raises(TerminalError, match="another process uses this folder"):
            locked(folder, HINT)
        assert [one.name for one in entries(folder)] == [".lock-000000000003"]


def test_who_waits_for_a_folder_gets_it(folder: RemotePath, short_lease: float) -> None:
    lock = locked(folder)
    threading.Timer(3 * short_lease, lock.close).start()
    started = time.monotonic()
    locked(folder).close()
    assert time.monotonic() - started > 2 * short_lease


LOCK_AND_DIE = """
import os, sys
from tidecast.storage import locked, storage_path
locked(storage_path(sys.argv[1], "--checkpoint"), "hint")
os._exit(9)
"""


def test_a_process_that_was_killed_locks_nobody_out(folder: RemotePath) -> None:
    assert subprocess.run([sys.executable, "-c", LOCK_AND_DIE, str(folder)], timeout=60).returncode == 9
    assert [one.name for one in entries(folder)] == [".lock-000000000001"]
    started = time.monotonic()
    with locked(folder, HINT):
        assert time.monotonic() - started < storage._lock.LEASE_S / 2


def test_a_lock_of_another_machine_passes_with_its_lease(folder: RemotePath, short_lease: float) -> None:
    note = {"process": ["another-boot", "1", "1", "1"], "host": "elsewhere", "released": False}
    replace_file(folder / ".lock-000000000007", json.dumps(note).encode())
    started = time.monotonic()
    with locked(folder, HINT):
        assert time.monotonic() - started > short_lease
        assert [one.name for one in entries(folder)] == [".lock-000000000008"]


def test_who_has_lost_a_folder_writes_no_state_in_it(folder: RemotePath, short_lease: float) -> None:
    lock = locked(folder, HINT)
    state = StateFile(folder / "deep" / "progress.json")
    state.write(b"1")
    # A process that stood still for longer than its lease, when another one took the folder.
    replace_file(folder / ".lock-000000000002", b"{}")
    with pytest.raises(TerminalError, match="another process has taken this folder over"):
        state.write(b"2")
    assert not lock.held
    lock.close()
    assert StateFile(folder / "deep" / "progress.json").read() == b"1"
    assert (folder / ".lock-000000000002").read_bytes() == b"{}"


def test_a_store_that_does_not_answer_shows_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = {"endpoint": "http://127.0.0.1:9", "access.key": "AKIDEXAMPLE", "secret.key": "very-secret"}
    lines = "".join(f"spark.hadoop.fs.s3a.{name} {value}\n" for name, value in settings.items())
    (tmp_path / "spark-defaults.conf").write_text(lines)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(storage._open, "running_session", lambda: None)
    path = storage_path("s3a://lake/x", "--checkpoint")
    with pytest.raises(Unreachable, match="does not answer") as caught:
        check_exclusive(path, "--checkpoint")
    assert "127.0.0.1:9" in str(caught.value)
    for secret in ("AKIDEXAMPLE", "very-secret"):
        assert secret not in f"{caught.value}{path!r}{path}"


def test_a_store_without_credentials_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.hadoop.fs.s3a.endpoint http://127.0.0.1:9\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(storage._open, "running_session", lambda: None)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("SHARED_CREDENTIALS_FILE", "CONFIG_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="the folder cannot be used: Unable to locate credentials"):
        check_exclusive(storage_path("s3a://lake/x", "--to"), "--to")


def test_who_looks_at_a_state_does_not_take_it_over(folder: RemotePath) -> None:
    state = StateFile(folder / "state")
    assert state.look() is None
    state.write(b"1")
    assert StateFile(folder / "state").look() == b"1"
    state.write(b"2")
    assert StateFile(folder / "state").look() == b"2"
