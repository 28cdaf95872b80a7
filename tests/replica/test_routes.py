"""Tables that get another name, and several that become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from growing_topic import ID, PRIMARY, ddl, row, table
from pyspark.sql import SparkSession
from small_replica import SmallReplica

import tidecast
from tidecast.model import compose
from tidecast.replica.tables import Routes
from tidecast.replica.tables._route import Route

_T0 = compose(1_700_000_000_000)
_N, _M = ({**ID, "name": name, "nullable": True, "default": default} for name, default in (("n", None), ("m", "9")))
_ADD = "ALTER TABLE orders ADD COLUMN m int"
_SHARDS = """
[[route]]
matcher = ["shop_?.orders"]
target-schema = "shop"

[[route]]
matcher = ["shop_*.*"]
target-schema = "all_of_{schema}"
target-table = "{table}_{schema}"
"""


def shard(
    number: int, version: int, *columns: Any, key: str = "id", sql: str = "CREATE TABLE orders"
) -> dict[str, Any]:
    """Return the schema change by which a shard gets its columns."""
    said = table(_T0 + version, *columns, database=f"shop_{number}", name="orders")
    indexes = [{**PRIMARY, "columns": [key]}]
    return ddl(sql, _T0 + version, {**said, "tableID": number, "indexes": indexes})


def order(number: int, ts: int, version: int, **data: int) -> dict[str, Any]:
    values = {column: str(value) for column, value in data.items()}
    return {**row(_T0 + ts, _T0 + version, database=f"shop_{number}", name="orders"), "data": values}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file of routes."""
    file = tmp_path / "replica.toml"
    file.write_text(_SHARDS)
    return file


