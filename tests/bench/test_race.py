"""How results are reckoned and shown."""

from __future__ import annotations

import pytest

from bench.race import Contestant, chosen, race, report, show


def _contestants() -> list[Contestant]:
    ours = Contestant("ours", lambda: None, {"theirs": 2.0, "a tenth": 0.5}, seconds=[2.0, 4.0, 5.0])
    return [
        ours,
        Contestant("theirs", lambda: None, seconds=[1.0, 10.0, 9.0]),
        Contestant("a tenth", lambda: None, one_in=10, seconds=[0.1, 0.1, 0.1]),
        Contestant("alone", lambda: None, seconds=[1.0, 1.0, 1.0]),
    ]


def test_a_ratio_is_that_of_one_round() -> None:
    ours, theirs, tenth, _ = _contestants()
    assert ours.ratios(theirs) == [0.5, 2.5, 1.8]
    assert ours.ratios(tenth) == [0.5, 0.25, 0.2]  # who does one row in ten would take ten times as long for all
    assert tenth.ratios(ours) == [2.0, 4.0, 5.0]


def test_the_report_has_the_least_the_middle_and_the_greatest() -> None:
    first, *_, last = report(_contestants())
    assert first == {
        "name": "ours",
        "seconds": {"min": 2.0, "median": 4.0, "max": 5.0},
        "beside": [
            {"name": "theirs", "ratio": {"min": 0.5, "median": 1.8, "max": 2.5}, "target": 2.0, "met": False},
            {"name": "a tenth", "ratio": {"min": 0.2, "median": 0.25, "max": 0.5}, "target": 0.5, "met": False},
        ],
    }
    assert last["beside"] == []


def test_a_target_is_met_by_the_median() -> None:
    ours, theirs, *_ = _contestants()
    ours.beside = {"theirs": 1.8}
    assert report([ours, theirs])[0]["beside"][0]["met"]


def test_rounds_alternate_and_the_first_does_not_count() -> None:
    order: list[str] = []
    racing = [Contestant(name, lambda name=name: order.append(name)) for name in ("a", "b")]  # type: ignore[misc]
    race(racing, rounds=2)
    assert order == ["a", "b"] * 3
    assert [len(one.seconds) for one in racing] == [2, 2]


def test_who_is_chosen_brings_the_peers() -> None:
    assert [one.name for one in chosen(_contestants(), "ours")] == ["ours", "theirs", "a tenth"]


def test_one_table_shows_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    results = report(_contestants())
    show({"one": results, "other": results[3:]})
    lines = [" ".join(line.replace("│", " ").split()) for line in capsys.readouterr().out.splitlines()]
    assert "ours 4.000" in lines
    assert "times as fast as theirs 0.50 1.80 2.50 2.0 missed" in lines
    assert lines.count("alone 1.000") == 2
    assert {"one", "other"} <= set(lines)
