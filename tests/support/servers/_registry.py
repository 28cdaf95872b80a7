"""Apicurio Registry 3.0.9, which speaks the Confluent Schema Registry's API."""

from __future__ import annotations

import base64
import json
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servers._process import JavaServer, free_ports
from tidecast.runtime import fetch_jars, read_jar_list

_REQUEST_SECONDS = 10.0
_JARS = read_jar_list(Path(__file__).with_name("registry.jars"))


class SchemaRegistry(JavaServer):
    """A registry at `url`, where new subjects are checked as a Confluent registry does: BACKWARD.

    With `secured=True` it wants `user` and `password` (basic auth); `url` has no credentials in it, `login_url` has.
    With `keeps=True` it has its schemas in files, and still knows them after `kill` and `start_again`.
    """

    user = "alice"
    password = "secret"
    url: str

    def __init__(self, *, secured: bool = False, keeps: bool = False) -> None:
        self._secured, self._keeps = secured, keeps

    @property
    def login_url(self) -> str:
        """The URL with the credentials in it."""
        return self.url.replace("http://", f"http://{self.user}:{self.password}@")

    def _command(self) -> Sequence[str | Path]:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        settings = {
            "java.io.tmpdir": str(self.work),
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(port),
        }
        if self._keeps:
            settings["apicurio.datasource.url"] = f"jdbc:h2:file:{self.work}/schemas;WRITE_DELAY=0"
        if self._secured:
            users = "quarkus.security.users.embedded"
            settings |= {
                "quarkus.http.auth.basic": "true",
                f"{users}.enabled": "true",
                f"{users}.plain-text": "true",
                f"{users}.users.{self.user}": self.password,
                f"{users}.roles.{self.user}": "sr-admin",
                "quarkus.http.auth.permission.api.paths": "/apis/*",
                "quarkus.http.auth.permission.api.policy": "authenticated",
            }
        return [*(f"-D{name}={value}" for name, value in settings.items()), "-jar", _program()]

    @contextmanager
    def without_checks(self) -> Iterator[None]:
        """Take any schema of subjects without a level of their own; to this registry NONE of a subject means that."""
        assert self._set_level("NONE")
        try:
            yield
        finally:
            assert self._set_level("BACKWARD")

    def _answers(self) -> bool:
        # The same request that tells whether it is up sets the level, which is NONE at first.
        try:
            return self._set_level("BACKWARD")
        except urllib.error.HTTPError as refused:
            refused.close()
            return False
        except OSError:
            return False

    def _set_level(self, level: str) -> bool:
        request = urllib.request.Request(
            f"{self.url}/config",
            method="PUT",
            data=json.dumps({"compatibility": level}).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self._secured:
            credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:
            return bool(answer.status == 200)


def _program() -> Path:
    """The unpacked server; unpacking happens once, beside the archive in the cache."""
    (archive,) = fetch_jars(_JARS)
    home = archive.with_name(archive.name.removesuffix(".tar.gz"))
    if not home.is_dir():
        draft = Path(tempfile.mkdtemp(dir=archive.parent))
        with tarfile.open(archive) as content:
            content.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 has none yet
            content.extractall(draft)
        try:
            draft.rename(home)
        except OSError:  # another process was first
            shutil.rmtree(draft)
    return home / "apicurio-registry-app-3.0.9-runner.jar"
