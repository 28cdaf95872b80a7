"""Tables by their options: columns, keys, modes, masks, routes."""

from tidecast.replica.tables._columns import (
    arrow_type_of,
    as_text,
    fill,
    fills,
    fills_known,
    hashed,
    is_text,
    literal,
    may_be_unrepresentable,
    source_type,
    table_type,
    table_value,
)
from tidecast.replica.tables._mask import NOTE, check_masks, note, remembered
from tidecast.replica.tables._mode import COMMIT_TS, DELETED, OP, ROWS_ALONE, VALID_FROM, VALID_TO, Contents
from tidecast.replica.tables._route import Name, Routes
from tidecast.replica.tables._settings import NO_SETTINGS, Settings
from tidecast.replica.tables._shape import Shape, holds

__all__ = [
    "COMMIT_TS",
    "DELETED",
    "NOTE",
    "NO_SETTINGS",
    "OP",
    "ROWS_ALONE",
    "VALID_FROM",
    "VALID_TO",
    "Contents",
    "Name",
    "Routes",
    "Settings",
    "Shape",
    "arrow_type_of",
    "as_text",
    "check_masks",
    "fill",
    "fills",
    "fills_known",
    "hashed",
    "holds",
    "is_text",
    "literal",
    "may_be_unrepresentable",
    "note",
    "remembered",
    "source_type",
    "table_type",
    "table_value",
]
