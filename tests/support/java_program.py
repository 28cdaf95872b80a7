"""Programs in Java that answer questions, a line for each line, with classes of Kafka Connect and Debezium."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tidecast.runtime import fetch_jars, find_java, read_jar_list

CONNECT = Path(__file__).parent / "connect"

Ask = Callable[[list[str]], list[str]]


def compiled(name: str, jars: str, folder: Path) -> Ask:
    """Compile a program into a folder, with the archives of a list, and return what asks it."""
    java = find_java().executable
    class_path = os.pathsep.join(map(str, fetch_jars(read_jar_list(CONNECT / jars))))
    (compiler,) = fetch_jars(read_jar_list(CONNECT / "compiler.jars"))
    source = CONNECT / f"{name}.java"
    subprocess.run(
        [str(java), "-jar", str(compiler), "-17", "-cp", class_path, "-d", str(folder), str(source)], check=True
    )

    def run(questions: list[str]) -> list[str]:
        command = [str(java), "-cp", os.pathsep.join([class_path, str(folder)]), name]
        text = "\n".join(questions) + "\n"
        done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=True)
        answers = done.stdout.split("\n")[:-1]
        assert len(answers) == len(questions)
        return answers

    return run
