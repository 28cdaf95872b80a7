"""Names and texts as SQL writes them."""

from __future__ import annotations

_VARIABLE = "${"


def sql_column(*path: str) -> str:
    """Return a column, or with more names a field in it, as an expression of SQL writes it.

    In a session that substitutes variables, as Spark's own does, no part of SQL's text may look like `${…}`.
    """
    name = ".".join(map(sql_name, path))
    return f"IDENTIFIER({sql_text(name)})" if _VARIABLE in name else name


def sql_name(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it but variables; see `sql_column`."""
    return "`" + name.replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """Return a text as SQL writes it, whatever is in it and whatever the session takes for an escape."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"
