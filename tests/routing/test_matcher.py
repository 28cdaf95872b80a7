"""Patterns of tables and columns."""

from __future__ import annotations

import re

import pytest

from tidecast._errors import ConfigError
from tidecast.routing import ColumnMatcher, TableMatcher
from tidecast.routing._matcher import TableFilter


@pytest.mark.parametrize(
    ("rules", "inside", "outside"),
    [
        (["*.*"], ["a.b", "数据.表"], []),
        (["*.*", "!test.*"], ["db.t"], ["test.t", "TEST.t"]),
        (["db*.*", "!*.cfg*", "*.cfgsample"], ["db1.tbl1", "db1.cfgsample", "else.cfgsample"], ["db1.cfg1", "else.t"]),
        (["!test.*", "*.*"], ["test.t"], []),
        (["!test.*"], [], ["test.t", "db.t"]),
        ([], [], ["db.t"]),
        (["  db.t  ", "", "# a comment"], ["db.t"], ["db.u"]),
        (["Db.T?"], ["db.t1", "DB.tX"], ["db.t", "db.t12"]),
        (["db.t[0-3]"], ["db.t0", "db.t3"], ["db.t4", "db.t"]),
        (["db.t[!0-3]"], ["db.t4", "db.tx"], ["db.t0"]),
        (["db.t[^0]"], ["db.t^", "db.t0"], ["db.t1"]),
        ([r"db.t[\]x]"], ["db.t]", "db.tx"], ["db.ty"]),
        (["_$.表"], ["_$.表"], ["_$.other"]),
        (["/^foo/.*", r"!/^foo/./^sbtest-\d/"], ["foobar.t", "food.sbtest-x"], ["foo.sbtest-1", "xfoo.t"]),
        (["/a/.t"], ["xax.t", "A.t"], ["b.t"]),
        ([r"/a\/b/.t"], [("a/b", "t")], ["ab.t"]),
        ([r"a\ b\é.*"], [("a bé", "t")], ["ab.t"]),
        (["`o-r c.2`.*"], [("o-r c.2", "odd té名.1")], ["o-r c.3"]),
        (["`we``ird`.t"], [("we`ird", "t")], [("we``ird", "t")]),
        (['"a""b"."*"'], [('a"b', "*")], [('a"b', "t")]),
        (["db.t"], [], [("db", "t\n"), "db.tt", "xdb.t"]),
        (["/^t[[:digit:]]+$/.*"], ["t12.a"], ["td.a"]),
        ([r"/^\w+$/.*"], ["abc.t"], ["表.t"]),
        ([r"/\p{Han}/.*"], ["表.t"], ["abc.t"]),
    ],
)
def test_the_last_rule_that_matches_decides(
    rules: list[str], inside: list[str | tuple[str, str]], outside: list[str | tuple[str, str]]
) -> None:
    matcher = TableMatcher(rules)

    def matches(name: str | tuple[str, str]) -> bool:
        schema, table = name if isinstance(name, tuple) else name.split(".", 1) if "." in name else (name, "t")
        return matcher.matches(schema, table)

    assert [n for n in inside if not matches(n)] == []
    assert [n for n in outside if matches(n)] == []


@pytest.mark.parametrize(
    ("rules", "inside", "outside"),
    [
        (["*.*"], ["shop"], ["mysql"]),
        (["*.*", "!shop.*"], ["a"], ["shop"]),
        (["*.*", "!shop.orders"], ["shop"], []),
        (["!shop.*", "shop.orders"], ["shop"], ["a"]),
        (["!shop.*"], [], ["shop", "a"]),
        ([], ["shop"], ["mysql"]),
    ],
)
def test_a_schema_is_in_where_a_table_of_it_may_be(rules: list[str], inside: list[str], outside: list[str]) -> None:
    chosen = TableFilter(rules)
    assert [s for s in inside if not chosen.matches_schema(s)] == []
    assert [s for s in outside if chosen.matches_schema(s)] == []


def test_a_dot_is_escaped_in_a_bare_pattern() -> None:
    matcher = TableMatcher([r"a\.b.*"])
    assert matcher.matches("a.b", "t")
    assert not matcher.matches("a", "b")
    assert not matcher.matches("axb", "t")


@pytest.mark.parametrize("rule", ["Db.T", "/^Db$/.`T`", '"Db"./T/'])
def test_letter_case_counts_where_it_is_asked_for(rule: str) -> None:
    assert TableMatcher([rule]).matches("DB", "t")
    sensitive = TableMatcher([rule], case_sensitive=True)
    assert sensitive.matches("Db", "T")
    assert not sensitive.matches("DB", "t")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("db", "wrong table pattern"),
        ("!", "syntax error: missing pattern"),
        ("db.", "syntax error: missing pattern"),
        ("a..b", "syntax error: stray characters after table pattern"),
        ("[!].b", "syntax error: failed to parse character class"),
        ("a.b.c", "syntax error: stray characters after table pattern"),
        ("`a`b.c", "syntax error: missing '.' between schema and table patterns"),
        ("/a.b", "syntax error: incomplete regexp"),
        ("`a.b", "syntax error: incomplete quoted identifier"),
        ("``.b", "syntax error: incomplete quoted identifier"),
        ("a[.b", "syntax error: failed to parse character class"),
        ("a[z-a].b", "syntax error: failed to parse character class"),
        ("a b.c", "unexpected special character ' '"),
        ("a-b.c", "unexpected special character '-'"),
        ("//.*", "syntax error: incomplete regexp"),
        (r"a[\d].b", "syntax error: failed to parse character class"),
        ("a\\", r"syntax error: cannot place \ at end of line"),
        (r"a\b.c", r"cannot escape a letter or number (\b)"),
        ("/(/.c", "invalid pattern: error parsing regexp: missing )"),
        ("/(?!a)b/.c", "invalid pattern: error parsing regexp: invalid perl operator"),
        ("@file", "importing filter rules from a file is not supported"),
    ],
)
def test_a_rule_that_is_none_is_refused(rule: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TableMatcher(["*.*", rule])
    assert caught.value.code == "CDC:ErrFilterRuleInvalid"
    assert f"at <cmdline>:1: {why}" in str(caught.value)
    assert f"filter rule is invalid [*.* {rule}]: " in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        TableFilter(["*.*", rule])  # TiCDC shows its whole table of the file
    assert f"filter rule is invalid &{{[*.* {rule}] [] []}}: at <cmdline>:1: {why}" in str(caught.value)


def test_a_schema_without_a_name_is_a_pattern_that_matches_none() -> None:
    assert TableMatcher([".t"]).matches("", "t")
    assert not TableMatcher([".t"]).matches("t", "t")


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        (["*"], ["id", "keep_a", "DROP_b"]),
        (["*", "!drop_*"], ["id", "keep_a"]),
        (["!*", "ID"], ["id"]),
        (["/p_/"], ["keep_a", "DROP_b"]),
        (["`keep_a`", "d*"], ["keep_a", "DROP_b"]),
        ([], []),
    ],
)
def test_columns_are_chosen(rules: list[str], chosen: list[str]) -> None:
    matcher = ColumnMatcher(rules)
    assert [c for c in ("id", "keep_a", "DROP_b") if matcher.matches(c)] == chosen


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a.b", "unexpected special character '.'"),
        (".b", "unexpected special character '.'"),
        ("`a`.b", "syntax error: stray characters after column pattern"),
        ("/a/b", "syntax error: stray characters after column pattern"),
    ],
)
def test_a_column_pattern_has_no_dot(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"at <cmdline>:1: {re.escape(why)}$"):
        ColumnMatcher([pattern])
