"""Columns whose values must not reach a table: left out, hashed, or replaced by a word.

| action | the column | its values |
|---|---|---|
| drop | is not in the table | |
| hash | text | SHA-256, in hexadecimal, of the salt and the value's text, or its bytes where it is binary |
| redact | text | `***` |

Null stays null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from decimal import Decimal
from functools import partial
from typing import Literal
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidecast import model
from tidecast._config_model import ConfigModel, Many, Secret
from tidecast._errors import ConfigError
from tidecast.model import DataType, Ddl, TableSchema
from tidecast.replica.tables._columns import as_hash
from tidecast.routing import ColumnMatcher, TableMatcher
from tidecast.values import BYTES, TEXT, by_distinct, decimal_text, field, valid

NOTE = "tidecast.masks"
_REDACTED = "***"
_WORD = DataType("varchar", "utf8mb4", "utf8mb4_bin", length=64)


class Mask(ConfigModel):
    """`[[mask]]`: what becomes of the columns that `columns` match in the tables that `matcher` matches."""

    matcher: Many
    columns: Many
    action: Literal["drop", "hash", "redact"]
    salt: Secret | None = None


@dataclass(frozen=True)
class _Rule:
    """A mask: the columns of some tables, and how they are masked."""

    tables: TableMatcher
    patterns: tuple[str, ...]
    columns: ColumnMatcher
    action: str
    salt: bytes = member(repr=False)

    @property
    def text(self) -> str:
        """Return the table's note: another salt makes other values."""
        return f"{self.action} {hashlib.sha256(b'salt ' + self.salt).hexdigest()[:8]}" if self.salt else self.action


