"""The messages of a pack in a protocol, as tidecast publishes them, and the topic that they are delivered to."""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from chaos import Change, Event, Pack, Sent, Watermark
from pyspark.sql import SparkSession
from servers import KafkaBroker

import tidecast

_CONFIG = """\
force-replicate = {force}
[sink]
send-bootstrap-interval-in-sec = 0
send-bootstrap-in-msg-count = 0
dispatchers = [{{matcher = ["*.*"], topic = "{{schema}}_{{table}}", partition = "table"}}]
"""
RECORD = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)

Message = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Protocol:
    """How a pack goes into a topic: sink parameters, whether it tells more than rows, and a topic for each table."""

    params: str
    tells_all: bool = True
    topic_per_table: bool = False


PROTOCOLS = {
    "simple": Protocol("protocol=simple"),
    "debezium": Protocol("protocol=debezium&enable-tidb-extension=true"),
    "avro": Protocol("protocol=avro&enable-tidb-extension=true", tells_all=False, topic_per_table=True),
}
"""TiCDC's Avro has no tables without keys, no schema changes, no watermarks, and deletes without a commit-ts."""


class ChaosTopic:
    """The messages of a pack, and a topic for them in a folder or in Kafka."""

    def __init__(
        self, spark: SparkSession, folder: Path, pack: Pack, protocol: str, registry: str | None = None
    ) -> None:
        self.protocol, self._pack, self._folder = PROTOCOLS[protocol], pack, folder
        self.registry = registry or f"file://{folder}/schemas"
        self._messages = self._published(spark)
        self._ends: Counter[tuple[str, int]] = Counter()
        self._batch = 0

    @property
    def uri(self) -> str:
        """The topic in the folder as a source."""
        chosen = "&topics=d_.*" if self.protocol.topic_per_table else ""
        return f"file://{self._folder}/topics/d_all?{self.protocol.params}{chosen}"

    def deliver(self, batch: Iterable[Sent]) -> None:
        """Add a batch to the topic in the folder: a Parquet file, or one for each table."""
        records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for topic, partition, (key, value) in self._placed(batch):
            place = {"topic": topic, "partition": partition, "offset": self._ends[topic, partition]}
            self._ends[topic, partition] += 1
            records[topic].append({**place, "timestamp": 1_700_000_000_000_000, "key": key, "value": value})
        for topic, lines in records.items():
            file = self._folder / "topics" / topic / f"{self._batch:05}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(lines, RECORD), file)
        self._batch += 1

    def send(self, broker: KafkaBroker, name: str, messages: Iterable[Sent]) -> int:
        """Make a topic of all messages in Kafka, or one for each table; return how many the longest partition has."""
        producer = broker.producer()
        lengths = Counter[tuple[str, int]]()
        for topic, partition, (key, value) in self._placed(messages):
            if topic not in {known for known, _ in lengths}:
                broker.create_topic(f"{name}_{topic}", self._pack.partitions)
            producer.produce(f"{name}_{topic}", key=key, value=value, partition=partition)
            lengths[topic, partition] += 1
        assert producer.flush(60) == 0
        return max(lengths.values())

    def in_kafka(self, broker: KafkaBroker, name: str) -> str:
        """Return what `send` made as a source."""
        first = f"kafka://{broker.bootstrap}/{name}_d_all?{self.protocol.params}"
        return f"{first}&topics={name}_d_.*" if self.protocol.topic_per_table else first

    def _placed(self, messages: Iterable[Sent]) -> Iterator[tuple[str, int, Message]]:
        for partition, event in messages:
            if self.protocol.tells_all or isinstance(event, Change):
                table = getattr(event, "table", "")
                topic = f"d_{table}" if self.protocol.topic_per_table else "d_all"
                for place in range(self._pack.partitions) if partition is None else [partition]:
                    yield topic, place, self._messages[event]

    def _published(self, spark: SparkSession) -> Mapping[Event, Message]:
        """Return what tidecast publishes for each event of the history."""
        told = [e for e in self._pack.history if self.protocol.tells_all or not isinstance(e, Watermark)]
        source = self._folder / "history.jsonl"
        texts = (json.dumps(self._pack.message(event)).encode() for event in told)
        source.write_text("".join(json.dumps({"value": base64.b64encode(t).decode()}) + "\n" for t in texts))
        config = self._folder / "changefeed.toml"
        config.write_text(_CONFIG.format(force=str(self.protocol.tells_all).lower()))
        sink = f"file://{self._folder}/published/all?{self.protocol.params}&partition-num=1"
        options: Any = {"schema_registry": self.registry} if not self.protocol.tells_all else {}
        tidecast.convert(
            f"file://{source}?protocol=simple",
            sink,
            config=str(config),
            tz="UTC",
            spark=spark,
            on_error="fail",
            **options,
        )
        messages: dict[Event, Message] = {}
        for table in self._pack.tables:
            mine = [e for e in told if isinstance(e, Watermark) or e.table == table]
            mine = [e for e in mine if isinstance(e, Change) or self.protocol.tells_all]
            files = sorted((self._folder / "published" / f"d_{table}").glob("*.parquet"))
            rows = [
                row for file in files for row in pq.read_table(file, columns=["offset", "key", "value"]).to_pylist()
            ]
            rows.sort(key=lambda row: row["offset"])
            published = [(row["key"], row["value"]) for row in rows]
            messages |= dict(zip(mine, published, strict=True))
        return messages
