"""Money that goes from account to account over many partitions: at every moment there is as much of it.

In files each partition has been read equally far after each batch; in Kafka each goes ahead by messages of its own.
Each bank has a seed; `python -m tests.faults --banks 50` takes fifty.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from crash_points import CrashPoints, Killed
from fault_seeds import command, seeds, where_asked
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import DataFrame, SparkSession
from servers import KafkaBroker

import tidecast
from tidecast.model import compose

ACCOUNTS, PARTITIONS, TRANSFERS, BATCHES = 300, 8, 300, 3
_T0 = compose(1_700_000_000_000)
_BALANCE = {**ID, "name": "balance", "dataType": {**ID["dataType"], "mysqlType": "bigint", "length": 20}}


def transfers(chance: random.Random) -> tuple[list[list[Said]], list[dict[int, int]]]:
    """Return the row changes of each commit, the first of which opens all accounts, and the balances after each."""
    balances = dict.fromkeys(range(ACCOUNTS), 1000)
    commits = [[row(_T0 + 1, _T0, id=account, balance=1000) for account in balances]]
    after = [dict(balances)]
    for ts in range(_T0 + 2, _T0 + 2 + TRANSFERS):
        one, other = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 300)
        changes = []
        for account, by in ((one, -amount), (other, amount)):
            old = {"id": str(account), "balance": str(balances[account])}
            balances[account] += by
            changes.append(row(ts, _T0, kind="UPDATE", id=account, balance=balances[account]) | {"old": old})
        commits.append(changes)
        after.append(dict(balances))
    return commits, after


def delivered(chance: random.Random, commits: list[list[Said]], skew: float = 0.0) -> Iterator[list[tuple[int, Said]]]:
    """Yield batches: transfers in their order, each account in a partition of its own, and restarts on the way.

    A restart begins after some commit, and sends everything from there again. A batch ends anywhere. `skew` is the
    part of the other partitions' accounts that are in the first.
    """
    schema = ddl("CREATE TABLE `d`.`t`", _T0, table(_T0, ID, _BALANCE))
    sent: list[tuple[int, Said]] = [(partition, schema) for partition in range(PARTITIONS)]
    at = highest = 0
    home = {account: 0 if chance.random() < skew else account % PARTITIONS for account in range(ACCOUNTS)}
    while at < len(commits):
        sent += [(home[int(m["data"]["id"])], m) for m in commits[at]]
        at, highest = at + 1, max(highest, at + 1)
        if chance.random() < 0.05:
            passed = chance.randint(max(0, at - 40), at)
            sent += [(partition, watermark(_T0 + passed)) for partition in range(PARTITIONS)]
        if at == highest and chance.random() < 0.03:
            at = chance.randint(max(0, at - 60), at)
    sent += [(partition, watermark(_T0 + len(commits))) for partition in range(PARTITIONS)]
    cuts = [0, *sorted(chance.sample(range(PARTITIONS, len(sent)), BATCHES - 1)), len(sent)]
    for begin, end in pairwise(cuts):
        yield sent[begin:end]


@dataclass
class Bank:
    """The tables that transfers are applied to, killed on the way."""

    spark: SparkSession
    folder: Path
    chance: random.Random
    after: list[dict[int, int]]

    def replicate(self, uri: str, **options: Any) -> None:
        """Apply what is new."""
        to, checkpoint = str(self.folder / "tables"), str(self.folder / "checkpoint")
        options |= {"tz": "UTC", "on_error": "fail", "resolved_only": True, "spark": self.spark}
        tidecast.replicate(uri, to, checkpoint=checkpoint, **options)

    def killed(self, uri: str, within: int, **options: Any) -> bool:
        """Apply what is new, unless a kill before one of so many effects ends that; tell which it was."""
        with CrashPoints(self.folder, at=self.chance.randint(2, within)).watching():
            try:
                self.replicate(uri, **options)
            except Killed:
                return True
        return False

    def unread(self, topic: str, lengths: list[int]) -> int:
        """Return how many messages of partitions with so many are not applied yet."""
        state = self.folder / "checkpoint" / "progress.json"
        ends = json.loads(state.read_text())["progress"]["offsets"]["ends"] if state.exists() else {}
        return sum(length - ends.get(f"{topic}/{n}", 0) for n, length in enumerate(lengths))

    def check(self, cuts: int) -> list[int]:
        """Check that tables at many times, and in the end, are as the source was then; return these times."""
        tables, checked = str(self.folder / "tables"), list[int]()
        end = len(self.after)
        for as_of in (_T0 + cut * end // cuts for cut in range(cuts + 1)):
            try:
                found = tidecast.snapshot(tables, as_of, spark=self.spark)
            except tidecast.TerminalError:
                assert not checked
                continue
            (source,) = found.sources
            assert source.resolved_ts <= as_of
            if not checked or checked[-1] != source.resolved_ts:
                checked.append(source.resolved_ts)
                if source.resolved_ts == _T0:  # a restart went back to before the accounts were opened
                    assert all(table.read().isEmpty() for table in found.tables)
                else:
                    assert balances(found.table("d.t")) == self.after[source.resolved_ts - _T0 - 1]
        print("times:", [ts - _T0 for ts in checked])
        assert balances(self.spark.read.format("delta").load(f"{tables}/d/t")) == self.after[-1]
        return checked


@pytest.mark.parametrize("seed", seeds("banks", 1))
def test_the_sum_of_all_accounts_stays_at_every_time(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(command("banks", 1, seed))
    chance = random.Random(seed)
    commits, after = transfers(chance)
    topic, bank = GrowingTopic(tmp_path / "topic"), Bank(spark, tmp_path, chance, after)
    for batch in delivered(chance, commits):
        topic.deliver(batch)
        if bank.killed(topic.uri, 5):
            print(f"killed in the batch of {len(batch)} messages")
        bank.replicate(topic.uri)
    assert bank.check(6)


@where_asked("banks")
@pytest.mark.parametrize("seed", seeds("banks", 1))
def test_batches_of_kafka_that_read_each_partition_by_itself_make_no_sum_wrong(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, seed: int
) -> None:
    """A partition has few messages where its accounts move rarely, and its batches then end far ahead of the others."""
    print(command("banks", 1, seed))
    chance, name = random.Random(seed), f"bank-{seed}-{uuid.uuid4().hex}"
    commits, after = transfers(chance)
    bank = Bank(spark, tmp_path, chance, after)
    by_partition: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
    for batch in delivered(chance, commits, skew=chance.choice([0.0, 0.5, 0.8])):
        for partition, message in batch:
            by_partition[partition].append(json.dumps(message))
    broker.create_topic(name, PARTITIONS)
    for partition, texts in by_partition.items():
        broker.send(name, partition, texts)
    lengths = [len(texts) for texts in by_partition.values()]
    size = -(-max(lengths) // chance.randint(BATCHES, 2 * BATCHES))
    kills, stop = 0, threading.Event()

    def progress(text: str, *_: int) -> None:
        if text.startswith("batch ") and not bank.unread(name, lengths):
            stop.set()

    uri, options = f"kafka://{broker.bootstrap}/{name}?protocol=simple", {"continuous": True, "batch_size": size}
    while bank.unread(name, lengths) and bank.killed(uri, 40, stop=stop, progress=progress, **options):
        kills += 1
    print(f"partitions of {lengths} messages, batches of {size}, {kills} kills")
    bank.replicate(uri)
    assert bank.check(20)


def balances(accounts: DataFrame) -> dict[int, int]:
    """Return the balance of each account, of which there is one row each."""
    rows = accounts.collect()
    assert sum(row["balance"] for row in rows) == 1000 * ACCOUNTS
    return {row["id"]: row["balance"] for row in rows}