def test_shards_become_one_table(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config, on_error="fail", checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([shard(1, 1, ID, _N), shard(2, 2, ID, _N)])
    replica.topic.grow([order(1, 3, 1, id=1, n=1), order(2, 4, 2, id=2, n=2)])
    (done,) = replica.run().tables
    assert (done.name, done.upserted) == ("shop.orders", 2)
    assert (
        "shop_1.orders, shop_2.orders become one table: of rows with equal keys only the newest stays" in done.warnings
    )
    # One of them gets its column first; what the other sends meanwhile gets the value that it will have there.
    replica.topic.grow([shard(1, 5, ID, _N, _M, sql=_ADD)])
    replica.topic.grow([order(1, 6, 5, id=3, n=3, m=3), order(2, 7, 2, id=4, n=4)])
    (done,) = replica.run().tables
    assert [words for words in done.warnings if "column m: its default in rows of those source tables, too" in words]
    replica.topic.grow([shard(2, 8, ID, _N, _M, sql=_ADD)])
    replica.topic.grow([order(2, 9, 8, id=2, n=5, m=5), order(1, 10, 5, id=1, n=6, m=6)])
    (done,) = replica.run().tables
    assert not done.warnings
    assert replica.rows(table="shop/orders") == [(1, 6, 6), (2, 5, 5), (3, 3, 3), (4, 4, 9)]
    assert not (replica.to / "shop_1").exists()
    assert tidecast.compare(replica.topic.uri, str(replica.to), config=config, spark=spark).ok
    with pytest.raises(tidecast.ConfigError, match=r"shop_1\.orders, shop_2\.orders become one table, .*--ddl lenient"):
        replica.run(checkpoint=None, ddl="evolve")


def test_a_shard_that_gets_columns_later_has_their_defaults(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    """Each shard gets the same two columns, one after the other, in one batch or in several."""
    said = {"dataType": ID["dataType"], "nullable": True}
    m, k = ({**said, "name": name, "default": default} for name, default in (("m", "9"), ("k", "8")))
    steps = [
        [shard(1, 1, ID), shard(2, 2, ID), order(1, 3, 1, id=1), order(2, 3, 2, id=2)],
        [shard(1, 4, ID, m, sql=_ADD), shard(1, 5, ID, m, k, sql=_ADD), order(1, 6, 5, id=3, m=1, k=1)],
        [shard(2, 7, ID, m, sql=_ADD), order(2, 8, 7, id=4, m=2)],
        [order(2, 9, 7, id=5, m=2)],
        [shard(2, 10, ID, m, k, sql=_ADD), order(2, 11, 10, id=6, m=2, k=2)],
    ]
    expected = [(1, 9, 8), (2, 9, 8), (3, 1, 1), (4, 2, 8), (5, 2, 8), (6, 2, 2)]
    for name, batches in (("once", [[one for step in steps for one in step]]), ("often", steps)):
        checkpoint = str(tmp_path / name / "checkpoint")
        replica = SmallReplica(spark, tmp_path / name, config=config, on_error="fail", checkpoint=checkpoint)
        told = list[str]()
        for batch in batches:
            replica.topic.grow(batch)
            told += [words for done in replica.run().tables for words in done.warnings]
        assert replica.rows("id", "m", "k", table="shop/orders") == expected
        assert not [words for words in told if "the source has it no longer" in words or "come again" in words]


def test_a_column_that_one_shard_renames_keeps_the_values_of_the_others(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    """The others may rename it later, or never."""
    renamed, sql = {**_N, "name": "m"}, "ALTER TABLE orders RENAME COLUMN n TO m"
    replica = SmallReplica(spark, tmp_path, config=config, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([shard(1, 1, ID, _N), shard(2, 2, ID, _N), order(1, 3, 1, id=1, n=1), order(2, 3, 2, id=2, n=2)])
    replica.run()
    replica.topic.grow([shard(1, 4, ID, renamed, sql=sql), order(1, 5, 4, id=3, m=3), order(2, 5, 2, id=4, n=4)])
    replica.run()
    expected = [(1, 1, None), (2, 2, None), (3, None, 3), (4, 4, None)]
    assert replica.rows("id", "n", "m", table="shop/orders") == expected
    replica.topic.grow([shard(2, 6, ID, renamed, sql=sql), order(2, 7, 6, id=6, m=6)])
    replica.run()
    assert replica.rows("id", "n", "m", table="shop/orders") == [*expected, (6, None, 6)]


def test_a_shard_whose_columns_exchange_their_names_is_not_followed(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    """Nor in a later batch, where its rows look as if they fitted. Rows of the others go on."""
    sql = "ALTER TABLE orders RENAME COLUMN n TO m, RENAME COLUMN m TO n"
    n, m = _N, {**_M, "default": None}
    replica = SmallReplica(spark, tmp_path, config=config, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([shard(1, 1, ID, n, m), shard(2, 2, ID, n, m), order(1, 3, 1, id=1, n=1, m=2)])
    replica.topic.grow([order(2, 3, 2, id=2, n=1, m=2)])
    replica.run()
    for at in (5, 6):
        exchanged = [shard(1, 4, ID, m, n, sql=sql)] if at == 5 else []
        replica.topic.grow([*exchanged, order(1, at, 4, id=at, m=1, n=2), order(2, at, 2, id=10 + at, n=1, m=2)])
        done = replica.run()
        assert done.dead_letters == {"schema-change": 1}
        assert "column m was renamed, and is another column now, in one of several tables" in str(
            done.tables[0].warnings
        )
    assert replica.rows("id", "n", "m", table="shop/orders") == [(key, 1, 2) for key in (1, 15, 16, 2)]


def test_a_shard_that_gets_another_key_keeps_out_no_later_version_of_another(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    """What comes after it in its own shard is kept out, as rows may be missing."""
    replica = SmallReplica(spark, tmp_path, config=config, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([shard(1, 1, ID, _N), shard(2, 2, ID, _N), order(1, 3, 1, id=1, n=1)])
    replica.run()
    replica.topic.grow([shard(1, 4, ID, _N, key="n", sql="ALTER TABLE orders"), order(1, 5, 4, id=5, n=5)])
    replica.topic.grow([shard(2, 6, ID, _N, _M, sql=_ADD), order(2, 7, 6, id=7, n=7, m=7)])
    replica.topic.grow([shard(1, 8, ID, _N, sql="ALTER TABLE orders"), order(1, 9, 8, id=9, n=9)])
    assert replica.run().dead_letters == {"schema-change": 2}
    assert replica.rows("id", "n", "m", table="shop/orders") == [(1, 1, 9), (7, 7, 7)]


def test_a_shard_that_gives_a_column_the_name_of_an_ignored_one_is_not_followed(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    """Nor in a later batch, where its rows look as if they fitted."""
    n, m = _N, {**_M, "default": None}
    options = {"config": config, "ddl": "ignore", "checkpoint": str(tmp_path / "checkpoint")}
    replica = SmallReplica(spark, tmp_path, **options)
    replica.topic.grow([shard(1, 1, ID, n, m), shard(2, 2, ID, n, m), order(1, 3, 1, id=1, n=1, m=2)])
    replica.topic.grow([order(2, 3, 2, id=2, n=1, m=2)])
    replica.run()
    dropped = shard(1, 4, ID, m, sql="ALTER TABLE orders DROP COLUMN n")
    replica.topic.grow([dropped, shard(1, 5, ID, n, sql="ALTER TABLE orders RENAME COLUMN m TO n")])
    for at in (6, 7):
        replica.topic.grow([order(1, at, 5, id=at, n=2), order(2, 3, 2, id=10 + at, n=1, m=2)])
        assert replica.run().dead_letters == {"schema-change": 1}
    assert replica.rows("id", "n", "m", table="shop/orders") == [(key, 1, 2) for key in (1, 16, 17, 2)]


def test_tables_that_do_not_fit_are_not_made_one(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config)
    text = {**_N, "dataType": {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 9}}
    replica.topic.grow(
        [shard(1, 1, ID, _N), shard(2, 2, ID, {**_N, "nullable": False}, key="n"), shard(3, 3, ID, text)]
    )
    replica.topic.grow([order(1, 4, 1, id=1, n=1), order(2, 5, 2, id=2, n=2), order(3, 6, 3, id=3, n=3)])
    done = replica.run()
    assert done.dead_letters == {"schema-change": 2}
    assert replica.rows(table="shop/orders") == [(1, 1)]
    said = " ".join(done.tables[0].warnings)
    assert "the key changed from (id) to (n) (shop_1.orders, shop_2.orders, shop_3.orders become one table)" in said


def test_a_table_gets_the_names_of_its_route(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config)
    replica.topic.grow([shard(10, 1, ID, _N), order(10, 2, 1, id=1, n=1)])
    assert [t.name for t in replica.run().tables] == ["all_of_shop_10.orders_shop_10"]
    assert replica.rows(table="all_of_shop_10/orders_shop_10") == [(1, 1)]
    journal = replica.rows("database", "table", "outcome", table="_tidecast/schema_changes")
    assert journal == [("all_of_shop_10", "orders_shop_10", "applied")]


def test_a_shard_that_is_renamed_within_its_table_goes_on(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    """In later batches, too, in which the others have rows."""
    renamed = shard(9, 5, ID, _N, sql="RENAME TABLE `shop_2`.`orders` TO `shop_9`.`orders`")
    replica = SmallReplica(spark, tmp_path, config=config, on_error="fail", checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([shard(1, 1, ID, _N), shard(2, 2, ID, _N), order(1, 3, 1, id=1, n=1), order(2, 4, 2, id=2, n=2)])
    replica.topic.grow([renamed, order(9, 6, 5, id=2, n=3)])
    replica.run()
    replica.topic.grow([order(1, 7, 1, id=4, n=4), order(9, 8, 5, id=5, n=5)])
    replica.run()
    assert replica.rows(table="shop/orders") == [(1, 1), (2, 3), (4, 4), (5, 5)]


def test_a_truncation_of_one_shard_takes_no_row_of_another(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    """Also where the other one comes later, with rows from before the statement."""
    words = ("lenient", "truncate-table=try_evolve")
    replica = SmallReplica(spark, tmp_path, config=config, ddl=words, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow(
        [shard(1, 1, ID, _N), order(1, 2, 1, id=1, n=1), shard(1, 9, ID, _N, sql="TRUNCATE TABLE orders")]
    )
    (warning,) = replica.run().warnings
    assert "several tables may become this one" in warning
    replica.topic.grow([shard(2, 3, ID, _N), order(2, 4, 3, id=2, n=2), order(2, 10, 3, id=3, n=3)])
    replica.run()
    assert replica.rows(table="shop/orders") == [(1, 1), (2, 2), (3, 3)]
    assert tidecast.compare(replica.topic.uri, str(replica.to), config=config, ddl=words, spark=spark).ok


@pytest.mark.parametrize(
    ("routes", "name", "merges"),
    [
        ([("shop_?.orders", "shop", "")], ("shop", "orders"), True),
        ([("shop_?.orders", "shop", "")], ("shop", "others"), False),
        ([("shop_*.*", "all_of_{schema}", "{table}_{schema}")], ("all_of_shop_1", "orders_shop_1"), False),
        ([("d.*", "x", "")], ("x", "t"), False),
        ([("d.*", "x", "t")], ("x", "t"), True),
        ([("a.*", "x", ""), ("b.*", "x", "")], ("x", "t"), True),
        ([("a.*", "x_{schema}", ""), ("b.*", "x_{schema}", "")], ("x_a", "t"), False),
        ([("d.t", "x", "u")], ("x", "u"), False),
        ([("`my-shop`.*", "x", "")], ("x", "t"), False),
        ([('"d"."order-items"', "x", "t")], ("x", "t"), False),
        ([("d.t", "x", ""), ("d.*", "x", "")], ("x", "t"), False),
        ([("d.t", "x", ""), ("e.*", "x", "")], ("x", "t"), True),
        ([("*.*", "{schema}", "{table}_{table}")], ("d", "t_t"), False),
        ([("*.*", "{schema}", "{table}_{table}")], ("d", "t_u"), False),
    ],
)
def test_routes_tell_whether_tables_may_become_one(
    routes: list[tuple[str, str, str]], name: tuple[str, str], merges: bool
) -> None:
    names = ("target-schema", "target-table")
    made = (Route.model_validate({"matcher": [rule], **dict(zip(names, to, strict=True))}) for rule, *to in routes)
    assert Routes(made).may_merge(name) is merges


def test_a_name_that_is_none_is_refused_before_spark_starts(config: Path) -> None:
    config.write_text(_SHARDS.replace("all_of_{schema}", "{database}"))
    with pytest.raises(tidecast.ConfigError, match=r'invalid table routing rule: target-schema "\{database\}" must'):
        tidecast.replicate("./topic?protocol=simple", "./tables", config=config)
