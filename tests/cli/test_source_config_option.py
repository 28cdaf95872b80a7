"""`--source-config` reaches every command that reads the rows of a storage sink's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tidecast
from tidecast.cli._app import app

pytestmark = pytest.mark.unit


class _Called(Exception):
    """The function of a command was called."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return where the calls leave what they were given."""
    told: dict[str, Any] = {}

    def called(**options: Any) -> None:
        told.update(options)
        raise _Called

    for name in ("compare", "retry_dead_letters"):
        monkeypatch.setattr(tidecast, name, called)
    return told


@pytest.fixture
def toml(tmp_path: Path) -> str:
    """Return a changefeed file whose CSV nobody could guess."""
    (tmp_path / "feed.toml").write_text('[sink]\nprotocol = "csv"\n[sink.csv]\nbinary-encoding-method = "hex"\n')
    return str(tmp_path / "feed.toml")


def test_a_retry_reads_as_the_replica_did(given: dict[str, Any], toml: str) -> None:
    CliRunner().invoke(
        app, ["dead-letters", "retry", "folder", "--to", "t", "--checkpoint", "c", "--source-config", toml]
    )
    assert "csv-binary-encoding-method=hex" in given["source"]


def test_a_comparison_reads_its_sides_that_are_files(given: dict[str, Any], toml: str) -> None:
    sink = "file:///sink?protocol=csv"
    CliRunner().invoke(app, ["compare", sink, "./tables", "--source-config", toml])
    assert given["a"].startswith(f"{sink}&")
    assert "csv-binary-encoding-method=hex" in given["a"]
    assert given["b"] == "./tables"


def test_a_comparison_without_files_takes_no_file(given: dict[str, Any], toml: str) -> None:
    kafka = "kafka://host:9092/topic?protocol=canal-json"
    done = CliRunner().invoke(app, ["compare", kafka, "./tables", "--source-config", toml])
    assert "none are given" in str(done.exception)
    assert not given
