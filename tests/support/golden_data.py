"""Reading the golden data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Table = tuple[str, str]
"""Database and name."""

ONE_OF_EACH: frozenset[Table] = frozenset(
    {
        ("o-r c.2", "odd té名.1"),
        *(("orc", name) for name in ("t_all", "t_int", "t_num", "t_str", "t_bin", "t_long", "t_vec", "t_zero")),
        *(("orc", name) for name in ("t_cpk", "t_uk", "t_nokey", "t_gen", "t_expr", "t_evo_pk")),
    }
)
"""Golden tables that together have a column of each MySQL type, signed and unsigned, with a value and NULL, in each
charset, of each sort of generated column; zero dates; each sort of key and none; several versions: test_golden_data.

A protocol's richest variant is tested with all tables, the others with these and those that the variant is about.
"""
ONE_OF_EACH_IN_AVRO = ONE_OF_EACH | {("orc", "t_pk_dec"), ("orc", "t_pk_ubig")}
"""These and the tables whose keys look otherwise in Avro's modes of decimals and of unsigned numbers."""


def lines(path: Path) -> list[Line]:
    """Return the lines of a golden file."""
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def of_tables(messages: list[Line], tables: Collection[Table]) -> list[Line]:
    """Return the messages of some tables, and all that are no row: schema changes, bootstraps, watermarks."""
    return [m for m in messages if m["kind"] != "dml" or (m["db"], m["table"]) in tables]


def topic(file: Path, messages: list[Line]) -> Path:
    """Write messages to a file of JSON Lines, which is a topic, and return it."""
    file.write_text("".join(json.dumps(message) + "\n" for message in messages), encoding="utf-8")
    return file


def registry_folder(schemas: Path, folder: Path) -> str:
    """Write golden schemas into a folder as a registry's, as a person would, and return the registry's URL."""
    for schema in lines(schemas):
        place = folder / "subjects" / schema["subject"] / f"{schema['version']}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({k: schema[k] for k in ("id", "version", "schema")}))
    return f"file://{folder}"


def toml(options: dict[str, Any]) -> str:
    """Write the options of a golden file as the changefeed configuration that stands for them."""

    def inline(rule: dict[str, Any]) -> str:
        return "{" + ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in rule.items()) + "}"

    text = "[sink]\n"
    for name, option in (("dispatchers", "dispatchers"), ("column-selectors", "column_selectors")):
        if option in options:
            text += f"{name} = [\n" + "".join(f"  {inline(rule)},\n" for rule in options[option]) + "]\n"
    if options["integrity"]:
        text += '[integrity]\nintegrity-check-level = "correctness"\n'
    return text
