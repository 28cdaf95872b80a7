"""Row changes as a table takes them: keys and rows in its shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast import model
from tidecast.model import Op, TableChanges, TableSchema
from tidecast.replica.plan import Evolution, Plan
from tidecast.replica.settle import IDENTITY, identity, image_of_key, image_of_row, named
from tidecast.replica.tables import Contents, Shape, fill, table_value
from tidecast.spark import sql_name, union

_PLACE = ("topic", "partition", "offset", "commit_ts")
_LOST = T.ArrayType(T.BooleanType())


def changes_of(plan: Plan) -> DataFrame:
    """Return the changes that a plan applies, in the table's types.

    Out: see `table_changes`; those that cannot be applied are among them, without a key.
    """
    evolution, doubtful = plan.evolution, plan.doubtful
    changes = union([table_changes(c, evolution, doubtful, plan.contents) for c in plan.accepted])
    if plan.only is None:
        return changes
    kind = plan.only.schema["key"].dataType
    # Changes that cannot be applied have no key, and are counted.
    nothing = plan.only.sparkSession.range(1).select(F.lit(None).cast(kind).alias("key"))
    those = union([plan.only, nothing]).select(F.col("key").alias("asked"))
    return changes.join(those, F.col("key").eqNullSafe(F.col("asked")), "left_semi")


def table_changes(change: TableChanges, evolution: Evolution, doubtful: Sequence[str], contents: Contents) -> DataFrame:
    """Return the changes of one table version, which have been checked (see `check`), in the table's types.

    Out, beside `topic`, `partition`, `offset`, `commit_ts`, `verdict` and `corrupted`:

    - in tables without a key and logs, `message` bigint, by which two messages differ, and `hash_0`, `hash_1` bigint,
      which are the same when the source sends the change again;
    - `fits` boolean: the change can be applied;
    - `key` struct (see `newest`), null if it cannot;
    - `deleted` boolean;
    - `after` struct, null for a delete. Its `row` is the row in the source's columns. Its `metadata` has the other
      columns (see `Contents`). Its `lost` says for each of the `doubtful` columns whether its value has no form there.

    An update that changes the key gives a second row that deletes the old one, and has no verdict. In a log each change
    is one row, without a key, and a delete has the row before it.
    """
    schema, shape, log = change.schema, evolution.shape, contents.is_log
    names, there = () if log else shape.key or (), _there(schema, evolution)
    has_rows = change.upserts_from is not None or log
    columns = {"fits": F.col("reason").isNull()}
    if has_rows:  # each of these is read twice, as a value and to see whether it was lost, and is dear
        read = (c for c in there.values() if c.name in doubtful)
        columns |= {f"value of {c.name}": table_value(image_of_row(log)[c.name], c.data_type) for c in read}
    frame = change.frame.withColumns(columns)

    def key_of(side: Column) -> Column:
        if not names:
            return F.lit(None).cast("string")
        return F.struct(*(_value(side, there[name], shape.columns[name]).alias(name) for name in names))

    fits, deleted = F.col("fits"), F.col("op") == F.lit(Op.DELETE)
    after = _after(schema, evolution, doubtful, contents) if has_rows else F.lit(None).cast(_type_of(shape, contents))
    entry = {
        "key": F.when(fits, key_of(image_of_key())),
        "deleted": deleted,
        "after": F.when(fits if log else fits & ~deleted, after),
        "verdict": F.col("verdict"),
        "corrupted": F.col("corrupted"),
    }
    before: list[str | Column] = [*_PLACE, *([] if names else identity(change, log)), "fits"]
    if log or not (change.shows_before and has_rows):
        return frame.select(*before, *named(entry))
    left_behind = {
        "key": key_of(F.col("old")),
        "deleted": F.lit(True),
        "after": F.when(F.lit(False), after),
        "verdict": F.lit(None).cast("string"),
        "corrupted": F.lit(None).cast("boolean"),
    }
    moved = fits & F.col("old").isNotNull() & ~deleted & (key_of(F.col("old")) != key_of(F.col("data")))
    one, two = F.struct(*named(entry)), F.struct(*named(left_behind))
    entries = F.when(moved, F.array(two, one)).otherwise(F.array(one))
    exploded = frame.select(*before, F.explode(entries).alias("entry"))
    return exploded.select(*_PLACE, *(() if names else IDENTITY), "fits", "entry.*")


def refused_keys(change: TableChanges, evolution: Evolution) -> DataFrame:
    """Return the keys of the changes of one table version that cannot be applied.

    Out: `topic`, `partition`, `offset`, `commit_ts`, `reason`, `detail`, and `key` (see `newest`), null if it is
    unknown. An update that changes the key gives a row for each.
    """
    shape, there = evolution.shape, _there(change.schema, evolution)
    names = shape.key or ()

    def key_of(side: Column) -> Column:
        if not names or not set(names) <= set(there):
            return F.lit(None).cast(T.StructType([T.StructField(name, shape.columns[name]) for name in names]))
        values = [(_value(side, there[name], shape.columns[name]), name) for name in names]
        known = reduce(and_, (value.isNotNull() for value, _ in values))
        return F.when(known, F.struct(*(value.alias(name) for value, name in values)))

    image, old = key_of(image_of_key()), key_of(F.col("old"))
    keys = F.when(old.isNotNull() & (old != image), F.array(image, old)).otherwise(F.array(image))
    refused = change.frame.where(F.col("reason").isNotNull())
    return refused.select(*_PLACE, "reason", "detail", F.explode(keys).alias("key"))


def filled(name: str, evolution: Evolution) -> Column:
    """Return the value that older rows have in an added column; null if its default is unknown."""
    literal = fill(evolution.defined[name]) if name in evolution.defined else None
    return (F.lit(None) if literal is None else literal).cast(evolution.shape.columns[name])


def _there(schema: TableSchema, evolution: Evolution) -> dict[str, model.Column]:
    """Return a version's columns by their names in the table."""
    names = evolution.lineage.names(schema)
    return {names[c.name]: c for c in schema.columns if c.name in names}


