"""Moto's server, which speaks Amazon's S3."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers._process import JavaServer, free_ports
from tidecast.runtime import fetch_jars, read_jar_list

_JARS = read_jar_list(Path(__file__).with_name("s3.jars"))


class S3Server(JavaServer):
    """An S3 at `url` with an empty bucket `bucket`, on whose word clients rely: it takes any key."""

    bucket = "lake"
    key, secret = "a-key", "a-secret-key"
    url: str

    @property
    def spark(self) -> Mapping[str, str]:
        """The settings of a Spark session that uses it, but for its jars; tidecast takes its own from these."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": self.key,
            "spark.hadoop.fs.s3a.secret.key": self.secret,
        }

    @staticmethod
    def jars() -> list[Path]:
        """Hadoop's S3A, and of Amazon's SDK what that needs: 9 MB instead of 600."""
        return fetch_jars(_JARS)

    @property
    def _program(self) -> Sequence[str | Path]:
        return (sys.executable, "-m", "moto.server")

    def _command(self) -> Sequence[str | Path]:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        return ("-H", "127.0.0.1", "-p", str(port))

    def _answers(self) -> bool:
        request = urllib.request.Request(f"{self.url}/{self.bucket}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
