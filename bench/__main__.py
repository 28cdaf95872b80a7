"""All benchmarks, one after the other, each in a process of its own: `python -m bench`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import bounds, counters, race

RACES = ("avro_checksum", "simple", "debezium", "commands")
COUNTERS = "counters"


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition(":")[0])
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"{', '.join((*RACES, COUNTERS))}; by default all"
    )
    parser.add_argument("--rows", type=int, help="of each race, in place of its own number")
    parser.add_argument("--rounds", type=int, help="of each race, in place of its own number")
    parser.add_argument(
        "--check", action="store_true", help="fail where more is counted than bounds.toml says; no races"
    )
    parser.add_argument("--times", action="store_true", help="with --check: races, too; fail where one is slower")
    parser.add_argument("--bounds", type=Path, default=bounds.BOUNDS, help="in place of bounds.toml")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    known = (COUNTERS,) if options.check and not options.times else (*RACES, COUNTERS)
    unknown = set(options.programs) - set(known)
    if unknown:
        parser.error(f"no such program here: {', '.join(sorted(unknown))}")
    sizes = [f"--{name}={value}" for name in ("rows", "rounds") if (value := getattr(options, name)) is not None]
    given = dict.fromkeys(RACES, sizes) | {COUNTERS: ["--bounds", str(options.bounds)]}
    wrong: list[str] = []
    found = {name: _run(name, given[name], wrong) for name in options.programs or known}
    races = {name: one["results"] for name, one in found.items() if one and name != COUNTERS}
    counts = found.get(COUNTERS) or {}
    if options.json:
        print(json.dumps(found))
    else:
        if races:
            race.show(races)
        if counts:
            counters.show(counts)
    if options.check:
        steps, ratios = bounds.steps(options.bounds), bounds.least_ratios(options.bounds)
        wrong += [line for name, one in counts.items() for line in bounds.exceeded(name, steps[name], one)]
        wrong += [line for name, results in races.items() for line in bounds.below(name, results, ratios)]
    if wrong:
        raise SystemExit("\n".join(wrong))


def _run(name: str, options: list[str], wrong: list[str]) -> Any:
    """Return what a program prints, None where that is nothing, and say it where it fails."""
    print(f"bench.{name}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"bench.{name}", "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        wrong.append(f"{name}: failed")
    return json.loads(done.stdout) if done.stdout else None


if __name__ == "__main__":
    main()
