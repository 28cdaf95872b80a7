"""Which columns a statement says are generated, and how they are kept."""

from __future__ import annotations

from tidecast.model import read_statement


def test_the_words_generated_always_may_be_left_out() -> None:
    statement = read_statement("CREATE TABLE t (a INT, v INT AS (a + 1), s INT AS (a + 1) STORED, d INT DEFAULT 1)")
    assert statement
    kept = {name: definition.generated for name, definition in statement.definitions.items()}
    assert kept == {"a": "", "v": "VIRTUAL", "s": "STORED", "d": ""}
