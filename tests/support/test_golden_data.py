"""The tables that stand for all golden tables show every kind of column that these have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from golden_data import ONE_OF_EACH, Line, Table, lines


def kinds_of(events: list[Line]) -> dict[Table, set[str]]:
    """Return what each table with rows has: types, NULLs, charsets, zero dates, keys, generated columns, versions."""
    columns: dict[Table, dict[str, Line]] = {}
    kinds: dict[Table, set[str]] = defaultdict(set)
    versions: dict[Table, set[str]] = defaultdict(set)
    for event in events:
        table = event.get("db", ""), event.get("table", "")
        if info := event.get("table_info"):
            columns[table] = {column["name"]: column for column in info["columns"]}
        if event["kind"] == "dml":
            versions[table].add(event["schema_version"])
            kinds[table] |= {
                event["op"],
                *_of_columns(list(columns[table].values())),
                *_of_values(event, columns[table]),
            }
    for table, found in kinds.items():
        found |= {f"name in {'ASCII' if ''.join(table).isascii() else 'Unicode'}"}
        found |= {"several versions"} if len(versions[table]) > 1 else set()
    return kinds


def _of_columns(columns: list[Line]) -> Iterator[str]:
    key = [column for column in columns if column["handle_key"]]
    index = "a primary key" if any(column["pri"] for column in key) else "another index"
    yield f"handle key of {min(len(key), 2)} columns by {index}"
    for column in columns:
        yield f"{column['type']}{' unsigned' * column['unsigned']}"
        yield f"charset {column['charset']}"
        yield f"generated {column['generated']}"
        yield f"zerofill {column['zerofill']}"


def _of_values(event: Line, columns: dict[str, Line]) -> Iterator[str]:
    for row in (event.get("old") or {}, event.get("new") or {}):
        for name, value in row.items():
            kind = columns[name]["type"]
            if value is None:
                yield f"{kind} NULL"
            elif kind in ("date", "datetime", "timestamp") and "-00" in value[:10]:
                yield f"{kind} with zeros"


def test_some_tables_show_each_kind_of_column(golden: Callable[[str], Path]) -> None:
    kinds = kinds_of(lines(golden("events.jsonl.gz")))
    every = set().union(*kinds.values())
    assert len(every) > 80
    assert every - set().union(*(kinds[table] for table in ONE_OF_EACH)) == set()
