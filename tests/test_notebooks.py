"""The notebooks in the documents run, and print what is stored in them."""

from __future__ import annotations

import ast
import inspect
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from full import full
from script_module import load_script

import tidecast

NOTEBOOK = load_script("notebook")


@pytest.mark.parametrize("notebook", NOTEBOOK.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_calls_what_there_is(notebook: Path) -> None:
    cells = [cell.source for cell in NOTEBOOK.read(notebook).cells if cell.cell_type == "code"]
    code = "\n".join(line for cell in cells for line in cell.splitlines() if not line.startswith(("%", "!")))
    calls = [
        call
        for call in ast.walk(ast.parse(code))
        if isinstance(call, ast.Call) and re.fullmatch(r"tidecast(\.\w+)+", ast.unparse(call.func))
    ]
    assert calls
    for call in calls:
        function: Any = reduce(getattr, ast.unparse(call.func).split(".")[1:], tidecast)
        inspect.signature(function).bind_partial(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})


@full
@pytest.mark.spark  # in a program of its own
@pytest.mark.parametrize("notebook", NOTEBOOK.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(notebook: Path, tmp_path: Path) -> None:
    """Where it should, `scripts/notebook` stores it anew."""
    stored, found = NOTEBOOK.printed(NOTEBOOK.read(notebook)), NOTEBOOK.printed(NOTEBOOK.run(notebook, tmp_path))
    assert any(outputs for _, outputs in stored)
    for (cell, expected), (_, actual) in zip(stored, found, strict=True):
        assert actual == expected, cell
