"""What a stream shows of schemas has TiDB's column ids and virtual columns, in whichever pieces it is read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from golden_data import lines
from hypothesis import given
from hypothesis import strategies as st

from tidecast.model import Column, DataType, Ddl, Index, SchemaHistory, TableSchema, checked
from tidecast.protocols import simple

INT = DataType("int", length=11)
BIGINT_UNSIGNED = DataType("bigint", length=20, unsigned=True)


def without_ids(schema: TableSchema) -> TableSchema:
    """Return a schema as messages tell it."""
    return replace(schema, columns=tuple(replace(c, id=None, virtual=False) for c in schema.columns))


def golden_changes(path: Path) -> Iterator[tuple[str, Ddl | None, TableSchema | None]]:
    """Yield name, statement and table of each schema change and bootstrap, in order."""
    for line in lines(path):
        if line["kind"] in ("ddl", "bootstrap"):
            message = json.loads(base64.b64decode(line["value"]))
            schema = simple.table_schema(json.dumps(message["tableSchema"])) if "tableSchema" in message else None
            ddl = Ddl(message["type"], message["sql"], message["commitTs"], schema) if line["kind"] == "ddl" else None
            yield line["n"], ddl, schema


@pytest.mark.parametrize(
    ("data_type", "possible"),
    [
        (DataType("decimal", length=65, decimal=30), True),
        (DataType("decimal"), True),
        (DataType("decimal", length=10, decimal=99999), False),
        (DataType("decimal", decimal=99999), False),
        (DataType("decimal", length=10, decimal=-5), False),
        (DataType("decimal", length=5, decimal=6), False),
        (DataType("decimal", length=66), False),
        (DataType("bit", length=64), True),
        (DataType("bit", length=1_000_000_000), False),
        (DataType("binary", length=255), True),
        (DataType("binary", length=1_000_000_000), False),
        (DataType("longblob", length=4_294_967_295), True),
    ],
    ids=str,
)
def test_types_beyond_mysqls_limits_are_no_schema(data_type: DataType, possible: bool) -> None:
    """Java would not have the memory for such a BIT, nor Spark the type for such a DECIMAL."""
    schema = TableSchema("d", "t", 1, 1, (Column("a", data_type),))
    with nullcontext() if possible else pytest.raises(ValueError, match="a column that no table can have: a "):
        assert checked(schema) == schema


def test_golden_schemas_have_tidbs_ids_and_virtual_columns(golden: Callable[[str], Path]) -> None:
    infos = {line["n"]: line["table_info"] for line in lines(golden("events.jsonl.gz")) if line.get("table_info")}
    once, again = SchemaHistory(), SchemaHistory()
    wrong = {}
    for n, ddl, schema in golden_changes(golden("simple-json.jsonl.gz")):
        if schema:
            again = SchemaHistory(again.state())
            got = once.add(schema, ddl)
            assert again.add(schema, ddl) == got
            columns = [(c.name, c.id, c.virtual) for c in got.columns]
            want = [(c["name"], c["id"], c["generated"] == "virtual") for c in infos[n]["columns"]]
            if columns != want:
                wrong[n] = (ddl and ddl.sql, columns, want)
    assert not wrong


@dataclass
class Tidb:
    """A TiDB with few tables: what it knows of them, and the statements that made them so."""

    tables: dict[str, TableSchema]
    last_column: dict[str, int]
    ids: int = 0
    ts: int = 0

    def change(self, kind: str, sql: str, name: str) -> tuple[TableSchema, Ddl]:
        """Return the table after a statement, and the statement as a message tells it."""
        self.ts += 1
        return self.tables[name], Ddl(kind, sql, self.ts, without_ids(self.tables[name]))

    def create(self, name: str, virtual: bool) -> tuple[TableSchema, Ddl]:
        self.ids, self.ts = self.ids + 1, self.ts + 1
        columns = (Column("id", INT, False, id=1), Column("g", INT, id=2, virtual=virtual))
        self.tables[name] = TableSchema("d", name, self.ids, self.ts, columns)
        self.last_column[name] = 2
        kind = "VIRTUAL" if virtual else "STORED"
        sql = f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY,`g` INT GENERATED ALWAYS AS(`id` + 1) {kind})"
        return self.change("CREATE", sql, name)

    def truncate(self, name: str) -> tuple[TableSchema, Ddl]:
        self.ids += 1
        self.tables[name] = replace(self.tables[name], table_id=self.ids)
        return self.change("TRUNCATE", f"TRUNCATE TABLE `{name}`", name)

    def rename(self, old: str, new: str) -> tuple[TableSchema, Ddl]:
        self.tables[new] = replace(self.tables.pop(old), table=new)
        self.last_column[new] = self.last_column.pop(old)
        return self.change("RENAME", f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", new)

    def add(self, name: str, column: str) -> tuple[TableSchema, Ddl]:
        """Add two columns, of which the second statement's first one comes first in the table."""
        one, two = f"{column}1", column
        last = self.last_column[name] = self.last_column[name] + 2
        self.ts += 1
        table = self.tables[name]
        columns = (Column(two, INT, id=last), *table.columns, Column(one, INT, id=last - 1))
        self.tables[name] = replace(table, version=self.ts, columns=columns)
        sql = f"ALTER TABLE `d`.`{name}` ADD COLUMN `{one}` INT, ADD COLUMN `{two}` INT FIRST"
        return self.change("ALTER", sql, name)

    def drop_column(self, name: str) -> tuple[TableSchema, Ddl]:
        self.ts += 1
        table = self.tables[name]
        self.tables[name] = replace(table, version=self.ts, columns=table.columns[:-1])
        return self.change("ALTER", f"ALTER TABLE `d`.`{name}` DROP COLUMN `{table.columns[-1].name}`", name)


