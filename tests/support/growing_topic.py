"""A topic of Simple messages in files that grows while others read it, and the messages of a small table."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tidecast.model import compose
from tidecast.storage import AnyPath, entries, make_folder, path_uri, replace_file

ID: dict[str, Any] = {
    "name": "id",
    "dataType": {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11},
    "nullable": False,
    "default": None,
}
PRIMARY = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}

Said = dict[str, Any]
"""A message of the Simple protocol."""


def table(version: int, *columns: Said, database: str = "d", name: str = "t") -> Said:
    """The schema of a table whose primary key is `id`."""
    head = {"schema": database, "table": name, "tableID": 7, "version": version}
    return {**head, "columns": columns, "indexes": [PRIMARY]}


def ddl(sql: str, ts: int, schema: Said) -> Said:
    """A schema change; the statement's first word is its type."""
    kind = sql.split()[0]
    return {"version": 1, "type": kind, "sql": sql, "commitTs": ts, "buildTs": 1, "tableSchema": schema}


def row(ts: int, version: int, *, kind: str = "INSERT", database: str = "d", name: str = "t", **data: int) -> Said:
    """A row change of numbers."""
    head = {"version": 1, "database": database, "table": name, "tableID": 7, "type": kind, "commitTs": ts, "buildTs": 1}
    values = {column: str(value) for column, value in data.items()}
    return {**head, "schemaVersion": version, ("old" if kind == "DELETE" else "data"): values}


def watermark(ts: int) -> Said:
    """The end of all that happened up to a moment."""
    return {"version": 1, "type": "WATERMARK", "commitTs": ts, "buildTs": 1}


class Clock:
    """Gives the present moment as a TSO, each time a later one."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last = max(compose(time.time_ns() // 1_000_000), self._last + 1)
        return self._last


class GrowingTopic:
    """A topic in a folder; what is added appears at once and whole."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self._ends: Counter[int] = Counter()
        make_folder(folder)
        for file in entries(folder):
            for line in file.path.read_text(encoding="utf-8").splitlines():
                self._ends[json.loads(line)["partition"]] += 1

    @property
    def uri(self) -> str:
        """The topic as a source."""
        return f"{path_uri(self.folder)}?protocol=simple"

    def grow(self, messages: Iterable[Said]) -> None:
        """Add messages to the only partition."""
        self.deliver((0, message) for message in messages)

    def deliver(self, messages: Iterable[tuple[int, Said]]) -> None:
        """Add messages, each to a partition."""
        first = self._ends.total()
        lines = []
        for partition, message in messages:
            value = base64.b64encode(json.dumps(message).encode()).decode()
            place = {"partition": partition, "offset": self._ends[partition]}
            lines.append(json.dumps({**place, "key": None, "value": value}) + "\n")
            self._ends[partition] += 1
        replace_file(self.folder / f"{first:012}.jsonl", "".join(lines).encode())


class ChangingTable:
    """A growing topic of the table `d.t`, whose columns change."""

    def __init__(self, folder: AnyPath, ts: int = 0) -> None:
        self.topic, self._ts = GrowingTopic(folder), ts

    def change(self, sql: str, *columns: Said, key: str = "id") -> int:
        """Send a schema change; return the version that it makes."""
        self._ts += 10
        said = table(self._ts, *columns)
        said["indexes"] = [{**index, "columns": [key]} for index in said["indexes"]]
        self.topic.grow([ddl(sql, self._ts, said)])
        return self._ts

    def put(self, version: int, **data: Any) -> None:
        """Send an insert."""
        self._ts += 1
        self.topic.grow([row(self._ts, version, **data)])
