"""A load that does not end: random inserts, updates and deletes on many tables, sent to Kafka at an even pace.

What is sent is what `tidecast convert` makes of them, a piece of time at a time, always one piece ahead.
"""

from __future__ import annotations

import base64
import json
import queue
import random
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import tidecast
from bench.suite import ID, KafkaBroker, Said, ddl, table, watermark
from tidecast.model import compose

PARTITIONS = 2
KEYS = 2_000
"""How many keys a table may have, so that it does not grow without end."""

_PIECE_S = 60.0
_WATERMARK_S = 1.0
_CONFIG = """\
[integrity]
integrity-check-level = "correctness"
[sink]
dispatchers = [{{matcher = ["*.*"], topic = "{topic}", partition = "index-value"}}]
"""
_CHECKSUMS = "avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string"
_VARCHAR = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 80}
_COLUMNS: tuple[Said, ...] = (
    ID,
    {**ID, "name": "at", "dataType": {**ID["dataType"], "mysqlType": "bigint", "length": 20}},
    {**ID, "name": "name", "dataType": _VARCHAR},
    {**ID, "name": "amount", "dataType": {**ID["dataType"], "mysqlType": "decimal", "length": 12, "decimal": 2}},
    {**ID, "name": "note", "dataType": _VARCHAR, "nullable": True},
)


@dataclass(frozen=True)
class Way:
    """Tables that go into Kafka by one protocol."""

    protocol: str
    tables: tuple[str, ...]

    @property
    def params(self) -> str:
        """The parameters of a sink or source URI."""
        return f"protocol={self.protocol}&enable-tidb-extension=true"

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of its topics: in Avro each table has its own."""
        return tuple(f"avro_soak_{name}" for name in self.tables) if self.protocol == "avro" else (self.protocol,)

    def source(self, broker: KafkaBroker) -> str:
        """Return its topics as a source."""
        uri = f"kafka://{broker.bootstrap}/{self.topics[0]}?{self.params}"
        return f"{uri}&topics=avro_soak_.*" if self.protocol == "avro" else uri


class Load:
    """Changes of a way's tables, `rate` a second. `last` is the commit-ts of the newest that is no delete."""

    def __init__(
        self, spark: SparkSession, folder: Path, broker: KafkaBroker, registry: str, way: Way, rate: float, seed: int
    ) -> None:
        self._spark, self._folder, self._broker, self._registry = spark, folder, broker, registry
        self.way, self._rate, self._chance = way, rate, random.Random(f"{way.protocol} {seed}")
        self._there: dict[str, dict[int, Said]] = {name: {} for name in way.tables}
        self.last = self.sent = self._pieces = self._told = 0
        self.late = 0.0
        self.error: BaseException | None = None
        self._due: queue.Queue[tuple[float, str, int, bytes | None, bytes | None] | None] = queue.Queue(100_000)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._make, self._send)]
        folder.mkdir(parents=True)
        for topic in way.topics:
            broker.create_topic(topic, PARTITIONS)

    def run(self, begin: float, end: float) -> None:
        """Send from one time to another, in seconds since the epoch, in the background."""
        self._begin, self._end = begin, end
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise what went wrong."""
        if self.error:
            raise self.error

    def join(self) -> None:
        """Wait until everything is sent. Raises what went wrong."""
        for thread in self._threads:
            thread.join()
        self.check()

    def _make(self) -> None:
        try:
            start = self._begin
            while start < self._end:
                end = min(start + _PIECE_S, self._end)
                for message in self._piece(start, end):
                    self._due.put(message)
                start = end
                time.sleep(max(0.0, start - _PIECE_S / 2 - time.time()))
        except BaseException as error:
            self.error = error
        finally:
            self._due.put(None)

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "log_level": 0, "enable.idempotence": True})
        while (message := self._due.get()) is not None:
            due, topic, partition, key, value = message
            time.sleep(max(0.0, due - time.time()))
            self.late = max(self.late, time.time() - due)
            producer.produce(topic, key=key, value=value, partition=partition)
            producer.poll(0)
            self.sent += 1
        if producer.flush(60):
            self.error = self.error or RuntimeError("the broker did not take all messages")

    def _piece(self, start: float, end: float) -> list[tuple[float, str, int, bytes | None, bytes | None]]:
        """Return what is sent between two times, each message with its time, in the order of these."""
        source, sink = self._folder / f"{self._pieces}.jsonl", self._folder / f"{self._pieces}"
        lines = (
            json.dumps({"value": base64.b64encode(json.dumps(m).encode()).decode()}) for m in self._said(start, end)
        )
        source.write_text("\n".join(lines) + "\n")
        config = self._folder / "changefeed.toml"
        avro = self.way.protocol == "avro"
        config.write_text(_CONFIG.format(topic="avro_{schema}_{table}" if avro else self.way.protocol))
        tidecast.convert(
            f"file://{source}?protocol=simple",
            f"file://{sink}/{self.way.topics[0]}?{self.way.params}&partition-num={PARTITIONS}"
            + f"&{_CHECKSUMS}" * avro,
            config=str(config),
            schema_registry=self._registry if avro else None,
            tz="UTC",
            on_error="fail",
            spark=self._spark,
        )
        timed = []
        for topic in self.way.topics:
            files = sorted((sink / topic).glob("*.parquet"))
            rows = [
                r for f in files for r in pq.read_table(f, columns=["partition", "offset", "key", "value"]).to_pylist()
            ]
            for partition in range(PARTITIONS):
                mine = sorted((row for row in rows if row["partition"] == partition), key=lambda row: row["offset"])
                for n, row in enumerate(mine, 1):
                    due = start + (end - start) * n / len(mine)
                    timed.append((due, topic, partition, row["key"], row["value"]))
        self._pieces += 1
        source.unlink()
        shutil.rmtree(sink)
        return sorted(timed, key=lambda message: message[0])

    def _said(self, start: float, end: float) -> Iterator[Said]:
        """Yield what happens between two times, as messages of the Simple protocol."""
        first = compose(int(self._begin * 1000)) - 1
        for number, name in enumerate(self.way.tables, 1):
            schema = {**table(first, *_COLUMNS, database="soak", name=name), "tableID": number}
            yield ddl(f"CREATE TABLE `soak`.`{name}`", first, schema)
        moments = [(start + n / self._rate, True) for n in range(round((end - start) * self._rate))]
        moments += [(start + n * _WATERMARK_S, False) for n in range(1, int((end - start) / _WATERMARK_S) + 1)]
        for moment, is_row in sorted(moments):
            self._told = max(self._told + 1, compose(int(moment * 1000)))  # a piece begins after the one before
            yield self._change(first, self._told) if is_row else watermark(self._told)

    def _change(self, version: int, ts: int) -> Said:
        chance = self._chance
        name = chance.choice(self.way.tables)
        there, key = self._there[name], chance.randrange(KEYS)
        old = there.pop(key, None)
        head = {"version": 1, "database": "soak", "table": name, "tableID": self.way.tables.index(name) + 1}
        head |= {"commitTs": ts, "buildTs": 1, "schemaVersion": version}
        if old and chance.random() < 0.3:
            return {**head, "type": "DELETE", "old": old}
        note = chance.choice([None, "注意", f"note {chance.randrange(10**6)}"])
        new = {"id": str(key), "at": str(ts), "name": f"name {chance.randrange(10**9)}", "note": note}
        there[key] = new | {"amount": f"{chance.randrange(10**9) / 100:.2f}"}
        self.last = ts
        return {**head, "type": "UPDATE" if old else "INSERT", "data": there[key], **({"old": old} if old else {})}
