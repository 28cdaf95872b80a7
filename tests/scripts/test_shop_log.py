"""The demo's change log is what its script makes, its row checksums are right, and it has what the demo is about."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from script_module import load_script

import tidecast
from tidecast.functions import row_checksum
from tidecast.model import TableChanges

LOG = load_script("make-shop-log")
URI = f"file://{LOG.FILE}?protocol=simple"
ROWS = ("INSERT", "UPDATE", "DELETE")

Message = dict[str, Any]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    made: list[str] = LOG.Shop().run()
    return made


@pytest.fixture(scope="module")
def messages(lines: list[str]) -> list[Message]:
    return [json.loads(base64.b64decode(json.loads(line)["value"])) for line in lines]


def test_the_log_is_what_the_script_makes(lines: list[str]) -> None:
    with gzip.open(LOG.FILE, "rt", encoding="utf-8", newline="\n") as text:
        assert text.read().splitlines() == lines


def test_the_log_is_one_that_tidb_can_have(lines: list[str]) -> None:
    LOG.check(lines)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("products", "sku", "x" * 17),
        ("products", "name", None),
        ("products", "price", "1.234"),
        ("products", "price", "1000000.00"),
        ("products", "kind", "7"),
        ("products", "stock", str(1 << 31)),
        ("products", "steep", "839:00:00"),
        ("products", "weight", "0.123456789"),
        ("products", "harvest", "2156"),
        ("products", "traits", "{"),
        ("customers", "id", str(1 << 64)),
        ("customers", "flags", "16"),
        ("customers", "likes", "64"),
        ("customers", "secret", "AAAAAAAAAAAAAAAAAA=="),
        ("customers", "joined", "2025-03-03 08:00:00"),
        ("customers", "seen", {"location": "UTC", "value": "2038-03-03 08:00:00"}),
        ("customers", "birthday", "1985-02-30"),
        ("customers", "no_such", "1"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_found(
    lines: list[str], messages: list[Message], table: str, column: str, value: object
) -> None:
    at = next(n for n, m in enumerate(messages) if m.get("table") == table and m["type"] == "INSERT")
    wrong = messages[at] | {"data": messages[at]["data"] | {column: value}}
    with pytest.raises(ValueError, match=f"line {at + 1}, table {table}: .*(cannot hold|not the table's)"):
        LOG.check([*lines[:at], as_line(wrong), *lines[at + 1 :]])


def as_line(message: Message) -> str:
    return json.dumps({"value": base64.b64encode(json.dumps(message).encode()).decode()})


def test_a_row_that_comes_twice_or_goes_unseen_is_found(lines: list[str], messages: list[Message]) -> None:
    insert = next(n for n, m in enumerate(messages) if m["type"] == "INSERT")
    with pytest.raises(ValueError, match="there is a row with this key"):
        LOG.check([*lines[: insert + 1], lines[insert]])
    update = next(n for n, m in enumerate(messages) if m["type"] == "UPDATE")
    with pytest.raises(ValueError, match=f"line {update + 2}, .*there is no such row"):
        LOG.check([*lines[: update + 1], lines[update]])


def test_a_table_is_shown_before_its_first_row(messages: list[Message]) -> None:
    shown: dict[str, int] = {}
    for message in messages:
        if "tableSchema" in message:
            shown[message["tableSchema"]["table"]] = message["tableSchema"]["version"]
        elif message["type"] in ROWS:
            assert shown[message["table"]] == message["schemaVersion"]
    assert Counter(m["type"] for m in messages)["BOOTSTRAP"] == len(shown)


def test_nothing_comes_after_its_watermark(messages: list[Message]) -> None:
    sent = [m["commitTs"] for m in messages if m["type"] != "BOOTSTRAP"]
    assert sent == sorted(sent)
    assert messages[-1]["type"] == "WATERMARK"


def test_keys_exceed_signed_integers(messages: list[Message]) -> None:
    assert max(int(m["data"]["id"]) for m in messages if m.get("table") == "orders" and "data" in m) > 1 << 63


def test_rows_from_before_the_new_column_have_its_default(messages: list[Message]) -> None:
    orders = [m for m in messages if m.get("table") == "orders"]
    before = {m["data"]["id"] for m in orders if "data" in m and "channel" not in m["data"]}
    later = [m["old"]["channel"] for m in orders if "channel" in m.get("old", {}) and m["old"]["id"] in before]
    assert later
    assert set(later) == {"1"}


def test_a_key_is_given_up_and_taken_again_in_one_transaction(messages: list[Message]) -> None:
    transactions: dict[int, list[Message]] = defaultdict(list)
    for message in messages:
        if message.get("table") == "order_items":
            transactions[message["commitTs"]].append(message)

    def keys(transaction: list[Message], kind: str, image: str) -> list[tuple[str, str]]:
        return [(m[image]["order_id"], m[image]["line"]) for m in transaction if m["type"] == kind]

    moved = [t for t in transactions.values() if {*keys(t, "DELETE", "old")} & {*keys(t, "INSERT", "data")}]
    assert moved
    for transaction in moved:
        assert [m["type"] for m in transaction] == sorted(m["type"] for m in transaction)  # DELETE before INSERT


def test_every_checksum_matches(spark: SparkSession, messages: list[Message]) -> None:
    result = tidecast.verify(URI, spark=spark)

    assert isinstance(result, tidecast.Verified)
    kinds = Counter(m["type"] for m in messages)
    assert result.verdicts == {"match": kinds["INSERT"] + kinds["UPDATE"], "delete": kinds["DELETE"]}
    assert not result.dead_letters


def test_every_checksum_of_an_old_row_matches(spark: SparkSession, messages: list[Message]) -> None:
    def matches(changes: TableChanges) -> int:
        same = row_checksum("old", changes.schema) == F.col("checksum.previous")
        return changes.good.where(F.col("old").isNotNull() & same).count()

    events = tidecast.read(spark, URI)
    assert sum(map(matches, events.tables)) == sum("old" in m for m in messages)
