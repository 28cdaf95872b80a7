"""A hook of mkdocs: every notebook in `docs` becomes a page, with the outputs that are stored in it.

Its text is Markdown like any other page's, so that links are checked and point to pages of the site.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put a page beside each notebook."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        cells = json.loads(Path(notebook.abs_src_path or "").read_text(encoding="utf-8"))["cells"]
        name = notebook.src_uri.removesuffix(".ipynb")
        files.append(File.generated(config, f"{name}.md", content="\n\n".join(map(_markdown, cells))))
    return files


def _markdown(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    shown = "".join(map(_text, cell["outputs"])).rstrip()
    return f"```python\n{text}\n```" + (f"\n\n```text\n{shown}\n```" if shown else "")


def _text(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
