"""The kit as files that a program in any language reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tidecast._errors import ConfigError
from tidecast.conformance._bad_inputs import bad_input_cases
from tidecast.conformance._cases import Case, golden_cases
from tidecast.conformance._golden import golden
from tidecast.conformance._schedules import schedule_cases
from tidecast.conformance._values import TIME_ZONE

CASES = "cases.jsonl"


def expected_file(folder: Path, case: str) -> Path:
    """Return where what is expected of a case lies."""
    return folder / "expected" / f"{case}.jsonl"


def write(folder: Path | str) -> list[str]:
    """Write the kit to a folder that is not there or is empty; return the names of its cases.

    `cases.jsonl` lists the cases, `messages` holds what to read, `schemas` a Schema Registry in files for each case of
    Avro, `expected` what answers should say. Raises ConfigError for a folder with something in it.

    Source: Conformance kit, files.
    """
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConfigError(f"{place} is not an empty folder", hint="name a folder that is not there yet")
    cases = [*golden_cases(), *bad_input_cases(), *schedule_cases()]
    _write_lines(place / CASES, map(_listed, cases))
    for case in cases:
        _write_lines(place / "messages" / f"{case.name}.jsonl", _records(case))
        tables = (asdict(table) for table in case.tables)
        _write_lines(expected_file(place, case.name), [*map(asdict, case.cells), *tables])
    for variant, schemas in golden().schemas.items():
        for schema in schemas:
            version = place / _registry(variant) / "subjects" / schema["subject"] / f"{schema['version']}.json"
            version.parent.mkdir(parents=True, exist_ok=True)
            version.write_text(json.dumps({name: schema[name] for name in ("id", "version", "schema")}))
    return [case.name for case in cases]


def _listed(case: Case) -> Mapping[str, Any]:
    return {
        "case": case.name,
        "protocol": case.protocol,
        "answer": case.answer,
        "messages": f"messages/{case.name}.jsonl",
        "schema_registry": _registry(case.variant) if case.variant in golden().schemas else None,
        "time_zone": TIME_ZONE,
    }


def _registry(variant: str) -> str:
    return f"schemas/{variant}"


def _records(case: Case) -> Iterator[Mapping[str, Any]]:
    for record in case.records:
        place = {"topic": case.topic, "partition": record.partition, "offset": record.offset, "timestamp": 0}
        yield {**place, "key": _base64(record.key), "value": _base64(record.value)}


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_text(text)
