"""Topics to Delta tables, read back with delta-rs, against the state that plain Python computes from the events."""

from __future__ import annotations

import base64
import datetime as dt
import json
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import golden_data
import pytest
from avro_events import decode_avro
from decoded_events import decode_simple
from deltalake import DeltaTable
from differences import assert_rows_equal
from full import full
from golden_events import ZONE, GoldenEvents
from growing_topic import ID, GrowingTopic, ddl
from growing_topic import row as row_of
from growing_topic import table as table_of
from known_schemas import KnownSchemas
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import tidecast
from tidecast._errors import ConfigError, CorruptedData, DecodeError, TableRefused, TerminalError
from tidecast._policy import DdlPolicy, OnDdl
from tidecast.model import Column, DataType, Ddl, Events, Index, TableSchema
from tidecast.replica import Replicated, TableReport, parse_target
from tidecast.replica.plan._applied_versions import AppliedVersions
from tidecast.replica.plan._ddl import not_carried_out
from tidecast.replica.plan._evolve import reconcile
from tidecast.replica.tables._columns import fill, literal
from tidecast.replica.tables._shape import Shape
from tidecast.replica.targets.delta import DeltaTarget
from tidecast.topics import append_lines
from tidecast.topics._files import FileTopics

FOLDER = Path(__file__).parents[1] / "golden" / "public"

Line = dict[str, Any]
Row = dict[str, Any]
Name = tuple[str, str]

# A table of each sort: the rest of the golden tables repeat these with other types.
SAMPLE = {("orc", name) for name in ("t_cpk", "t_time", "t_nokey", "t_uk")}


# --- what the golden data say ---------------------------------------------------------------------------------------


@lru_cache
def lines(file: str) -> list[Line]:
    return golden_data.lines(FOLDER / file)


def about(file: str, tables: Iterable[Name]) -> list[Line]:
    """The messages of these tables alone."""
    return [m for m in lines(file) if (m.get("db"), m.get("table")) in set(tables)]


def value_of(said: Any, column: Line) -> Any:
    """An event's value as a table holds it: the value, or its closest form that two readers agree on."""
    kind = column["type"]
    if said is None:
        return None
    if isinstance(said, dict):
        return base64.b64decode(said["b"]) if "b" in said else said["s"]
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
        return int(said)
    if kind in ("decimal", "double", "float"):
        return number(said, kind)
    try:
        if kind == "date":
            return dt.date.fromisoformat(said)
        if kind == "datetime":
            return dt.datetime.fromisoformat(said)
        if kind == "timestamp":
            return dt.datetime.fromisoformat(said).replace(tzinfo=ZoneInfo(ZONE)).astimezone(dt.UTC)
    except ValueError:
        return None
    return said


def number(said: Any, kind: str) -> Any:
    if kind == "decimal":
        return Decimal(said)
    return struct.unpack("f", struct.pack("f", float(said)))[0] if kind == "float" else float(said)


def final_state(until: int | None = None, eligible_only: bool = False, renamed: bool = False) -> dict[Name, list[Row]]:
    """Each table's rows after all events: the newest of each key, or every new row where there is no key.

    With `renamed` the rows of a table are under its last name.
    """
    columns: dict[Name, dict[str, Line]] = {}
    states: dict[Name, dict[Any, Row]] = {}
    for event in lines("events.jsonl.gz"):
        name = event.get("db", ""), event.get("table", "")
        if until is not None and event["n"] >= until:
            break
        if event.get("table_info"):
            columns[name] = {c["name"]: c for c in event["table_info"]["columns"]}
        former = event.get("extra_db", ""), event.get("extra_table", "")
        if renamed and event.get("ddl_type") == "rename table" and former in states:
            states[name] = states.pop(former)
        if event["kind"] != "dml" or (eligible_only and not event["eligible"]):
            continue
        state, known = states.setdefault(name, {}), columns[name]

        def key(said: Line, n: int = event["n"], known: dict[str, Line] = known) -> Any:
            return tuple(str(said[c]) for c in known if known[c]["handle_key"]) or n

        old, new = event.get("old"), event.get("new")
        if old is not None:
            state.pop(key(old), None)
        if new is not None:
            state[key(new)] = {c: value_of(new[c], known[c]) for c in new}
    return {name: list(state.values()) for name, state in states.items()}


# --- topics and tables ----------------------------------------------------------------------------------------------


def topic(tmp: Path, messages: list[Line]) -> Path:
    """A new file of messages: Spark would take a file that was written again for the one that it remembers."""
    file = tmp / f"topic-{len(list(tmp.glob('topic-*')))}.jsonl"
    file.write_text("\n".join(map(json.dumps, messages)) + "\n", encoding="utf-8")
    return file


def simple_events(spark: SparkSession, file: Path) -> Events:
    records = FileTopics(file, "orc").read(spark)
    return decode_simple(records.frame, ordered=records.ordered, zone=ZONE)


def avro_events(spark: SparkSession, file: Path, schemas: str) -> Events:
    known = {m["id"]: m["schema"] for m in lines(schemas)}
    records = FileTopics(file, "orc").read(spark)
    return decode_avro(records.frame, KnownSchemas(known), ordered=records.ordered, zone=ZONE)


