"""The program from which Spark forks the Python processes of a local session's tasks, so that a task begins at once.

With Spark's own, each task reads the directories of all archives on Python's path anew: pyspark.zip, and a jar of Spark
with thousands of classes. That takes 0.1 s. It also looks for garbage among all that was imported, and each process
imports what tasks need by itself.
"""

from __future__ import annotations

import gc
import zipimport
from importlib import import_module

_NEEDED = ("pyspark.worker", "tidecast.publish", "tidecast.replica")
"""Modules that tasks need, with all that these import."""


def main() -> None:
    """Be the program; Spark ends it."""
    # Archives do not change while they are in use; one that comes later is read when it is first asked.
    zipimport.zipimporter.invalidate_caches = _keep  # type: ignore[method-assign,assignment]
    for name in _NEEDED:
        import_module(name)
    gc.freeze()
    import_module("pyspark.daemon").manager()


def _keep(_archive: zipimport.zipimporter) -> None:
    """Keep what is known of an archive."""


if __name__ == "__main__":
    main()
