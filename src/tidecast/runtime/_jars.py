"""Java archives from a Maven repository: closed lists with digests, fetched once into the cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

from tidecast._atomic import locked
from tidecast._errors import MissingRuntime
from tidecast.runtime._cache import cache_dir
from tidecast.runtime._java import find_java

_log = logging.getLogger(__name__)

# Read no POM, ask no other place: what Maven left half-done in ~/.m2 then cannot get in the way.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" timeoutConstraint="patient"/>
  </resolvers>
</ivysettings>
"""
_LAYOUT = "[organisation]/[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True)
class Artifact:
    """One file in a Maven repository."""

    organisation: str
    name: str
    version: str
    extension: str = "jar"
    classifier: str = ""

    @classmethod
    def parse(cls, coordinate: str) -> Artifact:
        """Read `organisation:name:version[:extension[:classifier]]`."""
        return cls(*coordinate.split(":"))

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"

    @property
    def path(self) -> Path:
        """Where it lies in the cache's folder of jars."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return Path(self.organisation, f"{self.name}-{self.version}{classifier}.{self.extension}")


def read_jar_list(path: Path) -> dict[str, str]:
    """Return the coordinates in a file and the SHA-256 of each, which stands before it, as `sha256sum` writes them."""
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {coordinate: digest for digest, coordinate in lines}


SPARK_JARS: Mapping[str, str] = read_jar_list(Path(__file__).with_name("spark.jars"))
"""All that Spark's Kafka source, its Avro functions and Delta need beyond what pyspark ships, with their SHA-256."""

ICEBERG_JARS: Mapping[str, str] = read_jar_list(Path(__file__).with_name("iceberg.jars"))
"""What catalogs of Apache Iceberg need besides, for sessions that have one."""

MYSQL_JARS: Mapping[str, str] = read_jar_list(Path(__file__).with_name("mysql.jars"))
"""What a database of MySQL is read with: MariaDB's driver, which is under the LGPL. Fetched when one is."""


def fetch_jars(jars: Mapping[str, str] = SPARK_JARS) -> list[Path]:
    """Give the files of `organisation:name:version[:extension[:classifier]]`, fetching those not in the cache yet.

    Each has to have the SHA-256 that is given for it, also where it comes from a mirror or lies in the cache. The list
    must be closed: nothing it depends on is looked up. Several processes may ask at once, and once all files are there
    no network is needed. A site with a mirror names its Ivy settings file in `$IVY_SETTINGS`.
    Raises `MissingRuntime`, naming the artifacts, when one cannot be had or is another file.
    """
    wanted = {Artifact.parse(coordinate): digest for coordinate, digest in jars.items()}
    folder = cache_dir() / "jars"
    if _missing(folder, wanted):
        with locked(folder):
            _fetch(folder, {artifact: wanted[artifact] for artifact in _missing(folder, wanted)})
    for artifact, digest in wanted.items():
        _check(artifact, folder / artifact.path, digest)
    return [folder / artifact.path for artifact in wanted]


def _check(artifact: Artifact, path: Path, digest: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise MissingRuntime(
            f"{artifact} is not the file that is meant: its SHA-256 is {found}, not {digest}",
            where=str(path),
            hint="take it away, and it is fetched again; if it comes again, do not trust the repository",
        )


def _missing(folder: Path, artifacts: Iterable[Artifact]) -> list[Artifact]:
    return [artifact for artifact in artifacts if not (folder / artifact.path).is_file()]


def _fetch(folder: Path, artifacts: Mapping[Artifact, str]) -> None:
    """Let Ivy bring the artifacts next to the folder, then move each that has its digest into its place in one step."""
    if not artifacts:
        return
    _log.info("fetching %d Java archives into %s", len(artifacts), folder)
    work = folder / ".ivy"
    fetched = work / "files"
    work.mkdir(exist_ok=True)
    shutil.rmtree(fetched, ignore_errors=True)  # a copy that was cut short; whole downloads stay in Ivy's cache
    (work / "settings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_ivy_file(list(artifacts)))
    settings = os.environ.get("IVY_SETTINGS") or work / "settings.xml"
    command: list[str | Path] = [find_java().executable, "-jar", _ivy_jar(), "-settings", settings]
    command += ["-ivy", work / "ivy.xml", "-cache", work / "cache", "-retrieve", fetched / _LAYOUT]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    for artifact, digest in artifacts.items():
        if (fetched / artifact.path).is_file():
            try:
                _check(artifact, fetched / artifact.path, digest)
            except MissingRuntime:
                shutil.rmtree(work)  # with Ivy's own copy: the next run asks the repository again
                raise
            (folder / artifact.organisation).mkdir(exist_ok=True)
            (fetched / artifact.path).replace(folder / artifact.path)
    missing = _missing(folder, artifacts)
    if missing:
        raise _unavailable(missing, folder, done.stdout)
    shutil.rmtree(work)


def _ivy_file(artifacts: Sequence[Artifact]) -> str:
    def attributes(**values: str) -> str:
        return " ".join(f"{name.replace('__', ':')}={quoteattr(value)}" for name, value in values.items() if value)

    def file(a: Artifact) -> str:
        return f"<artifact {attributes(name=a.name, type=a.extension, ext=a.extension, m__classifier=a.classifier)}/>"

    def dependency(organisation: str, name: str, version: str) -> str:
        # Of a module that is named twice Ivy brings the files of one time alone.
        files = "".join(
            file(a) for a in artifacts if (a.organisation, a.name, a.version) == (organisation, name, version)
        )
        module = attributes(org=organisation, name=name, rev=version, transitive="false", conf="default")
        return f"<dependency {module}>{files}</dependency>"

    modules = dict.fromkeys((a.organisation, a.name, a.version) for a in artifacts)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidecast" module="jars"/>'
        f"<dependencies>{''.join(dependency(*module) for module in modules)}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    """Ivy, which is part of pyspark: a complete client of Maven repositories."""
    for jar in Path(pyspark.__file__).with_name("jars").glob("ivy-*.jar"):
        return jar
    raise MissingRuntime("pyspark has no Ivy in its folder `jars`", hint="pip install pyspark==4.0.0")


# What Ivy says, and what helps.
_REMEDIES = (
    (
        r"PKIX path building failed",
        "this Java does not trust the site's certificate: "
        "set JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=<the site's trust store>",
    ),
    (
        r"UnknownHost|ConnectException|SocketTimeout|NoRouteToHost|connection problem|ServerAccessError",
        "the repository cannot be reached: check the network, or name a mirror's settings file in IVY_SETTINGS",
    ),
    (r"", "check the version, or name the Ivy settings file of a mirror that has it in IVY_SETTINGS"),
)


# A line of the list that Ivy closes with: `:: organisation#name;version: not found`, or `…;version!file` where a
# download failed. What the list lacks was found, and is held back because of the others.
_FAILED = re.compile(r"^\s*:: ([^#\s]+)#([^;\s]+);([^:!\s]+)[:!]", re.MULTILINE)


def _unavailable(missing: Sequence[Artifact], folder: Path, output: str) -> MissingRuntime:
    failed = {":".join(parts) for parts in _FAILED.findall(output)}
    missing = [artifact for artifact in missing if str(artifact) in failed] or missing
    remedy = next(remedy for symptom, remedy in _REMEDIES if re.search(symptom, output))
    return MissingRuntime(
        f"cannot fetch {', '.join(map(str, missing))}",
        hint=f"{remedy}; or put the file at {folder / missing[0].path}",
    )
