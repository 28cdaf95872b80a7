"""What somebody else has set for Spark: a command's options, spark-submit, its arguments, spark-defaults.conf."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

from tidecast.runtime._where import settings_of_command

# The arguments of spark-submit that stand for a setting which tidecast would make itself.
_ARGUMENTS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_LINE = re.compile(r"\s*([^#\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")


def submitted() -> bool:
    """Tell whether spark-submit has started this program: its Java runs already, with its own settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def outside_settings() -> dict[str, str]:
    """Return the settings of Spark that a session made now would have to keep."""
    if submitted():
        SparkContext._ensure_initialized()  # without it Python's SparkConf does not ask Java
        found = dict(SparkConf().getAll())
    else:
        found = {**_defaults(), **dict(_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))}
    return {**found, **settings_of_command()}


def _defaults() -> dict[str, str]:
    file = _conf_dir() / "spark-defaults.conf"
    if not file.is_file():
        return {}
    found = map(_LINE.fullmatch, file.read_text(encoding="utf-8").splitlines())
    return {line[1]: line[2] for line in found if line}


def _conf_dir() -> Path:
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    if home := os.environ.get("SPARK_HOME"):
        return Path(home, "conf")
    return Path(pyspark.__file__).with_name("conf")


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings among spark-submit's arguments, of which a later one wins."""
    words = iter(shlex.split(text))
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-c", "--conf") or name in _ARGUMENTS:
            given = value if equals else next(words, "")
            setting, _, value = given.partition("=")
            yield (_ARGUMENTS[name], given) if name in _ARGUMENTS else (setting, value)
