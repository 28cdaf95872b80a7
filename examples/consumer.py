"""A small consumer of TiCDC's topics, as one writes it on a first afternoon, answering the conformance kit.

    tidecast conformance write kit
    python examples/consumer.py kit results.jsonl
    tidecast conformance check kit results.jsonl

It needs fastavro. The report shows what it gets wrong, which is why it is here: it takes text in a server's time zone
for UTC, Canal's numbers of ENUM and SET for their elements, and what came last for what is newest. It does not read
Simple's Avro, and knows no checksums.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from fastavro import parse_schema, schemaless_reader

Said = dict[str, Any]

OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
BYTES = ("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob")
EPOCH = datetime(1970, 1, 1)


class Avro:
    """Rows of Avro, by the schemas of a registry in files."""

    def __init__(self, registry: Path) -> None:
        versions = (json.loads(file.read_text()) for file in registry.glob("subjects/*/*.json"))
        self._schemas = {version["id"]: json.loads(version["schema"]) for version in versions}

    def read(self, key: bytes | None, value: bytes | None) -> Said:
        schema, keys = self._record(key)
        place = {"database": schema["namespace"].partition(".")[2], "table": schema["name"], "key": list(keys)}
        if value is None:
            return {"kind": "row", "op": "d", **place, "old": keys}
        _, row = self._record(value)
        told = {name: row.pop(name) for name in list(row) if name.startswith("_tidb_")}
        return {"kind": "row", "op": told["_tidb_op"], **place, "commit_ts": told["_tidb_commit_ts"], "new": row}

    def _record(self, data: bytes | None) -> tuple[Said, Said]:
        if not data or data[0] != 0:
            raise ValueError("no Avro message")
        schema = self._schemas[int.from_bytes(data[1:5], "big")]
        body = io.BytesIO(data[5:])
        row = schemaless_reader(body, parse_schema(schema), None)
        if body.read():
            raise ValueError("more after the end")
        types = {field["name"]: _avro_type(field["type"]) for field in schema["fields"]}
        return schema, {name: _avro_value(types[name], value) for name, value in row.items()}


def _avro_type(said: Any) -> str:
    if isinstance(said, list):
        (said,) = (branch for branch in said if branch != "null")
    return said["connect.parameters"]["tidb_type"] if isinstance(said, dict) else ""


def _avro_value(tidb_type: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return str(int.from_bytes(value, "big")) if tidb_type == "BIT" else value.hex()
    return str(value) if value is not None and tidb_type else value


def read_canal(_: bytes | None, value: bytes | None) -> Said:
    """Read a message of Canal-JSON."""
    said = json.loads(value or b"")
    told = said.get("_tidb", {})
    if said["type"] == "TIDB_WATERMARK":
        return {"kind": "watermark", "commit_ts": told["watermarkTs"]}
    if said["isDdl"]:
        return {"kind": "ddl", "sql": said["sql"], "commit_ts": told["commitTs"]}
    op = OPS[said["type"]]

    def row(values: Said) -> Said:
        return {name: _canal_value(said["mysqlType"][name], text) for name, text in values.items()}

    now = row(said["data"][0])
    sides = {"old": now} if op == "d" else {"new": now}
    if op == "u":
        sides["old"] = {**now, **row(said["old"][0])}
    place = {"database": said["database"], "table": said["table"], "key": said["pkNames"]}
    return {"kind": "row", "op": op, **place, "commit_ts": told["commitTs"], **sides}


def _canal_value(mysql_type: str, text: str | None) -> str | None:
    if text is not None and mysql_type.partition("(")[0] in BYTES:
        return text.encode("latin-1").hex()
    return text


def read_debezium(key: bytes | None, value: bytes | None) -> Said:
    """Read a message of Debezium that has its schema."""
    message = json.loads(value or b"")
    said = message["payload"]
    commit_ts = said["source"]["commit_ts"]
    if "ddl" in said:
        return {"kind": "ddl", "sql": said["ddl"], "commit_ts": commit_ts}
    if said["op"] == "m":
        return {"kind": "watermark", "commit_ts": commit_ts}
    if said["op"] not in OPS.values():
        raise ValueError("no operation")
    place = {"database": said["source"]["db"], "table": said["source"]["table"]}
    keys = list(json.loads(key)["payload"]) if key else []
    fields = next(field["fields"] for field in message["schema"]["fields"] if field["field"] == "after")
    types = {field["field"]: field for field in fields}
    sides = {
        side: {name: _debezium_value(types[name], inner) for name, inner in said[member].items()}
        for side, member in (("old", "before"), ("new", "after"))
        if said.get(member) is not None
    }
    return {"kind": "row", "op": said["op"], **place, "key": keys, "commit_ts": commit_ts, **sides}


def _debezium_value(schema: Said, value: Any) -> Any:
    if value is None:
        return None
    match schema.get("name", ""), schema.get("tidb_type", ""):
        case "io.debezium.time.Date", _:
            return str(date(1970, 1, 1) + timedelta(days=value))
        case "io.debezium.time.Timestamp", _:
            return str(EPOCH + timedelta(milliseconds=value))
        case "io.debezium.time.MicroTimestamp", _:
            return str(EPOCH + timedelta(microseconds=value))
        case "io.debezium.time.MicroTime", _:
            hours, rest = divmod(abs(value), 3_600_000_000)
            minutes, rest = divmod(rest, 60_000_000)
            return f"{'-' * (value < 0)}{hours:02}:{minutes:02}:{rest // 1_000_000:02}.{rest % 1_000_000:06}"
        case "io.debezium.time.ZonedTimestamp", _:
            return value.replace("T", " ").removesuffix("Z")
        case "io.debezium.data.Bits", _:
            return int.from_bytes(base64.b64decode(value), "little")
        case _, "binary" | "varbinary" | "blob" | "tinyblob" | "mediumblob" | "longblob":
            return base64.b64decode(value).hex()
        case _:
            return int(value) if isinstance(value, bool) else value


class Simple:
    """Messages of Simple, whose tables are told by messages that came before."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str, int], Said] = {}

    def read(self, _: bytes | None, value: bytes | None) -> Said:
        said = json.loads(value or b"")
        if schema := said.get("tableSchema"):
            self._tables[schema["schema"], schema["table"], schema["version"]] = schema
        if said["type"] == "WATERMARK":
            return {"kind": "watermark", "commit_ts": said["commitTs"]}
        if said["type"] == "BOOTSTRAP":
            return {"kind": "bootstrap"}
        if "sql" in said:
            return {"kind": "ddl", "sql": said["sql"], "commit_ts": said["commitTs"]}
        schema = self._tables[said["database"], said["table"], said["schemaVersion"]]
        op = OPS[said["type"]]
        types = {column["name"]: column["dataType"]["mysqlType"] for column in schema["columns"]}
        sides = {
            side: {name: _simple_value(types[name], text) for name, text in said[member].items()}
            for side, member in (("old", "old"), ("new", "data"))
            if side != "old" or op != "c"
            if side != "new" or op != "d"
        }
        key = next((index["columns"] for index in schema["indexes"] or [] if index["primary"]), [])
        place = {"database": said["database"], "table": said["table"], "key": key}
        return {"kind": "row", "op": op, **place, "commit_ts": said["commitTs"], **sides}


