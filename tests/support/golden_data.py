"""Reading the golden data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a golden file."""
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def registry_folder(schemas: Path, folder: Path) -> str:
    """Write golden schemas into a folder as a registry's, as a person would, and return the registry's URL."""
    for schema in lines(schemas):
        place = folder / "subjects" / schema["subject"] / f"{schema['version']}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({k: schema[k] for k in ("id", "version", "schema")}))
    return f"file://{folder}"


def toml(options: dict[str, Any]) -> str:
    """Write the options of a golden file as the changefeed configuration that stands for them."""

    def rule(said: dict[str, Any]) -> str:
        return "{" + ", ".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in said.items()) + "}"

    text = "[sink]\n"
    for name, said in (("dispatchers", "dispatchers"), ("column-selectors", "column_selectors")):
        if said in options:
            text += f"{name} = [\n" + "".join(f"  {rule(r)},\n" for r in options[said]) + "]\n"
    if options["integrity"]:
        text += '[integrity]\nintegrity-check-level = "correctness"\n'
    return text