NAMES = ["t", "u", "v"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "truncate", "rename", "add", "drop"]), st.sampled_from(NAMES), st.booleans()),
    min_size=3,
    max_size=25,
)


def history_of(steps: list[tuple[str, str, bool]]) -> Iterator[tuple[TableSchema, Ddl]]:
    tidb = Tidb({}, {})
    for n, (step, name, flag) in enumerate(steps):
        free = [other for other in NAMES if other not in tidb.tables]
        if name not in tidb.tables or step == "create":
            yield tidb.create(name, flag)
        elif step == "truncate":
            yield tidb.truncate(name)
        elif step == "rename" and free:
            yield tidb.rename(name, free[0])
        elif step == "drop" and len(tidb.tables[name].columns) > 1:
            yield tidb.drop_column(name)
        else:
            yield tidb.add(name, name if flag and n == len(steps) - 1 else f"c{n}_")


@given(STEPS)
def test_a_history_in_pieces_is_the_whole_one(steps: list[tuple[str, str, bool]]) -> None:
    whole, pieces = SchemaHistory(), SchemaHistory()
    for truth, ddl in history_of(steps):
        assert ddl.schema
        pieces = SchemaHistory(pieces.state())
        assert whole.add(ddl.schema, ddl) == pieces.add(ddl.schema, ddl) == whole[truth.key] == truth
        assert whole.state() == pieces.state()
        assert {s.key: s for s in whole.newest()} == {s.key: s for s in pieces.newest()}


@given(STEPS, st.data())
def test_what_is_sent_again_changes_nothing(steps: list[tuple[str, str, bool]], data: st.DataObject) -> None:
    changes = list(history_of(steps))
    history, sent = SchemaHistory(), 0
    for n, (truth, ddl) in enumerate(changes):
        assert ddl.schema
        assert history.add(ddl.schema, ddl) == truth
        again = data.draw(st.integers(sent, n))
        for before, old in changes[again : n + 1]:
            assert old.schema
            if old.type != "TRUNCATE":
                assert history.add(old.schema, old).columns == before.columns
            assert history.add(without_ids(before)).columns == before.columns
        sent = again


def test_a_state_of_an_older_release_is_read() -> None:
    """It lost the id that TRUNCATE gave; the statement tells which table was renamed."""
    create, truncate, rename = history_of([("create", "t", True), ("truncate", "t", False), ("rename", "t", False)])
    history = SchemaHistory()
    for _, ddl in (create, truncate):
        assert ddl.schema
        history.add(ddl.schema, ddl)
    forgetful = SchemaHistory(history.state().replace(b'"table_id":2', b'"table_id":1'))
    truth, ddl = rename
    assert ddl.schema
    assert forgetful.add(ddl.schema, ddl) == truth


