"""A server with Spark behind it: a changefeed that is killed in the middle loses nothing."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from golden_lines import lines
from servers._process import free_ports

LOG = Path(__file__).parents[1] / "src" / "tidecast" / "data" / "shop.jsonl.gz"
PIECES, KILLS = 4, 3
SLOW = 180

Row = tuple[str, int, str]


def tidecast(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidecast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SLOW, check=False)


@contextmanager
def server(source: Path, data: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """A running server, ready to be asked; killed without a word at the end."""
    command = [sys.executable, "-m", "tidecast", "server", "--addr", f"127.0.0.1:{port}", "--data-dir", str(data)]
    command += ["--source", f"file://{source}?protocol=simple", "--tz", "UTC"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert running.stdout is not None
        assert "listens" in running.stdout.readline()
        yield running
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        assert running.stdout is not None
        running.stdout.close()


def pieces(folder: Path) -> list[Path]:
    """Cut the change log into files of a topic with one partition."""
    folder.mkdir()
    with gzip.open(LOG, "rt") as text:
        records = [json.loads(line) for line in text]
    size = len(records) // PIECES + 1
    made = []
    for number in range(PIECES):
        part = folder / f"{number}.jsonl"
        some = enumerate(records[number * size : (number + 1) * size], number * size)
        part.write_text("".join(json.dumps({**r, "partition": 0, "offset": n}) + "\n" for n, r in some))
        made.append(part)
    return made


def rows_in(messages: list[bytes]) -> list[Row]:
    """Return table, commit-ts and values of the row changes among Simple messages, in their order."""
    told = [json.loads(m) for m in messages]
    return [
        (m["table"], m["commitTs"], json.dumps([m["type"], m.get("data"), m.get("old")], sort_keys=True))
        for m in told
        if m["type"] in ("INSERT", "UPDATE", "DELETE")
    ]


def published(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("*/*.jsonl.gz"))
    return sorted((r for p in parts for r in lines(p)), key=lambda r: (r["partition"], r["offset"]))


def query(port: int, feed: str) -> dict[str, Any]:
    asked = tidecast("cli", "changefeed", "query", f"--server=http://127.0.0.1:{port}", "-c", feed, "-s")
    return dict(json.loads(asked.stdout)) if asked.returncode == 0 else {}


@pytest.mark.timeout(900)
def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    chance = random.Random(7)
    parts = pieces(tmp_path / "log")
    source = tmp_path / "topics" / "shop"
    source.mkdir(parents=True)
    out, (port,) = tmp_path / "out", free_ports(1)
    sink = f"--sink-uri=file://{out}/feed?protocol=simple&format=jsonl&partition-num=1"
    end = json.loads(base64.b64decode(json.loads(parts[-1].read_text().splitlines()[-1])["value"]))["commitTs"]
    for life in range(KILLS + 1):
        with server(source, tmp_path / "data", port):
            if life == 0:
                made = tidecast(
                    "cli", "changefeed", "create", f"--server=127.0.0.1:{port}", "-c", "tea", sink, "--no-confirm",
                    "--start-ts=1",
                )  # fmt: skip
                assert "Create changefeed successfully!" in made.stdout, made.stdout + made.stderr
            part = parts[life]
            shutil.copy(part, source / f"{part.stem}.tmp")
            (source / f"{part.stem}.tmp").rename(source / part.name)
            if life < KILLS:
                time.sleep(chance.uniform(2, 12))
                continue
            deadline = time.monotonic() + SLOW
            while query(port, "tea").get("checkpoint_tso") != end and time.monotonic() < deadline:
                time.sleep(1)
            assert query(port, "tea")["state"] == "normal"
            assert query(port, "tea")["checkpoint_tso"] == end

    with gzip.open(LOG, "rt") as text:
        wanted = rows_in([base64.b64decode(json.loads(line)["value"]) for line in text])
    got = rows_in([base64.b64decode(r["value"]) for r in published(out)])
    assert set(got) == set(wanted)
