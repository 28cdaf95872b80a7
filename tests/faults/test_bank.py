"""Money that goes from account to account over many partitions: at every moment there is as much of it.

Each bank has a seed; `python -m tests.faults --banks 50` takes fifty.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from crash_points import CrashPoints, Killed
from fault_seeds import command, seeds
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import DataFrame, SparkSession

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


@pytest.mark.parametrize("seed", seeds("banks", 1))
def test_the_sum_of_all_accounts_stays_at_every_time(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(command("banks", 1, seed))
    chance = random.Random(seed)
    commits, after = transfers(chance)
    tables = str(tmp_path / "tables")
    topic = GrowingTopic(tmp_path / "topic")

    def replicate() -> None:
        checkpoint = str(tmp_path / "checkpoint")
        tidecast.replicate(
            topic.uri, tables, checkpoint=checkpoint, tz="UTC", on_error="fail", resolved_only=True, spark=spark
        )

    for batch in delivered(chance, commits):
        topic.deliver(batch)
        with CrashPoints(tmp_path, at=chance.randint(2, 5)).watching():
            try:
                replicate()
            except Killed:
                print(f"killed in the batch of {len(batch)} messages")
        replicate()
    checked: list[int] = []
    for as_of in range(_T0, _T0 + len(commits) + 1, len(commits) // 6):
        try:
            found = tidecast.snapshot(tables, as_of, spark=spark)
        except tidecast.TerminalError:
            assert not checked
            continue
        (source,) = found.sources
        assert source.resolved_ts <= as_of
        if not checked or checked[-1] != source.resolved_ts:
            checked.append(source.resolved_ts)
            assert balances(found.table("d.t")) == after[source.resolved_ts - _T0 - 1]
    print("times:", [ts - _T0 for ts in checked])
    assert balances(spark.read.format("delta").load(f"{tables}/d/t")) == after[-1]


def balances(accounts: DataFrame) -> dict[int, int]:
    """Return the balance of each account, of which there is one row each."""
    rows = accounts.collect()
    assert sum(row["balance"] for row in rows) == 1000 * ACCOUNTS
    return {row["id"]: row["balance"] for row in rows}
