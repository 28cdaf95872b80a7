"""Pictures of how the commands grow, from the CSV that `bench.growth` wrote."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

Line = Mapping[str, Any]

AXES = {
    "rows": "rows of the source",
    "tables": "tables, with the same number of rows in all together",
    "columns": "columns of the table",
    "versions": "versions of the table",
    "cores": "cores",
}
LOGARITHMIC = ("rows", "tables", "columns", "versions")
PANELS = {
    "cpu_seconds": ("CPU time of Java and Python, s", 1.0),
    "seconds": ("time, s", 1.0),
    "peak_bytes": ("most memory of Java at once, GiB", 2.0**30),
    "spilled_bytes": ("spilled to disk, MiB", 2.0**20),
}
FROM_ZERO = ("peak_bytes", "spilled_bytes")
NOTHING = 0.1
"""Where all values of a panel are zero, it ends below this."""


def read(path: Path) -> list[Line]:
    """Return the lines of the CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def draw(path: Path, folder: Path) -> list[Path]:
    """Draw a picture for each parameter of a CSV, and return where they are."""
    lines = read(path)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _draw(parameter, [line for line in lines if line["parameter"] == parameter], folder)
        for parameter in AXES
        if any(line["parameter"] == parameter for line in lines)
    ]


def _draw(parameter: str, lines: Iterable[Line], folder: Path) -> Path:
    lines = list(lines)
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    figure.suptitle(f"Growth with {AXES[parameter]}")
    panels = figure.subplots(2, 2).flat
    for axes, (name, (title, unit)) in zip(panels, PANELS.items(), strict=True):
        for command, points in _curves(parameter, name, lines).items():
            axes.plot(list(points), [value / unit for value in points.values()], marker="o", label=command)
        _label(axes, parameter, sorted({int(line[parameter]) for line in lines}), title, name in FROM_ZERO)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    target = folder / f"growth-{parameter}.png"
    figure.savefig(target, dpi=100)
    return target


def _curves(parameter: str, name: str, lines: Iterable[Line]) -> dict[str, dict[int, float]]:
    """Return by command the medians of a figure by the parameter's value, in order."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        found[line["command"]][int(line[parameter])].append(float(line[name]))
    return {command: {at: median(values[at]) for at in sorted(values)} for command, values in found.items()}


def _label(axes: Axes, parameter: str, values: list[int], title: str, from_zero: bool) -> None:
    axes.set_xlabel(AXES[parameter])
    axes.set_ylabel(title)
    axes.grid(visible=True, alpha=0.3)
    if parameter in LOGARITHMIC:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [_short(value) for value in values])
    if parameter in LOGARITHMIC and not from_zero:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        most = axes.get_ylim()[1]
        axes.set_ylim(0, 1.05 * most if most > NOTHING else 1)


def _short(number: int) -> str:
    """Return a number as short as a person would write it."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:g} {letter}"
    return str(number)
