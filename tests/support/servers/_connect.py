"""A Spark Connect server, from pyspark's own jars."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pyspark

from servers._process import JavaServer, free_ports
from tidecast.runtime import fetch_jars

# What Spark's launcher gives to Java 17.
_OPENED = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io"),
    *("java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
    *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
    *("java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar"),
)


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
        jars = os.pathsep.join([*map(str, fetch_jars()), str(Path(pyspark.__file__).parent / "jars" / "*")])
        return [
            *("-Xmx1g", "-XX:+IgnoreUnrecognizedVMOptions", "-Djdk.reflect.useDirectMethodHandle=false"),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            *(f"-D{name}={value}" for name, value in settings.items()),
            *("-cp", jars, "org.apache.spark.sql.connect.service.SparkConnectServer"),
        ]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True
