"""Columns that are built once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from pyspark.sql.utils import is_remote

_KEPT = 128
"""How many results of a function are kept: those of as many table versions.

What Java keeps of one is some hundred kB for a table of twelve columns, and as many times as much for a wider one.
"""

_Given = ParamSpec("_Given")
_Built = TypeVar("_Built")


def reused() -> Callable[[Callable[_Given, _Built]], Callable[_Given, _Built]]:
    """Let a function that builds columns return those that it has built before for the same arguments.

    To build the value of a message of twelve columns takes Python a thousand calls to Java, to use it again none. A
    column belongs to no frame and no session, so that all batches of a process share it. The arguments must be
    hashable. It can go when Python builds columns without asking Java.
    """

    def reusing(build: Callable[_Given, _Built]) -> Callable[_Given, _Built]:
        @lru_cache(_KEPT)
        def known(_remote: bool, *args: _Given.args, **kwargs: _Given.kwargs) -> _Built:
            return build(*args, **kwargs)

        @wraps(build)
        def use(*args: _Given.args, **kwargs: _Given.kwargs) -> _Built:
            # A column of Spark Connect is another thing.
            return known(is_remote(), *args, **kwargs)  # type: ignore[arg-type]  # types cannot ask for hashable ones

        return use

    return reusing
