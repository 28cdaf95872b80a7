"""Names as a schema may hold them."""

from __future__ import annotations

import re


def sanitize(name: str) -> str:
    """Return a name as Avro allows it: a leading digit gets `_` before it, every other odd character becomes `_`.

    Source: Avro protocol, names; Debezium protocol, names.
    """
    if not name:
        return name
    head = f"_{name[0]}" if "0" <= name[0] <= "9" else re.sub(r"[^A-Za-z_]", "_", name[0])
    return head + re.sub(r"[^A-Za-z0-9_]", "_", name[1:])
