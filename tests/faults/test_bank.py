"""Money that goes from account to account over many partitions: in the end there is as much of it as in the beginning.

`TIDECAST_BANKS` is how many banks there are, each with a seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from crash_points import CrashPoints, Killed
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose

ACCOUNTS, PARTITIONS, TRANSFERS, BATCHES = 300, 8, 300, 3
_RUNS = range(int(os.environ.get("TIDECAST_BANKS", "0")))
_T0 = compose(1_700_000_000_000)
_BALANCE = {**ID, "name": "balance", "dataType": {**ID["dataType"], "mysqlType": "bigint", "length": 20}}


def transfers(chance: random.Random) -> tuple[list[list[Said]], dict[int, int]]:
    """Return the row changes of each commit, the first of which opens all accounts, and the balances in the end."""
    balances = dict.fromkeys(range(ACCOUNTS), 1000)
    commits = [[row(_T0 + 1, _T0, id=account, balance=1000) for account in balances]]
    for ts in range(_T0 + 2, _T0 + 2 + TRANSFERS):
        one, other = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 300)
        changes = []
        for account, by in ((one, -amount), (other, amount)):
            old = {"id": str(account), "balance": str(balances[account])}
            balances[account] += by
            changes.append(row(ts, _T0, kind="UPDATE", id=account, balance=balances[account]) | {"old": old})
        commits.append(changes)
    return commits, balances


def delivered(chance: random.Random, commits: list[list[Said]]) -> Iterator[list[tuple[int, Said]]]:
    """Yield batches: transfers in their order, each account in a partition of its own, and restarts on the way.

    A restart begins after some commit, and sends everything from there again. A batch ends anywhere.
    """
    schema = ddl("CREATE TABLE `d`.`t`", _T0, table(_T0, ID, _BALANCE))
    sent: list[tuple[int, Said]] = [(partition, schema) for partition in range(PARTITIONS)]
    at = highest = 0
    while at < len(commits):
        sent += [(int(m["data"]["id"]) % PARTITIONS, m) for m in commits[at]]
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


@pytest.mark.parametrize("seed", _RUNS)
def test_the_sum_of_all_accounts_stays(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    commits, balances = transfers(chance)
    topic = GrowingTopic(tmp_path / "topic")

    def replicate() -> None:
        checkpoint = str(tmp_path / "checkpoint")
        tables = str(tmp_path / "tables")
        tidecast.replicate(topic.uri, tables, checkpoint=checkpoint, tz="UTC", on_error="fail", spark=spark)

    for batch in delivered(chance, commits):
        topic.deliver(batch)
        with CrashPoints(tmp_path, at=chance.randint(2, 5)).watching():
            try:
                replicate()
            except Killed:
                print(f"killed in the batch of {len(batch)} messages")
        replicate()
    rows = spark.read.format("delta").load(str(tmp_path / "tables" / "d" / "t")).collect()
    assert sum(row["balance"] for row in rows) == 1000 * ACCOUNTS
    assert {row["id"]: row["balance"] for row in rows} == balances