@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("ALTER TABLE `shop`.`note` ADD COLUMN `author` INT, ADD COLUMN `note` INT", {"author": 2, "note": 3}),
        ("ALTER TABLE `note`.`author` ADD COLUMN `note` INT, ADD COLUMN `author` INT", {"author": 3, "note": 2}),
        ("ALTER TABLE `t` ADD INDEX `note`(`author`), ADD COLUMN `author` INT, ADD COLUMN `note` INT", {"note": 3}),
        ("ALTER TABLE `t` ADD COLUMN (`note` INT, `author` INT)", {"author": 3, "note": 2}),
        ("ALTER TABLE `t` ADD COLUMN `note` INT AFTER `author`, CHANGE COLUMN `old` `author` INT", {"note": 2}),
        ("ALTER TABLE `t` RENAME COLUMN `ID` TO `author`, ADD COLUMN `note` INT", {"author": 1, "note": 2}),
        ("ALTER TABLE `t` RENAME COLUMN `id` TO `author`, ADD COLUMN `id` INT", {"author": 1, "id": 2}),
    ],
)
def test_new_columns_count_in_the_order_of_their_statement(sql: str, ids: dict[str, int]) -> None:
    history = SchemaHistory()
    history.add(TableSchema("shop", "note", 7, 1, (Column("id", INT),)))
    names = ["id" if "RENAME" not in sql else "author", "author", "note"]
    columns = tuple(Column(n, INT) for n in dict.fromkeys([*names, *ids]))
    schema = TableSchema("shop", "note", 7, 2, columns)
    got = {c.name: c.id for c in history.add(schema, Ddl("ALTER", sql, 3, schema)).columns}
    assert got | ids == got


@pytest.mark.parametrize(
    ("before", "after", "rewritten"),
    [
        (DataType("binary", length=4), DataType("varbinary", length=8), True),
        (DataType("varbinary", length=4), DataType("binary", length=4), True),
        (DataType("char", "utf8mb4", length=4), DataType("varchar", "utf8mb4", length=8), True),
        (DataType("varbinary", length=4), DataType("varbinary", length=8), False),
        (DataType("varchar", "utf8mb4", length=4), DataType("text", "utf8mb4", length=65535), False),
        (INT, BIGINT_UNSIGNED, True),
        (INT, DataType("bigint", length=20), False),
    ],
)
def test_a_column_whose_data_is_rewritten_has_a_new_id(before: DataType, after: DataType, rewritten: bool) -> None:
    history = SchemaHistory()
    for version, data_type in enumerate((before, after), 1):
        schema = TableSchema("d", "t", 7, version, (Column("c", data_type),))
        ddl = Ddl("ALTER" if version > 1 else "CREATE", "ALTER TABLE `d`.`t` MODIFY COLUMN `c` …", version, schema)
        (column,) = history.add(schema, ddl).columns
    assert (column.id == 2) == rewritten


def keyed(*indexes: Index, **column: Any) -> TableSchema:
    columns = tuple(Column(name, INT, False, virtual=name in column.get("virtual", ())) for name in "abc")
    return TableSchema("d", "t", 1, 1, columns, indexes)


def unique(*columns: str, nullable: bool = False) -> Index:
    return Index(f"uk_{''.join(columns)}", True, False, nullable, columns)


def primary(*columns: str) -> Index:
    return Index("primary", True, True, False, columns)


@pytest.mark.parametrize(
    ("table", "handle_key"),
    [
        (keyed(unique("c"), unique("a"), primary("a")), ("a",)),  # the key itself: a copy would be of the first one
        (keyed(unique("a"), unique("c"), primary("a")), ("a",)),
        (keyed(unique("a", "c"), unique("b"), primary("a", "c")), ("b",)),
        (keyed(unique("c", nullable=True), unique("a", "b"), primary("a", "b")), ("a", "b")),
        (keyed(unique("c"), unique("b"), primary("c"), virtual=("c",)), ("b",)),
        (keyed(Index("PRIMARY", True, True, False, ("b", "a")), unique("c")), ("a", "b")),
        (keyed(unique("c", nullable=True)), ()),
    ],
)
def test_the_handle_key_is_tidbs(table: TableSchema, handle_key: tuple[str, ...]) -> None:
    assert table.handle_key == handle_key
