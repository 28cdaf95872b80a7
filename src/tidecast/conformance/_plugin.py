"""A plugin of pytest: a test for each feature of each protocol, answered by a program.

`pytest --tidecast-consumer "program {input} {output}"` writes the kit, runs the program once, and adds the tests. What
is not answered is skipped. The fixture `tidecast_kit` is a kit in a folder for tests of one's own.

Source: Conformance kit, with pytest.
"""

from __future__ import annotations

import shlex
import subprocess
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidecast.conformance import Feature, Report

_OPTION = "--tidecast-consumer"
_NAME = "tidecast-conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the program."""
    parser.getgroup("tidecast").addoption(
        _OPTION,
        metavar="COMMAND",
        help="Test a consumer of TiCDC's topics with tidecast's conformance kit; {input} in the command stands for the "
        "folder of the kit, {output} for the file of its answers.",
    )


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the tests of the program."""
    if command := config.getoption(_OPTION):
        kit = Kit.from_parent(session, name=_NAME, nodeid=_NAME, command=command)
        items += kit.collect()


@pytest.fixture(scope="session")
def tidecast_kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the conformance kit, as `tidecast.conformance.write` writes it."""
    from tidecast.conformance import write

    folder = tmp_path_factory.mktemp("tidecast") / "kit"
    write(folder)
    return folder


class Kit(pytest.Collector):
    """The tests of one program, which runs when the first of them does."""

    def __init__(self, *, command: str, **more: Any) -> None:
        super().__init__(**more)
        self._command = command

    def collect(self) -> list[pytest.Item]:
        """Return a test for each feature of each protocol."""
        from tidecast.conformance import features_of

        return [
            FeatureTest.from_parent(self, name=f"{protocol}: {feature}", find=(protocol, feature))
            for protocol, feature in features_of(self._folder)
        ]

    @cached_property
    def _folder(self) -> Path:
        from tidecast.conformance import write

        temporary = TemporaryDirectory(prefix="tidecast-kit-")
        self.config.add_cleanup(temporary.cleanup)
        folder = Path(temporary.name) / "kit"
        write(folder)
        return folder

    @cached_property
    def report(self) -> Report | str:
        """The report on the program's answers, or why there are none."""
        from tidecast._errors import TidecastError
        from tidecast.conformance import check

        results = self._folder.parent / "results.jsonl"
        command = [
            part.replace("{input}", str(self._folder)).replace("{output}", str(results))
            for part in shlex.split(self._command)
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"cannot run {shlex.join(command)}: {error}"
        if done.returncode:
            return f"{shlex.join(command)} ended with {done.returncode}: {done.stderr or done.stdout}"
        try:
            return check(self._folder, results)
        except TidecastError as error:
            return f"{shlex.join(command)} gave no answers: {error}"


class _Wrong(Exception):
    """The failure of a feature's test."""


class FeatureTest(pytest.Item):
    """The test of one feature."""

    def __init__(self, *, find: tuple[str, str], **more: Any) -> None:
        super().__init__(**more)
        self._find = find

    def runtest(self) -> None:
        """Pass where everything of the feature was answered rightly."""
        assert isinstance(self.parent, Kit)
        report = self.parent.report
        if isinstance(report, str):
            raise _Wrong(report)
        feature: Feature = report.of(*self._find)
        if feature.failed:
            raise _Wrong(f"{feature.failed} of {feature.answered} are wrong, first {feature.first}")
        if feature.not_answered:
            pytest.skip("not answered")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is wrong, and not where the kit found it."""
        return str(excinfo.value) if isinstance(excinfo.value, _Wrong) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the test."""
        return self.path, None, self.name
