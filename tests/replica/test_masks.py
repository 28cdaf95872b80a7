"""Columns whose values are masked on their way into a table."""

from __future__ import annotations

import hashlib
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from full import full
from growing_topic import ID, ddl, row, table
from pyspark.sql import SparkSession
from small_replica import SmallReplica

import tidecast
from tidecast.model import Ddl, compose
from tidecast.replica.tables._mask import Mask, Masks

_T0 = compose(1_700_000_000_000)
_INT = {**ID, "nullable": True}
_TEXT = {**_INT, "dataType": {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20}}
_COLUMNS = (ID, {**_TEXT, "name": "email"}, {**_INT, "name": "pin"}, {**_TEXT, "name": "note"})
_CREATE = ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, *_COLUMNS))
_SALT = "grain of salt"
_FILE = f"""
[[mask]]
matcher = ["d.*", "!d.plain"]
columns = ["email", "e_mail", "id"]
action = "hash"
salt = "{_SALT}"
[[mask]]
matcher = ["*.*"]
columns = ["pin*"]
action = "redact"
[[mask]]
matcher = ["*.*"]
columns = ["note"]
action = "drop"
"""


def change(ts: int, number: int, email: str | None, pin: int | None, note: str | None, **more: Any) -> dict[str, Any]:
    """Return an insert with a checksum that fits."""
    data = {"id": str(number), "email": email, "pin": None if pin is None else str(pin), "note": note, **more}
    numbers = [None if n is None else n.to_bytes(8, "little") for n in (number, pin)]
    texts = [None if t is None else len(t.encode()).to_bytes(4, "little") + t.encode() for t in (email, note)]
    parts = [numbers[0], texts[0], numbers[1], texts[1]]
    checksum = {
        "version": 2,
        "corrupted": False,
        "current": zlib.crc32(b"".join(p or b"" for p in parts)),
        "previous": 0,
    }
    return {**row(_T0 + ts, _T0), "data": data, "checksum": checksum}


