"""Row changes as a table takes them: keys and rows in its shape, made where the messages are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_, or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast import model
from tidecast.model import Op, TableChanges, TableSchema
from tidecast.replica.plan import Evolution, Plan
from tidecast.replica.settle import SENT, SENT_TABLE, columns_in, identity, is_sent, key_image, row_image
from tidecast.replica.tables import Contents, arrow_type_of, fill, literal, table_value
from tidecast.sources import columns_of, then
from tidecast.spark import union
from tidecast.values import nulls, valid

_PLACE = ("topic", "partition", "offset", "commit_ts")
_LOST = T.ArrayType(T.BooleanType())
_OF_MESSAGE = _ROW, _MESSAGE, _OP, _SENT_TABLE = "_row", "_message", "_op", "_sent_table"
"""What the hashes of a row without a key are made of."""


def changes_of(plan: Plan) -> DataFrame:
    """Return the changes that a plan applies, in the table's types.

    Out: see `table_changes`; those that cannot be applied are among them, without a key.
    """
    return union([table_changes(c, plan.evolution, plan.doubtful, plan.contents) for c in plan.rows.accepted])


def table_changes(change: TableChanges, evolution: Evolution, doubtful: Sequence[str], contents: Contents) -> DataFrame:
    """Return the changes of one table version, which have been checked (see `check`), in the table's types.

    Out, beside `topic`, `partition`, `offset`, `commit_ts`, `verdict` and `corrupted`:

    - in tables without a key and logs, `message` bigint, by which two messages differ, `hash_0`, `hash_1` bigint,
      which are the same when the source sends the change again, and `updated` boolean;
    - `fits` boolean: the change can be applied;
    - `key` struct (see `newest`), null if it cannot;
    - `deleted` boolean;
    - `after` struct, null for a delete. Its `row` is the row in the source's columns. Its `metadata` has the other
      columns (see `Contents`). Its `lost` says for each of the `doubtful` columns whether its value has no form there.

    An update that changes the key gives a second row that deletes the old one, and has no verdict. In a log each change
    is one row, without a key, and a delete has the row before it.
    """
    made = at_the_door(change, evolution, doubtful, contents)
    if evolution.shape.key and not contents.is_log:
        return made.frame
    names = columns_of(made).names[: -len(_OF_MESSAGE)]
    row = columns_of(made)[_ROW].dataType
    assert isinstance(row, T.StructType)
    told = [F.col(_OP), *([F.col(_SENT_TABLE)] if is_sent(change) else [])]
    known = identity(row.fieldNames(), F.col(_ROW), told, F.col(_MESSAGE))
    updated = (F.col(_OP) == str(Op.UPDATE)).alias("updated")
    return made.frame.select(*names[: len(_PLACE)], *known, *names[len(_PLACE) :], updated)


def at_the_door(
    change: TableChanges, evolution: Evolution, doubtful: Sequence[str], contents: Contents
) -> TableChanges:
    """Return changes on their way to the columns of `table_changes`; without a key, to what its hashes are made of."""
    door = _Door.of(change, evolution, doubtful, contents)
    given = columns_of(change)
    after = [T.StructField("row", evolution.shape.struct)]
    if contents.metadata:
        after.append(T.StructField("metadata", T.StructType([*_fields(contents.columns)])))
    after.append(T.StructField("lost", _LOST))
    key = T.StructType([*_fields(door.key)]) if door.key else T.StringType()
    columns = [
        *(given[name] for name in _PLACE),
        T.StructField("fits", T.BooleanType()),
        T.StructField("key", key),
        T.StructField("deleted", T.BooleanType()),
        T.StructField("after", T.StructType(after)),
        T.StructField("verdict", T.StringType()),
        T.StructField("corrupted", T.BooleanType()),
    ]
    if door.key:
        return then(change, partial(_at_door, door), T.StructType(columns))
    sent = is_sent(change)
    message = T.StructType([given["timestamp"], T.StructField("key", T.BinaryType()), given["value"]])
    more = [
        T.StructField(_ROW, given[SENT if sent else "data"].dataType),
        T.StructField(_MESSAGE, message),
        T.StructField(_OP, T.StringType()),
        T.StructField(_SENT_TABLE, T.StringType()),
    ]
    return then(change, partial(_at_door, door), T.StructType([*columns, *more]))


def _fields(columns: Mapping[str, T.DataType]) -> list[T.StructField]:
    return [T.StructField(name, kind) for name, kind in columns.items()]


@dataclass(frozen=True)
class _Door:
    """The columns and key of a table, `row` and `key`, and where a version has their values.

    `there` has the version's columns by their names in the table, `fills` what others of the table hold.
    """

    row: Mapping[str, T.DataType]
    key: Mapping[str, T.DataType]
    there: Mapping[str, model.Column]
    fills: Mapping[str, pa.Scalar]
    doubtful: Sequence[str]
    contents: Contents
    has_rows: bool
    may_move: bool

    @classmethod
    def of(cls, change: TableChanges, evolution: Evolution, doubtful: Sequence[str], contents: Contents) -> _Door:
        schema, shape, log = change.schema, evolution.shape, contents.is_log
        there, gone = _there(schema, evolution), evolution.lineage.gone(schema)
        fills = {n: _filling(n, evolution) for n in shape.columns if n not in there and n not in gone}
        has_rows = change.upserts_from is not None or log
        key = {} if log else {name: shape.columns[name] for name in shape.key or ()}
        moves = bool(key) and change.shows_before and has_rows
        return cls(shape.columns, key, there, fills, doubtful, contents, has_rows, moves)

    def key_of(self, image: Mapping[str, pa.Array], bad: np.ndarray) -> pa.Array:
        """Return the keys of rows, null where they are `bad`."""
        if not self.key:
            return nulls(len(bad), pa.string())
        values = [_value(image, self.there[name], kind) for name, kind in self.key.items()]
        return pa.StructArray.from_arrays(values, names=[*self.key], mask=pa.array(bad))

    def after(self, rows: pa.RecordBatch, gone: np.ndarray, lacks: np.ndarray) -> pa.Array:
        """Return `after`, null where it is `gone`. A row that `lacks` all but its key has no default either."""
        image = columns_in(row_image(rows, of_deletes=self.contents.is_log)) if self.has_rows else {}
        there = self.there if self.has_rows else {}
        typed = {name: table_value(image[c.name], c.data_type) for name, c in there.items()}
        row = {
            name: typed[name].cast(arrow_type_of(kind)) if name in typed else self._fill(name, kind, lacks)
            for name, kind in self.row.items()
        }
        parts = {"row": _struct(row, rows.num_rows)}
        if self.contents.metadata:
            parts["metadata"] = _struct(self.contents.values(rows), rows.num_rows)
        lost = {c.name: valid(image[c.name]) & ~valid(typed[n]) for n, c in there.items() if c.name in self.doubtful}
        parts["lost"] = _in_lists(
            [lost.get(name, np.zeros(rows.num_rows, bool)) for name in self.doubtful], rows.num_rows
        )
        return pa.StructArray.from_arrays([*parts.values()], names=[*parts], mask=pa.array(gone))

    def _fill(self, name: str, kind: T.DataType, lacks: np.ndarray) -> pa.Array:
        value = pa.repeat(self.fills.get(name, pa.scalar(None, arrow_type_of(kind))), len(lacks))
        return pc.if_else(pa.array(lacks), pa.scalar(None, value.type), value) if lacks.any() else value


def _in_lists(marks: Sequence[np.ndarray], count: int) -> pa.ListArray:
    """Return a list for each row of what the marks say of it."""
    flat = np.stack(marks, axis=1).ravel() if marks else np.zeros(0, bool)
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * len(marks)), pa.array(flat))


def _at_door(door: _Door, rows: pa.RecordBatch) -> pa.RecordBatch:
    log, count = door.contents.is_log, rows.num_rows
    fits = ~valid(rows.column("reason"))
    deleted = np.asarray(pc.fill_null(pc.equal(rows.column("op"), str(Op.DELETE)), False))
    columns = {name: rows.column(name) for name in _PLACE}
    columns["fits"] = pa.array(fits)
    columns["key"] = door.key_of(columns_in(key_image(rows)) if door.key else {}, ~fits)
    columns["deleted"] = pa.array(deleted)
    columns["after"] = door.after(rows, ~fits | (deleted & (not log)), deleted & log)
    columns |= {name: rows.column(name) for name in ("verdict", "corrupted")}
    if not door.key:
        sent = SENT in rows.schema.names
        columns[_ROW] = rows.column(SENT) if sent else row_image(rows, of_deletes=log)
        columns[_MESSAGE] = _struct({name: rows.column(name) for name in ("timestamp", "key", "value")}, count)
        columns[_OP] = rows.column("op")
        columns[_SENT_TABLE] = rows.column(SENT_TABLE) if sent else nulls(count, pa.string())
    made = pa.RecordBatch.from_pydict(columns)
    return _with_left_behind(door, rows, made) if door.may_move else made


def _with_left_behind(door: _Door, rows: pa.RecordBatch, made: pa.RecordBatch) -> pa.RecordBatch:
    """Return changes, and the deletes of the keys that updates have changed."""
    old = rows.column("old")
    if old.null_count == len(old):
        return made
    moved = valid(old) & np.asarray(made.column("fits")) & ~np.asarray(made.column("deleted"))
    before = door.key_of(columns_in(old), ~moved)
    moved &= _differ(before, made.column("key"))
    if not moved.any():
        return made
    at, n = pa.array(np.flatnonzero(moved)), int(moved.sum())
    left = {name: made.column(name).take(at) for name in made.schema.names}
    left |= {"key": before.take(at), "deleted": pa.repeat(True, n)}
    left |= {name: nulls(n, left[name].type) for name in ("after", "verdict", "corrupted")}
    both = [made, pa.RecordBatch.from_pydict(left)]
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([one.column(name) for one in both]) for name in made.schema.names], names=made.schema.names
    )


def _differ(a: pa.StructArray, b: pa.StructArray) -> np.ndarray:
    """Return which of two keys have another value in some column."""
    pairs = zip(a.flatten(), b.flatten(), strict=True)
    unlike = (np.asarray(pc.fill_null(pc.not_equal(x, y), False)) | (valid(x) != valid(y)) for x, y in pairs)
    return reduce(or_, unlike, np.zeros(len(a), bool))


def _struct(columns: Mapping[str, pa.Array], count: int) -> pa.StructArray:
    """Return rows that are all there."""
    if not columns:
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays([*columns.values()], names=[*columns])


def refused_keys(change: TableChanges, evolution: Evolution) -> DataFrame:
    """Return the keys of the changes of one table version that cannot be applied.

    Out: `topic`, `partition`, `offset`, `commit_ts`, `reason`, `detail`, and `key` (see `newest`), null if it is
    unknown. An update that changes the key gives a row for each.
    """
    door, given = _Door.of(change, evolution, (), Contents()), columns_of(change)
    columns = [*(given[name] for name in (*_PLACE, "reason", "detail"))]
    columns.append(T.StructField("key", T.StructType([*_fields(door.key)])))
    return then(change, partial(_refused_keys, door), T.StructType(columns)).frame


def _refused_keys(door: _Door, rows: pa.RecordBatch) -> pa.RecordBatch:
    rows = rows.filter(rows.column("reason").is_valid())
    count, known = rows.num_rows, {*door.key} <= {*door.there}
    kind = pa.struct([(name, arrow_type_of(kind)) for name, kind in door.key.items()])

    def keys(image: pa.StructArray) -> pa.Array:
        if not door.key or not known:
            return nulls(count, kind)
        found = columns_in(door.key_of(columns_in(image), np.zeros(count, bool)))
        whole = reduce(and_, map(valid, found.values()))
        return pa.StructArray.from_arrays([*found.values()], names=[*found], mask=pa.array(~whole))

    image, old = keys(key_image(rows)), keys(rows.column("old"))
    second = np.flatnonzero(valid(old) & valid(image) & _differ(old, image))
    at = pa.array(np.concatenate([np.arange(count), second]))
    columns = {name: rows.column(name).take(at) for name in (*_PLACE, "reason", "detail")}
    return pa.RecordBatch.from_pydict({**columns, "key": pa.concat_arrays([image, old.take(pa.array(second))])})


def filled(name: str, evolution: Evolution) -> Column:
    """Return the value that older rows have in an added column; null if its default is unknown."""
    return literal(_filling(name, evolution)).cast(evolution.shape.columns[name])


def _filling(name: str, evolution: Evolution) -> pa.Scalar:
    kind = arrow_type_of(evolution.shape.columns[name])
    known = fill(evolution.defined[name]) if name in evolution.defined else None
    return pa.scalar(None, kind) if known is None else known.cast(kind)


def _there(schema: TableSchema, evolution: Evolution) -> dict[str, model.Column]:
    """Return a version's columns by their names in the table."""
    names = evolution.lineage.names(schema)
    return {names[c.name]: c for c in schema.columns if c.name in names}


def _value(image: Mapping[str, pa.Array], column: model.Column, kind: T.DataType) -> pa.Array:
    return table_value(image[column.name], column.data_type).cast(arrow_type_of(kind))
