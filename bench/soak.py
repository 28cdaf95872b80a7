"""A replica under a load that does not end, killed every few minutes: `python -m bench.soak --minutes 120`.

A broker and a registry of its own; tables in Avro, a topic each, and some in Simple; for each protocol a replica, which
is killed at random times in the first half. The second half is for its memory. In the end the load stops, the replica
catches up, and its tables are held against ledger and topic. Exit code 1 where anything differs, or lag or memory grow.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.soak_load import Load, Way
from bench.soak_replica import Replica, sizes
from bench.suite import KafkaBroker, SchemaRegistry
from tidecast.runtime import spark_session

_EVERY_S, _SIZES_S, _AHEAD_S = 2.0, 60.0, 60.0
_CATCH_UP_S = 1800.0
_ALLOWED, _LAG_S, _MEMORY_MIB = 1.1, 15.0, 20


def main() -> int:
    """Be the program."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--simple", type=int, default=5, help="of the tables, those in Simple")
    parser.add_argument("--rate", type=float, default=100, help="changes a second, of all tables together")
    parser.add_argument("--kill-every", type=float, default=3, help="minutes between kills, about")
    parser.add_argument("--batch-size", type=int, default=5_000, help="of a replica")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="leave the folder there, with the replicas' logs")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="tidecast-soak-"))
    print(f"in {base}", flush=True)
    wrong = ["it did not come to its end"]
    try:
        wrong = _run(base, options)
    finally:
        if options.keep or wrong:
            print(f"left in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    print(*(wrong or ["clean"]), sep="\n")
    return bool(wrong)


def _run(base: Path, options: argparse.Namespace) -> list[str]:
    names = tuple(f"t{n:02}" for n in range(options.tables))
    ways = [Way("avro", names[options.simple :]), Way("simple", names[: options.simple])]
    ways = [way for way in ways if way.tables]
    wrong: list[str] = []
    with KafkaBroker() as broker, SchemaRegistry() as registry:
        spark = spark_session("soak")
        loads = {}
        replicas = {}
        for way in ways:
            rate = options.rate * len(way.tables) / options.tables
            folder = base / "load" / way.protocol
            loads[way] = Load(spark, folder, broker, registry.url, way, rate, options.seed)
            size = f"--batch-size={options.batch_size}"
            replicas[way] = Replica(way.source(broker), registry.url, base / way.protocol, [size])
        begin = time.time() + _AHEAD_S
        end = begin + options.minutes * 60
        for load in loads.values():
            load.run(begin, end)
        time.sleep(max(0.0, begin + _EVERY_S - time.time()))
        try:
            for replica in replicas.values():
                replica.start()
            _watch([*loads.values()], [*replicas.values()], begin, end, options)
            if not any(replica.kills for replica in replicas.values()):
                wrong.append("no replica was killed: it takes more --minutes, or a lower --kill-every")
            for load in loads.values():
                load.join()
            spark.stop()
            for way, replica in replicas.items():
                taken = _catch_up(replica, loads[way].last)
                if taken is None:
                    wrong.append(f"{way.protocol}: it has not caught up after {_CATCH_UP_S:.0f} s")
                else:
                    print(f"{way.protocol}: caught up after {taken:.0f} s", flush=True)
                wrong += [f"{way.protocol}: {what}" for what in replica.end()]
        finally:
            for replica in replicas.values():
                replica.kill()
        for way, replica in replicas.items():
            load = loads[way]
            print(f"{way.protocol}: {load.sent:,} messages, at most {load.late:.1f} s late", flush=True)
            wrong += [f"{way.protocol}: {what}" for what in _summary(replica, (begin + end) / 2)]
            for arguments in (
                ["prove", str(replica.tables)],
                ["compare", replica.source, str(replica.tables), "--schema-registry", registry.url, "--tz", "UTC"],
            ):
                command = [sys.executable, "-m", "tidecast", *arguments]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                print(f"{way.protocol}: {arguments[0]}: exit code {done.returncode}", flush=True)
                if done.returncode:
                    wrong.append(f"{way.protocol}: {arguments[0]}:\n{done.stdout}{done.stderr}")
    return wrong


def _watch(
    loads: Sequence[Load], replicas: Sequence[Replica], begin: float, end: float, options: argparse.Namespace
) -> None:
    """Sample replicas until the end; kill one of them now and then in the first half."""
    chance = random.Random(options.seed)

    def later(from_: float) -> float:
        return from_ + float(options.kill_every) * 60 * chance.uniform(0.3, 1.7)

    kill_at, show_at = later(time.time()), time.time() + _SIZES_S
    while (now := time.time()) < end:
        for load in loads:
            load.check()
        for replica in replicas:
            replica.sample()
        if now > kill_at and now < (begin + end) / 2:
            killed = min(replicas, key=lambda replica: (replica.kills, chance.random()))
            killed.kill()
            killed.start()
            kill_at = later(now)
        if now > show_at:
            print(f"{(now - begin) / 60:.0f} min", *map(_line, replicas), sep="; ", flush=True)
            show_at = now + _SIZES_S
        time.sleep(_EVERY_S)


def _line(replica: Replica) -> str:
    """Return how a replica is now."""
    if not replica.samples:
        return f"{replica.folder.name}: nothing yet"
    last = replica.samples[-1]
    taken = f"batch {replica.batches[-1][1]:.1f} s" if replica.batches else "no batch"
    heap = f"heap {last.heap}, " if last.heap else ""
    files = {name: sizes(folder) for name, folder in (("checkpoint", replica.checkpoint), ("tables", replica.tables))}
    totals = (
        f"{name} {sum(n for n, _ in found.values())} files {sum(s for _, s in found.values()) >> 20} MiB"
        for name, found in files.items()
    )
    memory = f"{heap}resident {last.resident}, Python {last.python} MiB"
    return f"{replica.folder.name}: lag {last.lag:.0f} s, {taken}, {memory}, {', '.join(totals)}, {replica.kills} kills"


def _catch_up(replica: Replica, last: int) -> float | None:
    """Wait until a replica has applied everything; return how long that took, None where it took too long."""
    start = time.monotonic()
    while not replica.caught_up(last):
        if time.monotonic() > start + _CATCH_UP_S:
            return None
        replica.sample()
        time.sleep(_EVERY_S)
    return time.monotonic() - start


def _summary(replica: Replica, half: float) -> list[str]:
    """Print what was measured; return what grew."""
    lags = [sample.lag for sample in replica.samples]
    quiet = [sample for sample in replica.samples if sample.at > half]
    wrong: list[str] = []

    def thirds(what: str, measured: Sequence[float], more: float | None) -> None:
        parts = _thirds(measured)
        print(f"  {what}, by thirds: {', '.join(f'{part:.1f}' for part in parts)}")
        if more is not None and len(parts) == 3 and parts[2] > max(parts[1], parts[0]) * _ALLOWED + more:
            wrong.append(f"{what} grows: {', '.join(f'{part:.1f}' for part in parts)}")

    if not lags:
        return ["never answered"]
    centiles = statistics.quantiles(lags, n=100) if len(lags) > 1 else lags * 99
    print(f"  lag: median {centiles[49]:.1f} s, p99 {centiles[98]:.1f} s, max {max(lags):.1f} s")
    thirds("lag, seconds", lags, _LAG_S)
    thirds("batch, seconds", [seconds for _, seconds in replica.batches], None)
    thirds("batch in the half without kills, seconds", [s for at, s in replica.batches if at > half], None)
    for what, of in _MEMORY.items():
        thirds(f"{what} in the half without kills, MiB", [m for s in quiet if (m := of(s)) is not None], _MEMORY_MIB)
    thirds("resident in the half without kills, MiB", [sample.resident for sample in quiet], None)
    print(f"  {len(replica.batches)} batches seen, {replica.kills} kills")
    for folder in (replica.checkpoint, replica.tables):
        for name, (files, size) in sorted(sizes(folder).items()):
            print(f"  {folder.name}/{name}: {files} files, {size:,} bytes")
    return wrong


_MEMORY: dict[str, Callable[..., int | None]] = {
    "heap after collection": lambda sample: sample.heap,
    "Python": lambda sample: sample.python,
}


def _thirds(measured: Sequence[float]) -> list[float]:
    third = len(measured) // 3
    parts = [measured[:third], measured[third : 2 * third], measured[2 * third :]]
    return [statistics.median(part) for part in parts if part]


if __name__ == "__main__":
    raise SystemExit(main())
