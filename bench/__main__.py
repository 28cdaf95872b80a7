"""All benchmarks, one after the other, each in a process of its own: `python -m bench`."""

from __future__ import annotations

import argparse
import subprocess
import sys

ALL = ("avro_checksum", "simple", "debezium", "commands", "tricks", "counters")


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--check", action="store_true", help="fail where a small step takes more than bounds.toml says")
    options = parser.parse_args()
    failed = []
    for name in ALL:
        print(f"\nbench.{name}", flush=True)
        more = ["--check"] if options.check and name == "counters" else []
        if subprocess.run([sys.executable, "-m", f"bench.{name}", *more], check=False).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
