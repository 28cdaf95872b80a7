"""Values that Debezium's forms damage. Source: Debezium protocol, column types, NULL values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from tidecast.model import Column, Kind, TableSchema
from tidecast.protocols.debezium._defaults import EXACT_DIGITS, null_stand_in, zone_of
from tidecast.protocols.debezium._options import DebeziumOptions

_ALWAYS_DIGITS = 6
"""DATETIME with so many digits after the point shows all of them."""


def _is_west(zone: str) -> bool:
    """Tell whether clocks in a zone were behind UTC when TIMESTAMP begins."""
    return (dt.datetime(1970, 1, 1, tzinfo=zone_of(zone)).utcoffset() or dt.timedelta()) < dt.timedelta()


def lossy_columns(schema: TableSchema, options: DebeziumOptions) -> list[tuple[str, str]]:
    """Return the columns with values that cannot be read back from the messages alone, and what is read instead.

    A column may be named more than once. Who knows the table too (see `decode`) gets back the digits of times, and
    without the extension bytes and unsigned numbers.
    """
    return [(c.name, damage) for c in schema.columns if not c.virtual for damage in _damages(c, options)]


def _damages(column: Column, options: DebeziumOptions) -> Iterator[str]:
    data_type, extended = column.data_type, options.enable_tidb_extension
    match data_type.kind:
        case Kind.DECIMAL if not 0 < data_type.length <= EXACT_DIGITS:
            yield f"a double keeps {EXACT_DIGITS} digits of a decimal, not always more"
        case Kind.FLOAT | Kind.DOUBLE:
            yield "-0 becomes 0 where a reader takes it for a whole number"
        case Kind.INTEGER if data_type.mysql_type == "bigint" and data_type.unsigned and not extended:
            yield "numbers from 2^63 on become negative"
        case Kind.BINARY if not extended:
            yield "bytes become Base64 text"
    yield from damages_of_forms(column, options)


def damages_of_forms(column: Column, options: DebeziumOptions) -> Iterator[str]:
    """Yield what Debezium's forms do to values of a column, whether they go as JSON or as Avro."""
    data_type = column.data_type
    if column.nullable and null_stand_in(column, options) is not None:
        yield "NULL becomes the default"
    if data_type.kind in (Kind.DATE, Kind.DATETIME):
        yield "days that no calendar has become NULL or 1970-01-01, years below 100 become 1970 to 2069"
    if data_type.kind is Kind.TIMESTAMP and _is_west(options.zone):
        yield "the first hours of 1970 become the zero value"
    match data_type.kind:
        case Kind.DATETIME if 0 < data_type.decimal < _ALWAYS_DIGITS:
            yield "the number of digits after the point is lost"
        case Kind.TIME if data_type.decimal:
            yield "the number of digits after the point is lost"
        case Kind.TIMESTAMP if data_type.decimal:
            yield "the zero value has no digits after the point"
