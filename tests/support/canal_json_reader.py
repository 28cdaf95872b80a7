"""Canal-JSON read with Python's own tools, one message at a time: what Spark's reading is measured against."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}

Value = int | float | Decimal | str | bytes | None
Change = tuple[str, str, int | None, dict[str, Value] | None, dict[str, Value] | None]
"""Table, operation, commit-ts, the row before and after."""


def value(mysql_type: str, text: str | None, zone: str) -> Value:
    """Return the value that a text stands for."""
    if text is None:
        return None
    base, inside = re.split("[( ]", mysql_type)[0], re.search(r"\((.*)\)", mysql_type)
    if base.endswith(("blob", "binary")):
        return text.encode("latin-1")
    match base:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year":
            return Decimal(text) if "bigint unsigned" in re.sub(r"\(.*\)", "", mysql_type) else int(text)
        case "float":
            (number,) = struct.unpack("f", struct.pack("f", float(text)))
            return float(number)
        case "double":
            return float(text)
        case "decimal":
            return Decimal(text) if inside and int(inside[1].split(",")[0]) <= 38 else text
        case "bit":
            length = int(inside[1]) if inside else 64
            return int(text).to_bytes((length + 7) // 8, "big")
        case "enum" | "set" if inside:
            names: list[str] = [n.replace("''", "'") for n in re.findall(r"'((?:[^']|'')*)'", inside[1])]
            if base == "enum":
                return ["", *names][int(text)]
            return ",".join(name for bit, name in enumerate(names) if int(text) >> bit & 1)
        case "enum":
            return int(text)
        case "set":
            return Decimal(text)
        case "timestamp" if not text.startswith("0000"):
            moment = dt.datetime.fromisoformat(text[:19]).replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC)
            return moment.strftime("%Y-%m-%d %H:%M:%S") + text[19:]
    return text


def changes(message: Mapping[str, Any], zone: str) -> Iterator[Change]:
    """Yield the row changes that a message tells."""
    types, op = message["mysqlType"], OPS[message["type"]]
    for number, row in enumerate(message["data"]):
        old = {**row, **message["old"][number]} if op == "u" else row
        before, after = (
            {name: value(types[name], side[name], zone) for name in message["sqlType"]} for side in (old, row)
        )
        commit_ts = message.get("_tidb", {}).get("commitTs")
        table = f"{message['database']}.{message['table']}"
        yield table, op, commit_ts, None if op == "c" else before, None if op == "d" else after
