"""One Avro message read in Python, the twin of `_decode` and `_read_values`. Source: Avro protocol, wire format."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro

from tidecast.model import DataType, Kind, Op, Reason, bit_width
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
    from_text,
    in_utc,
    is_uint64,
    member,
    need,
    object_of,
    zone_named,
)
from tidecast.protocols._protocol import DecodeOptions, missing_registry
from tidecast.protocols.avro._control import DDL, WATERMARK, WATERMARK_LENGTH
from tidecast.protocols.avro._decode import Schema, Schemas, too_short
from tidecast.protocols.avro._read_schema import Field, WriterSchema, avro_type, branches
from tidecast.protocols.avro._schema import CHECKSUM, COMMIT_TS, CORRUPTED, OP
from tidecast.protocols.avro._wire import is_narrow_decimal
from tidecast.registry import Framing

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_CHECKSUM = re.compile(r"[0-9]{1,18}")
_INT, _UINT64 = 1 << 31, 1 << 64
_WIDEST = 30
"""The most bytes of a DECIMAL's number."""


def read_plain(value: bytes, options: DecodeOptions) -> PlainMessage:
    """Return what one message says. Raises TakesSpark for one that is not surely sound."""
    if options.registry is None:
        raise missing_registry("Avro")
    options.registry.check()
    zone = zone_named(options.zone)
    if value.startswith(WATERMARK) and len(value) == WATERMARK_LENGTH:
        return None
    if value.startswith(DDL):
        change = object_of(value[len(DDL) :])
        need(member(change, "commitTs", int) is not None, "a schema change without commitTs")
        member(change, "query", str)
        member(change, "type", int, bits=32)
        return None
    framing = options.registry.framing
    if problem := _malformed(value, framing):
        return problem
    schemas = Schemas(options.registry)
    head = value[: framing.length]
    if wrong := schemas.wrong(None, head):
        return Problem(Reason(wrong[0]), wrong[1])
    return _row(schemas[head], value[framing.length :], zone)


def _malformed(value: bytes, framing: Framing) -> Problem | None:
    """Return why a message's framing shows no schema id, None where it does."""
    need(bool(value), "an empty message")
    begins = value[: len(framing.magic)]
    if len(begins) == len(framing.magic) and begins != framing.magic:
        return Problem(Reason.BAD_MAGIC, f"begins with {begins.hex()}, not with {framing.magic.hex()}")
    if len(value) < framing.length:
        return Problem(Reason.TRUNCATED, too_short(framing))
    return None


def _row(schema: Schema, body: bytes, zone: dt.tzinfo) -> PlainRow:
    writer = schema.writer
    record = _record(writer, body)
    values: dict[str, Value] = {}
    extension: dict[str, Any] = {}
    for field, raw in zip(writer.fields, record, strict=True):
        if field.column is None:
            extension[field.name] = _utf8(raw) if isinstance(raw, bytes) else raw
        else:
            values[field.column.name] = None if raw is None else _value(field, field.column.data_type, raw, zone)
    op, commit_ts, checksum = extension.get(OP, Op.CREATE), extension.get(COMMIT_TS), extension.get(CHECKSUM) or None
    need(isinstance(op, str) and op in set(Op), "another operation")
    if commit_ts is not None:
        need(type(commit_ts) is int, "a commit-ts of another type")
        check_commit_ts(commit_ts)
    if checksum is not None:
        need(isinstance(checksum, str) and _CHECKSUM.fullmatch(checksum) is not None, "a checksum that is no number")
    return PlainRow(
        writer.table_schema(schema.version, ()),
        Op(op),
        commit_ts,
        None,
        values,
        None if checksum is None else int(checksum),
        checksum is not None and bool(extension.get(CORRUPTED)),
    )


def _record(writer: WriterSchema, body: bytes) -> list[Any]:
    """Return the values of a record as Avro has them, strings as bytes.

    What comes must be written with the same bytes: readers differ in what they forgive.
    """
    names = [f"f{n}" for n in range(len(writer.fields))]
    types = [_wire_type(f.type) for f in writer.fields]
    record = [{"name": name, "type": kind} for name, kind in zip(names, types, strict=True)]
    again = io.BytesIO()
    try:
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": record})
        found: Any = fastavro.schemaless_reader(io.BytesIO(body), schema, schema)
        fastavro.schemaless_writer(again, schema, found)
        same = again.getvalue() == body
    except Exception as error:  # fastavro raises what its reading comes upon
        raise TakesSpark(str(error)) from None
    need(same, "not the bytes of a record")
    for field, name in zip(writer.fields, names, strict=True):
        need(avro_type(field.type) != "int" or found[name] is None or -_INT <= found[name] < _INT, "no int")
    return [found[name] for name in names]


def _wire_type(field_type: object) -> object:
    """Return a field's type by its bytes alone: no logical type, and strings as bytes, which need not be UTF-8."""
    plain = avro_type(field_type)
    plain = "bytes" if plain == "string" else plain
    _, null = branches(field_type)
    return plain if null is None else ["null", plain] if null == 0 else [plain, "null"]


class _Reading(NamedTuple):
    """What the value of one field is read by."""

    field: Field
    data_type: DataType
    zone: dt.tzinfo

    @property
    def is_text(self) -> bool:
        """Whether the field is a string."""
        return avro_type(self.field.type) == "string"


def _value(field: Field, data_type: DataType, raw: Any, zone: dt.tzinfo) -> Value:
    reading = _Reading(field, data_type, zone)
    read: Callable[[_Reading, Any], Value] = _READERS.get(data_type.kind, _as_is)
    return read(reading, _utf8(raw) if reading.is_text else raw)


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TakesSpark(str(error)) from None


def _as_is(reading: _Reading, raw: Any) -> Any:
    return raw


def _integer(reading: _Reading, raw: Any) -> Value:
    if reading.is_text:
        return from_text(reading.data_type, raw)
    wrapped = is_uint64(reading.data_type) and raw < 0
    return checked_integer(reading.data_type, raw + _UINT64 if wrapped else raw)


def _float(reading: _Reading, raw: Any) -> Value:
    return float_of(raw) if avro_type(reading.field.type) == "double" else float(raw)


def _decimal(reading: _Reading, raw: Any) -> Value:
    if reading.is_text:
        need(_NUMBER.fullmatch(raw) is not None, "no decimal number")
        return str(raw)
    need(0 < len(raw) <= _WIDEST, "a number too long for a decimal")
    unscaled, scale = int.from_bytes(raw, "big", signed=True), reading.data_type.decimal
    number = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    block, _ = branches(reading.field.type)
    if is_narrow_decimal(block):
        return checked_decimal(reading.data_type, number)
    need(len(str(abs(unscaled))) <= reading.data_type.length, "more digits than its column has")
    return format(number, "f")


def _bit(reading: _Reading, raw: Any) -> bytes:
    return bytes(raw).rjust(bit_width(reading.data_type), b"\0")


_READERS: Mapping[Kind, Callable[[_Reading, Any], Value]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.TIMESTAMP: lambda reading, raw: in_utc(raw, reading.zone),
}
