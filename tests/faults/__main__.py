"""Long runs of the fault tests: `python -m tests.faults --kills 200`.

A failure prints the command that runs its seed alone, and the others go on. What else stands on the command line goes
to pytest: `-x` stops at the first failure, `-s` shows what happens.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_KINDS = {
    "kills": ("test_kill_anywhere.py", "kill a replica before its side effects, or in the middle of one"),
    "schedules": ("test_delivery_chaos.py", "deliver row changes in orders that TiCDC's contract allows"),
    "banks": ("test_bank.py", "move money over partitions, with repetitions and kills, and look at many times"),
    "sinks": ("test_killed_sink.py", "kill the writer of a storage sink before its side effects"),
    "outages": ("test_servers_killed.py", "kill broker and registry under a replica, again and again"),
}


def main() -> int:
    """Be the program."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").partition(":")[0])
    for kind, (_, what) in _KINDS.items():
        parser.add_argument(f"--{kind}", type=int, metavar="N", help=what)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed; of schedules, the first one")
    options, more = parser.parse_known_args()
    asked = {kind: number for kind in _KINDS if (number := getattr(options, kind))}
    if not asked:
        parser.error("say how many of what: --" + ", --".join(_KINDS))
    os.environ |= {f"TIDECAST_{kind.upper()}": str(number) for kind, number in asked.items()}
    os.environ["TIDECAST_SEED"] = str(options.seed)
    files = [str(_HERE / _KINDS[kind][0]) for kind in asked]
    return int(pytest.main([f"--rootdir={_HERE.parent.parent}", "-v", *more, *files]))


if __name__ == "__main__":
    raise SystemExit(main())
