"""What is built once is built anew where it would be another."""

from __future__ import annotations

import pytest

from tidecast.spark import reused


def test_the_same_arguments_give_what_was_built_before() -> None:
    built = []

    @reused()
    def build(name: str, *, old: bool = False) -> tuple[str, bool]:
        built.append((name, old))
        return name, old

    assert [build("a"), build("b", old=True), build("a"), build("b", old=True), build("b")] == [
        ("a", False),
        ("b", True),
        ("a", False),
        ("b", True),
        ("b", False),
    ]
    assert built == [("a", False), ("b", True), ("b", False)]


def test_a_failure_is_not_kept() -> None:
    @reused()
    def build(name: str) -> str:
        failures.append(name)
        raise ValueError(name)

    failures: list[str] = []
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            build("a")
    assert failures == ["a", "a"]


def test_columns_of_spark_connect_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = iter([False, True, False])
    monkeypatch.setattr("tidecast.spark._reuse.is_remote", lambda: next(kinds))
    built = []

    @reused()
    def build() -> int:
        built.append(1)
        return len(built)

    assert [build(), build(), build()] == [1, 2, 1]
