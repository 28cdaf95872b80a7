"""What must stay: the numbers of bounds.toml, and what breaks them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BOUNDS = Path(__file__).with_name("bounds.toml")

Ratios = Mapping[str, Mapping[str, Mapping[str, float]]]
"""The least median, by program, contestant and peer."""


@dataclass(frozen=True)
class Step:
    """Tables of so many rows each, how often a command runs before it is counted, and by command what it may take."""

    rows: int
    tables: int = 1
    warm: int = 2
    most: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def steps(path: Path = BOUNDS) -> dict[str, Step]:
    """Return what is counted, by name."""
    return {name: Step(**step) for name, step in tomllib.loads(path.read_text())["counters"].items()}


def least_ratios(path: Path = BOUNDS) -> Ratios:
    """Return the ratios below which a program has become slower."""
    known: Ratios = tomllib.loads(path.read_text())["ratios"]
    return known


def exceeded(name: str, step: Step, counts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return in words what is above a step's bounds, or was not counted although its command was."""
    found = (
        (command, what, counts[command][what], most)
        for command, limits in step.most.items()
        for what, most in limits.items()
        if command in counts
    )
    return [
        f"{name}: {command}: {'unknown' if count is None else format(count, ',')} {what}, at most {most:,}"
        for command, what, count, most in found
        if count is None or count > most
    ]


def below(program: str, results: Iterable[Mapping[str, Any]], least: Ratios) -> list[str]:
    """Return in words what is below the bounds of a program's ratios, or was not measured."""
    medians = {(one["name"], other["name"]): other["ratio"]["median"] for one in results for other in one["beside"]}
    found = (
        (name, peer, medians.get((name, peer)), bound)
        for name, peers in least.get(program, {}).items()
        for peer, bound in peers.items()
    )
    return [
        f"{program}: {name} beside {peer}: {'unknown' if ratio is None else ratio}, at least {bound}"
        for name, peer, ratio, bound in found
        if ratio is None or ratio < bound
    ]
