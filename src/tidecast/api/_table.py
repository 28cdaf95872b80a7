"""The rows of all versions of a table as one DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast.model import MAX_DECIMAL_PRECISION, DataType, Kind, Op, TableChanges, spark_type
from tidecast.sources import with_verdict
from tidecast.spark import parallel_map, union, untraced

_SOURCE = {
    "_op": "op",
    "_commit_ts": "commit_ts",
    "_verdict": "verification.verdict",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
"""The columns beside those of the row, and what they are in a frame of changes with verdicts."""

_NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_TEXTS = (Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR)
_FAMILY = {**dict.fromkeys(_NUMBERS, Kind.INTEGER), **dict.fromkeys(_TEXTS, Kind.TEXT)}
"""Kinds whose values may stand in one column, beside each kind with itself; a DATETIME and a TIMESTAMP may not."""

_WHOLE_DIGITS: dict[T.DataType, int] = {T.IntegerType(): 10, T.LongType(): 19}


@dataclass(frozen=True)
class _Column:
    """A column of all versions: its newest name and the type that holds every version's values."""

    name: str
    data_type: DataType
    type: T.DataType
    version: int


def table_frame(versions: Sequence[TableChanges]) -> DataFrame:
    """Return the good rows of a table's versions as one frame; see `Events.table`. Starts no job."""
    columns = _columns(versions)
    return union(parallel_map(lambda changes: _rows(changes, columns), versions))


def _columns(versions: Sequence[TableChanges]) -> Mapping[str, _Column]:
    """Return the columns of all versions by their names in lower case, in the order of the newest version with rows.

    Raises ConfigError where no type holds the values of a column in two versions, or a column has a name of ours.
    """
    columns: dict[str, _Column] = {}
    # A version that only deletes show may have no column but the key.
    for changes in sorted(versions, key=lambda v: (v.upserts_from is not None, v.schema.version), reverse=True):
        schema = changes.schema
        for column in schema.columns:
            key, kind = column.name.lower(), spark_type(column.data_type)
            if key in _SOURCE:
                raise ConfigError(
                    f"column {column.name} of {schema.name} has the name of a column that table() adds",
                    hint="take the versions one by one: events.tables",
                )
            known = columns.get(key)
            if known is None:
                columns[key] = _Column(column.name, column.data_type, kind, schema.version)
                continue
            common = _common_type(known, column.data_type)
            if common is None:
                raise ConfigError(
                    f"column {column.name} of {schema.name} is {column.data_type} in version {schema.version} and "
                    f"{known.data_type} in version {known.version}: no type holds both",
                    hint="take the versions one by one: events.tables",
                )
            columns[key] = replace(known, type=common)
    return columns


def _common_type(known: _Column, other: DataType) -> T.DataType | None:
    """Return the type that holds the values of a column as they are in another version, too; None where none does."""
    if known.data_type.kind is not other.kind and _family(known.data_type) is not _family(other):
        return None
    one, two = known.type, spark_type(other)
    if one == two:
        return one
    if {one, two} <= {T.FloatType(), T.DoubleType(), T.IntegerType()} and T.DoubleType() in (one, two):
        return T.DoubleType()
    here, there = _digits(one), _digits(two)
    if here is None or there is None:
        return None
    if {one, two} == {T.IntegerType(), T.LongType()}:
        return T.LongType()
    whole, scale = max(here[0], there[0]), max(here[1], there[1])
    return T.DecimalType(whole + scale, scale) if whole + scale <= MAX_DECIMAL_PRECISION else None


def _family(data_type: DataType) -> Kind:
    return _FAMILY.get(data_type.kind, data_type.kind)


def _digits(kind: T.DataType) -> tuple[int, int] | None:
    """Return how many digits before and after the point a type's values have; None where it has no exact numbers."""
    if isinstance(kind, T.DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (_WHOLE_DIGITS[kind], 0) if kind in _WHOLE_DIGITS else None


def _rows(changes: TableChanges, columns: Mapping[str, _Column]) -> DataFrame:
    """Return the good rows of one version with the columns of all."""
    names = {column.name.lower(): column.name for column in changes.schema.columns}
    deleted = F.col("op") == F.lit(Op.DELETE)

    def value(key: str, column: _Column) -> Column:
        if key not in names:
            return F.lit(None).cast(column.type)
        image = F.when(deleted, F.col("old")[names[key]]).otherwise(F.col("data")[names[key]])
        return image.cast(column.type)

    checked = with_verdict(changes).where(F.col("reason").isNull())
    values = {column.name: value(key, column) for key, column in columns.items()}
    return untraced(checked, {**values, **{name: F.col(source) for name, source in _SOURCE.items()}})
