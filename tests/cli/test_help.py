"""The help texts, as a terminal of 80 columns shows them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tidecast.cli._app import app


@pytest.mark.parametrize("group", ["", "dead-letters", "conformance"])
def test_no_line_of_a_list_of_commands_is_cut(group: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*filter(None, [group]), "--help"]).stdout
    commands = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(commands) > 1
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)
