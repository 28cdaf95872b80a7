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
