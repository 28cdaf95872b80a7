"""A folder as TiCDC's storage sink writes it, made by hand for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidecast.protocols._schema_file import schema_checksum

DAY = "2026-11-27"


def tso(second: int) -> int:
    """Return the TSO of some second after a fixed time."""
    return (1_790_000_000_000 + second * 1000) << 18


def number(name: str, *, key: bool = False) -> dict[str, str]:
    """Return a column of type INT."""
    found = {"ColumnName": name, "ColumnType": "INT", "ColumnPrecision": "11"}
    return found | {"ColumnNullable": "false", "ColumnIsPk": "true"} if key else found


def text(name: str) -> dict[str, str]:
    """Return a column of type VARCHAR(20)."""
    return {"ColumnName": name, "ColumnType": "VARCHAR", "ColumnPrecision": "20"}


@dataclass
class StorageSinkFolder:
    """Writes what TiCDC's storage sink writes, into `root`. `timed` is `include-commit-ts`."""

    root: Path
    timed: bool = True
    kind: str = "csv"
    digits: int = 20
    by_id: bool = False
    ids: Mapping[str, int] = field(default_factory=dict)

    def checkpoint(self, second: int) -> None:
        """Write `metadata`."""
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "metadata").write_text(json.dumps({"checkpoint-ts": tso(second)}, separators=(",", ":")))

    def table(self, name: str) -> Path:
        """Return the folder of a table."""
        return self.root / str(self.ids[name]) if self.by_id else self.root / "shop" / name

    def schema(
        self, second: int, name: str, columns: Sequence[Mapping[str, str]], sql: str = "", kind: int = 0
    ) -> None:
        """Write a schema file."""
        members: dict[str, Any] = {
            "Table": name,
            "Schema": "shop",
            "Version": 1,
            "TableVersion": tso(second),
            "Query": sql,
            "Type": kind,
            "TableColumns": [*columns],
            "TableColumnsTotal": len(columns),
        }
        written = json.dumps(members, indent=4)
        folder = self.table(name) / "meta" if name else self.root / "shop" / "meta"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"schema_{tso(second)}_{schema_checksum(written):010}.json").write_text(written)

    def rows(
        self,
        version: int,
        name: str,
        index: int,
        *rows: tuple[str, int, Sequence[object]],
        path: str = DAY,
        prefix: str = "CDC",
        indexed: bool = True,
    ) -> Path:
        """Write a data file of rows, each an operation, a second, and values; and its index. Return the file."""
        folder = self.table(name) / str(tso(version)) / path
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{prefix}{'_' if prefix != 'CDC' else ''}{index:0{self.digits}}.{self.kind}"
        file.write_bytes(b"".join(self._line(name, *row) for row in rows))
        if indexed:
            (folder / "meta").mkdir(exist_ok=True)
            (folder / "meta" / f"{prefix}.index").write_text(f"{file.name}\n")
        return file

    def _line(self, name: str, op: str, second: int, values: Sequence[object]) -> bytes:
        shown = [f'"{op}"', f'"{name}"', '"shop"', *([str(tso(second))] if self.timed else []), *map(_field, values)]
        return (",".join(shown) + "\r\n").encode()


def _field(value: object) -> str:
    if value is None:
        return "\\N"
    doubled = str(value).replace('"', '""')
    return f'"{doubled}"' if isinstance(value, str) else str(value)
