"""Where Spark runs: the options of every command that runs it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tidecast._errors import ConfigError
from tidecast.cli._hidden import hide

_Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master: local[4], spark://host:7077, yarn, k8s://https://…."),
]
_Remote = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="The Spark Connect server: sc://host:15002.")
]
_Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting. Repeatable.")]
_OPTIONS = {"master": _Master, "remote": _Remote, "conf": _Conf}
_SMALL, _FEW = 1 << 20, 1000
_NAME = re.compile(r"[\w.-]+")
_SHOWN = re.compile(r"(spark\.[\w.-]*)?")


def runs_spark(command: Callable[..., None], *, once: bool = True) -> Callable[..., None]:
    """Give a command the options `--master`, `--remote` and `--conf`, with which its Spark session is made.

    `once` says that it reads its source up to the present end, and ends.
    """

    @functools.wraps(command)
    def run(
        *, master: str | None = None, remote: str | None = None, conf: Sequence[str] | None = None, **options: object
    ) -> None:
        from tidecast.runtime import MASTER, REMOTE, command_settings  # Spark, which `--help` needs not

        given = {MASTER: master, REMOTE: remote}
        settings = {**_pairs(conf or ()), **{name: value for name, value in given.items() if value is not None}}
        hide(settings)
        goes_on = options.get("continuous") or options.get("follow")
        with command_settings(settings, small=once and not goes_on and _is_small(options.get("source"))):
            command(**options)

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in _OPTIONS.items()]
    parameters = [*(p.replace(kind=keyword) for p in own.parameters.values()), *more]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _is_small(source: object) -> bool:
    """Tell whether a source is some local files of few messages, as far as their size tells, or no source at all."""
    if source is None:
        return True
    from tidecast._uri import parse_place, source_uri  # `--help` needs not wait for it

    try:
        place = parse_place(source_uri(str(source)))
    except ConfigError:
        return False
    if place.is_kafka or place.root:
        return False
    folder = Path(place.path)
    files = folder.parent.rglob("*") if "topics" in place.params else folder.rglob("*") if folder.is_dir() else [folder]
    size = 0
    for number, file in enumerate(files):
        size += file.stat().st_size if file.is_file() else 0
        if size > _SMALL or number > _FEW:
            return False
    return True


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return settings given as `name=value`. Raises ConfigError for another text, of which it shows no value."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            shown = _SHOWN.match(text)
            raise ConfigError(
                "--conf takes NAME=VALUE",
                where=shown[0] if shown else None,
                hint="for example --conf spark.executor.memory=4g",
            )
        found[name] = value
    return found
