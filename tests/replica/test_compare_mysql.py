"""Tables against a database of a real server."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from full import full
from pyspark.sql import SparkSession
from servers import MariaDB

import tidecast
from tidecast.sources import parse_database, read_database

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="MariaDB's archive has programs for x86-64")

_SQL = r"""
CREATE DATABASE d;
CREATE USER reader IDENTIFIED BY 'p@ss/word';
GRANT SELECT ON d.* TO reader;
USE d;
SET time_zone = '+05:00', sql_mode = '';
CREATE TABLE every (
    id INT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, zero INT(6) ZEROFILL, amount DECIMAL(10, 2),
    wide DECIMAL(60, 5), f FLOAT, g DOUBLE, flags BIT(10), y YEAR, born DATE, at DATETIME(6), seen TIMESTAMP(3) NULL,
    took TIME, name VARCHAR(20) CHARACTER SET latin1, words TEXT, raw VARBINARY(9), fixed BINARY(4),
    kind ENUM('a', 'b,c'), tags SET('x', 'y'), doc JSON, twice INT AS (id * 2) VIRTUAL, kept INT AS (id * 3) STORED
);
INSERT INTO every (id, tiny, big, zero, amount, wide, f, g, flags, y, born, at, seen, took, name, words, raw, fixed,
    kind, tags, doc)
VALUES
    (1, -128, 18446744073709551615, 42, -12345678.90, 12345678901234567890123456789012345678901234567890.12345, 0.1,
     1e-300, b'1000000001', 2024, '2024-02-29', '2024-02-29 12:34:56.789012', '2024-01-01 05:00:00.250', '-838:59:59',
     'é', 'a ''quoted'' \\ 😀', x'00FF', x'01', 'b,c', 'x,y', '{"a": [1, null]}'),
    (2, 0, 0, 0, 0, 0, -0.5, 0, b'0', 0, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '00:00:00', '',
     '', '', '', 'nothing', '', '[]'),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL);
CREATE TABLE plain (n INT, `odd ``name` INT);
INSERT INTO plain VALUES (1, 1), (1, 1), (2, NULL);
CREATE TABLE pairs (a BIGINT NOT NULL, b VARCHAR(5) NOT NULL, n INT, UNIQUE KEY (a, b));
INSERT INTO pairs SELECT seq, CONCAT('k', seq % 3), seq FROM seq_1_to_1000;
CREATE VIEW seen AS SELECT * FROM plain;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    """A server with the database `d`."""
    with MariaDB() as server:
        server.run(_SQL)
        yield server


@pytest.fixture
def uri(server: MariaDB) -> str:
    return f"mysql://reader:p%40ss%2Fword@127.0.0.1:{server.port}/d"


def test_every_type_is_what_a_replica_makes_of_it(spark: SparkSession, uri: str) -> None:
    events = read_database(spark, parse_database(uri))
    every = events.tables[0]
    assert [t.schema.handle_key for t in events.tables] == [("id",), ("a", "b"), ()]
    one, zeros, nulls = every.frame.orderBy("data.id").select("data.*", "reason").collect()
    assert one.asDict() == {
        "id": 1,
        "tiny": -128,
        "big": 18446744073709551615,
        "zero": 42,
        "amount": Decimal("-12345678.90"),
        "wide": "12345678901234567890123456789012345678901234567890.12345",
        "f": pytest.approx(0.1, abs=1e-8),
        "g": 1e-300,
        "flags": bytearray(b"\x02\x01"),
        "y": 2024,
        "born": "2024-02-29",
        "at": "2024-02-29 12:34:56.789012",
        "seen": "2024-01-01 00:00:00.250",
        "took": "-838:59:59",
        "name": "é",
        "words": "a 'quoted' \\ 😀",
        "raw": bytearray(b"\x00\xff"),
        "fixed": bytearray(b"\x01\x00\x00\x00"),
        "kind": "b,c",
        "tags": "x,y",
        "doc": '{"a": [1, null]}',
        "twice": None,
        "kept": 3,
        "reason": None,
    }
    assert (zeros.y, zeros.born, zeros.kind, zeros.tags, zeros.flags) == (0, "0000-00-00", "", "", bytearray(2))
    assert {*nulls.asDict().values()} == {3, 9, None}


@full
def test_rows_that_differ_are_named(spark: SparkSession, uri: str, server: MariaDB, tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    events = read_database(spark, parse_database(uri))
    tidecast.replicate(events, tables)
    server.run("USE d; UPDATE pairs SET n = 7 WHERE a = 5; INSERT INTO plain VALUES (2, NULL)")
    try:
        result = tidecast.compare(tables, uri, spark=spark)
    finally:
        server.run("USE d; UPDATE pairs SET n = 5 WHERE a = 5; DELETE FROM plain WHERE n = 2 LIMIT 1")
    every, pairs, plain = result.tables
    assert [(dict(r.key), dict(r.columns)) for r in pairs.rows] == [({"a": "5", "b": "k2"}, {"n": ("5", "7")})]
    assert (every.ok, every.rows_b, plain.changed, plain.rows_b) == (True, 3, 1, 4)


def test_large_tables_are_read_in_parts(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, server: MariaDB
) -> None:
    server.run("USE d; ANALYZE TABLE pairs")
    monkeypatch.setattr("tidecast.sources._database._ROWS_OF_A_PART", 100)
    _, pairs, _ = read_database(spark, parse_database(uri)).tables
    assert pairs.frame.rdd.getNumPartitions() > 5
    assert pairs.frame.select("data.a").distinct().count() == pairs.frame.count() == 1000
    assert "ss/word" not in pairs.frame._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ss%2Fword", "secret", "the server refuses: .*Access denied"),
        ("/d", "/mysql", "the server refuses"),
        ("reader:p%40ss%2Fword@", "", "no URI of a database"),
        ("/d", "/d?tls=1", "unknown parameter tls"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(
    spark: SparkSession, uri: str, tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(tidecast.ConfigError, match=words) as raised:
        tidecast.compare(uri.replace(old, new), str(tmp_path), spark=spark)
    assert "secret" not in str(raised.value)
    assert "word" not in str(raised.value).replace("password", "")


def test_another_server_is_not_asked_for_the_past(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    with pytest.raises(tidecast.ConfigError, match="--as-of is for TiDB"):
        tidecast.compare(uri, str(tmp_path), as_of="2026-01-01", spark=spark)
    with pytest.raises(tidecast.Unreachable, match="no answer"):
        tidecast.compare("tidb://root@127.0.0.1:1/d", str(tmp_path), spark=spark)
