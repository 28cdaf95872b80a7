"""Catalogs of Apache Iceberg among Spark's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.]+")


def is_iceberg(implementation: str) -> bool:
    """Tell whether a class that Spark has for a catalog is one of Iceberg's."""
    return implementation.startswith("org.apache.iceberg.")


def has_iceberg(settings: Mapping[str, str]) -> bool:
    """Tell whether settings name a catalog of Iceberg's."""
    return any(_CATALOG.fullmatch(name) and is_iceberg(value) for name, value in settings.items())
