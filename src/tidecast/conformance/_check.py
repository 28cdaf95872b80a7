"""Answers compared with what is expected, and a report by feature."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidecast._errors import ConfigError
from tidecast.conformance._values import same_form
from tidecast.conformance._write import CASES, expected_file

Answer = dict[str, Any]

_ABSENT = object()
_SHOWN = 60


@dataclass
class Feature:
    """The result of one feature in one protocol: how much was right, wrong, or not answered, and the first wrong."""

    protocol: str
    feature: str
    passed: int = 0
    failed: int = 0
    not_answered: int = 0
    first: str | None = None

    @property
    def answered(self) -> int:
        """The number of answers, right or wrong."""
        return self.passed + self.failed

    def count(self, wrong: str | None) -> None:
        """Count something that was answered; `wrong` tells how it differs, None where it does not."""
        self.passed += wrong is None
        self.failed += wrong is not None
        self.first = self.first or wrong


@dataclass
class Report:
    """The results of all features, in the order of the cases."""

    features: list[Feature] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Tell whether something was answered wrongly."""
        return any(feature.failed for feature in self.features)

    @property
    def answered(self) -> bool:
        """Tell whether there is any answer."""
        return any(feature.answered for feature in self.features)

    def of(self, protocol: str, feature: str) -> Feature:
        """Return one feature of one protocol, which is added where it is new."""
        for known in self.features:
            if (known.protocol, known.feature) == (protocol, feature):
                return known
        self.features.append(Feature(protocol, feature))
        return self.features[-1]


def check(folder: Path | str, results: Path | str) -> Report:
    """Compare a file of answers with a kit that `write` wrote.

    A feature is not answered where its case has no answer, no answer about this kind of message, or none with this
    member. Raises ConfigError where a file cannot be read or a line is no answer to one of the cases.

    Source: Conformance kit, answers.
    """
    place = Path(folder)
    cases = [case["case"] for case in _lines(place / CASES)]
    answers: dict[str, list[Answer]] = {name: [] for name in cases}
    for number, answer in enumerate(_lines(Path(results)), 1):
        if answer.get("case") not in answers:
            raise ConfigError(
                f"there is no case {answer.get('case')!r}",
                where=f"{results} line {number}",
                hint=f"the cases are those in {place / CASES}",
            )
        answers[answer["case"]].append(answer)
    report = Report()
    for name in cases:
        check_case(report, name, list(_lines(expected_file(place, name))), answers[name])
    return report


def features_of(folder: Path | str) -> list[tuple[str, str]]:
    """Return the features of a kit that `write` wrote, each with its protocol."""
    place = Path(folder)
    found = {
        (protocol_of(case["case"]), line["feature"]): None
        for case in _lines(place / CASES)
        for line in _lines(expected_file(place, case["case"]))
    }
    return list(found)


def protocol_of(case: str) -> str:
    """Return the protocol, and its encoding or mode, that a case is about."""
    return case.partition(".")[0]


def check_case(report: Report, name: str, expected: Sequence[Answer], answers: Sequence[Answer]) -> None:
    """Add the result of one case to a report."""
    by_offset = {answer["offset"]: answer for answer in answers if "offset" in answer}
    kinds = {answer.get("kind") for answer in answers}
    members = {member for answer in answers for member in answer}
    for line in expected:
        feature = report.of(protocol_of(name), line["feature"])
        if "rows" in line:
            _check_table(feature, name, line, answers)
        elif line["kind"] not in kinds or line["cell"].partition(".")[0] not in members:
            feature.not_answered += 1
        else:
            wrong = _difference(line, by_offset.get(line["offset"]))
            feature.count(wrong and f"{name} offset {line['offset']}: {wrong}")


def _difference(line: Answer, answer: Answer | None) -> str | None:
    """Return how an answer differs in a cell, None where it does not."""
    expected = line["expected"]
    if answer is None:
        return f"no answer, expected {line['cell']} {_shown(expected)}"
    if answer.get("kind") != line["kind"]:
        why = f" ({answer['reason']})" if answer.get("reason") else ""
        return f"kind {answer.get('kind')}{why}, expected {line['kind']}"
    got: Any = answer
    for part in line["cell"].split(".", 1):  # a column's name may have dots in it
        got = got.get(part, _ABSENT) if isinstance(got, dict) else _ABSENT
    if line["feature"] == "columns":
        # A virtual column has no value in a message: it may be left out, or be null.
        got = (
            sorted(n for n, value in got.items() if n in expected or value is not None)
            if isinstance(got, dict)
            else got
        )
        return None if got == expected else f"columns {_shown(got)}, expected {_shown(expected)}"
    kind = f" ({line['type']})" if line["type"] else ""
    if got is _ABSENT:
        return f"no {line['cell']}{kind}, expected {_shown(expected)}"
    if same_form(got, line["type"]) == same_form(expected, line["type"]):
        return None
    return f"{line['cell']}{kind} is {_shown(got)}, expected {_shown(expected)}"


def _check_table(feature: Feature, name: str, line: Answer, answers: Sequence[Answer]) -> None:
    """Count the rows of a table that are as expected, those that are not, and those that should not be there."""
    types, key = line["types"], line["key"]

    def form(row: Mapping[str, Any]) -> Mapping[str, object]:
        return {column: same_form(row.get(column, "no such column"), types[column]) for column in types}

    def key_of(row: Mapping[str, Any]) -> tuple[object, ...]:
        return tuple(same_form(row.get(column), types[column]) for column in key)

    if not any("row" in answer for answer in answers):
        feature.not_answered += len(line["rows"])
        return
    got: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for answer in answers:
        if answer.get("table") == line["table"]:
            got.setdefault(key_of(answer["row"]), []).append(answer["row"])
    where = f"{name} {line['table']}"
    for row in line["rows"]:
        found = got.pop(key_of(row), [])
        shown = _shown({column: row[column] for column in key})
        if not found:
            feature.count(f"{where}: no row {shown}")
        elif len(found) > 1:
            feature.count(f"{where}: {len(found)} rows {shown}, expected one")
        else:
            ours, theirs = form(found[0]), form(row)
            wrong = next((column for column in types if ours[column] != theirs[column]), None)
            feature.count(
                wrong
                and f"{where} row {shown}: {wrong} ({types[wrong]}) is {_shown(found[0].get(wrong))}, "
                f"expected {_shown(row[wrong])}"
            )
    for extra in got.values():
        shown = _shown({column: extra[0].get(column) for column in key})
        feature.count(f"{where}: a row {shown} that should not be there")


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _lines(file: Path) -> Iterator[Answer]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            # A number keeps its digits, as a value may be one.
            said = json.loads(line, parse_float=str)
        except ValueError as error:
            raise ConfigError(f"no JSON: {error}", where=f"{file} line {number}") from None
        if not isinstance(said, dict):
            raise ConfigError("no JSON object", where=f"{file} line {number}")
        yield said