def _value(side: Column, column: model.Column, kind: T.DataType) -> Column:
    return table_value(side[column.name], column.data_type).cast(kind)


def _after(schema: TableSchema, evolution: Evolution, doubtful: Sequence[str], contents: Contents) -> Column:
    """Return `row`, `metadata` and `lost` of a row of one version in the table's shape."""
    image, deleted = image_of_row(contents.is_log), F.col("op") == F.lit(Op.DELETE)
    shape, there, gone = evolution.shape, _there(schema, evolution), evolution.lineage.gone(schema)
    read = {c.name for c in there.values()}.intersection(doubtful)

    def value(name: str, kind: T.DataType) -> Column:
        if name not in there:
            if name in gone:
                return F.lit(None).cast(kind)
            # A delete, which a log has, may show the key alone.
            return F.when(~deleted, filled(name, evolution)) if contents.is_log else filled(name, evolution)
        column = there[name]
        if column.name in read:
            return F.col(sql_name(f"value of {column.name}")).cast(kind)
        return _value(image, column, kind)

    row = F.struct(*(value(name, kind).alias(name) for name, kind in shape.columns.items()))
    lost = (
        image[name].isNotNull() & F.col(sql_name(f"value of {name}")).isNull() if name in read else F.lit(False)
        for name in doubtful
    )
    metadata = [F.struct(*contents.values()).alias("metadata")] if contents.metadata else []
    return F.struct(row.alias("row"), *metadata, F.array(*lost).cast(_LOST).alias("lost"))


def _type_of(shape: Shape, contents: Contents) -> T.StructType:
    metadata = T.StructType([T.StructField(name, kind) for name, kind in contents.columns.items()])
    parts = [T.StructField("metadata", metadata)] if contents.metadata else []
    return T.StructType([T.StructField("row", shape.struct), *parts, T.StructField("lost", _LOST)])