@pytest.fixture(autouse=True)
def nothing_kept(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


def report(done: Replicated, table: str) -> TableReport:
    (found,) = [t for t in done.tables if t.table == table]
    return found


def read_back(folder: Path, name: Name) -> tuple[int, list[Row]]:
    """A table's version and rows, read by delta-rs."""
    table = DeltaTable(folder / name[0] / name[1])
    rows = table.to_pyarrow_table().to_pylist()
    return table.version(), rows


def in_plain(row: Row) -> dict[str, str]:
    return {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> str:
    """One form for a number or a moment, whatever type holds it."""
    if isinstance(value, Decimal):
        return f"{value:f}".rstrip("0").rstrip(".") if value.as_tuple().exponent else str(value)
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC).isoformat()
    return repr(bytes(value) if isinstance(value, bytearray) else value)


def assert_table(folder: Path, name: Name, expected: list[Row]) -> None:
    _, rows = read_back(folder, name)
    # Decimals that are too wide for Spark, and those of Avro's string mode, are text.
    decimals = {column for row in expected for column, value in row.items() if isinstance(value, Decimal)}
    for row in rows:
        row.update({column: Decimal(row[column]) for column in decimals if isinstance(row[column], str)})
    assert_rows_equal(map(in_plain, rows), map(in_plain, expected), ".".join(name))


def versions(folder: Path, names: Iterable[Name]) -> dict[Name, int]:
    return {name: DeltaTable(folder / name[0] / name[1]).version() for name in names}


# --- golden topics --------------------------------------------------------------------------------------------------

# The first two change in ways that cannot be applied; delta-rs does not read the column mapping of the third.
CHANGED = {("orc", "t_evo"), ("orc", "t_evo_pk")}
MAPPED = ("o-r c.2", "odd té名.1")


def without_unapplied_deletes(name: Name) -> list[Row]:
    """Every row that a table without a key was ever given."""
    columns: dict[str, Line] = {}
    rows = []
    for event in lines("events.jsonl.gz"):
        if (event.get("db"), event.get("table")) == name:
            if event.get("table_info"):
                columns = {c["name"]: c for c in event["table_info"]["columns"]}
            if event["kind"] == "dml" and event.get("new"):
                rows.append({c: value_of(v, columns[c]) for c, v in event["new"].items()})
    return rows


def test_all_tables_of_a_simple_topic(spark: SparkSession, tmp_path: Path, decoded: GoldenEvents) -> None:
    events = decoded("simple-json").events
    seen: list[tuple[int, int]] = []
    done = tidecast.replicate(events, str(tmp_path), progress=lambda _, i, n: seen.append((i, n)))

    expected = final_state(renamed=True)
    made = expected.keys() | {("orc", "t_evo_like")}  # which never has a row
    assert {(t.database, t.table) for t in done.tables} == made
    changed = {("o-r c.2", "t_evo_r2"), ("orc", "t_evo_pk")}
    for name in expected.keys() - changed - {MAPPED, ("orc", "t_nokey"), ("orc", "t_uk_null")}:
        assert_table(tmp_path, name, expected[name])
    for name in (("orc", "t_nokey"), ("orc", "t_uk_null")):
        assert_table(tmp_path, name, without_unapplied_deletes(name))
    mapped = spark.table(f"delta.`{tmp_path}/{MAPPED[0]}/{MAPPED[1]}`").collect()
    assert_rows_equal((in_plain(r.asDict()) for r in mapped), map(in_plain, expected[MAPPED]), ".".join(MAPPED))

    assert seen[1:] == [(i, len(made)) for i in range(len(made))]
    refused = {t.name: t.refused for t in done.tables if t.refused}
    assert refused == {"o-r c.2.t_evo_r2": 53, "orc.t_evo_pk": 80}
    assert done.dead_letters == {"schema-change": 133}
    assert done.dead_letters_in == tmp_path / "_dead_letters"
    letters = letters_of(tmp_path)
    assert {x["detail"] for x in letters} == {
        "column z changed from int to string",
        "the key changed from none to (id)",
    }
    assert len(letters) == 133
    zero = report(done, "t_zero")
    assert zero.unrepresentable == {c: n for c, n in unrepresentable(("orc", "t_zero"), expected).items() if n}
    assert "1 deletes were not applied: the table has no key" in report(done, "t_nokey").warnings
    assert any("TRUNCATE TABLE" in warning for warning in done.warnings)


def unrepresentable(name: Name, expected: dict[Name, list[Row]]) -> dict[str, int]:
    """Count zero dates among the newest rows, in the events' own text."""
    newest: dict[str, Line] = {}
    for event in lines("events.jsonl.gz"):
        if event["kind"] == "dml" and (event["db"], event["table"]) == name:
            if event.get("old"):
                newest.pop(event["old"]["id"], None)
            if event.get("new"):
                newest[event["new"]["id"]] = event["new"]
    counts: dict[str, int] = {}
    for row in expected[name]:
        for column, value in row.items():
            text = newest[str(row["id"])][column]
            counts[column] = counts.get(column, 0) + (value is None and text is not None)
    return counts


@full  # others read the same messages, and what reads them is tested with all of them
@pytest.mark.parametrize("variant", ["avro", "avro-ext", "avro-checksum"])
def test_avro_topics(spark: SparkSession, tmp_path: Path, variant: str) -> None:
    tables = {("orc", name) for name in ("t_cpk", "t_cpk_nc", "t_pk_ubig", "t_int", "t_num", "t_time", "t_evo_pk")}
    file = topic(tmp_path, about(f"{variant}.jsonl.gz", tables))
    events = avro_events(spark, file, f"{variant}.schemas.jsonl.gz")
    # The golden suite damages the checksums of some rows.
    done = tidecast.replicate(events, str(tmp_path / "to"), on_mismatch="apply")

    expected = final_state(eligible_only=True)
    for name in tables:
        assert_table(tmp_path / "to", name, expected[name])
    assert done.dead_letters == {}
    if variant == "avro":
        before = versions(tmp_path / "to", tables)
        again = tidecast.replicate(events, str(tmp_path / "to"))
        assert versions(tmp_path / "to", tables) == before
        assert sum(t.upserted + t.deleted for t in again.tables) == 0


def test_unsigned_bigints_of_long_mode(spark: SparkSession, tmp_path: Path) -> None:
    """2^63 and more come as negative longs; the schema says that they are unsigned."""
    file = topic(tmp_path, about("avro.jsonl.gz", {("orc", "t_pk_ubig")}))
    tidecast.replicate(avro_events(spark, file, "avro.schemas.jsonl.gz"), str(tmp_path / "to"))
    _, rows = read_back(tmp_path / "to", ("orc", "t_pk_ubig"))
    keys = {int(row["k"]) for row in rows}
    assert min(keys) >= 0
    assert max(keys) >= 2**63


@pytest.fixture(params=[pytest.param(False, marks=full), True], ids=["lenient", "ansi"])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    before = spark.conf.get("spark.sql.ansi.enabled") or "false"
    spark.conf.set("spark.sql.ansi.enabled", str(request.param).lower())
    yield request.param
    spark.conf.set("spark.sql.ansi.enabled", before)


def assert_sample(folder: Path) -> None:
    expected = final_state() | {("orc", "t_nokey"): without_unapplied_deletes(("orc", "t_nokey"))}
    for name in SAMPLE:
        assert_table(folder, name, expected[name])


@full
def test_again_doubled_and_replayed(spark: SparkSession, tmp_path: Path) -> None:
    """The same topic again, a topic that repeats each message, and one that repeats them all, change nothing."""
    messages = about("simple-json.jsonl.gz", SAMPLE)
    to = tmp_path / "to"
    events = simple_events(spark, topic(tmp_path, messages))
    tidecast.replicate(events, str(to))
    assert_sample(to)
    before = versions(to, SAMPLE)

    tidecast.replicate(events, to.as_uri())
    assert versions(to, SAMPLE) == before

    replayed = [*messages, *messages]
    done = tidecast.replicate(simple_events(spark, topic(tmp_path, replayed)), str(to))
    assert versions(to, SAMPLE) == before
    assert sum(t.upserted + t.deleted for t in done.tables) == 0

    doubled = [m for m in messages for _ in range(2)]
    fresh = tmp_path / "fresh"
    done = tidecast.replicate(simple_events(spark, topic(tmp_path, doubled)), str(fresh))
    assert_sample(fresh)
    rows = len(without_unapplied_deletes(("orc", "t_nokey")))
    assert any(w.startswith(f"{rows} rows equal another") for w in report(done, "t_nokey").warnings)


@full
def test_more_of_a_topic(spark: SparkSession, tmp_path: Path, ansi: bool) -> None:
    """A topic that has grown brings the tables up to its new end: inserts, updates, deletes, appends."""
    messages = about("simple-json.jsonl.gz", SAMPLE)
    tidecast.replicate(simple_events(spark, topic(tmp_path, messages[: len(messages) // 2])), str(tmp_path / "to"))
    done = tidecast.replicate(simple_events(spark, topic(tmp_path, messages)), str(tmp_path / "to"))
    assert_sample(tmp_path / "to")
    assert report(done, "t_cpk").deleted > 0
    assert report(done, "t_cpk").upserted > 0
    assert report(done, "t_nokey").unchanged > 0


def test_partitions_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    """Each partition begins anew at offset 0; a key's delete and insert at one commit-ts lie anywhere."""
    ends = [0, 0, 0]
    messages = []
    for number, message in enumerate(reversed(about("simple-json.jsonl.gz", SAMPLE))):
        partition = number % 3
        messages.append({**message, "topic": "orc", "partition": partition, "offset": ends[partition]})
        ends[partition] += 1
    events = simple_events(spark, topic(tmp_path, messages))
    assert not events.ordered
    done = tidecast.replicate(events, str(tmp_path / "to"))
    assert_sample(tmp_path / "to")
    assert not any("several partitions" in warning for t in done.tables for warning in t.warnings)


def test_a_key_in_several_partitions_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    messages = [
        {**m, "partition": n % 2, "offset": n} for n, m in enumerate(about("avro-ext.jsonl.gz", {("orc", "t_cpk")}))
    ]
    events = avro_events(spark, topic(tmp_path, messages), "avro-ext.schemas.jsonl.gz")
    (table,) = tidecast.replicate(events, str(tmp_path / "to")).tables
    assert "keys came in several partitions" in table.warnings[0]


# --- schema changes -------------------------------------------------------------------------------------------------

ADDED = {"d": Decimal("1.5"), "e": "x'y <&> 中", "f": None, "ts": None, "bt": b"\x00\x0a"}


@full
def test_columns_are_added_and_widened_until_a_rename(spark: SparkSession, tmp_path: Path) -> None:
    """One table's life: as created; with added columns and a wider one; with a renamed column, which is kept."""
    evo, other = ("orc", "t_evo"), ("orc", "t_pk_dec")
    messages = about("simple-json.jsonl.gz", {evo, other})
    ddl = [m["n"] for m in messages if m["kind"] == "ddl" and m["table"] == "t_evo"]
    sql = {m["n"]: json.loads(base64.b64decode(m["value"]))["sql"] for m in messages if m["n"] in ddl}
    added = next(n for n in ddl if "ADD COLUMN" in sql[n])
    renamed = next(n for n in ddl if "CHANGE COLUMN" in sql[n])
    to = tmp_path / "to"

    tidecast.replicate(simple_events(spark, topic(tmp_path, [m for m in messages if m["n"] < added])), str(to))
    assert_table(to, evo, final_state(added)[evo])

    events = simple_events(spark, topic(tmp_path, [m for m in messages if m["n"] < renamed]))
    for folder in (to, tmp_path / "at once"):
        done = tidecast.replicate(events, str(folder))
        assert_table(folder, evo, [{**ADDED, **row} for row in final_state(renamed)[evo]])
        assert done.dead_letters == {}
        (warning,) = report(done, "t_evo").warnings
        assert "column ts" in warning
    (b,) = [f for f in DeltaTable(to / "orc" / "t_evo").schema().fields if f.name == "b"]
    assert str(b.type) == 'PrimitiveType("long")'

    (retyped,) = [n for n in ddl if "MODIFY COLUMN `z`" in sql[n]]
    done = tidecast.replicate(simple_events(spark, topic(tmp_path, messages)), str(to))
    refused = sum(m["kind"] == "dml" and m["table"] == "t_evo" and m["n"] > retyped for m in messages)
    assert done.dead_letters == {"schema-change": refused}
    assert {letter["detail"] for letter in letters_of(to)} == {"column z changed from int to string"}
    _, rows = read_back(to, evo)
    taken, both = final_state(retyped)[evo], {(r["id"], r["a"], r["a_new"]) for r in rows}
    assert {r["id"] for r in rows} == {r["id"] for r in taken}
    assert all((r["id"], None, r["a_new"]) in both for r in taken if "c" not in r)
    assert_table(to, other, final_state()[other])


@full
def test_refused_rows_can_stop_the_run(spark: SparkSession, tmp_path: Path) -> None:
    events = simple_events(spark, topic(tmp_path, about("simple-json.jsonl.gz", CHANGED)))
    with pytest.raises(DecodeError, match=r"topic orc.* offset \d+: schema-change: "):
        tidecast.replicate(events, str(tmp_path / "to"), on_error="fail")
    assert not (tmp_path / "to").exists()


def changed(message: Line, change: Callable[[Line], None], **members: Any) -> Line:
    """A Simple message with its JSON changed."""
    said = json.loads(base64.b64decode(message["value"]))
    change(said)
    return {**message, "value": base64.b64encode(json.dumps(said).encode()).decode(), **members}


def test_an_update_of_the_key_moves_the_row(spark: SparkSession, tmp_path: Path) -> None:
    """TiCDC splits such updates only where it is told to."""
    messages = about("simple-json.jsonl.gz", {("orc", "t_misc")})
    schema = next(m for m in messages if m["kind"] == "ddl")
    insert = next(m for m in messages if m["kind"] == "dml" and m["op"] == "insert")
    data = json.loads(base64.b64decode(insert["value"]))["data"]

    def move(said: Line) -> None:
        said.update(type="UPDATE", old=data, data={**data, "id": "4711"}, commitTs=said["commitTs"] + 1)

    file = topic(tmp_path, [schema, insert, changed(insert, move)])
    (table,) = tidecast.replicate(simple_events(spark, file), str(tmp_path / "to")).tables
    _, rows = read_back(tmp_path / "to", ("orc", "t_misc"))
    assert [row["id"] for row in rows] == [4711]
    assert (table.upserted, table.unchanged) == (1, 1)


def anew(message: Line, name: str, default: str | None, later: int) -> Line:
    """The CREATE TABLE of a later version of a table, with one more column."""

    def change(said: Line) -> None:
        table = said["tableSchema"]
        (model,) = [c for c in table["columns"] if c["name"] == "v"]
        table["columns"].append({**model, "name": name, "default": default})
        table["version"] += later
        said["commitTs"] += later

    return changed(message, change)


@full
def test_a_new_column_has_a_name_that_delta_refuses(spark: SparkSession, tmp_path: Path) -> None:
    messages = about("simple-json.jsonl.gz", {("orc", "t_misc")})
    schema = next(m for m in messages if m["kind"] == "ddl")
    first, second = [m for m in messages if m["kind"] == "dml" and m["op"] == "insert"][:2]

    def later(said: Line) -> None:
        said["schemaVersion"] += 1
        said["data"]["new, col"] = "8"

    file, to = topic(tmp_path, [schema, first]), str(tmp_path / "to")
    tidecast.replicate(simple_events(spark, file), to)
    file = topic(tmp_path, [schema, first, anew(schema, "new, col", "7", 1), changed(second, later)])
    for upserted in (1, 0):
        (table,) = tidecast.replicate(simple_events(spark, file), to).tables
        assert table.upserted == upserted
    rows = spark.table(f"delta.`{to}/orc/t_misc`").collect()
    assert sorted(row["new, col"] for row in rows) == [7, 8]


def test_a_table_that_was_made_anew_before_its_first_row(spark: SparkSession, tmp_path: Path) -> None:
    messages = about("simple-json.jsonl.gz", {("orc", "t_misc")})
    schema = next(m for m in messages if m["kind"] == "ddl")
    earlier = anew(schema, "gone", None, -1)
    done = tidecast.replicate(simple_events(spark, topic(tmp_path, [earlier, *messages])), str(tmp_path / "to"))
    assert done.dead_letters == {}
    assert_table(tmp_path / "to", ("orc", "t_misc"), final_state()["orc", "t_misc"])


def test_a_key_without_a_form_goes_to_the_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """Two zero dates would be one null key; a table cannot tell such rows apart."""
    messages = about("simple-json.jsonl.gz", {("orc", "t_cpk")})
    schema = next(m for m in messages if m["kind"] == "ddl")
    insert = next(m for m in messages if m["kind"] == "dml" and m["op"] == "insert")
    zero = changed(insert, lambda said: said["data"].update(k3="0000-00-00"))
    day_0 = changed(insert, lambda said: said["data"].update(k3="2024-05-00"))
    done = tidecast.replicate(
        simple_events(spark, topic(tmp_path, [schema, zero, insert, day_0])), str(tmp_path / "to")
    )
    assert done.dead_letters == {"bad-value": 2}
    assert len(read_back(tmp_path / "to", ("orc", "t_cpk"))[1]) == 1


def test_dead_letters_read_back_as_a_topic(spark: SparkSession, tmp_path: Path) -> None:
    """What was refused can be applied to another place from the dead letters alone, given the table's schema."""
    messages = about("simple-json.jsonl.gz", {("orc", "t_evo_pk")})
    letters = tmp_path / "letters"
    tidecast.replicate(simple_events(spark, topic(tmp_path, messages)), str(tmp_path / "to"), dead_letters=str(letters))
    (table,) = [m for m in messages if m["kind"] == "ddl" and m["ddl_type"] == "add primary key"]
    (letters / "schema.jsonl").write_text(json.dumps({**table, "topic": "orc", "offset": 0}) + "\n")
    again = tidecast.replicate(simple_events(spark, letters), str(tmp_path / "again"))
    (done,) = again.tables
    assert done.upserted > 0


# --- checksums ------------------------------------------------------------------------------------------------------


def ints(row: Row | None) -> int:
    """The checksum of a row of ints: its bytes by column, those of NULL left out."""
    return zlib.crc32(b"".join(struct.pack("<q", v) for v in (row or {}).values() if v is not None)) if row else 0


class Topic:
    """Simple messages of tables of two ints, `id` and `v`, with row checksums."""

    def __init__(self, *tables: str) -> None:
        self._created = next(m for m in about("simple-json.jsonl.gz", {("orc", "t_misc")}) if m["kind"] == "ddl")
        self.messages: list[Line] = []
        self._columns: dict[str, tuple[str, str]] = {}
        for table in tables:
            self.table(table)

    def table(self, name: str, *, columns: tuple[str, str] = ("id", "v"), key: bool = True) -> None:
        """Add a CREATE TABLE."""

        def change(said: Line) -> None:
            table = said["tableSchema"]
            indexes = [{**i, "columns": [columns[0]]} for i in table["indexes"] if key and i["primary"]]
            table.update(table=name, tableID=200 + len(self._columns), indexes=indexes)
            table["columns"] = [{**c, "name": n} for c, n in zip(table["columns"], columns, strict=True)]
            self._version = table["version"]

        self._columns[name] = columns
        self.messages.append(changed(self._created, change))

    def put(self, table: str, new: tuple[int, int] | None, old: tuple[int, int] | None = None, **checksum: Any) -> None:
        """Add a change of a row; its checksums fit, but for those that are given."""
        columns = self._columns[table]
        data, before = (dict(zip(columns, row, strict=True)) if row else None for row in (new, old))
        said: Line = {
            "version": 1,
            "database": "orc",
            "table": table,
            "tableID": 200 + list(self._columns).index(table),
            "type": "DELETE" if data is None else "UPDATE" if before else "INSERT",
            "commitTs": self._version + len(self.messages),
            "buildTs": 1,
            "schemaVersion": self._version,
            "checksum": {"version": 2, "corrupted": False, "current": ints(data), "previous": ints(before), **checksum},
        }
        for name, row in (("data", data), ("old", before)):
            said |= {name: {c: str(v) for c, v in row.items()}} if row else {}
        value = base64.b64encode(json.dumps(said).encode()).decode()
        self.messages.append({"topic": "orc", "partition": None, "key": None, "value": value})


def letters_of(folder: Path) -> list[Line]:
    return [json.loads(x) for f in folder.glob("_dead_letters/*.jsonl") for x in f.read_text().splitlines()]


@pytest.fixture
def damaged() -> Topic:
    """Rows that fit their checksums, rows that do not, and rows without any."""
    made = Topic("t_misc")
    made.table("t_log", key=False)
    made.put("t_misc", (1, 1))
    made.put("t_misc", (2, 2), current=22)
    made.put("t_misc", (3, 3), current=33)
    made.put("t_misc", (3, 30), old=(3, 3))
    made.put("t_misc", (4, 4))
    made.put("t_misc", (4, 40), old=(4, 4), previous=44)
    made.put("t_misc", (5, 5))
    made.put("t_misc", None, old=(5, 5), previous=55)
    made.put("t_misc", (6, 6), current=0)
    made.put("t_misc", (7, 7), corrupted=True)
    made.put("t_misc", (8, 8))
    made.put("t_misc", None, old=(8, 8))
    made.put("t_log", (1, 1))
    made.put("t_log", (2, 2), current=22)
    return made


@pytest.mark.parametrize(
    ("on_mismatch", "rows", "log"),
    [
        ("dead-letter", {1: 1, 3: 30, 4: 4, 5: 5, 6: 6, 7: 7}, [1]),
        ("apply", {1: 1, 2: 2, 3: 30, 4: 40, 6: 6, 7: 7}, [1, 2]),
    ],
)
def test_rows_that_do_not_fit_their_checksums(
    spark: SparkSession, tmp_path: Path, damaged: Topic, on_mismatch: str, rows: dict[int, int], log: list[int]
) -> None:
    """What comes after a mismatch of the same key is applied."""
    events = simple_events(spark, topic(tmp_path, damaged.messages))
    done = tidecast.replicate(events, str(tmp_path / "to"), on_mismatch=on_mismatch)

    assert {r["id"]: r["v"] for r in read_back(tmp_path / "to", ("orc", "t_misc"))[1]} == rows
    assert [r["id"] for r in read_back(tmp_path / "to", ("orc", "t_log"))[1]] == log
    misc, keyless = report(done, "t_misc"), report(done, "t_log")
    assert misc.checksums == {"match": 6, "mismatch": 4, "none": 0, "zero": 1, "delete": 1, "unreadable": 0}
    assert (keyless.checksums["match"], keyless.checksums["mismatch"]) == (1, 1)
    assert misc.warnings == ("4 rows do not fit their checksums", "1 row was damaged before it was sent")
    set_aside = on_mismatch == "dead-letter"
    assert (misc.refused, keyless.refused) == ((4, 1) if set_aside else (0, 0))
    assert (keyless.upserted, keyless.unchanged) == (len(log), 0)
    assert done.dead_letters == ({"checksum-mismatch": 5} if set_aside else {})
    assert {(x["offset"], x["detail"]) for x in letters_of(tmp_path / "to")} == (
        {
            (3, f"expected 22, actual {ints({'id': 2, 'v': 2})}"),
            (4, f"expected 33, actual {ints({'id': 3, 'v': 3})}"),
            (7, f"expected 44, actual {ints({'id': 4, 'v': 4})}"),
            (9, f"expected 55, actual {ints({'id': 5, 'v': 5})}"),
            (15, f"expected 22, actual {ints({'id': 2, 'v': 2})}"),
        }
        if set_aside
        else set()
    )


@pytest.mark.parametrize("policy", [{"on_mismatch": "fail"}, {"on_error": "fail"}], ids=str)
def test_a_mismatch_can_stop_the_run(
    spark: SparkSession, tmp_path: Path, damaged: Topic, policy: dict[str, Any]
) -> None:
    """No table, no dead letter, no checkpoint: the next run meets the same."""
    source = f"file://{topic(tmp_path, damaged.messages)}?protocol=simple"
    cause = r"offset 3: 5 rows do not fit their checksums; the first is of orc\.t_misc: expected 22, actual \d+ "
    for _ in range(2):
        with pytest.raises(CorruptedData, match=cause):
            tidecast.replicate(
                source, str(tmp_path / "to"), checkpoint=str(tmp_path / "state"), spark=spark, tz=ZONE, **policy
            )
    assert [file.name for file in (tmp_path / "to").rglob("*") if file.is_file()] == [".lock"]
    assert not list(tmp_path.glob("state/progress.json"))


# --- tables that stop no others -------------------------------------------------------------------------------------


def test_a_first_write_that_was_not_finished(spark: SparkSession, tmp_path: Path) -> None:
    """Its files lie there, and no commit: without a log, in a log that is on its way, and with column mapping."""
    made, to = Topic("t_misc", "t_log", "empty"), tmp_path / "to"
    made.table("mapped", columns=("id", "a, b"))
    tables = ("t_misc", "t_log", "mapped", "empty")
    for table in tables:
        made.put(table, (1, 10))
    events = simple_events(spark, topic(tmp_path, made.messages))
    tidecast.replicate(events, str(to))
    for table in tables:
        (log,) = (to / "orc" / table).glob("_delta_log")
        commit = (log / f"{0:020}.json").read_bytes()
        shutil.rmtree(log)
        if table != "t_misc":
            log.mkdir()
        if table == "t_log":
            (log / f".{0:020}.json.5b1a.tmp").write_bytes(commit[:99])
    shutil.rmtree(to / "orc" / "empty")
    (to / "orc" / "empty" / "_delta_log").mkdir(parents=True)

    # Delta remembers the log of a path; another process would not.
    to = to.rename(tmp_path / "again")
    done = tidecast.replicate(events, str(to))
    assert done.dead_letters == {}
    assert {t.table: t.upserted for t in done.tables} == dict.fromkeys(tables, 1)
    for table in ("t_misc", "t_log", "empty"):
        assert read_back(to, ("orc", table)) == (0, [{"id": 1, "v": 10}])
    assert [tuple(row) for row in spark.table(f"delta.`{to}/orc/mapped`").collect()] == [(1, 10)]
    left = "files of a write that was not finished lie in the folder of the table"
    assert {t.table: any(left in w for w in t.warnings) for t in done.tables} == {t: t != "empty" for t in tables}


def test_files_of_no_delta_table_are_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    made, to = Topic("t_misc", "marked", "unmarked", "foreign"), tmp_path / "to"
    for table in ("t_misc", "marked", "unmarked", "foreign"):
        made.put(table, (1, 10))
    for table in ("marked", "unmarked"):
        spark.range(2).repartition(2).write.parquet(str(to / "orc" / table))
    (to / "orc" / "unmarked" / "_SUCCESS").unlink()
    (to / "orc" / "foreign").mkdir()
    (to / "orc" / "foreign" / "thesis.parquet").write_text("years of work")
    before = {file for file in to.rglob("*") if file.is_file()}

    done = tidecast.replicate(simple_events(spark, topic(tmp_path, made.messages)), str(to))
    assert {t.table: (t.upserted, t.refused) for t in done.tables} == {
        "t_misc": (1, 0),
        "marked": (0, 1),
        "unmarked": (0, 1),
        "foreign": (0, 1),
    }
    assert done.dead_letters == {"table-refused": 3}
    assert all("holds files of no Delta table: " in letter["detail"] for letter in letters_of(to))
    after = {f for t in ("marked", "unmarked", "foreign") for f in (to / "orc" / t).rglob("*") if f.is_file()}
    assert after == before


def test_rows_that_a_table_refuses_stop_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Somebody gave the tables, one with a key and one without, a constraint."""
    made, to = Topic("keyed"), tmp_path / "to"
    made.table("log", key=False)
    made.put("keyed", (1, 1))
    made.put("log", (1, 1))
    tidecast.replicate(simple_events(spark, topic(tmp_path, made.messages)), str(to))
    for table in ("keyed", "log"):
        spark.sql(f"ALTER TABLE delta.`{to}/orc/{table}` ADD CONSTRAINT small CHECK (v < 5)")
        made.put(table, (2, 9))
    made.table("t_misc")
    made.put("t_misc", (1, 1))

    events = simple_events(spark, topic(tmp_path, made.messages))
    done = tidecast.replicate(events, str(to))
    assert done.dead_letters == {"table-refused": 4}
    assert {t.table: (t.upserted, t.refused) for t in done.tables} == {"keyed": (0, 2), "log": (0, 2), "t_misc": (1, 0)}
    assert all("CHECK constraint small" in letter["detail"] for letter in letters_of(to))
    assert [read_back(to, ("orc", t))[1] for t in ("keyed", "log")] == [[{"id": 1, "v": 1}]] * 2
    with pytest.raises(TableRefused, match=r"orc\.(keyed|log): .*CHECK constraint small"):
        tidecast.replicate(events, str(to), on_error="fail")


def keyless(*values: int, sent: int = 0) -> Topic:
    made = Topic()
    made.table("log", key=False)
    for n, value in enumerate(values):
        made.put("log", (n, value))
    made.messages = [{**m, "timestamp": sent} for m in made.messages]
    return made


def logged(folder: Path) -> list[int]:
    return sorted(row["v"] for row in read_back(folder, ("orc", "log"))[1])


@pytest.mark.parametrize(
    "noted", [True, pytest.param(False, marks=full)], ids=["noted", "of a version that noted no message"]
)
def test_another_topic_of_the_same_name_is_not_appended(spark: SparkSession, tmp_path: Path, noted: bool) -> None:
    """Its offsets are known, and its rows are not: without a key they would be taken for those that came before."""
    to, first = tmp_path / "to", keyless(1, 2, 3).messages

    def applied(messages: list[Line]) -> tuple[int, int]:
        done = report(tidecast.replicate(simple_events(spark, topic(tmp_path, messages)), str(to)), "log")
        return done.upserted, done.refused

    assert applied(first) == (3, 0)
    others = [keyless(1, 2), keyless(4, 5, 6, 7), keyless(1, 2, 3, sent=9)]
    if not noted:
        nothing = spark.read.format("delta").load(f"{to}/orc/log").limit(0)
        DeltaTarget(spark, f"delta.`{to}/orc/log`").append(nothing, '{"tidecast": {"orc": 3}}')
        others = others[:1]  # a topic that is longer is taken for the same one
    for other in others:
        assert applied(other.messages) == (0, len(other.messages) - 1)
        found = [letter["detail"] for letter in letters_of(to)]
        assert all("orc does not have the message at offset 3 up to which it was appended" in said for said in found)
    assert applied(first) == (0, 0)
    assert applied(keyless(1, 2, 3, 4).messages) == (1, 0)
    assert logged(to) == [1, 2, 3, 4]


def test_files_without_offsets_are_no_one_topic(spark: SparkSession, tmp_path: Path) -> None:
    """Their lines have the same numbers: rows of a table without a key cannot be told apart by these."""
    to, folder = tmp_path / "to", tmp_path / "orc"
    folder.mkdir()
    for name, made in {"a": keyless(1, 2, 3), "b": keyless(4, 5, 6)}.items():
        topic(folder, made.messages).rename(folder / f"{name}.jsonl")
    source = f"{folder}?protocol=simple"
    done = tidecast.replicate(source, str(to), spark=spark)
    assert (done.tables[0].upserted, done.tables[0].refused) == (0, 6)
    assert all("several messages of orc have offset 1" in letter["detail"] for letter in letters_of(to))

    checkpoint = str(tmp_path / "state")
    (folder / "b.jsonl").rename(tmp_path / "b.jsonl")
    tidecast.replicate(source, str(to), checkpoint=checkpoint, spark=spark)
    (tmp_path / "b.jsonl").rename(folder / "b.jsonl")
    done = tidecast.replicate(source, str(to), checkpoint=checkpoint, spark=spark)
    assert (done.tables[0].upserted, done.tables[0].refused) == (0, 3)
    assert logged(to) == [1, 2, 3]


@full
@pytest.mark.usefixtures("substituting")
def test_hostile_names(spark: SparkSession, tmp_path: Path) -> None:
    """Each table is one folder of its database, or all its messages are dead letters."""
    fine = {
        "t_misc": "t_misc",
        "..": "%2E.",
        "_delta_log": "%5Fdelta_log",
        "a/b%2F": "a%2Fb%252F",
        "${env:HOME}": "$%7Benv%3AHOME%7D",
        "${spark.app.name}": "$%7Bspark.app.name%7D",
        "nul\0 new\nline": "nul%00 new%0Aline",
        "{a,b}*[c]?\\": "%7Ba,b%7D%2A%5Bc%5D%3F%5C",
        "x" * 255: "x" * 255,
    }
    refused = ("y" * 256, "中" * 86, "")
    made, to = Topic(*fine, *refused), tmp_path / "to"
    columns = {"dot": "a.b", "tick": "a`b", "variable": "${env:HOME}", "line": "a\nb", "long": "z" * 300}
    for table, column in columns.items():
        made.table(table, columns=("${spark.app.name}" if table == "variable" else "id", column))
    for table in (*fine, *refused, *columns):
        made.put(table, (1, 10))

    events = simple_events(spark, topic(tmp_path, made.messages))
    done = tidecast.replicate(events, str(to))
    assert {file.name for file in (to / "orc").iterdir()} == {*fine.values(), *columns}
    assert {t.table for t in done.tables if t.upserted} == {*fine, *columns}
    assert {t.table for t in done.tables if t.refused} == {*refused}
    assert done.dead_letters == {"table-refused": len(refused)}
    causes = {letter["detail"] for letter in letters_of(to)}
    assert {cause for cause in causes if "bytes" in cause} == {
        f"no folder can have a name of {size} bytes (1 to 255 are possible)" for size in (0, 256, 258)
    }
    for table, column in columns.items():
        assert spark.read.format("delta").load(f"{to}/orc/{table}").columns[1] == column

    again = tidecast.replicate(events, str(to))
    assert {t.table for t in again.tables if t.unchanged} == {*fine, *columns}
    with pytest.raises(DecodeError, match="table-refused: no folder can have a name of"):
        tidecast.replicate(events, str(tmp_path / "fail"), on_error="fail")
    assert not (tmp_path / "fail").exists()


@full
@pytest.mark.usefixtures("substituting")
def test_names_with_variables_in_every_protocol(spark: SparkSession, tmp_path: Path) -> None:
    table, key, value = "${env:HOME}", "${spark.app.name}", "${env:HOME}"
    made, registry = Topic(), f"file://{tmp_path}/registry"
    made.table(table, columns=(key, value))
    for row in ((1, 10), (2, 20), (3, 30)):
        made.put(table, row)
    begun = f"{topic(tmp_path, made.messages)}?protocol=simple"
    made.put(table, (2, 21), old=(2, 20))
    made.messages.append(changed(made.messages.pop(), lambda said: said["old"].pop(key)))
    made.put(table, None, old=(3, 30))
    grown = topic(tmp_path, made.messages)
    with simple_events(spark, grown) as events:
        (update,) = events.tables[0].frame.where("op = 'u'").select("old.*").collect()
    assert update.asDict() == {key: 2, value: 20}  # an old row may show only what changed

    sources = {"simple": f"{grown}?protocol=simple"}
    for protocol in ("debezium", "avro"):
        sources[protocol] = f"file://{tmp_path}/{protocol}/topic?protocol={protocol}"
        done = tidecast.convert(sources["simple"], sources[protocol], schema_registry=registry, spark=spark)
        assert not done.dead_letters
    tidecast.replicate(begun, str(tmp_path / "to-simple"), spark=spark)
    for protocol, source in sources.items():
        tidecast.replicate(source, str(tmp_path / f"to-{protocol}"), schema_registry=registry, spark=spark)
        tables = {folder.parent for folder in (tmp_path / f"to-{protocol}").rglob("_delta_log")}
        (table_folder,) = (folder for folder in tables if folder.parent.name != "_tidecast")
        rows = spark.read.format("delta").load(str(table_folder))
        assert protocol == "avro" or rows.columns == [key, value]
        assert sorted(map(tuple, rows.collect())) == [(1, 10), (2, 21)]


@pytest.mark.usefixtures("substituting")
@pytest.mark.parametrize("to", ["/lake/${env:HOME}", "file:///lake/$%7Benv:HOME%7D", "${env:HOME}"])
def test_a_place_with_a_variable(to: str) -> None:
    with pytest.raises(ConfigError, match="put a variable's value"):
        parse_target(to)


def hostile(folder: Path, letters: int = 2) -> str:
    """Write a topic of a table, a row and messages that are none; return its URI."""
    grown = GrowingTopic(folder / "topic")
    made = ddl("CREATE TABLE `d`.`t`", 5, table_of(4, ID))
    grown.grow([made, row_of(10, 4, id=1), *({"no": n} for n in range(letters))])
    return grown.uri


@pytest.mark.parametrize("place", ["{}/letters [1]{{a}}%20", "file://{}/letters%20[1]"])
def test_dead_letters_lie_where_they_were_asked_for(spark: SparkSession, tmp_path: Path, place: str) -> None:
    source, letters = hostile(tmp_path), place.format(tmp_path)
    for _ in range(2):  # the second run finds them there
        done = tidecast.replicate(source, str(tmp_path / "to"), dead_letters=letters, spark=spark)
        assert sum(done.dead_letters.values()) == 2
    folder = tmp_path / ("letters [1]" if place.startswith("file:") else "letters [1]{a}%20")
    assert sum(len(file.read_text().splitlines()) for file in folder.glob("*.jsonl")) == 2


def test_dead_letters_that_do_not_arrive_fail_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster that shares no folder with the driver Spark writes to other disks. The next run does it again."""
    source, letters, state = hostile(tmp_path), tmp_path / "letters", tmp_path / "state"

    def replicated() -> Replicated:
        to = str(tmp_path / "to")
        return tidecast.replicate(source, to, spark=spark, checkpoint=str(state), dead_letters=str(letters))

    with monkeypatch.context() as patch:
        patch.setattr("tidecast.topics._dead_letters.spark_output", lambda path: f"file://{tmp_path}/far/{path.name}")
        with pytest.raises(TerminalError, match="only 0 of 2 records") as stopped:
            replicated()
    assert stopped.value.where == str(letters)
    assert not (state / "progress.json").exists()
    assert not list(letters.glob("*.jsonl"))
    assert sum(replicated().dead_letters.values()) == 2
    assert sum(len(file.read_text().splitlines()) for file in letters.glob("*.jsonl")) == 2
    with pytest.raises(TerminalError, match="only 2 of 3 records"):  # a source that had more when it was counted
        append_lines(spark.range(2), tmp_path / "more", expected=3)
    assert not list((tmp_path / "more").glob("*.jsonl"))


def test_messages_that_do_not_arrive_in_a_topic_of_files_fail_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = spark.sql("SELECT 't' topic, 0 partition, binary('k') key, binary('v') value, id sequence FROM range(3)")
    far = tmp_path / "far"
    monkeypatch.setattr("tidecast.topics._write_files.spark_output", lambda path: f"file://{far}/{path.name}")
    for topics in (FileTopics(tmp_path / "near" / "t", "t", lines=lines) for lines in (True, False)):
        with pytest.raises(TerminalError, match="only 0 of 3 records"):
            topics.write(messages)
    assert not list((tmp_path / "near").iterdir())


def test_one_run_at_a_time_has_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """From before it is read until it was written; a run that was killed holds nothing."""
    source, to, state = hostile(tmp_path, 0), str(tmp_path / "to"), tmp_path / "state"
    during: list[str] = []

    def meanwhile(*_: object) -> None:
        if (tmp_path / "to").exists() and not during:
            assert not (state / "progress.json").exists()
            with pytest.raises(TerminalError, match="another process uses this folder") as refused:
                tidecast.replicate(source, to, checkpoint=str(state), spark=spark)
            during.append(str(refused.value))

    tidecast.replicate(source, to, checkpoint=str(state), spark=spark, progress=meanwhile)
    assert during
    assert str(state) in during[0]
    program = "import os, sys, tidecast._atomic as a; f = a.locked(a.Path(sys.argv[1]), ''); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", program, str(state)], check=False).returncode == -9
    assert tidecast.replicate(source, to, checkpoint=str(state), spark=spark).tables == ()


# --- places ---------------------------------------------------------------------------------------------------------


@full
def test_a_spark_catalog(spark: SparkSession, tmp_path: Path) -> None:
    file = topic(tmp_path, about("simple-json.jsonl.gz", {("orc", "t_misc"), ("orc", "t_nokey")}))
    events = simple_events(spark, file)
    with pytest.raises(ConfigError, match="dead letters"):
        tidecast.replicate(events, "spark_catalog")
    try:
        for _ in range(2):
            done = tidecast.replicate(events, "spark_catalog", dead_letters=str(tmp_path / "letters"))
        rows = [row.asDict() for row in spark.table("spark_catalog.orc.t_misc").collect()]
        assert_rows_equal(map(in_plain, rows), map(in_plain, final_state()["orc", "t_misc"]), "orc.t_misc")
        assert spark.table("_tidecast.schema_changes").count() == len({c.sql for c in events.ddl})
        assert spark.table("orc.t_nokey").count() == len(without_unapplied_deletes(("orc", "t_nokey")))
        assert {t.where for t in done.tables} == {"`spark_catalog`.`orc`.`t_misc`", "`spark_catalog`.`orc`.`t_nokey`"}
    finally:
        for database in ("orc", "_tidecast"):
            spark.sql(f"DROP DATABASE IF EXISTS spark_catalog.{database} CASCADE")


@pytest.mark.parametrize("to", ["", "ftp://host/tables"])
def test_no_place_for_tables(spark: SparkSession, to: str) -> None:
    nothing = Events((), spark.createDataFrame([], "reason string"))
    with pytest.raises(ConfigError):
        tidecast.replicate(nothing, to)


@pytest.mark.parametrize(
    ("policy", "hint"),
    [({"on_error": "ignore"}, "dead-letter, fail"), ({"on_mismatch": "ignore"}, "dead-letter, apply, fail")],
)
def test_an_unknown_policy(spark: SparkSession, tmp_path: Path, policy: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        tidecast.replicate(Events((), spark.range(1)), str(tmp_path), **policy)


# --- shapes ---------------------------------------------------------------------------------------------------------

INT, BIGINT, UBIGINT = DataType("int"), DataType("bigint"), DataType("bigint", unsigned=True)
TEXT = DataType("varchar", "utf8mb4", "utf8mb4_bin", 20)


def decimal(length: int, scale: int) -> DataType:
    return DataType("decimal", length=length, decimal=scale)


def enum(mysql_type: str, *elements: str) -> DataType:
    return DataType(mysql_type, "utf8mb4", "utf8mb4_bin", elements=elements)


def schema_of(version: int, key: str = "id", **columns: DataType) -> TableSchema:
    index = (Index("PRIMARY", True, True, False, (key,)),) if key else ()
    return TableSchema("d", "t", 1, version, tuple(Column(n, c) for n, c in columns.items()), index)


@pytest.mark.parametrize(
    ("before", "after", "table"),
    [
        (INT, BIGINT, T.LongType()),
        (BIGINT, INT, T.LongType()),
        (BIGINT, UBIGINT, T.DecimalType(20, 0)),
        (INT, decimal(12, 2), T.DecimalType(12, 2)),
        (decimal(10, 2), decimal(12, 4), T.DecimalType(12, 4)),
        (decimal(12, 2), decimal(10, 2), T.DecimalType(12, 2)),
        (DataType("float"), DataType("double"), T.DoubleType()),
        (DataType("json"), TEXT, T.StringType()),
        (DataType("time"), TEXT, T.StringType()),
        (enum("set", "a", "b"), enum("set", "c", "a", "b"), T.StringType()),
        (DataType("year"), INT, T.IntegerType()),
        (decimal(12, 0), BIGINT, T.LongType()),
        (DataType("bit", length=1), DataType("bit", length=8), T.BinaryType()),
        (DataType("datetime"), DataType("datetime", decimal=6), T.TimestampNTZType()),
    ],
)
def test_types_that_widen(before: DataType, after: DataType, table: T.DataType) -> None:
    done = reconcile([schema_of(1, id=INT, a=before), schema_of(2, id=INT, a=after)], None)
    assert (done.shape.columns["a"], done.refused) == (table, {})


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (decimal(14, 2), INT, "column a lost digits after the point"),
        (DataType("double"), DataType("float"), "column a changed from double to float"),
        (TEXT, DataType("json"), "column a changed from varchar(20) to json"),
        (TEXT, DataType("time"), "column a changed from varchar(20) to time"),
        (TEXT, decimal(0, 0), "column a changed from varchar(20) to decimal"),
        (TEXT, enum("enum", "a"), "column a changed from varchar(20) to enum('a')"),
        (INT, DataType("year"), "column a changed from int to year"),
        (DataType("blob"), DataType("bit", length=8), "column a changed from blob to bit(8)"),
        (DataType("bit", length=8), DataType("bit", length=16), "column a is 2 bytes long now, not 1"),
        (enum("set", "a", "b"), enum("set", "b", "a"), "column a has its elements in another order"),
    ],
)
def test_types_that_change_values_in_rows_that_no_message_shows(before: DataType, after: DataType, cause: str) -> None:
    first, later = schema_of(1, id=INT, a=before), schema_of(2, id=INT, a=after)
    refused = {later: f"{cause}, in rows too that no message shows"}
    done = reconcile([first, later], None)
    assert done.refused == refused
    # In a batch of its own it is the same.
    done = reconcile([first], None)
    assert reconcile([later], done.shape, done.memory).refused == refused


@pytest.mark.parametrize(
    ("later", "cause"),
    [
        (schema_of(2, id=INT, a=TEXT), "column a changed from decimal(10,2) to string"),
        (schema_of(2, id=INT, a=decimal(9, 1)), "column a lost digits after the point"),
        (schema_of(2, id=INT, a=decimal(10, 4)), "column a changed from decimal(10,2) to decimal(10,4)"),
        (schema_of(2, "a", id=INT, a=decimal(10, 2)), "the key changed from (id) to (a)"),
        (schema_of(2, "", id=INT, a=decimal(10, 2)), "the key changed from (id) to none"),
    ],
)
def test_changes_that_cannot_be_applied(later: TableSchema, cause: str) -> None:
    first, last = schema_of(1, id=INT, a=decimal(10, 2)), schema_of(3, id=INT, a=decimal(10, 2))
    done = reconcile([last, later, first], None)
    assert first not in done.refused
    assert done.refused[later].startswith(cause)
    assert done.refused[last] == done.refused[later]


def test_a_present_table() -> None:
    old, new = schema_of(1, id=INT), schema_of(2, id=INT, a=INT)
    there = Shape({"id": T.IntegerType(), "a": T.IntegerType()}, ("id",))
    assert reconcile([old, new], there) == reconcile([new, old], there)
    assert not reconcile([old, new], there).changes
    assert reconcile([new], Shape({"id": T.IntegerType()}, ("id",))).changes
    # Nothing says that the column comes later: it is gone.
    assert reconcile([old], there).refused == {old: "column a is gone or was renamed"}


def test_versions_that_a_table_remembers() -> None:
    """An older one that comes again is taken; one that looks like it, but is younger, has lost a column."""
    old, new, same = schema_of(1, id=INT), schema_of(2, id=INT, a=INT), schema_of(7, id=INT, a=INT)
    made = reconcile([old, new], None)
    memory = AppliedVersions.from_text(made.memory.text())
    assert memory == made.memory
    for again in ([old], [new], [new, old], [same]):
        same_table = replace(made, defined={c.name: c for c in new.columns}, moved=made.shape)
        assert reconcile(again, made.shape, memory) == same_table
    dropped = schema_of(3, id=INT)
    assert reconcile([dropped], made.shape, memory).kept == ["a"]
    # Numbers of schemas tell no time: nobody knows whether this is the old one.
    assert reconcile([dropped], made.shape, memory, versions_by_time=False).kept == []


def test_columns_keep_the_default_that_they_came_with() -> None:
    def version(number: int, default: str, *more: Column) -> TableSchema:
        return replace(schema_of(number, id=INT), columns=(Column("id", INT), Column("a", INT, True, default), *more))

    made = reconcile([schema_of(1, id=INT), version(2, "5")], None)
    later = reconcile([version(3, "6", Column("b", INT))], made.shape, made.memory)
    assert later.defined["a"].default == "5"
    assert reconcile([schema_of(1, id=INT)], later.shape, later.memory).defined["a"].default == "5"


def test_versions_whose_numbers_tell_no_time() -> None:
    """A registry gives the number that a schema got when it came first, to whichever topic."""
    old, new, newest = schema_of(8, id=INT), schema_of(5, id=INT, a=INT), schema_of(3, id=INT, a=INT, b=INT)
    done = reconcile([old, new], None, versions_by_time=False)
    assert (list(done.shape.columns), done.refused) == (["id", "a"], {})
    done = reconcile([new, newest], done.shape, done.memory, versions_by_time=False)
    assert (list(done.shape.columns), done.refused) == (["id", "a", "b"], {})
    assert reconcile([new, old], None, versions_by_time=True).kept == ["a"]
    # What may be an older version drops no column.
    done = reconcile([new, replace(old, version=4)], None, versions_by_time=False, on_ddl=DdlPolicy(OnDdl.EVOLVE))
    assert list(done.shape.columns) == ["id", "a"]


def test_a_column_that_is_gone_is_the_policy_s_choice() -> None:
    first, last = schema_of(1, id=INT, a=INT), schema_of(2, id=INT, b=INT)
    for on_ddl, columns in {
        OnDdl.LENIENT: ["id", "a", "b"],
        OnDdl.TRY_EVOLVE: ["id", "b"],
        OnDdl.IGNORE: ["id", "a"],
    }.items():
        made = reconcile([first], None, on_ddl=DdlPolicy(on_ddl))
        for present, memory in ((None, AppliedVersions()), (made.shape, made.memory)):
            done = reconcile([first, last], present, memory, renamed={2: {}}, on_ddl=DdlPolicy(on_ddl))
            assert sorted(done.shape.columns) == sorted(columns)
            assert done.lineage.names(first).get("a") == ("a" if "a" in columns else None)
            assert set(done.lineage.gone(last)) == {"a"} & {*columns}
            assert done.refused == {}
    # Without a statement it may have been renamed to what is new.
    assert reconcile([first, last], None, on_ddl=DdlPolicy(OnDdl.EVOLVE)).kept == ["a"]
    assert reconcile([first, schema_of(2, id=INT)], None, on_ddl=DdlPolicy(OnDdl.EVOLVE)).kept == []


def test_a_version_from_before_a_table_s_first_one() -> None:
    """It is taken where it fits, and spoils nothing where it does not."""
    made = reconcile([schema_of(3, id=INT, a=INT)], None)
    fits, alien, later = schema_of(1, id=INT), schema_of(2, id=INT, z=INT), schema_of(4, id=INT, a=INT, b=INT)
    done = reconcile([fits, later], made.shape, made.memory)
    assert (list(done.shape.columns), done.refused) == (["id", "a", "b"], {})
    done = reconcile([alien, later], made.shape, made.memory)
    assert list(done.shape.columns) == ["id", "a", "b"]
    assert done.refused == {alien: "a version from before those in the table, which does not fit them"}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("a", INT, False), 0),
        (Column("a", INT, True), None),
        (Column("a", UBIGINT, False, "18446744073709551615"), Decimal(2**64 - 1)),
        (Column("a", decimal(6, 2), False, "1.5"), Decimal("1.50")),
        (Column("a", TEXT, False), ""),
        (Column("a", DataType("binary", length=4), False, "ab"), bytearray(b"ab\0\0")),
        (Column("a", DataType("bit", length=10), False, 10), bytearray(b"\0\x0a")),
        (Column("a", DataType("enum", "utf8mb4", elements=("x", "y")), False), "x"),
        (Column("a", DataType("date"), True, "2020-01-02"), dt.date(2020, 1, 2)),
        (
            Column("a", DataType("datetime", decimal=1), True, "2020-01-02 03:04:05.6"),
            dt.datetime(2020, 1, 2, 3, 4, 5, 600000),
        ),
        (Column("a", DataType("year"), False, "1999"), 1999),
        (Column("a", DataType("year"), True, "24"), 2024),
        (Column("a", DataType("year"), True, "70"), 1970),
        (Column("a", DataType("year"), True, "0"), 0),
        (Column("a", DataType("year"), False), 0),
    ],
)
def test_what_older_rows_hold(spark: SparkSession, column: Column, expected: Any) -> None:
    found = fill(column)
    assert found is not None
    assert found.as_py() == expected
    (row,) = spark.range(1).select(literal(found)).collect()
    assert row[0] == expected


