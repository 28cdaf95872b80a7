"""What is done to a table that has rows, by what it looks like and what its source's versions are: without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import types as T

from tidecast._policy import DdlPolicy
from tidecast.model import Column, DataType, Index, TableSchema
from tidecast.replica.plan import AlterTable
from tidecast.replica.plan._actions import alteration
from tidecast.replica.plan._applied_versions import AppliedVersions
from tidecast.replica.plan._evolve import reconcile
from tidecast.replica.plan._shapes import OnNewKey
from tidecast.replica.tables import Shape

_INT, _LONG = T.IntegerType(), T.LongType()
_TYPES = {"int": _INT, "bigint": _LONG}


def _version(number: int, key: Sequence[str] = ("id",), /, **columns: str) -> TableSchema:
    """A version of `d.t`: `default` behind a type gives the column one, 7."""
    made = tuple(
        Column(
            name,
            DataType(said.split()[0], length=20 if said.startswith("bigint") else 11),
            nullable=name not in key and "default" not in said,
            default="7" if "default" in said else None,
        )
        for name, said in columns.items()
    )
    primary = Index("primary", unique=True, primary=True, nullable=False, columns=tuple(key))
    return TableSchema("d", "t", 1, number, made, (primary,))


_FIRST = _version(1, id="int", a="int", b="int")
_AS_IT_IS = {"id": _INT, "a": _INT, "b": _INT}


def _found(
    version: TableSchema,
    ddl: str = "evolve",
    *,
    renamed: Mapping[str, str] | None = None,
    on_new_key: OnNewKey = OnNewKey.REFUSE,
    notes: Mapping[str, str] | None = None,
) -> AlterTable | None:
    present = Shape(_AS_IT_IS, ("id",))
    evolution = reconcile(
        [version],
        present,
        AppliedVersions().after([_FIRST]),
        renamed={version.version: renamed or {}},
        on_ddl=DdlPolicy.parse({}, ddl),
        on_new_key=on_new_key,
    )
    return alteration(present, evolution, notes or {})


@pytest.mark.parametrize(
    ("version", "ddl", "renamed", "told"),
    [
        (_version(2, id="int", a="int", b="int", c="int"), "evolve", {}, ["add column c int"]),
        (
            _version(2, id="int", a="int", b="int", c="int default"),
            "evolve",
            {},
            ["add column c int with its default in older rows"],
        ),
        (_version(2, id="int", a="bigint", b="int"), "lenient", {}, ["widen column a to bigint"]),
        (_version(2, id="int", b="int"), "try_evolve", {}, ["drop column a"]),
        (_version(2, id="int", b="int"), "lenient", {}, []),
        (_version(2, id="int", c="int", b="int"), "evolve", {"c": "a"}, ["rename column a to c"]),
        (
            _version(2, id="int", b="int", a="int"),
            "evolve",
            {"b": "a", "a": "b"},
            ["rename column a to _tidecast b", "rename column b to a", "rename column _tidecast b to b"],
        ),
        (
            _version(2, id="int", c="int", a="int", b="int"),
            "evolve",
            {},
            ["add column c int", "put columns into the order id, c, a, b"],
        ),
        (_version(2, id="int", a="int", b="int", c="int"), "add-column=ignore", {}, []),
        (_version(2, id="int", a="bigint", b="int"), "alter-column-type=ignore", {}, []),
        (_FIRST, "evolve", {}, []),
    ],
)
def test_columns(version: TableSchema, ddl: str, renamed: Mapping[str, str], told: Sequence[str]) -> None:
    found = _found(version, ddl, renamed=renamed)
    assert list(found.told() if found else ()) == told


def test_a_key_that_changes_is_an_action_of_its_own() -> None:
    another = _version(2, ("id", "a"), id="int", a="int", b="int")
    found = _found(another, on_new_key=OnNewKey.FOLLOW)
    assert found is None  # what the table shall remember of it comes as notes
    found = _found(another, on_new_key=OnNewKey.FOLLOW, notes={"tidecast.rekeyed": "1/2"})
    assert found is not None
    assert list(found.told()) == ["change the key from (id) to (id, a)"]
    refused = _found(another, notes={"tidecast.versions": "2"})
    assert refused is not None
    assert list(refused.told()) == []


def test_rows_hold_something_else_where_a_default_or_a_type_comes() -> None:
    plain = _found(_version(2, id="int", a="int", b="int", c="int"))
    filled = _found(_version(2, id="int", a="int", b="int", c="int default"))
    wider = _found(_version(2, id="int", a="bigint", b="int"))
    assert [one.changes_values for one in (plain, filled, wider) if one] == [False, True, True]
