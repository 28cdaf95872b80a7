"""A server that is killed again and again while rows flow: nothing is lost, and little comes twice."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from full import full
from growing_topic import ID, Clock, GrowingTopic, ddl, row, table, watermark
from running_server import running_server
from servers import KafkaBroker
from servers._process import free_ports

VALUE = {**ID, "name": "value", "nullable": True}
KEYS, PARTITIONS = 20, 2

Change = tuple[str, int, str, str]
"""Key, commit-ts, type and values of a row change."""


def change(message: dict[str, object]) -> Change:
    values = message.get("data") or message["old"]
    assert isinstance(values, dict)
    assert isinstance(message["commitTs"], int)
    return values["id"], message["commitTs"], str(message["type"]), json.dumps(values, sort_keys=True)


@dataclass
class Flow:
    """Rows of a table that come and go all the time, a few of them at every commit."""

    source: GrowingTopic
    chance: random.Random
    pause: float = 0.25
    messages: list[Change] = field(default_factory=list)
    last: int = 0
    _alive: set[int] = field(default_factory=set)
    _now: Clock = field(default_factory=Clock)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Let rows flow until the block ends."""
        ended = threading.Event()

        def flow() -> None:
            while not ended.wait(self.pause):
                self.commit()

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def commit(self) -> None:
        """Change some rows at one commit-ts, and tell that it has passed."""
        ts = self._now()
        rows = []
        for key in self.chance.sample(range(KEYS), self.chance.randint(1, 5)):
            kind = self.chance.choice(["UPDATE", "DELETE"]) if key in self._alive else "INSERT"
            self._alive ^= {key} if kind != "UPDATE" else set()
            message = row(ts, 9, kind=kind, id=key, value=self.chance.randrange(1000))
            rows.append(message | {"old": message["data"]} if kind == "UPDATE" else message)
        self.source.grow([*rows, watermark(ts)])
        self.messages += map(change, rows)
        self.last = ts


def kill_again_and_again(broker: KafkaBroker, base: Path, kills: int, topic: str) -> None:
    """Kill a server that many times, then compare the topic with its source.

    At every start a changefeed may send again what is later than its checkpoint, and nothing else; while it lives, the
    changes of a key follow their commit-ts.
    """
    chance = random.Random(7)
    flow = Flow(GrowingTopic(base / "log"), chance)
    flow.source.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY, `value` INT)", 5, table(9, ID, VALUE))])
    state = base / "data" / "changefeeds" / "flow" / "checkpoint.json"
    lives: list[tuple[int, dict[int, int]]] = []  # the checkpoint at a start, and where the partitions ended
    (port,) = free_ports(1)
    for life in range(kills + 1):
        with running_server(flow.source.uri, base / "data", port) as server:
            if life == 0:
                sink = f"--sink-uri=kafka://{broker.bootstrap}/{topic}?protocol=simple&partition-num={PARTITIONS}"
                rule = base / "rule.toml"
                rule.write_text('[sink]\ndispatchers = [{matcher = ["*.*"], partition = "index-value"}]\n')
                made = server.changefeed(
                    "create", "-c", "flow", sink, "--no-confirm", "--start-ts=1", "--config", str(rule)
                )
                assert made.returncode == 0, made.stdout + made.stderr
            with flow.flowing():
                time.sleep(chance.uniform(1, 12))
            if life == kills:
                server.wait("flow", state="normal", checkpoint_ts=flow.last)
        lives.append((json.loads(state.read_bytes())["checkpoint_ts"] if state.exists() else 1, ends(broker, topic)))

    got: set[Change] = set()
    for partition in range(PARTITIONS):
        messages = [json.loads(value or b"") for _, value in broker.messages(topic)[topic, partition]]
        checkpoint, begin = 1, 0
        for after, reached in lives:
            newest: dict[str, int] = {}
            for message in messages[begin : reached[partition]]:
                if message["type"] in ("INSERT", "UPDATE", "DELETE"):
                    made_change = change(message)
                    key, ts = made_change[:2]
                    assert max(checkpoint + 1, newest.get(key, 0)) <= ts, f"{made_change} after {newest.get(key)}"
                    newest[key] = ts
                    got.add(made_change)
            checkpoint, begin = after, reached[partition]
    assert len(flow.messages) > kills
    assert got == set(flow.messages)


def ends(broker: KafkaBroker, topic: str) -> dict[int, int]:
    """Return how many messages the partitions hold, once no killed producer's message is on its way."""
    time.sleep(0.5)
    return {partition: len(message) for (_, partition), message in broker.messages(topic).items()}


@full
@pytest.mark.timeout(900)
def test_a_killed_server_goes_on_where_it_was(broker: KafkaBroker, tmp_path: Path) -> None:
    kill_again_and_again(broker, tmp_path, 3, "killed")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_kills(broker: KafkaBroker, tmp_path: Path) -> None:
    kill_again_and_again(broker, tmp_path, 20, "killed-often")
