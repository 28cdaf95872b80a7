"""Values of the model from the text that MySQL shows of them, as protocols in JSON carry it."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions._numbers import bit_bytes, bounded, enum_element, set_elements, unsigned_number, unsigned_text
from tidecast.model import DataType, Kind, spark_type


def from_text(data_type: DataType, text: Column) -> Column:
    """Return a value of the model (see `tidecast.model.spark_type`) from its text; null where it is not of its type.

    Numbers are digits; a BIT is an unsigned number, an ENUM its element's number, a SET its mask as a number. Text of
    other types is taken as it is. Source: Simple protocol, row values; Canal-JSON protocol, values and types.
    """
    return _READERS.get(data_type.kind, _as_is)(data_type, text)


def is_parsed(data_type: DataType) -> bool:
    """Tell whether a text may fail to be a value of a type."""
    return data_type.kind in _READERS


def _as_is(data_type: DataType, text: Column) -> Column:
    return text


def _cast(data_type: DataType, text: Column) -> Column:
    return text.try_cast(spark_type(data_type))


def _decimal(data_type: DataType, text: Column) -> Column:
    if not isinstance(spark_type(data_type), T.DecimalType):
        return text
    point = F.instr(text, ".")
    # Spark rounds what has more digits after the point than its column, which no value of that column has.
    fits = (point == 0) | (F.length(text) - point <= data_type.decimal)
    return F.when(fits | ~F.substr(text, point + 1 + data_type.decimal).rlike("[1-9]"), _cast(data_type, bounded(text)))


def _integer(data_type: DataType, text: Column) -> Column:
    return unsigned_number(text) if isinstance(spark_type(data_type), T.DecimalType) else _cast(data_type, text)


def _set(data_type: DataType, text: Column) -> Column:
    return set_elements(data_type, F.conv(unsigned_text(text), 10, -10).cast("bigint"))


_READERS: dict[Kind, Callable[[DataType, Column], Column]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _cast,
    Kind.FLOAT: _cast,
    Kind.DOUBLE: _cast,
    Kind.DECIMAL: _decimal,
    Kind.BIT: bit_bytes,
    Kind.ENUM: enum_element,
    Kind.SET: _set,
}
