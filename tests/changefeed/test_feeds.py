"""Changefeeds live as TiCDC's do: states, retries, persistence, and the price of many that wait."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

import pytest
from feed_server import QUICK, Client, until
from memory_runner import CHUNK, MemoryRunner, table

from tidecast._errors import ConfigError, RegistryError, SchemaRefused, TerminalError, TidecastError, Unreachable
from tidecast.changefeed import Changefeeds, ChangefeedSpec, Folders, Snapshot, State, Timing
from tidecast.changefeed._feed import FeedFolder
from tidecast.model import compose
from tidecast.storage import storage_path

SINK = "kafka://127.0.0.1:9092/topic?protocol=simple"


@contextmanager
def running(
    folder: Path, runner: MemoryRunner, timing: Timing = QUICK, workers: int = 4, folders: Folders | None = None
) -> Iterator[Changefeeds]:
    addr = "127.0.0.1:8300"
    feeds = Changefeeds(folder, runner, timing=timing, workers=workers, addr=addr, folders=folders)
    try:
        yield feeds
    finally:
        runner.held.set()
        feeds.close(30)


def state_of(feeds: Changefeeds, feed_id: str) -> State:
    return feeds.get(feed_id).feed.state


def wait_for(feeds: Changefeeds, feed_id: str, state: State) -> Snapshot:
    until(lambda: state_of(feeds, feed_id) is state)
    return feeds.get(feed_id)


def on_disk(folder: Path, feed_id: str) -> dict[str, object]:
    members: dict[str, object] = json.loads((folder / feed_id / "feed.json").read_text())
    return members


def test_a_changefeed_publishes_all_that_comes_after_its_start_and_finishes_at_its_target(tmp_path: Path) -> None:
    runner = MemoryRunner()
    start = runner.now() - compose(10_000)
    runner.events = [(start + i, "test.user") for i in range(-3, 3 * CHUNK)]
    with running(tmp_path, runner) as feeds:
        made = feeds.create(ChangefeedSpec("up", SINK, None, start, start + 2 * CHUNK))
        assert (made.feed.state, made.checkpoint_ts) == (State.NORMAL, start)
        done = wait_for(feeds, "up", State.FINISHED)
        assert done.checkpoint_ts == start + 2 * CHUNK
        assert [ts - start for _, ts, _ in runner.published] == list(range(1, 2 * CHUNK + 1))
        assert done.messages == {("test.user", "topic"): 2 * CHUNK}
        assert done.feed.versions == {"test.user": 7}
        assert done.rate == 2 * CHUNK / 10
        # Resumed, it finds that it is where it was to go.
        steps = runner.steps["up"]
        feeds.resume("up")
        until(lambda: runner.steps["up"] > steps)
        wait_for(feeds, "up", State.FINISHED)
        assert len(runner.published) == 2 * CHUNK
        # From an earlier checkpoint it does the rest once more.
        feeds.resume("up", start + CHUNK)
        until(lambda: len(runner.published) == 3 * CHUNK)
        wait_for(feeds, "up", State.FINISHED)


def test_pause_returns_when_the_step_has_ended_and_no_step_follows(tmp_path: Path) -> None:
    runner = MemoryRunner()
    with running(tmp_path, runner) as feeds:
        runner.held.clear()
        feeds.create(ChangefeedSpec("up", SINK))
        until(runner.entered.is_set)
        pausing = threading.Thread(target=feeds.pause, args=("up",))
        pausing.start()
        pausing.join(0.2)
        assert pausing.is_alive()
        runner.held.set()
        pausing.join(5)
        assert not pausing.is_alive()
        steps = runner.steps["up"]
        time.sleep(0.2)
        assert runner.steps["up"] == steps
        assert on_disk(tmp_path, "up")["state"] == "stopped"
        feeds.resume("up")
        until(lambda: runner.steps["up"] > steps)


def test_what_may_pass_is_retried_and_forgotten_when_it_has_passed(tmp_path: Path) -> None:
    runner = MemoryRunner(errors={"up": [Unreachable("the broker does not answer", where="127.0.0.1:9092")] * 3})
    timing = Timing(poll=0.02, idle=0.05, first_retry=0.1, last_retry=1)
    with running(tmp_path, runner, timing) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        began = time.monotonic()
        warned = wait_for(feeds, "up", State.WARNING)
        assert warned.error
        assert warned.error.code == "CDC:ErrChangefeedRetryable"
        assert warned.error.message == "the broker does not answer, 127.0.0.1:9092"
        assert warned.error.addr == "127.0.0.1:8300"
        feeds.resume("up")  # silently ignored: it runs
        assert state_of(feeds, "up") is State.WARNING
        healthy = wait_for(feeds, "up", State.NORMAL)
        assert time.monotonic() - began > 0.9 * (0.1 + 0.2 + 0.4)
        assert (healthy.error, healthy.feed.error, healthy.feed.since, healthy.feed.retries) == (None, None, None, 0)


def test_a_runner_that_has_died_is_no_error_of_its_changefeeds(tmp_path: Path) -> None:
    runner = MemoryRunner(errors={"up": [Unreachable("Connection refused")]}, dead=True)
    with running(tmp_path, runner) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        until(lambda: not runner.errors["up"])
        time.sleep(0.2)
        assert (runner.steps["up"], feeds.get("up").feed.state, feeds.get("up").error) == (1, State.NORMAL, None)
    assert on_disk(tmp_path, "up")["state"] == "normal"


def test_delays_double_up_to_ten_minutes_give_or_take_a_tenth() -> None:
    for errors, middle in ((1, 10), (2, 20), (3, 40), (7, 600), (8, 600), (5000, 600)):
        delays = [Timing().retry(errors) for _ in range(200)]
        assert 0.9 * middle <= min(delays) < 0.95 * middle
        assert 1.05 * middle < max(delays) <= 1.1 * middle


def test_a_streak_of_errors_that_is_too_long_ends_in_failure(tmp_path: Path) -> None:
    runner = MemoryRunner(errors={"up": [Unreachable("down")] * 1000})
    timing = Timing(poll=0.02, first_retry=0.02, last_retry=0.05, stuck=0.3)
    with running(tmp_path, runner, timing) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        wait_for(feeds, "up", State.WARNING)
        failed = wait_for(feeds, "up", State.FAILED)
        assert failed.error
        assert (failed.error.code, failed.error.message) == ("CDC:ErrChangefeedRetryable", "down")
        tried = runner.steps["up"]
        assert tried > 1
        time.sleep(0.2)
        assert runner.steps["up"] == tried


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (SchemaRefused('409: {"error_code":409,"message":"Schema being registered is incompatible"}'), State.FAILED),
        (TerminalError("no", code="CDC:ErrExpressionColumnNotFound"), State.FAILED),
        (RuntimeError("caused by [CDC:ErrKafkaInvalidConfig]auto-create-topic is false"), State.FAILED),
        (TerminalError("message is too large", code="CDC:ErrMessageTooLarge"), State.WARNING),
        (RegistryError("the schema registry refuses the password"), State.WARNING),
        (ConfigError("too few brokers for its replicas", code="CDC:ErrKafkaCreateTopic"), State.WARNING),
        (ConfigError("Kafka does not let us in", code="CDC:ErrKafkaNewProducer"), State.WARNING),
        (ConfigError("not authorized to access topics", code="CDC:ErrKafkaAsyncSendMessage"), State.WARNING),
        (RuntimeError("something else"), State.WARNING),
    ],
)
def test_what_no_retry_mends_fails_at_once(tmp_path: Path, error: Exception, state: State) -> None:
    runner = MemoryRunner(errors={"up": [error] * 1000})
    with running(tmp_path, runner, Timing(first_retry=60)) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        now = wait_for(feeds, "up", state)
        assert now.error
        assert (error.message if isinstance(error, TidecastError) else str(error)) in now.error.message
        assert now.error.code.endswith("Unretryable" if state is State.FAILED else "Retryable")
        runner.errors.clear()
        feeds.pause("up")
        assert feeds.get("up").error is None
        feeds.resume("up")
        assert feeds.get("up").feed.error is None
        assert state_of(feeds, "up") is State.NORMAL


def test_changefeeds_outlive_the_server(tmp_path: Path) -> None:
    runner = MemoryRunner(errors={"odd": [Unreachable("down")] * 1000, "bad": [SchemaRefused("no")] * 1000})
    with running(tmp_path, runner, Timing(poll=0.02, first_retry=60)) as feeds:
        for name in ("good", "still", "odd", "bad"):
            feeds.create(
                ChangefeedSpec(name, SINK, {"filter": {"rules": ["test.*"]}}, target_ts=runner.now() + compose(10**9))
            )
        feeds.pause("still")
        wait_for(feeds, "odd", State.WARNING)
        wait_for(feeds, "bad", State.FAILED)
        runner.events.append((runner.now(), "test.user"))
        until(lambda: feeds.get("good").feed.versions)
        feeds.close()
        before = {s.feed.id: s for s in feeds.list()}
    later = MemoryRunner(errors=runner.errors)
    with running(tmp_path, later, Timing(poll=0.02, first_retry=60)) as feeds:
        until(lambda: {"good", "odd"} <= later.steps.keys())
        after = {s.feed.id: s for s in feeds.list()}
        assert after["still"].feed == before["still"].feed
        assert after["bad"].feed == before["bad"].feed
        assert after["good"].feed == before["good"].feed
        until(lambda: feeds.get("odd").feed.retries > before["odd"].feed.retries)
        assert feeds.get("odd").feed.since == before["odd"].feed.since
        assert after["good"].checkpoint_ts >= before["good"].checkpoint_ts
        assert later.steps.keys() == {"good", "odd"}


def test_a_file_of_secrets_is_for_nobody_else(tmp_path: Path) -> None:
    with running(tmp_path, MemoryRunner()) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        feeds.pause("up")
        assert stat.S_IMODE((tmp_path / "up" / "feed.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "up").stat().st_mode) == 0o700


def test_who_reads_the_file_never_sees_half_of_it(tmp_path: Path) -> None:
    path, seen, done = tmp_path / "up" / "feed.json", set[object](), threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                seen.add(json.loads(path.read_text())["state"])
            except ValueError:
                seen.add("half")

    with running(tmp_path, MemoryRunner()) as feeds:
        feeds.create(ChangefeedSpec("up", SINK, {"filter": {"rules": ["*.*", *["#" + "x" * 9_000] * 110]}}))
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(15):
            feeds.pause("up")
            feeds.resume("up")
        done.set()
        reader.join()
    assert seen == {"normal", "stopped"}


def test_nothing_is_left_of_a_changefeed_that_is_removed(tmp_path: Path) -> None:
    runner = MemoryRunner()
    start = runner.now() - compose(10_000)
    with running(tmp_path, runner) as feeds:
        feeds.create(ChangefeedSpec("up", SINK, None, start))
        until(lambda: feeds.get("up").checkpoint_ts > start)
        assert feeds.remove("up")
        assert runner.forgotten == ["up"]
        assert not feeds.remove("up")
        assert [p.name for p in tmp_path.iterdir()] == [".lock"]
        runner.held.clear()
        assert feeds.create(ChangefeedSpec("up", SINK, None, start)).checkpoint_ts == start
    # What a crash leaves of creating and removing is no changefeed.
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / ".feed.json.draft").write_text("{")
    (tmp_path / "up").rename(tmp_path / ".removed-1")
    # This somebody else has put there.
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes.txt").write_text("5")
    with running(tmp_path, runner) as feeds:
        assert feeds.list() == []
        assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "precious"]
        with pytest.raises(TerminalError, match="precious: something else is in the place"):
            feeds.create(ChangefeedSpec("precious", SINK))
        assert (tmp_path / "precious" / "notes.txt").read_text() == "5"


def test_removing_what_cannot_be_removed_leaves_it_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: FeedFolder, feed_id: str) -> None:
        raise OSError(28, "No space left on device")

    with running(tmp_path, MemoryRunner()) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
        with monkeypatch.context() as patch:
            patch.setattr(FeedFolder, "remove", full)
            with pytest.raises(OSError, match="No space"):
                feeds.remove("up")
        assert state_of(feeds, "up") is State.NORMAL
        (tmp_path / "up").rename(tmp_path / "elsewhere")  # at once, as its steps go on
        assert feeds.remove("up")
        assert feeds.create(ChangefeedSpec("up", SINK)).feed.state is State.NORMAL


def test_a_changefeed_whose_progress_is_damaged_stops_no_other(tmp_path: Path) -> None:
    runner = MemoryRunner()
    with running(tmp_path, runner) as feeds:
        feeds.create(ChangefeedSpec("good", SINK))
        feeds.create(ChangefeedSpec("torn", SINK))
    (tmp_path / "torn" / "checkpoint").write_text("{")
    with running(tmp_path, runner) as feeds:
        assert wait_for(feeds, "torn", State.WARNING).feed.error
        assert state_of(feeds, "good") is State.NORMAL


def test_removing_waits_for_the_step_and_creating_for_the_removal(tmp_path: Path) -> None:
    runner = MemoryRunner()
    with running(tmp_path, runner) as feeds:
        runner.held.clear()
        feeds.create(ChangefeedSpec("up", SINK))
        until(runner.entered.is_set)
        threads = [threading.Thread(target=feeds.remove, args=("up",))]
        threads[0].start()
        until(lambda: not feeds.list())
        threads.append(threading.Thread(target=feeds.create, args=(ChangefeedSpec("up", SINK),)))
        threads[1].start()
        time.sleep(0.1)
        assert all(t.is_alive() for t in threads)
        runner.held.set()
        for thread in threads:
            thread.join(5)
        assert state_of(feeds, "up") is State.NORMAL


def test_a_folder_has_one_server(tmp_path: Path) -> None:
    with running(tmp_path, MemoryRunner()), pytest.raises(TerminalError, match="another process uses this folder"):
        Changefeeds(tmp_path, MemoryRunner())


def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path) -> None:
    with running(tmp_path, MemoryRunner()) as feeds:
        feeds.create(ChangefeedSpec("up", SINK))
    path = tmp_path / "up" / "feed.json"
    path.write_text(path.read_text().replace('"state": "normal"', '"state": "pa55word"'))
    with pytest.raises(TerminalError, match=r"up/feed\.json") as caught:
        Changefeeds(tmp_path, MemoryRunner())
    assert "pa55word" not in str(caught.value)


def test_a_hundred_waiting_changefeeds_cost_next_to_nothing(tmp_path: Path) -> None:
    runner = MemoryRunner()
    threads = threading.active_count()
    with running(tmp_path, runner, Timing(poll=0.2, idle=5), workers=3) as feeds:
        for n in range(100):
            feeds.create(ChangefeedSpec(f"feed-{n}", SINK))
        assert threading.active_count() == threads + 3
        until(lambda: len(runner.steps) == 100)
        time.sleep(2)  # by now each waits for a second or more
        steps, cpu, began = runner.steps.total(), time.process_time(), time.monotonic()
        time.sleep(2)
        seconds = time.monotonic() - began
        assert runner.most_at_once <= 3
        assert runner.steps.total() - steps < 100 * seconds / 1.2
        assert (time.process_time() - cpu) / seconds < 0.2


def test_the_log_tells_once_what_a_user_should_know(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = MemoryRunner(warnings=["rows lack something", "rows lack something"])
    with running(tmp_path, runner) as feeds:
        for name in ("one", "other"):
            feeds.create(ChangefeedSpec(name, SINK, None))
        until(lambda: min(runner.steps["one"], runner.steps["other"]) > 3)
    told = [record.getMessage() for record in caplog.records if "lack" in record.getMessage()]
    assert sorted(told) == [f"changefeed {name}: rows lack something" for name in ("one", "other")]


def test_the_log_tells_of_a_parameter_that_looks_misspelt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, MemoryRunner()) as feeds:
        feeds.create(ChangefeedSpec("one", f"{SINK}&enable-tidb-extention=true", None))
    words = "unknown parameter enable-tidb-extention is ignored: did you mean enable-tidb-extension?"
    assert f"changefeed one: sink URI: {words}\n" in caplog.text


def test_secrets_stay_in_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = "kafka://127.0.0.1:9092/topic?protocol=simple&sasl-user=ann&sasl-password=pa55word&sasl-mechanism=PLAIN"
    runner = MemoryRunner(errors={"up": [RuntimeError(f"cannot open {sink} with pa55word and s3cret")]})
    sink_config: dict[str, object] = {"schema_registry": "http://ann:s3cret@127.0.0.1:8081"}
    sink_config["kafka_config"] = {"sasl_gssapi_password": "s3cret"}
    config = {"sink": sink_config, "mounter": {"worker_num": 3}}
    with caplog.at_level(logging.DEBUG), running(tmp_path, runner, Timing(first_retry=60)) as feeds:
        feeds.create(ChangefeedSpec("up", sink, config))
        warned = wait_for(feeds, "up", State.WARNING)
        shown = caplog.text + str(warned) + str(warned.error)
    assert "pa55word" in (tmp_path / "up" / "feed.json").read_text()
    assert "cannot open kafka://" in shown
    assert "pa55word" not in shown
    assert "s3cret" not in shown
    assert caplog.text.count("have no effect here: mounter\n") == 1


def test_tables_are_checked_against_dispatchers_and_selectors(tmp_path: Path) -> None:
    runner = MemoryRunner(known=(table("test.user"),))
    cases = {
        "CDC:ErrDispatcherFailed": {"dispatchers": [{"matcher": ["*.*"], "partition": "columns", "columns": ["no"]}]},
        "CDC:ErrColumnSelectorFailed": {"column_selectors": [{"matcher": ["*.*"], "columns": ["v"]}]},
    }
    with running(tmp_path, runner) as feeds:
        for code, sink in cases.items():
            with pytest.raises(TidecastError) as caught:
                feeds.create(ChangefeedSpec("up", SINK, {"sink": sink}))
            assert caught.value.code == code
        assert feeds.list() == []


def test_changefeeds_use_no_folder_but_those_that_are_allowed(tmp_path: Path) -> None:
    lake, own, outside = (tmp_path / name for name in ("lake", "lake/data", "outside"))
    for folder in (lake, own, outside):
        folder.mkdir()
    (lake / "link").symlink_to(outside)
    (lake / "circle").symlink_to(lake / "circle")
    inside = f"file://{lake}/shop?protocol=simple"

    def claims(storage: str) -> dict[str, object]:
        handle = {"large_message_handle_option": "claim-check", "claim_check_storage_uri": storage}
        return {"sink": {"kafka_config": {"large_message_handle": handle}}}

    def schemas(url: str) -> ChangefeedSpec:
        return ChangefeedSpec("up", inside.replace("simple", "avro"), {"sink": {"schema_registry": url}})

    refused = [
        *(
            ChangefeedSpec("up", f"file://{path}?protocol=simple")
            for path in (
                f"{outside}/shop",
                f"{lake}",  # its topics would lie beside it
                f"{lake}/../outside/shop",
                f"{lake}/%2e%2e/outside/shop",
                f"{lake}/x/..%2f..",
                f"{lake}/link/shop",
                f"{lake}/circle/shop",
                f"{lake}/a%00b",
                f"{own}/changefeeds/up",
            )
        ),
        *(schemas(url) for url in (f"file://{outside}", f"FILE://{outside}", f"file:{outside}", f"file://{lake}/..")),
        *(
            ChangefeedSpec("up", SINK, claims(storage))
            for storage in (
                *(f"file://{outside}", f"{outside}", f"local://{outside}", "~/claims", f"file://{lake}/link"),
                *("s3://other/claims?access-key=a&secret-access-key=b", "s3a://ours/feedsx", "s3://ours"),
            )
        ),
    ]
    folders = Folders([lake, storage_path("s3a://ours/feeds", "")], own=own)
    with running(own / "changefeeds", MemoryRunner(), folders=folders) as feeds:
        for spec in refused:
            for ask in (lambda w: feeds.create(w), lambda w: feeds.verify(w.sink_uri, w.config)):
                with pytest.raises(TidecastError, match="outside of the folders that changefeeds may use") as caught:
                    ask(spec)
                assert caught.value.code == "CDC:ErrAPIInvalidParam"
        feeds.create(replace(schemas(f"file://{lake}/schemas"), id="schemas"))
        for name, storage in (("claims", f"file://{lake}/claims"), ("s3", "s3://ours/feeds/claims")):
            feeds.create(ChangefeedSpec(name, SINK, claims(storage)))
        feeds.create(ChangefeedSpec("up", inside))
        feeds.pause("up")
        with pytest.raises(TidecastError, match="outside"):
            feeds.update("up", refused[0])
        assert feeds.get("up").feed.sink_uri == inside
        feeds.resume("up")
    with running(own / "changefeeds", MemoryRunner(), folders=Folders([outside], own=own)) as feeds:
        failed = wait_for(feeds, "up", State.FAILED)  # allowed no longer
        assert failed.error
        assert "--allow-path" in failed.error.message


@contextmanager
def program(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """A server that is a process of its own, over a source that is never still."""
    command = [sys.executable, "-m", "feed_server", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            assert server.stdout
            yield server, Client("http://" + server.stdout.readline().decode().strip())
        finally:
            server.kill()


def test_the_state_outlives_kill_9_at_any_moment(tmp_path: Path) -> None:
    """Whatever a request was answered with is so after the crash; what was not answered is or is not, but whole."""
    folder = tmp_path / "feeds"
    chance = random.Random(20261121)
    expected: dict[str, str] = {}
    checkpoints: dict[str, int] = {}
    doubtful = ""
    for crash in range(5):
        with program(folder) as (server, client):
            items = {i["id"]: i for i in client("GET", "/api/v2/changefeeds?state=all").json["items"]}
            for feed_id, state in expected.items():
                if feed_id != doubtful:
                    assert items[feed_id]["state"] == state, (crash, feed_id)
                    assert items[feed_id]["checkpoint_tso"] >= checkpoints[feed_id]
            assert set(items) - {doubtful} == set(expected) - {doubtful}
            expected = {feed_id: item["state"] for feed_id, item in items.items()}
            killer = threading.Timer(chance.uniform(0.05, 0.6), server.kill)
            killer.start()
            try:
                while True:
                    verb = chance.choice(["create", "pause", "resume", "remove"])
                    doubtful = f"{crash}-{len(expected)}" if verb == "create" else chance.choice([*expected, "none"])
                    if verb == "create":
                        body = {"changefeed_id": doubtful, "sink_uri": SINK}
                        if client("POST", "/api/v2/changefeeds", body).status == 200:
                            expected[doubtful] = "normal"
                    elif verb == "remove":
                        assert client("DELETE", f"/api/v2/changefeeds/{doubtful}").status == 200
                        expected.pop(doubtful, None)
                    elif client("POST", f"/api/v2/changefeeds/{doubtful}/{verb}").status == 200:
                        expected[doubtful] = "stopped" if verb == "pause" else "normal"
                    for item in client("GET", "/api/v2/changefeeds?state=all").json["items"]:
                        checkpoints[item["id"]] = item["checkpoint_tso"]
            except (OSError, HTTPException):
                pass  # the server is gone, in the middle of `doubtful`, or of its answer
            killer.join()
            assert server.wait(10) == -signal.SIGKILL
        assert len(list(folder.glob("*/feed.json"))) >= len(expected) - 1


def test_sigterm_lets_the_server_end_in_peace(tmp_path: Path) -> None:
    with program(tmp_path) as (server, client):
        assert client("POST", "/api/v2/changefeeds", {"changefeed_id": "up", "sink_uri": SINK}).status == 200
        server.send_signal(signal.SIGTERM)
        assert server.stdout
        assert server.stdout.read() == b"stopped\n"
        assert server.wait(10) == 0
    assert on_disk(tmp_path, "up")["state"] == "normal"
