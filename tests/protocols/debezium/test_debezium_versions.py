"""Which version of a table describes a row, where several would give the schema that its message carries."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from debezium_avro import Subject, decoder, envelope, optional, row
from decoded_batches import Message, batch

from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols import Decoder
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._schema import column_schema

Json = dict[str, Any]
INT = DataType("int", length=11)


def table(version: int, names: str) -> TableSchema:
    """Return a version with columns of these letters. A version of 0 is one without a commit-ts."""
    return TableSchema("shop", "t", 0, version, tuple(Column(name, INT) for name in names))


def known(*versions: TableSchema, ordered: bool = True) -> Known:
    tables = Known(ordered)
    for number, version in enumerate(versions):
        tables = tables.with_version(version, version.version or None, 10 * number)
    return tables


@dataclass(frozen=True)
class Row:
    """A row with columns of some letters: its `at` is its commit-ts, or its offset where it has none."""

    at: int
    names: str
    timed: bool = True

    @property
    def values(self) -> Json:
        """Numbers by the places of the columns."""
        return {name: number for number, name in enumerate(self.names)}

    def in_json(self) -> bytes:
        """Return its message in JSON."""
        source = {"db": "shop", "table": "t", "connector": "TiCDC", "commit_ts": self.at}
        origin = source if self.timed else {"db": "shop", "table": "t", "connector": "mysql"}
        columns = [column_schema(Column(name, INT), False) for name in self.names]
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}
        payload = {"source": origin, "op": "c", "before": None, "after": self.values}
        return json.dumps({"payload": payload, "schema": schema}, separators=(",", ":")).encode()


def by_json(tables: Known, rows: Sequence[Row]) -> tuple[Decoder, list[Message]]:
    return DebeziumDecoder(tables), [(None, row.in_json()) for row in rows]


def by_avro(tables: Known, rows: Sequence[Row]) -> tuple[Decoder, list[Message]]:
    names = {row.names: number for number, row in enumerate(rows)}
    subjects = {
        text: Subject(number, envelope([optional(name, "int", tidb_type="int") for name in text]))
        for text, number in names.items()
    }
    written = (subjects[one.names].message(row("c", None, one.values, commit_ts=one.at)) for one in rows)
    return replace(decoder(*subjects.values()), known=tables), [(None, value) for value in written]


Write = Callable[[Known, Sequence[Row]], tuple[Decoder, list[Message]]]


def read(reader: Decoder, messages: Sequence[Message], rows: Sequence[Row]) -> dict[Row, tuple[str, int, str]]:
    """Return of each row the name, the number and the columns of its version."""
    offsets = pa.array([row.at for row in rows])
    whole = batch(messages).append_column("offset", offsets)
    found = {}
    for part in reader.decode(whole).rows:
        assert part.reason.null_count == len(part.at)
        assert part.at.tolist() == sorted(part.at.tolist())
        schema = part.version.schema
        for at, data in zip(part.at.tolist(), part.data.to_pylist(), strict=True):
            assert data == rows[at].values
            found[rows[at]] = (part.version.name, schema.version, "".join(c.name for c in schema.columns))
    places = reader.decode(whole, values=False).rows
    assert {(p.version.name, p.version.schema, *p.at) for p in places} == {
        (p.version.name, p.version.schema, *p.at) for p in reader.decode(whole).rows
    }
    return found


DROPPED_AND_ADDED = [table(10, "iba"), table(20, "ib"), table(30, "iba")]
EXCHANGED = [table(10, "iab"), table(20, "ixb"), table(21, "ixa"), table(22, "iba")]
CASES = {
    "a column is dropped and added": (DROPPED_AND_ADDED, {Row(15, "iba"): 10, Row(25, "ib"): 20, Row(35, "iba"): 30}),
    "and its version begins with the row": (DROPPED_AND_ADDED, {Row(29, "ib"): 20, Row(30, "iba"): 30}),
    "two columns exchange their names": (EXCHANGED, {Row(15, "iab"): 10, Row(35, "iba"): 22}),
    "a table is dropped and made again": ([table(10, "ia"), table(20, "ia")], {Row(15, "ia"): 10, Row(25, "ia"): 20}),
    # What it was before is not known, but that it was not what came later.
    "the first version is not known": (
        DROPPED_AND_ADDED[1:],
        {Row(15, "iba"): 15, Row(17, "iba"): 15, Row(35, "iba"): 30},
    ),
    "a selector leaves a column out": (
        [table(10, "iab"), table(20, "ib"), table(25, "ibc"), table(30, "ibca")],
        {Row(15, "iab"): 10, Row(35, "iba"): 30},
    ),
    "a selector leaves an added column out": (
        [table(10, "ia"), table(20, "iab")],
        {Row(15, "ia"): 10, Row(25, "ia"): 10},
    ),
    "no version is like the rows": ([table(10, "ia"), table(20, "ib")], {Row(15, "iz"): 15, Row(25, "iz"): 25}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("write", [by_json, by_avro])
def test_a_row_is_of_the_version_that_had_begun(write: Write, case: str) -> None:
    versions, want = CASES[case]
    for some in permutations(want):
        found = read(*write(known(*versions), some), some)
        assert {row: number for row, (_, number, _) in found.items()} == want
        assert len({name for name, _, _ in found.values()}) == len(
            {(number, row.names) for row, number in want.items()}
        )


@pytest.mark.parametrize("write", [by_json, by_avro])
def test_any_split_gives_rows_the_same_version(write: Write) -> None:
    """And so does what a task for one version is given."""
    some = [Row(at, "iba") for at in (15, 31, 16, 35, 10)]
    reader, messages = write(known(*DROPPED_AND_ADDED), some)
    whole = read(reader, messages, some)
    assert [whole[one][1] for one in some] == [10, 30, 10, 30, 10]
    for n, one in enumerate(some):
        assert read(reader, messages[n : n + 1], [one]) == {one: whole[one]}
    for part in reader.decode(batch(messages)).rows:
        mine = {rows.version.name: rows.version for rows in reader.of(part.version).decode(batch(messages)).rows}
        assert mine[part.version.name] == part.version


def test_without_commit_ts_the_order_of_messages_decides() -> None:
    versions = [replace(table(0, names), table_id=n) for n, names in enumerate(["iba", "ib", "iba"])]
    some = [Row(at, "iba", timed=False) for at in (5, 25)]
    reader, messages = by_json(known(*versions), some)
    whole = batch(messages).append_column("offset", pa.array([row.at for row in some]))
    assert [(r.version.schema.table_id, r.at.tolist()) for r in reader.decode(whole).rows] == [(0, [0]), (2, [1])]


@pytest.mark.parametrize("write", [by_json, by_avro])
def test_a_commit_ts_of_0_is_none(write: Write) -> None:
    some = [Row(0, "iba"), Row(0, "iba")]
    reader, messages = write(known(*DROPPED_AND_ADDED), some)
    whole = batch(messages).append_column("offset", pa.array([5, 25]))
    found = [(r.version.schema.version, r.at.tolist(), r.commit_ts.to_pylist()) for r in reader.decode(whole).rows]
    assert found == [(10, [0], [None]), (30, [1], [None])]


@pytest.mark.parametrize(("names", "chosen"), [("iab", 0), ("iba", 1), ("bai", 1)])
def test_without_any_order_that_of_columns_decides(names: str, chosen: int) -> None:
    """Else the last version that would give the schema does."""
    versions = [replace(table(0, names), table_id=n) for n, names in enumerate(["iab", "iba"])]
    reader, messages = by_json(known(*versions, ordered=False), [Row(5, names, timed=False)])
    (rows,) = reader.decode(batch(messages)).rows
    assert rows.version.schema.table_id == chosen


@pytest.mark.parametrize("versions", [(), (table(1, "abc"),)])
def test_rows_that_lack_a_column_of_their_key_cannot_be_told_apart(versions: tuple[TableSchema, ...]) -> None:
    """A column selector drops it from values, and not from keys."""
    key = json.dumps({"payload": {"a": 1, "b": 1}}).encode()
    (found,) = DebeziumDecoder(known(*versions)).decode(batch([(key, Row(5, "ac").in_json())])).rejected
    assert found.detail.to_pylist() == ["the primary key has column b, which is not in the row"]
