"""Events of the model as Simple messages. Source: Simple protocol, JSON text; Other documents, Go's encoding/json."""

from __future__ import annotations

from typing import Any

from tidecast._go import to_json
from tidecast.model import Ddl, TableSchema
from tidecast.protocols._codec import Message
from tidecast.protocols.simple import _avro
from tidecast.protocols.simple import _schema as table_schemas
from tidecast.protocols.simple._message import BOOTSTRAP, DDL_TYPES, VERSION, WATERMARK
from tidecast.protocols.simple._options import SimpleOptions

_CREATE, _OTHER = "CREATE", "QUERY"


def encode_watermark(commit_ts: int, options: SimpleOptions, build_ts: int) -> Message:
    """Return the message of a watermark, from its TSO and the milliseconds since the epoch."""
    times = {"commitTs": commit_ts, "buildTs": build_ts}
    if options.encoding_format == "avro":
        return None, _avro.message(_avro.WATERMARK, {"version": VERSION} | times)
    return None, _json({"version": VERSION, "type": WATERMARK} | times)


def encode_ddl(ddl: Ddl, options: SimpleOptions, build_ts: int) -> bytes:
    """Return the message of a schema change; `build_ts` are milliseconds since the epoch.

    The table before the change goes with it where `ddl` tells it, though never for `CREATE`. A type that the protocol
    does not know becomes `QUERY`. Source: Simple protocol, DDL.
    """
    kind = ddl.type if ddl.type in DDL_TYPES else _OTHER
    before = None if kind == _CREATE else ddl.before
    head = {"version": VERSION, "type": kind, "sql": ddl.sql, "commitTs": ddl.commit_ts, "buildTs": build_ts}
    schemas = {"tableSchema": ddl.schema, "preTableSchema": before}
    if options.encoding_format == "avro":
        return _avro.message(_avro.DDL, head | {n: s and table_schemas.to_avro(s) for n, s in schemas.items()})
    members: dict[str, Any] = head | {n: table_schemas.to_json(s) for n, s in schemas.items() if s}
    return _json({name: value for name, value in members.items() if value != ""})


def encode_bootstrap(schema: TableSchema, options: SimpleOptions, build_ts: int) -> bytes:
    """Return the message that repeats a table's schema; `build_ts` are milliseconds since the epoch."""
    if options.encoding_format == "avro":
        members = {"version": VERSION, "buildTs": build_ts, "tableSchema": table_schemas.to_avro(schema)}
        return _avro.message(_avro.BOOTSTRAP, members)
    head = {"version": VERSION, "type": BOOTSTRAP, "commitTs": 0, "buildTs": build_ts}
    return _json(head | {"tableSchema": table_schemas.to_json(schema)})


def _json(members: dict[str, Any]) -> bytes:
    """Return an object as the text that Go's encoding/json gives it, members in their order."""
    return to_json(members).encode()
