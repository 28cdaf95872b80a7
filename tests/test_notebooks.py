"""The notebooks in the documents run, and print what is stored in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_module import load_script

NOTEBOOK = load_script("notebook")


@pytest.mark.spark  # in a program of its own
@pytest.mark.parametrize("notebook", NOTEBOOK.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(notebook: Path, tmp_path: Path) -> None:
    """Where it should, `scripts/notebook` stores it anew."""
    stored, found = NOTEBOOK.printed(NOTEBOOK.read(notebook)), NOTEBOOK.printed(NOTEBOOK.run(notebook, tmp_path))
    assert any(outputs for _, outputs in stored)
    for (cell, expected), (_, actual) in zip(stored, found, strict=True):
        assert actual == expected, cell
