"""One Debezium message read in Python, the twin of `_decode` and `_decode_values`.

Source: Debezium protocol, messages, column types.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from tidecast.model import InvalidSchema, Kind, Op, Reason, bit_width, read_statement
from tidecast.plain import (
    PlainMessage,
    PlainRow,
    Problem,
    TakesSpark,
    Value,
    check_commit_ts,
    checked_decimal,
    checked_integer,
    float_of,
    is_narrow,
    is_uint64,
    member,
    need,
    object_of,
    real_of,
    shortest_text,
    zone_named,
)
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.debezium._decode import SNAPSHOT, _Group, _Known, _read, _shown
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._defaults import EPOCH_TEXT, in_milliseconds
from tidecast.protocols.debezium._encode import WATERMARK
from tidecast.protocols.debezium._encode_source import CONNECTOR

_COMPACT, _SCHEMA = b'{"payload":{', b',"schema":{'
_SCHEMA_FIRST, _PAYLOAD_LAST = b'{"schema":{', b',"payload":'
_ROW_OPS = (*Op, SNAPSHOT)
_EPOCH = dt.datetime(1970, 1, 1)
_LONG, _UINT64 = 1 << 63, 1 << 64
_EXACT = Context(prec=100)
_LONG_BYTES = 8


def read_plain(value: bytes, options: DecodeOptions) -> PlainMessage:
    """Return what one message says. Raises TakesSpark for one that is not surely sound."""
    zone_named(options.zone)
    message = object_of(value)
    schema = _schema_text(value, message)
    payload = member(message, "payload", dict)
    need(payload is not None, "no payload")
    source = member(payload, "source", dict) or {}
    op, ddl = member(payload, "op", str), member(payload, "ddl", str)
    database, table = member(source, "db", str), member(source, "table", str)
    commit_ts = member(source, "commit_ts", int)
    if commit_ts is not None:
        check_commit_ts(commit_ts)
    if op == WATERMARK:
        need(commit_ts is not None, "a watermark without commit_ts")
        return None
    need(database is not None, "no database")
    if op is None:
        need(ddl is not None, "neither a row nor a schema change")
        _check_change(payload, database, table, commit_ts, options.zone)
        return None
    need(commit_ts is not None or member(source, "connector", str) != CONNECTOR, "no commit_ts")
    need(op in _ROW_OPS and table is not None, "no row of a table")
    group = _Group(database, table, None, None if schema is None else 0, 0, schema, commit_ts or 0, 0)
    reading = _read(group, _Known((), False))
    if isinstance(reading, str):
        return Problem(Reason.UNKNOWN_TABLE if schema is None else Reason.FOREIGN_SCHEMA, reading)
    table_schema, fields = reading
    before, after = (_image(member(payload, side, dict), fields) for side in ("before", "after"))
    deleted = op == Op.DELETE
    need((before if deleted else after) is not None, "the row is missing")
    return PlainRow(
        table_schema,
        Op.CREATE if op == SNAPSHOT else Op(op),
        commit_ts,
        before if op in (Op.UPDATE, Op.DELETE) else None,
        None if deleted else after,
    )


def _schema_text(value: bytes, message: Mapping[str, Any]) -> bytes | None:
    """Return the schema of a message without its first bracket, and with the message's last one; None without one."""
    need({*message} <= {"payload", "schema"}, "more than payload and schema")
    if value.startswith(_COMPACT):
        need(value.count(_SCHEMA) == ("schema" in message), "a schema elsewhere")
        return value.split(_SCHEMA)[1] if "schema" in message else None
    need(value.startswith(_SCHEMA_FIRST) and value.count(_PAYLOAD_LAST) == 1, "another form")
    return value.split(_PAYLOAD_LAST)[0].removeprefix(_SCHEMA_FIRST) + b"}"


