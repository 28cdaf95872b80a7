"""Avro's binary form inside Spark: framing, and records whose fields Spark need not know by name.

Avro's bytes carry no names. So Spark is given a record with the fields `f0`, `f1` …, which no odd or clashing
column name can upset, and whose decimals of more than 38 digits are plain bytes, as Spark refuses them otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from tidecast.expressions import MAX_LENGTH
from tidecast.model import MAX_DECIMAL_PRECISION
from tidecast.protocols.avro._read_schema import Block, avro_type, branches
from tidecast.registry import Framing

_END = b"T"


def _field_name(position: int) -> str:
    """Return the name that a field has inside Spark."""
    return f"f{position}"


def _wire_type(field_type: object, reading: bool) -> object:
    block, null = branches(field_type)
    plain = avro_type(field_type)
    if reading and plain == "string":
        # The same bytes, but Avro's reader asks for the Java class of every string: 1.1 times as fast without. It
        # can go when Spark tells that reader which class it wants.
        plain = "bytes"
    if isinstance(block, dict) and is_narrow_decimal(block):
        plain = {k: block[k] for k in ("type", "logicalType", "precision", "scale")}
    if null is None:
        return plain
    return ["null", plain] if null == 0 else [plain, "null"]


def is_narrow_decimal(block: Block) -> bool:
    """Tell whether a type is a decimal that Spark can hold."""
    if isinstance(block, str) or block.get("logicalType") != "decimal":
        return False
    return int(str(block["precision"])) <= MAX_DECIMAL_PRECISION


def _record(types: Sequence[object], *, reading: bool) -> str:
    fields = [{"name": _field_name(n), "type": _wire_type(t, reading)} for n, t in enumerate(types)]
    if reading:
        fields.append({"name": "end", "type": "bytes"})
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def write(types: Sequence[object], values: Sequence[Column], head: bytes) -> Column:
    """Return a framed message: the header, and a record of these values. No value without null may be null."""
    fields = (v.alias(_field_name(n)) for n, v in enumerate(values))
    return F.concat(F.lit(head), to_avro(F.struct(*fields), _record(types, reading=False)))


def read(types: Sequence[object], message: Column, framing: Framing) -> Column:
    """Return the record of a framed message, for `field_of` and `is_whole`.

    A mark is put behind the message and must come out again: Spark takes trailing bytes in silence, and turns a
    message that it cannot read into a struct of nulls.
    """
    body = F.concat(F.substring(message, framing.length + 1, MAX_LENGTH), F.lit(b"\x02" + _END))
    return from_avro(body, _record(types, reading=True), {"mode": "PERMISSIVE"})


def field_of(record: Column, position: int, field_type: object) -> Column:
    """Return a field of a record that `read` returned."""
    field = record[_field_name(position)]
    return field.cast("string") if avro_type(field_type) == "string" else field


def is_whole(record: Column) -> Column:
    """Tell whether a record that `read` returned was the whole message and nothing but it."""
    return F.coalesce(record["end"] == F.lit(_END), F.lit(False))
