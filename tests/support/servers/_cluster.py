"""A Spark standalone cluster from pyspark's own jars: a master and workers, each a process with a folder of its own."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers._process import JavaServer, free_ports
from servers._spark_home import SPARK_HOME, SPARK_JAVA_OPTIONS
from tidecast.runtime import find_java

_WORKERS = 2


class _Daemon(JavaServer):
    """A process of the cluster, whose page tells how it is."""

    main: str

    def _arguments(self) -> Sequence[str]:
        """Give the program's own arguments."""
        raise NotImplementedError

    def _command(self) -> Sequence[str | Path]:
        self._port, self._page = free_ports(2)
        own = ("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._page))
        classes = str(SPARK_HOME / "jars" / "*")
        return [*SPARK_JAVA_OPTIONS, "-cp", classes, f"org.apache.spark.deploy.{self.main}", *own, *self._arguments()]

    def _environment(self) -> Mapping[str, str]:
        # The page listens where SPARK_LOCAL_IP says; a worker starts executors with the others.
        spark = {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
        return {**spark, "JAVA_HOME": str(find_java().home)}

    def state(self) -> Any:
        """Return what the page tells."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=10) as answer:
            return json.load(answer)

    def _answers(self) -> bool:
        try:
            self.state()
        except OSError:
            return False
        return True


class _Master(_Daemon):
    main = "master.Master"

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def _arguments(self) -> Sequence[str]:
        return ()

    def _answers(self) -> bool:
        return super()._answers() and self.state()["status"] == "ALIVE"


class _Worker(_Daemon):
    main = "worker.Worker"

    def __init__(self, master: _Master) -> None:
        self._master = master

    def _arguments(self) -> Sequence[str]:
        # An executor's folder lies below `executors`, and nobody else's files are in it.
        return ("--cores", "1", "--memory", "1g", "--work-dir", str(self.work / "executors"), self._master.url)

    def _answers(self) -> bool:
        known = (worker["webuiaddress"] for worker in self._master.state()["workers"])
        return f"http://127.0.0.1:{self._page}" in known


class SparkCluster:
    """A master at `master` and two workers with a core and 1 GiB each, which live as long as the `with` block."""

    master: str

    def __enter__(self) -> Self:
        with ExitStack() as started:
            head = started.enter_context(_Master())
            self._workers = [started.enter_context(_Worker(head)) for _ in range(_WORKERS)]
            self.master = head.url
            self._stack = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def driver_conf(self) -> dict[str, str]:
        """What a driver on this machine needs, to be found at the loopback address; and a quick start for few rows."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def executor_folders(self) -> list[list[Path]]:
        """Return for each worker the folders of the executors that it started."""
        return [sorted((worker.work / "executors").glob("app-*/*")) for worker in self._workers]
