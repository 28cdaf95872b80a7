"""MariaDB, from an archive of its programs."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from servers._process import JavaServer, free_ports
from tidecast.runtime import fetch_jars, read_jar_list

_JARS = read_jar_list(Path(__file__).with_name("mariadb.jars"))
_PROGRAMS = ("bin/", "scripts/", "share/english/", "share/charsets/", "share/fill", "share/maria", "libs/")


class MariaDB(JavaServer):
    """An empty server, whose user `root` has no password."""

    port: int
    _programs: Path

    @property
    def _program(self) -> Sequence[str | Path]:
        (jar,) = fetch_jars(_JARS)
        with zipfile.ZipFile(jar) as archive:
            names = archive.namelist()
            root = next(name for name in names if name.endswith("/linux/"))
            archive.extractall(self.work, [n for n in names if n.removeprefix(root).startswith(_PROGRAMS)])
        self._programs = self.work / root
        for folder in ("bin", "scripts"):
            for file in (self._programs / folder).iterdir():
                file.chmod(0o755)
        return (self._programs / "bin" / "mariadbd",)

    def _command(self) -> Sequence[str | Path]:
        common = ("--no-defaults", f"--basedir={self._programs}", f"--datadir={self.work / 'data'}")
        made = ("--auth-root-authentication-method=normal", "--skip-test-db", "--user=root")
        install = self._programs / "scripts" / "mariadb-install-db"
        subprocess.run([install, *common, *made], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (self.port,) = free_ports(1)
        address = ("--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.work / 'socket'}")
        return (*common, *address, "--user=root", "--character-set-server=utf8mb4")

    def _answers(self) -> bool:
        return self._client("SELECT 1").returncode == 0

    def run(self, sql: str) -> None:
        """Run statements."""
        done = self._client(sql)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def _client(self, sql: str) -> subprocess.CompletedProcess[str]:
        place = ("--host=127.0.0.1", f"--port={self.port}", "--user=root", "--default-character-set=utf8mb4")
        command: list[str | Path] = [self._programs / "bin" / "mariadb", "--no-defaults", *place]
        return subprocess.run(command, input=sql, capture_output=True, text=True)
