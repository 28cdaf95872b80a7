"""A Spark Connect server, from pyspark's own jars."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers._process import JavaServer, free_ports
from servers._spark_home import SPARK_HOME, SPARK_JAVA_OPTIONS
from tidecast.runtime import fetch_jars


class ConnectServer(JavaServer):
    """A server at `remote` with the Kafka, Avro and Delta connectors, and without Delta's plugin for Spark Connect."""

    remote: str

    def _command(self) -> Sequence[str | Path]:
        (self._port,) = free_ports(1)
        self.remote = f"sc://127.0.0.1:{self._port}"
        settings = {
            "spark.master": "local[2]",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.warehouse.dir": str(self.work / "warehouse"),
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        jars = os.pathsep.join([*map(str, fetch_jars()), str(SPARK_HOME / "jars" / "*")])
        return [
            "-Xmx1g",
            *SPARK_JAVA_OPTIONS,
            *(f"-D{name}={value}" for name, value in settings.items()),
            *("-cp", jars, "org.apache.spark.sql.connect.service.SparkConnectServer"),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {"PYSPARK_PYTHON": sys.executable}

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True
