"""Updates of a key become a delete and an insert. Source: Changefeeds, UPDATE split."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.model import Op, TableSchema
from tidecast.spark import reused

MOVED = "moved"
"""The column that marks the insert half of a split update: it leaves at the end of its table's transaction."""

_WHOLE, _DELETE, _INSERT = 0, 1, 2


def split_key_updates(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """Return a table's changes with each update of a primary or unique key's column as a delete and an insert.

    In: see `tidecast.model.TableChanges`. Out: the same, and `moved` boolean. An update whose old row is not known
    stays one.
    """
    keys = {name for i in schema.indexes if i.unique or i.primary for name in i.columns}
    kept = tuple(c.name for c in schema.columns if c.name in keys and not c.virtual)
    if not kept:
        return frame.withColumn(MOVED, F.lit(False))
    part, columns = _halves(kept)
    return frame.select("*", part).withColumns(columns).drop("part")


@reused()
def _halves(keys: tuple[str, ...]) -> tuple[Column, dict[str, Column]]:
    """Return the parts that an update becomes, and the columns of each."""
    old, data, op = F.col("old"), F.col("data"), F.col("op")
    changed = [~old[name].eqNullSafe(data[name]) for name in keys]
    split = (op == Op.UPDATE) & old.isNotNull() & data.isNotNull() & reduce(or_, changed)
    halves = F.when(split, F.array(F.lit(_DELETE), F.lit(_INSERT))).otherwise(F.array(F.lit(_WHOLE)))
    part, checksum, zero = F.col("part"), F.col("checksum"), F.lit(0).cast("bigint")
    sums = F.when(part == _DELETE, checksum.withField("current", zero))
    sums = sums.when(part == _INSERT, checksum.withField("previous", zero)).otherwise(checksum)
    columns = {
        "op": F.when(part == _DELETE, F.lit(Op.DELETE)).when(part == _INSERT, F.lit(Op.CREATE)).otherwise(op),
        "old": F.when(part != _INSERT, old),
        "data": F.when(part != _DELETE, data),
        "checksum": sums,
        MOVED: part == _INSERT,
    }
    return F.explode(halves).alias("part"), columns
