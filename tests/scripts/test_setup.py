"""What scripts/venv and scripts/test print for somebody who has just cloned the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def pip(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the function `pip` of scripts/venv with the Python of the tests, in which something warns."""
    (folder / "sitecustomize.py").write_text("import warnings; warnings.warn('DEPRECATION: setup.py')")
    (function,) = (line for line in (SCRIPTS / "venv").read_text().splitlines() if line.startswith("pip() "))
    program = f'venv={sys.prefix}\n{function}\npip --no-index --target "$@"'
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = ["sh", "-c", program, "sh", str(folder / "site"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_warnings_of_pip_are_not_shown_but_its_errors_are(tmp_path: Path) -> None:
    (tmp_path / "none.lock").touch()
    done = pip(tmp_path, "--requirement", str(tmp_path / "none.lock"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "DEPRECATION" not in done.stderr
    done = pip(tmp_path, "tidecast-no-such-package")
    assert (done.returncode, done.stdout) == (1, "")
    assert "DEPRECATION" not in done.stderr
    assert "ERROR: No matching distribution found for tidecast-no-such-package" in done.stderr


@pytest.mark.parametrize(("arguments", "lines"), [((), 1), (("tests/scripts",), 0)])
def test_all_checks_begin_with_how_long_they_take(tmp_path: Path, arguments: tuple[str, ...], lines: int) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    shutil.copy(SCRIPTS / "test", folder)
    (folder / "venv").write_text("#!/bin/sh\nexit 7\n")  # the first thing that could take long
    (folder / "venv").chmod(0o755)
    done = subprocess.run([folder / "test", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stdout.count("minutes on two cores") == len(done.stdout.splitlines()) == lines
