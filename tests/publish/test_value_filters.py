"""Value expressions of event filters take rows out of what is published, in Spark's tasks."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from script_module import load_script

import tidecast
from tidecast import ConfigError

LOG = load_script("make-shop-log")
URI = f"file://{LOG.FILE}?protocol=simple"


def filtered(spark: SparkSession, folder: Path, expression: str) -> tidecast.Published:
    config = folder / "filters.toml"
    rule = f'matcher = ["shop.orders"]\nignore-insert-value-expr = "{expression}"\n'
    config.write_text(f"[[filter.event-filters]]\n{rule}")
    return tidecast.convert(URI, f"file://{folder}/out/all?protocol=simple", config=str(config), spark=spark)


def inserts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [m["data"] for m in messages if m.get("table") == "orders" and m["type"] == "INSERT"]


def test_inserts_of_which_a_condition_is_true_do_not_leave(spark: SparkSession, tmp_path: Path) -> None:
    lines = gzip.decompress(Path(LOG.FILE).read_bytes()).decode().splitlines()
    given = inserts([json.loads(base64.b64decode(json.loads(line)["value"])) for line in lines])
    filtered(spark, tmp_path, "total > 40 and status = 'new' and hour(placed) < 12")
    values = [r["value"] for r in spark.read.parquet(f"{tmp_path}/out/all").select("value").collect()]
    left = inserts([json.loads(value) for value in values])

    def leaves(row: dict[str, Any]) -> bool:
        hour = int(str(row["placed"]["value"] if isinstance(row["placed"], dict) else row["placed"])[11:13])
        return not (Decimal(row["total"]) > 40 and row["status"] == "1" and hour < 12)

    want = [row for row in given if leaves(row)]
    assert 0 < len(want) < len(given)
    assert Counter(row["id"] for row in left) == Counter(row["id"] for row in want)


def test_a_number_out_of_range_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BIGINT UNSIGNED value is out of range in a value expression"):
        filtered(spark, tmp_path, "id - 18446744073709551615 > 0")
    assert not (tmp_path / "out" / "all").exists()
