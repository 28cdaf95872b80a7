"""Compatibility of Avro schemas: a Schema Registry's levels, and the check of a new version against earlier ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType, lookup_writer_field
from avro.errors import AvroException
from avro.schema import RecordSchema, Schema, parse

LEVELS = ("NONE", *(way + far for way in ("BACKWARD", "FORWARD", "FULL") for far in ("", "_TRANSITIVE")))
"""What may be asked of a new version: to read the data of the one before (backward), to be read by it (forward), both;
or so with all earlier ones (transitive)."""
DEFAULT_LEVEL = "BACKWARD"


def refusal(new: str, earlier: Sequence[tuple[int, str]], level: str) -> str | None:
    """Return why a registry would refuse the schema text `new` after these versions, None where it would take it.

    `earlier` holds version numbers and texts, ascending. As in Confluent's registry a text must be a valid schema
    at every level, `default` values are not checked against their types (TiCDC's often do not fit), and logical
    types and unknown members say nothing about compatibility.
    """
    try:
        schema = _parse(new)
    except AvroException as error:
        return f"Invalid Avro schema: {error}"
    if level == "NONE":
        return None
    for version, text in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
        try:
            old = _parse(text)
        except AvroException as error:
            return f"Version {version} of the subject is no valid Avro schema: {error}"
        causes = [
            *(() if level.startswith("FORWARD") else _causes(schema, old, "new", "old")),
            *(() if level.startswith("BACKWARD") else _causes(old, schema, "old", "new")),
        ]
        if causes:
            return (
                f"Schema being registered is incompatible with an earlier schema: {'; '.join(causes)} "
                f"(earlier version: {version}, compatibility: {level})"
            )
    return None


def _parse(text: str) -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser warns of logical types it does not know; they do not matter here
        try:
            return parse(text)
        except RecursionError:
            raise AvroException("nested too deeply") from None


def _causes(reader: Schema, writer: Schema, reads: str, wrote: str) -> Iterator[str]:
    """Say, field by field, why `reader` cannot read what `writer` wrote; the names tell the two schemas apart."""
    mismatch = _mismatch(reader, writer)
    if mismatch is None:
        return
    found = False
    if isinstance(reader, RecordSchema) and isinstance(writer, RecordSchema):
        for field in reader.fields:
            counterpart = lookup_writer_field(writer, field)
            cause = None
            if counterpart is not None:
                cause = _mismatch(field.type, counterpart.type)
            elif not field.has_default:
                cause = f"READER_FIELD_MISSING_DEFAULT_VALUE: no default value, and missing in the {wrote} schema"
            if cause:
                found = True
                yield f"field '{field.name}' of the {reads} schema: {cause}"
    if not found:  # what differs is no field: the record's name, or one of the two is no record
        yield f"the {reads} schema cannot read the {wrote} one: {mismatch}"


def _mismatch(reader: Schema, writer: Schema) -> str | None:
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return None
    kinds = {kind.name.upper() for kind in result.incompatibilities}
    return f"{', '.join(sorted(kinds))}: {', '.join(sorted(result.messages))}"