def _simple_value(mysql_type: str, text: Any) -> Any:
    if text is None:
        return None
    if mysql_type in BYTES:
        return base64.b64decode(text).hex()
    if mysql_type == "timestamp":
        return text["value"]
    return text


def answers(kit: Path, case: Said) -> Iterator[Said]:
    """Answer a case."""
    read: Callable[[bytes | None, bytes | None], Said]
    match case["protocol"]:
        case "avro":
            read = Avro(kit / case["schema_registry"]).read
        case "canal-json":
            read = read_canal
        case "debezium":
            read = read_debezium
        case _:
            read = Simple().read
    tables: dict[str, list[Said]] = {}
    for line in (kit / case["messages"]).read_text().splitlines():
        record = json.loads(line)
        key, value = (None if record[p] is None else base64.b64decode(record[p]) for p in ("key", "value"))
        try:
            said = read(key, value)
        except Exception as error:  # whatever is wrong with a message, the next one may be sound
            said = {"kind": "error", "reason": f"{type(error).__name__}: {error}"}
        if case["answer"] == "messages":
            yield {"case": case["case"], "offset": record["offset"], **said}
        elif said["kind"] == "row":
            apply(tables.setdefault(f"{said['database']}.{said['table']}", []), said)
    for table, rows in tables.items():
        yield from ({"case": case["case"], "table": table, "row": row} for row in rows)


def apply(rows: list[Said], said: Said) -> None:
    """Apply a row change to the rows of its table: what comes last is taken for the newest."""
    changed = said.get("old") or said["new"]
    if said["key"]:
        rows[:] = [row for row in rows if any(row[name] != changed[name] for name in said["key"])]
    if "new" in said:
        rows.append(said["new"])


def main(kit: Path, results: Path) -> None:
    """Answer all cases of a kit but those in an encoding that is not known here."""
    cases = [json.loads(line) for line in (kit / "cases.jsonl").read_text().splitlines()]
    with results.open("w") as out:
        for case in cases:
            if not case["case"].startswith("simple-avro"):
                out.writelines(json.dumps(answer) + "\n" for answer in answers(kit, case))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Answer the conformance kit.")
    parser.add_argument("kit", type=Path, help="the folder that `tidecast conformance write` made")
    parser.add_argument("results", type=Path, help="the file to write answers to, as JSON Lines")
    main(**vars(parser.parse_args()))