def hashed(text: str) -> str:
    return hashlib.sha256((_SALT + text).encode()).hexdigest()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file of masks."""
    file = tmp_path / "replica.toml"
    file.write_text(_FILE)
    return file


_ROWS = [_CREATE, change(1, 1, "ann@x.org", 77, "plain"), change(2, 2, None, None, None)]


def test_columns_are_masked_after_their_row_was_checked(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config, on_mismatch="fail")
    gone = {**row(_T0 + 3, _T0, kind="DELETE"), "old": {**_ROWS[1]["data"], "id": "3"}}
    replica.topic.grow([*_ROWS, change(2, 3, "eve@x.org", 5, "plain"), gone])
    (done,) = replica.run().tables
    assert done.checksums["match"] == 3
    assert replica.rows() == sorted([(hashed("1"), hashed("ann@x.org"), "***"), (hashed("2"), None, None)])
    version = replica.version()
    replica.run()
    assert replica.version() == version
    assert tidecast.compare(replica.topic.uri, str(replica.to), config=config, spark=spark).ok
    assert not tidecast.compare(replica.topic.uri, str(replica.to), spark=spark).ok
    kept = b"".join(file.read_bytes() for file in (replica.to / "d").rglob("*") if file.is_file())
    assert b"ann@x.org" not in kept
    assert _SALT.encode() not in kept


def test_a_column_keeps_its_mask(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config)
    replica.topic.grow(_ROWS)
    replica.run()
    for old, new, words in (
        ('salt = "', 'salt = "another ', "column id of the table was hashed with another salt than this hash"),
        ('"redact"', '"drop"', "column pin of the table has mask redact, and not drop"),
        ('["note"]', '["notes"]', "column note of the table has mask drop, and not none"),
    ):
        config.write_text(_FILE.replace(old, new))
        with pytest.raises(tidecast.ConfigError, match=words):
            replica.run()
    config.write_text(_FILE)
    renamed = table(_T0 + 5, ID, {**_TEXT, "name": "mail"}, *_COLUMNS[2:])
    replica.topic.grow([ddl("ALTER TABLE t RENAME COLUMN email TO mail", _T0 + 5, renamed)])
    with pytest.raises(tidecast.ConfigError, match="column email, which is masked, was renamed to mail"):
        replica.run()
    config.write_text(_FILE.replace("e_mail", "mail"))
    replica.run(ddl="evolve")
    assert replica.rows("mail") == [(hashed("ann@x.org"),), (None,)]


def test_older_rows_do_not_show_a_masked_default(spark: SparkSession, tmp_path: Path, config: Path) -> None:
    replica = SmallReplica(spark, tmp_path, config=config)
    replica.topic.grow(_ROWS)
    replica.run()
    added = ({**_TEXT, "name": "e_mail", "default": "none@x.org"}, {**_INT, "name": "pin2", "default": "4"})
    replica.topic.grow([ddl("ALTER TABLE t ADD COLUMN e_mail text", _T0 + 5, table(_T0 + 5, *_COLUMNS, *added))])
    said = {**change(6, 9, "i@x.org", 1, "", e_mail="j@x.org", pin2="5"), "schemaVersion": _T0 + 5}
    del said["checksum"]
    replica.topic.grow([said])
    replica.run()
    assert set(replica.rows("e_mail", "pin2")) == {(None, "***"), (hashed("j@x.org"), "***")}


def test_a_key_whose_values_get_another_text_has_no_other_hashes(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    """The rows that no message shows have hashes of the old text: a key would be there twice, or never be deleted."""

    def decimal(*digits: int) -> dict[str, Any]:
        charset = {"charset": "binary", "collate": "binary"}
        return {**ID, "dataType": {"mysqlType": "decimal", **charset, "length": digits[0], "decimal": digits[1]}}

    def alter(ts: int, column: dict[str, Any]) -> dict[str, Any]:
        return ddl("ALTER TABLE `d`.`t` MODIFY COLUMN `id` DECIMAL", _T0 + ts, table(_T0 + ts, column, _COLUMNS[2]))

    def put(ts: int, version: int, number: str, pin: int, kind: str = "INSERT") -> dict[str, Any]:
        said = {**row(_T0 + ts, _T0 + version, kind=kind, pin=pin)}
        side = "old" if kind == "DELETE" else "data"
        return {**said, side: {"id": number, "pin": str(pin)}}

    replica = SmallReplica(spark, tmp_path, config=config, ddl="try_evolve")
    replica.topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _COLUMNS[2])), put(1, 0, "1", 1)])
    replica.run()
    replica.topic.grow([alter(10, decimal(12, 0)), put(11, 10, "1", 2), put(12, 10, "2", 2)])
    assert replica.run().dead_letters == {}
    assert replica.rows("id") == sorted([(hashed("1"),), (hashed("2"),)])
    replica.topic.grow([alter(20, decimal(14, 2)), put(21, 20, "1.00", 3), put(22, 20, "2.00", 3, kind="DELETE")])
    done = replica.run()
    assert done.dead_letters == {"schema-change": 2}
    assert any("column id is hashed from decimal with 2 digits" in said for said in done.tables[0].warnings)
    assert replica.rows("id") == sorted([(hashed("1"),), (hashed("2"),)])


@pytest.mark.parametrize("cut", [False, pytest.param(True, marks=full)])
def test_rows_that_only_look_the_same_behind_a_mask_or_a_route_all_come(
    spark: SparkSession, tmp_path: Path, config: Path, cut: bool
) -> None:
    """They are of one transaction, in a table without a key; what the sender repeats comes once."""
    config.write_text(
        '[[mask]]\nmatcher = ["*.*"]\ncolumns = ["pin"]\naction = "redact"\n'
        '[[route]]\nmatcher = ["shard_*.*"]\ntarget-schema = "d"\n'
    )
    replica = SmallReplica(spark, tmp_path, config=config, checkpoint=str(tmp_path / "checkpoint"), on_error="fail")

    def shard(number: int, *pins: int) -> list[dict[str, Any]]:
        schema = table(_T0, _COLUMNS[2], database=f"shard_{number}") | {"indexes": [], "tableID": number}
        rows = [row(_T0 + 1, _T0, database=f"shard_{number}", pin=pin) for pin in pins]
        return [ddl("CREATE TABLE t (pin int)", _T0, schema), *rows]

    one, two = shard(1, 11, 12), shard(2, 11)
    if cut:
        for messages in (one[:2], one[2:], two):
            replica.topic.grow(messages)
            replica.run()
    else:
        replica.topic.grow([*one, *two])
    replica.topic.grow([one[1], two[1]])
    replica.run()
    assert replica.rows() == [("***",)] * 3


@pytest.mark.parametrize(
    ("kind", "sql", "named", "words"),
    [
        ("ALTER", "ALTER TABLE `d`.`t` RENAME COLUMN `email` TO `mail`", ("d", "t"), "email, which is masked, was"),
        ("ALTER", "ALTER TABLE `d`.`t` CHANGE `Email` `mail` TEXT", ("d", "t"), "email, which is masked, was"),
        (
            "RENAME",
            "RENAME TABLE `d`.`t` TO `e`.`t`",
            ("e", "t"),
            r"columns email, e_mail are masked in d\.t, which was",
        ),
        ("RENAME", "RENAME TABLE `d`.`t` TO `d`.`u`", ("d", "u"), ""),
        ("ALTER", "ALTER TABLE `d`.`t` CHANGE `email` `E_mail` TEXT", ("d", "t"), ""),
        ("ALTER", "ALTER TABLE `e`.`t` RENAME COLUMN `email` TO `mail`", ("e", "t"), ""),
    ],
)
def test_a_statement_without_columns_unmasks_nothing(kind: str, sql: str, named: tuple[str, str], words: str) -> None:
    """As in Canal-JSON, which tells of a schema change its SQL alone."""
    mask = Mask(matcher=("d.*",), columns=("email", "e_mail"), action="redact")
    with pytest.raises(tidecast.ConfigError, match=words) if words else nullcontext():
        Masks([mask]).check_renames(Ddl(kind, sql, 5, named=named))


@pytest.mark.parametrize("sql", ["RENAME TABLE d.t TO d.u", "ALTER TABLE t RENAME TO u"])
def test_a_table_keeps_its_masks_when_it_is_renamed_or_becomes_one_with_others(
    spark: SparkSession, tmp_path: Path, config: Path, sql: str
) -> None:
    replica = SmallReplica(spark, tmp_path, config=config)
    config.write_text('[[mask]]\nmatcher = ["d.t"]\ncolumns = ["pin"]\naction = "redact"\n')
    renamed = {**table(_T0 + 5, *_COLUMNS), "table": "u"}
    statement = {**ddl(sql, _T0 + 5, renamed), "type": "RENAME", "preTableSchema": table(_T0, *_COLUMNS)}
    replica.topic.grow([*_ROWS, statement])
    with pytest.raises(tidecast.ConfigError, match=r"column pin is masked in d\.t, which was renamed"):
        replica.run()
    config.write_text(config.read_text() + '[[route]]\nmatcher = ["d.*"]\ntarget-table = "all"\n')
    other = table(_T0, *_COLUMNS, name="other")
    replica = SmallReplica(spark, tmp_path / "both", config=config)
    replica.topic.grow([*_ROWS, ddl("CREATE TABLE other (id int)", _T0, {**other, "tableID": 8})])
    replica.topic.grow([row(_T0 + 1, _T0, name="other", id=7, pin=1)])
    with pytest.raises(tidecast.ConfigError, match="column pin is not masked alike"):
        replica.run()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[mask]]\nmatcher = ['d.t']\ncolumns = ['id']\naction = 'drop'", r"d\.t: mask: column id is of the key"),
        ("[[mask]]\nmatcher = ['d.t']\ncolumns = ['n']\naction = 'hash'", "mask: hash needs a salt"),
        ("[[mask]]\nmatcher = ['d.t']\ncolumns = ['n']\naction = 'hide'", r"mask\.0\.action: .*'drop', 'hash' or"),
        ("[[mask]]\nmatcher = ['d']\ncolumns = ['n']\naction = 'drop'", "filter rule is invalid"),
        ("[[masks]]\nmatcher = ['d.t']", r"masks: there is no such key \(at the top .* are route, mask, tables, ddl\)"),
        ("[[mask]]\nmatchers = ['d.t']\ncolumns = ['n']\naction = 'drop'", r"mask\.0\.matchers: there is no such key"),
        ("[[mask]", "this is not TOML"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_a_table_is_made(
    text: str, words: str, spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    config.write_text(text)
    replica = SmallReplica(spark, tmp_path, config=config)
    replica.topic.grow(_ROWS)
    with pytest.raises(tidecast.ConfigError, match=words):
        replica.run()
    assert not replica.to.exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("email", "e_mail", "column e_mail of the table was hashed with another salt than this hash"),
        ("email", "Email", "column Email of the table was hashed with another salt than this hash"),
        ("nick", "e_mail", "column e_mail of the table has mask none, and not hash"),
    ],
)
def test_a_renamed_column_keeps_its_mask(spark: SparkSession, tmp_path: Path, old: str, new: str, words: str) -> None:
    """The values of before and after would be masked in two ways in one column, which no later row shows."""
    file = tmp_path / "replica.toml"
    mask = '[[mask]]\nmatcher = ["*.*"]\ncolumns = ["email", "e_mail"]\naction = "hash"\nsalt = "{}"\n'
    file.write_text(mask.format("one"))
    replica = SmallReplica(spark, tmp_path, config=file, ddl="evolve", checkpoint=str(tmp_path / "checkpoint"))
    before = table(_T0, ID, {**_TEXT, "name": "email"}, {**_TEXT, "name": "nick"})
    replica.topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, before)])
    replica.topic.grow([{**row(_T0 + 1, _T0), "data": {"id": "1", "email": "ann@x.org", "nick": "ann"}}])
    replica.run()
    file.write_text(mask.format("one" if old == "nick" else "another"))
    columns = tuple({**_TEXT, "name": new if name == old else name} for name in ("email", "nick"))
    replica.topic.grow([ddl(f"ALTER TABLE t RENAME COLUMN {old} TO {new}", _T0 + 5, table(_T0 + 5, ID, *columns))])
    with pytest.raises(tidecast.ConfigError, match=words):
        replica.run()
    assert replica.rows("email", "nick") == [(hashlib.sha256(b"oneann@x.org").hexdigest(), "ann")]
