"""The help texts, as a terminal of 80 columns shows them."""

from __future__ import annotations

import inspect

import pytest
from typer.testing import CliRunner

import tidecast
from tidecast.cli._app import app, dead_letters_app

_OF_SPARK = {"conf", "master", "remote"}
_OWN = {"server": {"user", "password"}, "inspect": {"follow"}, "show_dead_letter": {"source", "checkpoint"}}
"""What a command itself makes something of."""


@pytest.mark.parametrize("group", ["", "dead-letters", "conformance"])
def test_no_line_of_a_list_of_commands_is_cut(group: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*filter(None, [group]), "--help"]).stdout
    commands = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(commands) > 1
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)


def test_a_command_has_the_options_of_its_function() -> None:
    commands = {
        c.callback.__name__: c.callback for a in (app, dead_letters_app) for c in a.registered_commands if c.callback
    }
    functions = {name: getattr(tidecast, "serve" if name == "server" else name, None) for name in commands}
    checked = {name: function for name, function in functions.items() if callable(function)}
    assert len(checked) == 14
    for name, function in checked.items():
        own = {"as_json", "source_config"} | _OF_SPARK | _OWN.get(name, set())
        options = inspect.signature(commands[name]).parameters.keys() - own
        inner = {"progress", "spark", "ready", "stop", "users"}
        assert options == inspect.signature(function).parameters.keys() - inner, name