@pytest.mark.parametrize(
    "column",
    [
        Column("a", DataType("timestamp"), False, "CURRENT_TIMESTAMP"),
        Column("a", DataType("date"), False),
        Column("a", DataType("datetime"), False, "0000-00-00 00:00:00"),
        Column("a", INT, False, "nextval(s)"),
        Column("a", DataType("varbinary", length=4), True, "\0\ufffd"),
        Column("a", decimal(10, 2), True, default_known=False),
        Column("a", decimal(10, 2), False, default_known=False),
    ],
)
def test_defaults_that_cannot_be_told(column: Column) -> None:
    assert fill(column) is None


@pytest.mark.parametrize(
    ("sql", "warned"),
    [
        ("TRUNCATE TABLE `d`.`t`", True),
        ("DROP DATABASE `d`", True),
        ("RENAME TABLE `a`.`b` TO `c`.`d`", False),
        ("ALTER TABLE `d`.`a b` RENAME AS `d`.`t2`", False),
        ("ALTER TABLE `d`.`t` DROP PARTITION `p0`", True),
        ("ALTER TABLE `d`.`t` FIRST PARTITION LESS THAN (10)", True),
        ("ALTER TABLE `d`.`t` /*!50100 TRUNCATE PARTITION `p0` */", True),
        ("ALTER TABLE `d`.`t` LAST PARTITION LESS THAN (10)", False),
        ("ALTER TABLE `d`.`t` RENAME INDEX `a` TO `b`", False),
        ("ALTER TABLE `d`.`DROP PARTITION ` ADD COLUMN `RENAME TO` INT COMMENT 'DROP TABLE x'", False),
        ("CREATE TABLE `d`.`t` (`id` INT)", False),
    ],
)
def test_schema_changes_that_rows_do_not_show(sql: str, warned: bool) -> None:
    assert bool(not_carried_out([Ddl("QUERY", sql, 1)], {}, DdlPolicy())) is warned
