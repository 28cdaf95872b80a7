"""The broker and the registry are killed under a replica, and come back: it waits for them, and nothing shows.

Moments are by chance. `python -m tests.faults --outages 20` takes twenty runs.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos import Pack
from chaos_topic import ChaosTopic
from fault_seeds import command, seeds, where_asked
from pyspark.sql import SparkSession
from servers import KafkaBroker, SchemaRegistry
from servers._process import JavaServer

import tidecast
from tidecast import ProofVerdict

_TABLES = ("one", "pair")
_BATCHES, _OUTAGES, _SLOW = 6, 3, 300.0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[KafkaBroker, SchemaRegistry]]:
    """A broker and a registry of these tests' own, which may be killed."""
    with KafkaBroker() as broker, SchemaRegistry(keeps=True) as registry:
        yield broker, registry


@pytest.mark.kafka
@where_asked("outages")
@pytest.mark.parametrize("seed", seeds("outages", 1))
def test_a_replica_outlives_its_broker_and_its_registry(
    spark: SparkSession,
    servers: tuple[KafkaBroker, SchemaRegistry],
    tmp_path: Path,
    seed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    print(command("outages", 1, seed))
    chance = random.Random(seed)
    broker, registry = servers
    pack = Pack(seed, tables=_TABLES, scatters=False)
    topic, name = ChaosTopic(spark, tmp_path, pack, "avro", registry.url), f"outage-{seed}"
    length = topic.send(broker, name, [message for batch in pack.sent() for message in batch])
    size = -(-length // _BATCHES)
    stop, told, killed, failed = threading.Event(), list[str](), list[str](), list[BaseException]()

    def progress(text: str, *_: int) -> None:
        if text.startswith("batch "):
            told.append(text)
            if len(told) == -(-length // size):
                stop.set()

    def outages() -> None:
        choices: list[list[JavaServer]] = [[broker], [registry], [broker, registry]]
        for _ in range(_OUTAGES):
            down = chance.choice(choices)
            if stop.wait(chance.uniform(0, 12) if killed else chance.uniform(0, 1)):
                return
            for server in down:
                server.kill()
                killed.append(type(server).__name__)
            print(f"after {len(told)} batches killed {[type(server).__name__ for server in down]}")
            time.sleep(chance.uniform(0, 4))
            for server in down:
                server.start_again()

    def watched() -> None:
        try:
            outages()
        except BaseException as error:
            failed.append(error)
            stop.set()

    def run(to: str, **options: Any) -> tidecast.Replicated:
        source, target = topic.in_kafka(broker, name), str(tmp_path / to)
        checkpoint = str(tmp_path / f"{to}-checkpoint")
        return tidecast.replicate(
            source, target, checkpoint=checkpoint, schema_registry=registry.url, tz="UTC", spark=spark, **options
        )

    killing = threading.Thread(target=watched)
    killing.start()
    try:
        with caplog.at_level(logging.WARNING):
            result = run("tables", continuous=True, batch_size=size, stop=stop, progress=progress)
    finally:
        stop.set()
        killing.join(_SLOW)
    print(*(text for text in caplog.messages if "trying again" in text), sep="\n")
    assert not killing.is_alive()
    assert not failed
    assert killed
    assert not result.dead_letters
    run("clean")
    for table in _TABLES:
        there, clean = (
            Counter(map(tuple, spark.read.format("delta").load(str(tmp_path / to / "d" / table)).collect()))
            for to in ("tables", "clean")
        )
        assert there == clean
        assert there
    proven = tidecast.prove(str(tmp_path / "tables"), spark=spark)
    assert {table.verdict for table in proven.tables} == {ProofVerdict.EQUAL}