class Masks:
    """The masks of a file; of those that match a column, the first counts.

    Raises ConfigError for a pattern that is none, and for a hash without a salt.
    """

    def __init__(self, masks: Iterable[Mask] = ()) -> None:
        self._rules = [_rule(mask) for mask in masks]

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._rules)

    def text_of(self, schema: TableSchema) -> Mapping[str, str]:
        """Return what a table remembers of each masked column of a version, by its name."""
        return {name: rule.text for name, rule in self._of(schema).items()}

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a version as it is behind its masks. Raises ConfigError where one takes what tells rows apart."""
        rules = self._of(schema)
        for name in schema.handle_key:
            if name in rules and rules[name].action != "hash":
                hint = "hash it, so that rows can still be told apart"
                raise ConfigError(f"mask: column {name} is of the key", where=schema.name, hint=hint)
        columns = ((c, rules.get(c.name)) for c in schema.columns)
        masked = (_COLUMNS[rule.action](c) if rule else c for c, rule in columns)
        return replace(schema, columns=tuple(c for c in masked if c is not None)) if rules else schema

    def rows(self, schema: TableSchema) -> Callable[[pa.StructArray], pa.StructArray] | None:
        """Return what gives rows of a version masked values, None where no column is masked. It is sent to the tasks.

        The salts are in it: a literal of a plan would be shown wherever Spark shows a plan.
        """
        rules = self._of(schema)
        return partial(_masked, schema, rules) if rules else None

    def check_renames(self, change: Ddl) -> None:
        """Raise ConfigError where a masked column, or its table, got a name under which it is not masked so.

        Some protocols tell a statement alone, without the table's columns.
        """
        place = change.database, change.table
        if self._rules and (was := change.renamed_from):
            if change.schema:
                before, now = (
                    self.text_of(replace(change.schema, database=database, table=table))
                    for database, table in (was, place)
                )
                lost = [f"column {name} is" for name, text in before.items() if now.get(name) != text]
            else:
                there = self._at(place)
                lost = [f"columns {', '.join(one[0])} are" for one in self._at(was) if one not in there]
            if lost:
                raise ConfigError(
                    f"mask: {lost[0]} masked in {'.'.join(was)}, which was renamed",
                    where=".".join(place),
                    hint="give the new name the same masks, beside the old one",
                )
        for new, old in change.statement.former_names.items() if self._rules and change.statement else ():
            rule, new_rule = self._rule_of(place, old), self._rule_of(place, new)
            if rule and (new_rule is None or new_rule.text != rule.text):
                hint = f"give {new} the same mask, beside it"
                raise ConfigError(
                    f"mask: column {old}, which is masked, was renamed to {new}", where=".".join(place), hint=hint
                )

    def _of(self, schema: TableSchema) -> dict[str, _Rule]:
        place = schema.database, schema.table
        found = ((c.name, self._rule_of(place, c.name)) for c in schema.columns) if self._rules else ()
        return {name: rule for name, rule in found if rule}

    def _rule_of(self, place: tuple[str, str], name: str) -> _Rule | None:
        return next((r for r in self._rules if r.tables.matches(*place) and r.columns.matches(name)), None)

    def _at(self, place: tuple[str, str]) -> list[tuple[tuple[str, ...], str]]:
        """Return the patterns of columns that are masked in a table, and how."""
        return [(rule.patterns, rule.text) for rule in self._rules if rule.tables.matches(*place)]


def remembered(notes: Mapping[str, str]) -> dict[str, str]:
    """Return how the columns of a table are masked, by what it remembers."""
    masks: dict[str, str] = json.loads(unquote(notes.get(NOTE, "{}")))
    return masks


def note(masks: Mapping[str, str]) -> str:
    """Return masks as a text that a table can remember."""
    return quote(json.dumps(masks, sort_keys=True), safe=' ",:[]{}()')


def check_masks(
    name: str,
    held: Mapping[str, str],
    masked: Mapping[str, str],
    present: Iterable[str],
    shown: Iterable[str],
    renamed: Iterable[Sequence[tuple[str, str]]] = (),
) -> None:
    """Raise ConfigError where a column that a table has would get values under another mask than it did.

    `held` is what the table remembers, `masked` what is asked for; `present` are the table's columns, `shown` those of
    the batch, and `renamed` the new and old names of those that the table renames, version by version.
    """
    there: dict[str, str | None] = {**dict.fromkeys(present), **held}
    for pairs in renamed:
        there |= {new: there[old] for new, old in pairs if old in there}
    for column in dict.fromkeys([*masked, *shown]):
        if column in there and there[column] != masked.get(column):
            was, now = ((said.get(column) or "none").split()[0] for said in (there, masked))
            change = f"has mask {was}, and not {now}" if was != now else f"was hashed with another salt than this {now}"
            hint = "use the same, or replicate to another place"
            raise ConfigError(f"column {column} of the table {change}", where=name, hint=hint)


def _rule(mask: Mask) -> _Rule:
    salt = mask.salt.get_secret_value().encode() if mask.salt else b""
    if (mask.action == "hash") is not bool(salt):
        raise ConfigError(
            f"mask: {mask.action} {'takes no' if salt else 'needs a'} salt", where=str(list(mask.matcher))
        )
    columns = tuple(mask.columns)
    return _Rule(TableMatcher(mask.matcher), columns, ColumnMatcher(columns), mask.action, salt)


def _masked(schema: TableSchema, rules: Mapping[str, _Rule], rows: pa.StructArray) -> pa.StructArray:
    there, masked = {f.name for f in rows.type}, dict[str, pa.Array]()
    for column in schema.columns:
        rule = rules.get(column.name)
        if column.name not in there or (rule and rule.action == "drop"):
            continue
        value = field(rows, column.name)
        masked[column.name] = value if rule is None else _shown(rule, value)
    names = [*masked]
    return pa.StructArray.from_arrays([*masked.values()], names=names, mask=pa.array(~valid(rows)))


def _shown(rule: _Rule, value: pa.Array) -> pa.Array:
    if rule.action == "redact":
        return pc.if_else(value.is_valid(), pa.scalar(_REDACTED, TEXT), pa.scalar(None, TEXT))
    shown = value if value.type == BYTES else _as_text(value).cast(BYTES)
    hashes = [None if v is None else hashlib.sha256(rule.salt + v).hexdigest() for v in shown.to_pylist()]
    return pa.array(hashes, TEXT)


def _as_text(value: pa.Array) -> pa.Array:
    """Return values as text. Floats are written as Java does, since tables have hashes of that."""
    if pa.types.is_floating(value.type):
        return by_distinct(value.cast(TEXT), _as_in_java, TEXT)
    return decimal_text(value) if pa.types.is_decimal(value.type) else value.cast(TEXT)


def _as_in_java(text: str | None) -> str | None:
    """Return a number's shortest digits as Java writes them: with an exponent below 0.001 and from 10,000,000 on."""
    if text is None:
        return None
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)  # MySQL has finite numbers alone
    written = "".join(map(str, digits))
    if not any(digits):
        return "-0.0" if sign else "0.0"
    point = len(written) + exponent  # how many digits stand before the point
    written = written.rstrip("0")
    minus = "-" if sign else ""
    if -2 <= point <= 7:
        whole, rest = (
            ("0", "0" * -point + written) if point <= 0 else (written[:point].ljust(point, "0"), written[point:])
        )
        return f"{minus}{whole}.{rest or '0'}"
    return f"{minus}{written[0]}.{written[1:] or '0'}E{point - 1}"


def _hidden(column: model.Column) -> model.Column:
    """A default shows what older rows hold, and nothing here can hash it."""
    known = column.nullable and column.default is None
    return replace(column, data_type=as_hash(column.data_type), default=None, default_known=known)


def _redacted(column: model.Column) -> model.Column:
    has_value = column.default is not None or not column.nullable
    return replace(column, data_type=_WORD, default=_REDACTED if has_value else None)


_COLUMNS: Mapping[str, Callable[[model.Column], model.Column | None]] = {
    "drop": lambda _: None,
    "hash": _hidden,
    "redact": _redacted,
}
