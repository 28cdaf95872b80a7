"""The demo's shop: the script that makes its log, what its tables must hold, and what they do hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from deltalake import DeltaTable
from script_module import load_script

LOG = load_script("make-shop-log")

# How a value of the shop looks in a Delta table, by MySQL type, where it is not itself.
IN_DELTA: dict[str, Callable[[Any, Any], Any]] = {
    "decimal": lambda column, value: column.type.shown(value),
    "float": lambda column, value: LOG.single(value),
    "set": lambda column, value: ",".join(value),
    "bit": lambda column, value: value.to_bytes((column.type.described["length"] + 7) // 8, "big"),
    "time": lambda column, value: LOG.duration(value),
    "json": lambda column, value: LOG.document(value),
}


def expected(table: Any) -> list[dict[str, Any]]:
    """Return a table's rows as the shop left them, in the order of their keys."""

    def value(column: Any, row: dict[str, Any]) -> Any:
        value = row[column.name]
        make = IN_DELTA.get(column.type.described["mysqlType"])
        return value if value is None or make is None else make(column, value)

    return [{c.name: value(c, row) for c in table.columns} for _, row in sorted(table.rows.items())]


def actual(path: str, key: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a Delta table's rows as another program reads them."""
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    for row in rows:
        row.update({n: v.replace(tzinfo=None) for n, v in row.items() if isinstance(v, dt.datetime)})
    return sorted(rows, key=lambda row: tuple(row[c] for c in key))
