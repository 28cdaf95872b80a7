"""How `tidecast cli` asks its user and prints: TiCDC's words, in TiCDC's forms."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tidecast._go import duration_string, quoted, to_json
from tidecast._tso import physical_ms
from tidecast.cli._cdc_flags import Flags

_DAY_MS = 86_400_000
NO_WARNING = "%!s(<nil>)"
"""What TiCDC's command line prints for no warning: Go's form of a missing text, which readers of the output know."""


class Declined(Exception):
    """The user did not confirm."""


def confirm_lag(flags: Flags, now: int, start: int, command: str) -> None:
    lag = physical_ms(now) - physical_ms(start)
    if lag > _DAY_MS and not flags.no_confirm:
        confirm(
            f"Replicate lag ({duration_string(lag * 10**6)}) is larger than 1 days, large data may cause OOM, "
            "confirm to continue at your own risk [Y/N]",
            f"Abort changefeed {command}.",
        )


def confirm(question: str, declined: str, end: str = "\n") -> None:
    """Ask, and raise Declined, after saying so, unless the answer's first word is a y."""
    print(question, end=end, flush=True)
    answer = next((word for line in sys.stdin for word in line.split()), None)
    if answer is None:
        print("Received invalid input: EOF, abort the command.")
    if answer not in ("y", "Y"):
        print(declined, end="\n" if declined else "")
        raise Declined


def warn(text: str) -> None:
    shown = f"[WARN] {text}"
    print(f"\x1b[93m{shown}\x1b[0m" if sys.stdout.isatty() else shown)


def log_warning(text: str, **fields: str) -> None:
    """Print a warning as TiCDC's log has it, which its command line writes among the output."""
    moment = dt.datetime.now().astimezone()
    zone = f"{moment:%z}"
    at = f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d} {zone[:3]}:{zone[3:5]}"
    shown = {name: quoted(value) if set(value) & set(' "=[]\n') else value for name, value in fields.items()}
    print(f'[{at}] [WARN] [<unknown>] ["{text}"]', *(f"[{name}={value}]" for name, value in shown.items()))


def _names(found: Mapping[str, Any], kind: str) -> list[str]:
    return [f"{t['database_name']}.{t['table_name']}" for t in found.get(kind) or []]


def go_tables(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return tables as Go's `%#v` prints them."""
    return (
        "[]v2.TableName{"
        + ", ".join(
            f"v2.TableName{{Schema:{quoted(t['database_name'])}, Table:{quoted(t['table_name'])}, "
            f"TableID:{t['table_id']}, IsPartition:{to_json(t['is_partition'])}}}"
            for t in tables
        )
        + "}"
    )


def print_tables(found: Mapping[str, Any], verbose: bool, warning: str | None = None) -> None:
    for label, kind in (("Ineligible", "ineligible"), ("Eligible", "eligible"), ("All", "all")):
        print(f"{label}TablesCount: {len(_names(found, f'{kind}_tables'))}")
    if warning:
        print(f"Warning: {warning}")
    if verbose:
        for label, kind in (("Eligible", "eligible"), ("Ineligible", "ineligible"), ("All", "all")):
            print(f"{label}Tables: [{', '.join(_names(found, f'{kind}_tables'))}]")


def print_json(value: object) -> None:
    print(to_json(value, indent=2), flush=True)
