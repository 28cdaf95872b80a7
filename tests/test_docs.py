"""The documents: what docstrings cite is there.

A docstring cites as `Source: Page, heading, heading; Page, heading.` The page is the title of a file in `docs`, a
heading one on that page; letter case and backquotes do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = re.compile(r"\bSource:\s(.+?)\.(?=\s|$)", re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
CODE = re.compile(r"^```.*?^```", re.M | re.S)


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).lower()


def docstrings(file: Path) -> Iterator[str]:
    """Every text of a file that stands as a statement: docstrings, and those of attributes."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def pages() -> dict[str, set[str]]:
    """The headings of each page, by its title."""
    found = {}
    for file in (ROOT / "docs").rglob("*.md"):
        title, *headings = HEADING.findall(CODE.sub("", file.read_text()))
        found[plain(title)] = {plain(heading) for heading in headings}
    return found


def cited() -> Iterator[tuple[str, str, list[str]]]:
    """Every page that is cited, with the file that does so and the headings that it names there."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for text in docstrings(file):
            for source in SOURCE.findall(text):
                for part in source.split(";"):
                    page, *headings = part.split(",")
                    yield str(file.relative_to(ROOT)), plain(page), [plain(heading) for heading in headings]


def test_what_docstrings_cite_is_there() -> None:
    known = pages()
    everything = list(cited())
    assert len(everything) > 60
    missing = [
        f"{file}: {', '.join([page, *headings])}"
        for file, page, headings in everything
        if page not in known or not known[page].issuperset(headings)
    ]
    assert not missing, "\n".join(missing)


def test_every_citation_is_read() -> None:
    """One without a full stop, or in a comment, would be checked by nobody."""
    files = sorted((ROOT / "src").rglob("*.py"))
    written = sum(len(re.findall(r"(?<!class )\bSource:\s", file.read_text())) for file in files)
    read = sum(len(SOURCE.findall(text)) for file in files for text in docstrings(file))
    assert read == written
