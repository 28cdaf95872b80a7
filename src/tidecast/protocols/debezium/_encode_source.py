"""The `source` of a message. Source: Debezium protocol, `payload.source`."""

from __future__ import annotations

from tidecast.protocols.debezium._json import Json, dumps
from tidecast.protocols.debezium._options import DebeziumOptions

VERSION, CONNECTOR = "2.4.0.Final", "TiCDC"


def source(database: str, table: str, options: DebeziumOptions) -> tuple[str, str, str]:
    """Return the text of `source` in three pieces, between which its time in milliseconds and its TSO belong."""
    who: dict[str, Json] = {"version": VERSION, "connector": CONNECTOR, "name": options.cluster_id}
    where: dict[str, Json] = {
        "snapshot": "false",
        "db": database,
        "table": table,
        "server_id": 0,
        "gtid": None,
        "file": "",
        "pos": 0,
        "row": 0,
        "thread": 0,
        "query": None,
    }
    return (
        f'{dumps(who)[:-1]},"ts_ms":',
        f',{dumps(where)[1:-1]},"commit_ts":',
        f',"cluster_id":{dumps(options.cluster_id)}}}',
    )
