"""Schema changes as Debezium messages, written and read, where no golden message has the case."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from tidecast.model import Column, DataType, Ddl, Index, InvalidSchema, TableSchema, ddl_type
from tidecast.model._ddl_parser import read_statement
from tidecast.protocols.debezium import DdlHistory, DebeziumOptions, encode_ddl
from tidecast.protocols.debezium._decode_schema import read_table
from tidecast.protocols.debezium._schema import column_schema, form

OPTIONS = DebeziumOptions(disable_schema=True)
PRIMARY = (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),)
ID = Column("id", DataType("int", length=11), nullable=False)


def text(name: str) -> Column:
    return Column(name, DataType("varchar", "utf8mb4", "utf8mb4_bin", length=10))


def table(*columns: Column, name: str = "t") -> TableSchema:
    return TableSchema("d", name, 1, 1, (ID, *columns), PRIMARY)


def payload(history: DdlHistory, sql: str, schema: TableSchema | None, ddl_type: str = "ALTER") -> dict[str, Any]:
    made = encode_ddl(Ddl(ddl_type, sql, 1, schema), OPTIONS, history, build_ts=1)
    assert made, sql
    message: dict[str, Any] = json.loads(made[1])["payload"]
    assert json.loads(made[0])["payload"] == {"databaseName": message["databaseName"]}
    return message


def columns(message: dict[str, Any], member: str) -> dict[str, Any]:
    return {c["name"]: c[member] for c in message["tableChanges"][0]["table"]["columns"]}


def with_comments(*names: str) -> DdlHistory:
    history = DdlHistory()
    defined = ",".join(f"`{name}` VARCHAR(10) COMMENT 'of {name}'" for name in names)
    payload(history, f"CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,{defined})", table(*map(text, names)), "CREATE")
    return history


@pytest.mark.parametrize(
    ("clauses", "comments"),
    [
        ("ADD COLUMN `c` INT", {"a": "of a", "b": "of b"}),
        ("RENAME COLUMN `a` TO `c`", {"c": "of a", "b": "of b"}),
        ("RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`", {"b": "of a", "a": "of b"}),
        ("ALTER COLUMN `a` DROP DEFAULT", {"a": None, "b": "of b"}),
        ("ALTER COLUMN `a` SET DEFAULT _UTF8MB4'x'", {"a": None, "b": "of b"}),
        ("MODIFY COLUMN `a` INT COMMENT 'new'", {"a": None, "b": "of b"}),
    ],
)
def test_a_comment_shows_unless_the_statement_defines_its_column(clauses: str, comments: dict[str, Any]) -> None:
    history = with_comments("a", "b")
    message = payload(history, f"ALTER TABLE `d`.`t` {clauses}", table(*map(text, comments)))
    assert columns(message, "comment") == {"id": None, **comments}


def test_a_comment_keeps_its_backslashes() -> None:
    history = DdlHistory()
    sql = r"CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`a` VARCHAR(10) COMMENT 'it''s C:\new')"
    payload(history, sql, table(text("a")), "CREATE")
    message = payload(history, "ALTER TABLE `d`.`t` COMMENT = 'x'", table(text("a")))
    assert columns(message, "comment")["a"] == r"it's C:\new"


def test_columns_that_change_places_keep_what_defines_them() -> None:
    history = with_comments("a", "b")
    swap = "CHANGE COLUMN `a` `b` INT COMMENT 'first', CHANGE COLUMN `b` `a` INT COMMENT 'second'"
    payload(history, f"ALTER TABLE `d`.`t` {swap}", table(text("b"), text("a")))
    message = payload(history, "ALTER TABLE `d`.`t` COMMENT = 'x'", table(text("b"), text("a")))
    assert columns(message, "comment") == {"id": None, "b": "first", "a": "second"}


@pytest.mark.parametrize(
    ("stored", "length", "digits"),
    [
        (b"\xaa", 8, "111011111011111110111101"),
        (b"\xc3\xa9", 16, "1100001110101001"),
        (b"\xe2\x82\x41", 24, "111011111011111110111101" * 2 + "01000001"),
        (b"\x02\x01", 10, "1000000001"),
        (b"\x05", 5, "00101"),
    ],
)
def test_bytes_of_a_bit_default_that_are_no_text_show_as_replacements(stored: bytes, length: int, digits: str) -> None:
    bit = Column("b", DataType("bit", length=length, unsigned=True), default=int.from_bytes(stored))
    message = payload(DdlHistory(), "ALTER TABLE `d`.`t` COMMENT = 'x'", table(bit))
    assert columns(message, "defaultValueExpression")["b"] == digits


@pytest.mark.parametrize(
    ("default", "expression"),
    [("current_timestamp", "1970-01-01 00:00:00"), ("current_timestamp of all", "current_timestamp of all")],
)
def test_a_text_that_is_the_word_for_now_alone_is_taken_for_it(default: str, expression: str) -> None:
    message = payload(DdlHistory(), "ALTER TABLE `d`.`t` COMMENT = 'x'", table(replace(text("a"), default=default)))
    assert columns(message, "defaultValueExpression")["a"] == expression


@pytest.mark.parametrize(
    ("default", "expression"),
    [
        ("10.5", "10.5"),
        ("_UTF8MB4'-10'", "-10"),
        ("-10", "stored"),
        ("+10", "stored"),
        ("(DATE_FORMAT(NOW(), _UTF8MB4'%H'))", "DATE_FORMAT"),
        ("CURRENT_TIMESTAMP()", "1970-01-01 00:00:00"),
    ],
)
def test_a_time_has_the_default_that_its_statement_begins_with(default: str, expression: str) -> None:
    time = Column("a", DataType("time", length=10), default="stored")
    message = payload(DdlHistory(), f"ALTER TABLE `d`.`t` ADD COLUMN `a` TIME DEFAULT {default}", table(time))
    assert columns(message, "defaultValueExpression")["a"] == expression


def test_a_new_default_of_a_column_shows_as_it_is_stored() -> None:
    """The statement defines no type, so TiCDC takes nothing from its text, and shows a TIMESTAMP in UTC."""
    sql = "ALTER TABLE `d`.`t` ALTER COLUMN `c` SET DEFAULT _UTF8MB4'2020-1-2 8:00'"
    stored = Column("c", DataType("timestamp", length=19), default="2020-01-02 00:00:00")
    (_, said) = payload(DdlHistory(), sql, table(stored))["tableChanges"][0]["table"]["columns"]
    assert (said["defaultValueExpression"], said["length"]) == (stored.default, 0)
    assert column(said, sql, "Asia/Shanghai").default == stored.default


def test_how_a_statement_is_carried_out_is_no_change_of_its_own() -> None:
    how = "ALGORITHM = INPLACE, LOCK = NONE"
    message = payload(DdlHistory(), f"ALTER TABLE `d`.`t` DROP INDEX `i`, {how}", table(), "DINDEX")
    assert message["tableChanges"][0]["type"] == "DROP"
    key = f"ALTER TABLE `d`.`t` ADD FOREIGN KEY (`id`) REFERENCES `d`.`u`(`id`), {how}"
    assert encode_ddl(Ddl("CINDEX", key, 1, table()), OPTIONS, DdlHistory(), build_ts=1) is None


@pytest.mark.parametrize("sql", ["DROP INDEX `PRIMARY` ON `d`.`t`", "ALTER TABLE `d`.`t` DROP INDEX `primary`"])
def test_the_drop_of_the_primary_key_by_its_index_alters_the_table(sql: str) -> None:
    assert payload(DdlHistory(), sql, table(), ddl_type(sql))["tableChanges"][0]["type"] == "ALTER"


def test_names_are_spelled_as_the_table_has_them() -> None:
    history = with_comments("a")
    message = payload(history, "ALTER TABLE `D`.`T` COMMENT = 'x'", table(text("a")))
    assert (message["source"]["db"], message["source"]["table"], message["databaseName"]) == ("d", "t", "d")
    assert message["tableChanges"][0]["id"] == '"d"."t"'
    assert columns(message, "comment")["a"] == "of a"
    message = payload(history, "RENAME TABLE `d`.`t` TO `D`.`U`", table(text("a"), name="u"), "RENAME")
    assert (message["source"]["table"], message["tableChanges"][0]["id"]) == ("u", '"d"."t","d"."u"')


def test_columns_count_without_their_case() -> None:
    history = DdlHistory()
    shown = table(text("Abc"))
    payload(history, "CREATE TABLE `d`.`t` (`Abc` VARCHAR(9) COMMENT 'one')", shown, "CREATE")
    payload(history, "ALTER TABLE `d`.`t` MODIFY `abc` VARCHAR(9) COMMENT 'two'", shown)
    assert columns(payload(history, "ALTER TABLE `d`.`t` COMMENT = 'x'", shown), "comment")["Abc"] == "two"


def test_a_scale_that_the_table_tells_shows_without_its_statement() -> None:
    kinds = {"f": DataType("float", length=12, decimal=2), "d": DataType("double", length=9, decimal=3)}
    shown = table(*(Column(name, kind) for name, kind in kinds.items()))
    message = payload(DdlHistory(), "ALTER TABLE `d`.`t` COMMENT = 'x'", shown)
    assert columns(message, "scale") == {"id": None, "f": 2, "d": 3}
    assert columns(message, "typeExpression") == {"id": "INT", "f": "FLOAT", "d": "DOUBLE(9,3)"}


def test_an_exchange_of_partitions_is_about_the_other_table() -> None:
    sql = "ALTER TABLE `d`.`t` EXCHANGE PARTITION `p` WITH TABLE `e`.`n`"
    message = payload(DdlHistory(), sql, table())
    assert (message["source"]["db"], message["source"]["table"], message["tableChanges"][0]["id"]) == (
        "e",
        "n",
        '"d"."t"',
    )


@pytest.mark.parametrize("sql", ["ALTER DATABASE CHARACTER SET = utf8mb4", "ALTER DATABASE COLLATE = gbk_bin"])
def test_a_change_of_the_sessions_database_is_of_the_one_that_its_message_named(sql: str) -> None:
    history = DdlHistory()
    made = encode_ddl(Ddl("QUERY", sql, 1, named=("d", "")), OPTIONS, history, build_ts=1)
    assert made
    message = json.loads(made[1])["payload"]
    assert (message["databaseName"], message["source"]["db"], message["source"]["table"]) == ("d", "d", "")
    shown = payload(history, "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", table(), "CREATE")
    assert shown["tableChanges"][0]["table"]["defaultCharsetName"] == ("gbk" if "gbk" in sql else "utf8mb4")


@pytest.mark.parametrize(
    ("sql", "ddl_type"),
    [
        ("ALTER TABLE `d`.`t` ADD FULLTEXT INDEX `f`(`a`)", "QUERY"),
        ("ALTER TABLE `d`.`t` PARTITION `p` ATTRIBUTES='x'", "QUERY"),
        ("ALTER TABLE `d`.`t` AFFINITY = 'table'", "QUERY"),
        ("ALTER TABLE `d`.`t` /*T![ttl] TTL = `a` + INTERVAL 1 DAY */", "QUERY"),
        ("ALTER TABLE `d`.`t` DROP FOREIGN KEY `f`", "DINDEX"),
        ("CREATE VECTOR INDEX `v` ON `d`.`t`((VEC_COSINE_DISTANCE(`a`)))", "QUERY"),
        ("ALTER DATABASE `d` SET TIFLASH REPLICA 1", "QUERY"),
        ("FLASHBACK DATABASE `d`", "QUERY"),
        ("CREATE SEQUENCE `d`.`s`", "QUERY"),
    ],
)
def test_what_ticdc_is_silent_about_has_no_message(sql: str, ddl_type: str, caplog: pytest.LogCaptureFixture) -> None:
    assert encode_ddl(Ddl(ddl_type, sql, 1, table(text("a"))), OPTIONS, DdlHistory(), build_ts=1) is None
    assert caplog.records == []


def test_a_statement_that_ticdc_prints_and_cannot_read_has_its_message() -> None:
    """What it says is known later; in its own message no definition counts."""
    option = Column("e", DataType("enum", "utf8mb4", "utf8mb4_bin", elements=("a\\",)))
    time = Column("x", DataType("datetime"), default="2020-01-02 00:00:00")
    sql = "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`e` ENUM('a\\') COMMENT 'c',`x` DATETIME DEFAULT '2020-01-02')"
    history = DdlHistory()
    message = payload(history, sql, table(option, time), "CREATE")
    assert message["tableChanges"][0]["type"] == "CREATE"
    assert columns(message, "comment")["e"] == "c"
    assert columns(message, "defaultValueExpression")["x"] == "2020-01-02 00:00:00"
    assert columns(message, "length")["x"] == 0


@pytest.mark.parametrize(("ddl_type", "change"), [("CREATE", "CREATE"), ("ALTER", "ALTER"), ("DINDEX", "DROP")])
def test_a_statement_that_cannot_be_read_tells_its_type_and_table(
    ddl_type: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    sql = "ALTER TABLE `d`.`t COMMENT = 'x'"
    message = payload(DdlHistory(), sql, table(text("a")), ddl_type)
    assert (message["ddl"], message["tableChanges"][0]["type"]) == (sql, change)
    assert columns(message, "name").keys() == {"id", "a"}
    with caplog.at_level(logging.WARNING):
        assert encode_ddl(Ddl(ddl_type, sql, 1), OPTIONS, DdlHistory(), build_ts=1) is None
    assert sql in caplog.text


def test_what_is_known_goes_from_one_run_to_the_next() -> None:
    history = with_comments("a")
    create = "CREATE TABLE `d`.`n` (`id` INT AUTO_INCREMENT PRIMARY KEY,`f` DOUBLE(9,2)) CHARSET = gbk"
    number = Column("f", DataType("double", length=9))
    payload(history, create, table(number, name="n"), "CREATE")
    history = DdlHistory(history.state())
    message = payload(history, "ALTER TABLE `d`.`t` COMMENT = 'x'", table(text("a")))
    assert columns(message, "comment")["a"] == "of a"
    message = payload(history, "ALTER TABLE `d`.`n` COMMENT = 'x'", table(number, name="n"))
    assert message["tableChanges"][0]["table"]["defaultCharsetName"] == "gbk"
    assert columns(message, "autoIncremented") == {"id": True, "f": False}
    assert (columns(message, "scale")["f"], columns(message, "typeExpression")["f"]) == (2, "DOUBLE(9,2)")


def shown(type_name: str, default: str | None = None, **members: Any) -> dict[str, Any]:
    """Return column `c` as a schema change shows it."""
    message = {
        "name": "c",
        "typeName": type_name,
        "length": None,
        "scale": None,
        "charsetName": None,
        "enumValues": None,
    }
    return message | {"optional": True, "defaultValueExpression": default} | members


def column(shown_column: dict[str, Any], sql: str = "", zone: str = "UTC") -> Column:
    """Return the column of a table that a schema change shows."""
    content = {"primaryKeyColumnNames": [], "columns": [shown_column]}
    (found,) = read_table(content, ("d", "t"), 1, read_statement(sql), zone).columns
    return found


@pytest.mark.parametrize(
    ("shown_column", "stored", "in_schema"),
    [
        (shown("TIMESTAMP", "0", optional=False), "0000-00-00 00:00:00", "1970-01-01T00:00:00Z"),
        (shown("TIMESTAMP", "0"), "0000-00-00 00:00:00", None),
        (shown("TIMESTAMP", "2020-1-2 3:4:5"), "2020-01-01 19:04:05", "2020-01-01T19:04:05Z"),
        (shown("TIMESTAMP", "2020-00-01 00:00:00"), "2020-00-01 00:00:00", 0),
        (shown("DATETIME", "2020-1-2 3:4:5"), "2020-01-02 03:04:05", 1577934245000),
        (shown("DATETIME", "20200102030405"), "2020-01-02 03:04:05", 1577934245000),
        (shown("DATETIME", "200102"), "2020-01-02 00:00:00", 1577923200000),
        (shown("DATETIME", "2020-01-02T03:04:05.6789", length=3), "2020-01-02 03:04:05.679", 1577934245679),
        (shown("DATETIME", "2019-12-31 23:59:59.5"), "2020-01-01 00:00:00", 1577836800000),
        (shown("DATETIME", "uuid()"), "uuid()", 0),
        (shown("DATETIME", "0"), "0000-00-00 00:00:00", None),
        (shown("DATETIME", "0000-00-01 00:00:00"), "0000-00-01 00:00:00", 0),
        (shown("TIME", "1:2"), "01:02:00", 3720000000),
        (shown("TIME", "-10"), "-00:00:10", -10000000),
        (shown("TIME", "101112.5", length=2), "10:11:12.50", 36672500000),
        (shown("TIME", "1 2:3:4"), "26:03:04", 93784000000),
        (shown("TIME", "1000-00-00 01:00:00.000"), "01:00:00", 3600000000),
        (shown("TIME", "uuid()"), "uuid()", None),
        (shown("BIT", "b'1'"), None, None),
    ],
)
def test_a_time_may_be_written_in_many_forms(shown_column: dict[str, Any], stored: str, in_schema: Any) -> None:
    sql = f"CREATE TABLE `d`.`t` (`c` {shown_column['typeName']} DEFAULT '{shown_column['defaultValueExpression']}')"
    found = column(shown_column, sql, "Asia/Shanghai")
    assert found.default == stored
    assert column_schema(found, extended=False).get("default") == in_schema


@pytest.mark.parametrize(
    ("type_name", "members", "want"),
    [
        ("INTEGER", {}, DataType("int", length=11)),
        ("INTEGER UNSIGNED", {}, DataType("int", length=10, unsigned=True)),
        ("INT8", {}, DataType("bigint", length=20)),
        ("BOOLEAN", {}, DataType("tinyint", length=1)),
        ("NUMERIC", {"length": 10, "scale": 2}, DataType("decimal", length=10, decimal=2)),
        ("DECIMAL", {"length": 10}, DataType("decimal", length=10)),
        ("REAL", {}, DataType("double", length=22)),
        ("DOUBLE PRECISION", {}, DataType("double", length=22)),
        ("CHARACTER VARYING", {"length": 9}, DataType("varchar", "utf8mb4", "utf8mb4_bin", length=9)),
        ("NATIONAL CHARACTER", {"length": 9}, DataType("char", "utf8mb4", "utf8mb4_bin", length=9)),
    ],
)
def test_a_type_may_have_another_name(type_name: str, members: dict[str, Any], want: DataType) -> None:
    assert column(shown(type_name, **members)).data_type == want


@pytest.mark.parametrize("literal", ["x'aa'", "b'10101010'", "0xAA", "170"])
def test_a_bit_default_that_ticdc_spoils_is_that_of_the_statement(literal: str) -> None:
    message = shown("BIT", "111011111011111110111101", length=8)
    assert column(message, f"CREATE TABLE `d`.`t` (`c` BIT(8) DEFAULT {literal})").default == 0xAA
    assert column(message).default is None


def test_a_float_of_the_usual_length_is_known_by_its_scale() -> None:
    read = column(shown("FLOAT", scale=2)).data_type
    assert (read.length, read.decimal, form(read).type) == (12, 2, "double")
    read = column(shown("FLOAT")).data_type
    assert (read.length, read.decimal, form(read).type) == (12, 0, "float")


def test_a_type_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidSchema, match="column c is of type GEOMETRY"):
        column(shown("GEOMETRY"))
