"""The check of import directions finds what it is there to find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "imports", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("file", "statement", "complaint"),
    [
        ("model/_types.py", "from tidecast.checksum import verdict", "model must not know checksum"),
        (
            "protocols/avro/_columns.py",
            "from tidecast.protocols.simple import decode",
            "must not know protocols.simple",
        ),
        ("protocols/avro/_columns.py", "from ...topics import read", "protocols.avro must not know topics"),
        ("protocols/avro/_columns.py", "import tidecast.runtime", "protocols.avro must not know runtime"),
        (
            "replica/plan/_plan.py",
            "from tidecast.replica.apply import apply",
            "replica.plan must not know replica.apply",
        ),
        ("replica/_apply.py", "from tidecast.model._types import Kind", "tidecast.model._types.Kind is private"),
        ("replica/_apply.py", "from tidecast.model import _types", "tidecast.model._types is private"),
        ("replica/_apply.py", "def f():\n    from tidecast.cli import main", "replica must not know cli"),
        ("registry/_http.py", "from tidecast import model", "registry must not know model"),
        ("protocols/avro/_columns.py", "from tidecast._uri import Place", "protocols.avro must not know _uri"),
        ("registry/_http.py", "from tidecast import spark_session", "registry must not know tidecast.spark_session"),
        ("_uri.py", "from tidecast.topics import read", "_uri must not know topics"),
        ("cli/_app.py", "from tidecast._secret import name", "tidecast._secret.name is private"),
        ("cli/_app.py", "from tidecast.replica import replicate", "cli must not know replica"),
        ("cli/_app.py", "from tidecast.server import read_users", "cli must not know server"),
        ("server/_app.py", "from tidecast.runtime import spark_session", "server must not know runtime"),
        ("novel/_new.py", "from tidecast.model import Kind", "novel is not in the table"),
        ("__init__.py", "from tidecast.replica._apply import apply", "tidecast.replica._apply.apply is private"),
    ],
)
def test_an_import_that_breaks_a_rule_is_named(tmp_path: Path, file: str, statement: str, complaint: str) -> None:
    offender = tmp_path / "tidecast" / file
    offender.parent.mkdir(parents=True)
    offender.write_text(statement)
    code, output = check(tmp_path / "tidecast")
    assert code == 1
    assert output.startswith(f"tidecast/{file}:")
    assert complaint in output
    assert len(output.splitlines()) == 1


def test_modules_that_import_each_other_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "tidecast" / "cli"
    folder.mkdir(parents=True)
    (folder / "_app.py").write_text("from tidecast.cli._codes import FAILED")
    (folder / "_main.py").write_text("def main():\n    from tidecast.cli import _app\nFAILED = 3")
    (folder / "_codes.py").write_text("FAILED = 3")
    assert check(tmp_path / "tidecast") == (0, "imports go downwards")
    (folder / "_codes.py").write_text("from ._main import FAILED")
    code, output = check(tmp_path / "tidecast")
    assert code == 1
    assert output.startswith("modules import each other: tidecast.cli._")
    assert all(f"tidecast.cli.{name}" in output for name in ("_app", "_main", "_codes"))


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("replica/_apply.py", "from tidecast.model import Kind"),
        ("replica/_apply.py", "from tidecast.protocols.avro import decode"),
        ("registry/_http.py", "from tidecast._errors import RegistryError"),
        ("cli/_app.py", "import tidecast"),
        ("topics/_open.py", "from tidecast._uri import Place"),
        ("registry/_http.py", "from ._base import Registry"),
        ("protocols/__init__.py", "from tidecast.protocols.simple import decode"),
        ("protocols/avro/_columns.py", "from tidecast.protocols._shared import Protocol"),
        ("__init__.py", "from tidecast.replica import apply"),
    ],
)
def test_an_import_downwards_passes(tmp_path: Path, file: str, statement: str) -> None:
    module = tmp_path / "tidecast" / file
    module.parent.mkdir(parents=True)
    module.write_text(statement)
    assert check(tmp_path / "tidecast") == (0, "imports go downwards")


def test_tidecast_itself_passes() -> None:
    assert check() == (0, "imports go downwards")
