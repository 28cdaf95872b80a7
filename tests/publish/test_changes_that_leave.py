"""Which schema changes leave, by the rules of tables and events. No Spark: only the rules are asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tidecast.config import load_config
from tidecast.model import Column, DataType, Ddl, Index, TableSchema
from tidecast.protocols import codec_for
from tidecast.publish._batch import Rules, rules_of
from tidecast.routing import EventFilters
from tidecast.topics import open_topics

pytestmark = pytest.mark.unit

PARTS = TableSchema(
    "shop",
    "parts",
    1,
    1,
    (Column("id", DataType("int"), nullable=False),),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)
EXCHANGE = Ddl("ALTER", "ALTER TABLE `shop`.`parts` EXCHANGE PARTITION `p` WITH TABLE `crm`.`plain`", 2, PARTS)
RENAME = Ddl("RENAME", "RENAME TABLE `crm`.`was` TO `shop`.`parts`", 2, PARTS)


def rules(tmp_path: Path, tables: list[str], event_filter: str = "") -> Rules:
    file = tmp_path / "changefeed.toml"
    file.write_text(f"[filter]\nrules = {json.dumps(tables)}\n{event_filter}")
    config = load_config(f"file://{tmp_path}/t?protocol=simple", file)
    codec = codec_for(config.protocol, config.codec_options("UTC"), None)
    return rules_of((), config, open_topics(config.place), codec, EventFilters(config.file.filter.event_filters))


@pytest.mark.parametrize(
    ("tables", "leaves"),
    [(["shop.parts"], True), (["crm.plain"], True), (["shop.*", "crm.*"], True), (["shop.plain", "crm.parts"], False)],
)
def test_an_exchange_of_a_partition_leaves_for_either_table(tmp_path: Path, tables: list[str], leaves: bool) -> None:
    assert rules(tmp_path, tables).passes_ddl(EXCHANGE) is leaves


@pytest.mark.parametrize(
    ("tables", "matcher", "leaves"),
    [
        (["*.*"], "shop.parts", False),
        (["*.*"], "crm.plain", True),
        (["crm.*"], "crm.plain", True),
        (["crm.*"], "*.*", True),
    ],
)
def test_event_filters_ask_for_the_table_that_has_the_partition(
    tmp_path: Path, tables: list[str], matcher: str, leaves: bool
) -> None:
    event_filter = f'[[filter.event-filters]]\nmatcher = ["{matcher}"]\nignore-event = ["exchange table partition"]\n'
    assert rules(tmp_path, tables, event_filter).passes_ddl(EXCHANGE) is leaves


def test_a_rename_leaves_by_the_name_before(tmp_path: Path) -> None:
    assert rules(tmp_path, ["crm.*"]).passes_ddl(RENAME)
    shop = rules(tmp_path, ["shop.*"])
    assert not shop.passes_ddl(RENAME)
    assert shop.is_brought_in(RENAME)


def test_a_table_without_a_key_may_come_by_a_rename_as_it_never_leaves(tmp_path: Path) -> None:
    keyless = replace(RENAME, schema=replace(PARTS, indexes=()))
    assert not rules(tmp_path, ["shop.*"]).is_brought_in(keyless)
    assert not rules(tmp_path, ["crm.*"]).passes_ddl(keyless)