def _check_change(
    payload: Mapping[str, Any], database: str, table: str | None, commit_ts: int | None, zone: str
) -> None:
    """Raise TakesSpark for a schema change that does not show a table as it should."""
    changes = payload.get("tableChanges")
    try:
        row: Any = {
            "changes": None if changes is None else json.dumps(changes),
            "database": database,
            "table": table,
            "commit_ts": commit_ts,
        }
        _shown(row, read_statement(payload["ddl"]), zone)
    except (InvalidSchema, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TakesSpark(str(error)) from None


def _image(side: Mapping[str, Any] | None, fields: tuple[Field, ...]) -> dict[str, Value] | None:
    if side is None:
        return None
    return {
        f.column.name: None
        if f.column.virtual or side.get(f.column.name) is None
        else _READERS.get(f.column.data_type.kind, _text)(f, side[f.column.name])
        for f in fields
    }


def _text(field: Field, raw: Any) -> str:
    need(isinstance(raw, str), "no text")
    return str(raw)


def _bytes(field: Field, raw: Any) -> bytes:
    try:
        return base64.b64decode(_text(field, raw), validate=True)
    except ValueError as error:
        raise TakesSpark(str(error)) from None


def _long(raw: Any) -> int:
    need(type(raw) is int and -_LONG <= raw < _LONG, "no number of 64 bits")
    return int(raw)


def _number(raw: Any) -> int | Decimal:
    need(type(raw) in (int, Decimal), "no number")
    return raw  # type: ignore[no-any-return]


def _integer(field: Field, raw: Any) -> int:
    need(type(raw) is int, "no whole number")
    wrapped = is_uint64(field.column.data_type) and raw < 0
    return checked_integer(field.column.data_type, raw + _UINT64 if wrapped else raw)


def _real(field: Field, raw: Any) -> float:
    number = real_of(str(_number(raw)))
    return float_of(number) if field.column.data_type.kind is Kind.FLOAT else number


def _decimal(field: Field, raw: Any) -> Decimal | str:
    data_type = field.column.data_type
    if field.form.type == "bytes":
        unscaled = _bytes(field, raw)
        need(0 < len(unscaled) <= _LONG_BYTES, "a number of another length")
        return checked_decimal(
            data_type, Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-data_type.decimal)
        )
    need(field.form.type == "double", "another form of a decimal")
    number = Decimal(_number(raw))
    if is_narrow(data_type) and data_type.length < 38:
        try:
            return checked_decimal(
                data_type, number.quantize(Decimal(1).scaleb(-data_type.decimal), ROUND_HALF_UP, _EXACT)
            )
        except InvalidOperation as error:
            raise TakesSpark(str(error)) from None
    need(not data_type.length, "a decimal of that many digits")
    return shortest_text(real_of(str(number)))


def _bit(field: Field, raw: Any) -> bytes:
    if field.form.type == "boolean":
        need(isinstance(raw, bool), "no bit")
        return bytes([raw])
    width, bits = bit_width(field.column.data_type), _bytes(field, raw)
    need(len(bits) <= width, "more bits than its column has")
    return bits.ljust(width, b"\0")[::-1]


def _date(field: Field, raw: Any) -> str:
    return str(_moment(dt.timedelta(days=1), _long(raw)).date())


def _datetime(field: Field, raw: Any) -> str:
    unit, width = (1000, 3) if in_milliseconds(field.column.data_type) else (1_000_000, 6)
    whole, rest = divmod(_long(raw), unit)
    always = field.digits or not in_milliseconds(field.column.data_type)
    return f"{_moment(dt.timedelta(seconds=1), whole)}{_fraction(rest, width, field, always)}"


def _moment(unit: dt.timedelta, count: int) -> dt.datetime:
    try:
        return _EPOCH + unit * count
    except OverflowError as error:
        raise TakesSpark(str(error)) from None


def _time(field: Field, raw: Any) -> str:
    need(raw != -_LONG, "a number whose absolute value has no 64 bits")
    seconds, micros = divmod(abs(_long(raw)), 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' if raw < 0 else ''}{clock}{_fraction(micros, 6, field, field.digits)}"


def _fraction(part: int, width: int, field: Field, always: bool) -> str:
    """Return the fraction of a second with its point: as many digits as the column has, or all if they are unknown."""
    digits = f"{part:0{width}}"
    if not always:
        return f".{digits}" if part else ""
    shown = field.column.data_type.decimal
    return f".{digits[:shown]}" if shown else ""


def _timestamp(field: Field, raw: Any) -> str:
    text, digits = _text(field, raw), field.column.data_type.decimal
    need(text.endswith("Z") and 0 <= len(text.encode()) - len(EPOCH_TEXT) <= 7, "no moment")
    if text == EPOCH_TEXT:
        return "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    return text.replace("T", " ").rstrip("Z")


_READERS: Mapping[Kind, Callable[[Field, Any], Value]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _bytes,
    Kind.BIT: _bit,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}
