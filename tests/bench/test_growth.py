"""How growth is measured, kept and drawn."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.growth import COLUMNS, Size, sizes, write
from bench.growth_plots import _curves, draw, read

BASE = Size(100, cores=2)


def test_a_size_that_belongs_to_two_parameters_is_measured_once() -> None:
    found = sizes(BASE, {"rows": [10, 100], "tables": [1, 5], "cores": [1, 2]})
    assert found == {
        Size(10, cores=2): ["rows"],
        BASE: ["rows", "tables", "cores"],
        Size(100, tables=5, cores=2): ["tables"],
        Size(100, cores=1): ["cores"],
    }


def _line(parameter: str, rows: int, seconds: float, command: str = "verify") -> dict[str, object]:
    numbers = dict.fromkeys(COLUMNS, 1)
    return {**numbers, "parameter": parameter, "command": command, "rows": rows, "seconds": seconds}


def test_what_is_measured_anew_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "made" / "growth.csv"
    before = [_line("rows", 10, 1), _line("rows", 10, 2, "replicate"), _line("tables", 10, 3)]
    write(path, ["rows", "tables"], ["verify", "replicate"], before)
    write(path, ["rows"], ["verify"], [_line("rows", 20, 4)])
    assert [(line["parameter"], line["command"], line["rows"], line["seconds"]) for line in read(path)] == [
        ("rows", "replicate", "10", "2"),
        ("tables", "verify", "10", "3"),
        ("rows", "verify", "20", "4"),
    ]


def test_a_curve_has_the_medians_in_order() -> None:
    lines = [_line("rows", 20, 9), _line("rows", 10, 1), _line("rows", 10, 2), _line("rows", 10, 6)]
    assert _curves("rows", "seconds", [*lines, _line("rows", 10, 4, "replicate")]) == {
        "verify": {10: 2, 20: 9},
        "replicate": {10: 4},
    }


def test_each_parameter_has_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "growth.csv"
    write(path, (), (), [_line(name, rows, rows / 10) for name in ("rows", "cores") for rows in (10, 20)])
    pictures = draw(path, tmp_path / "images")
    assert [picture.name for picture in pictures] == ["growth-rows.png", "growth-cores.png"]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


@pytest.mark.spark
@pytest.mark.skipif(not os.environ.get("TIDECAST_BENCH"), reason="only with TIDECAST_BENCH=1")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_growth_is_measured(tmp_path: Path) -> None:
    given = ["cores", "--cores", "1", "--base-rows=20", "--only=verify", f"--to={tmp_path}"]
    subprocess.run([sys.executable, "-m", "bench.growth", *given], check=True)
    with (tmp_path / "growth.csv").open() as file:
        lines = list(csv.DictReader(file))
    (line,) = lines
    assert [line[name] for name in ("parameter", "command", "rows", "cores")] == ["cores", "verify", "20", "1"]
    assert float(line["seconds"]) > 0
    assert 0.1 < float(line["cpu_seconds"]) < 1.1 * float(line["seconds"]) + 1  # one core has no more
    assert int(line["peak_bytes"]) > 100 << 20
    assert int(line["spilled_bytes"]) == 0
    assert int(line["jobs"]) > 0
    assert (tmp_path / "images" / "growth-cores.png").exists()
