"""A REST catalog of Iceberg's own tests, which keeps its tables in SQLite and their files in a folder."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from servers._process import JavaServer, free_ports
from servers._spark_home import SPARK_HOME
from tidecast.runtime import fetch_jars, read_jar_list

SQLITE = read_jar_list(Path(__file__).with_name("sqlite.jars"))
_JARS = read_jar_list(Path(__file__).with_name("rest-catalog.jars"))


class RestCatalogServer(JavaServer):
    """A catalog at `url`, whose tables lie in its work folder; it asks for no credentials."""

    url: str

    def _command(self) -> Sequence[str | Path]:
        self._port, self._gateway_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self._port}"
        self._serving = False
        jars = os.pathsep.join([*map(str, fetch_jars({**_JARS, **SQLITE})), str(SPARK_HOME / "jars" / "*")])
        return ("-cp", jars, "py4j.GatewayServer", str(self._gateway_port))

    def _answers(self) -> bool:
        try:
            if not self._serving:
                self._serve()
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=10) as answer:
                return bool(answer.status == 200)
        except (OSError, Py4JError):
            return False

    def _serve(self) -> None:
        """Let the Java there make the server: the one that comes with these classes listens on all addresses."""
        parameters = GatewayParameters(port=self._gateway_port, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        java: Any = gateway.jvm
        catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
        catalog.setConf(java.org.apache.hadoop.conf.Configuration())
        place = {"uri": f"jdbc:sqlite:{self.work}/lake.db", "warehouse": f"{self.work}/lake"}
        catalog.initialize("lake", {**place, "jdbc.schema-version": "V1"})
        adapter = java.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
        jetty = java.org.eclipse.jetty
        handler = jetty.ee10.servlet.ServletContextHandler()
        servlet = jetty.ee10.servlet.ServletHolder(java.org.apache.iceberg.rest.RESTCatalogServlet(adapter))
        handler.addServlet(servlet, "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", self._port))
        server.setHandler(handler)
        server.start()
        gateway.close()
        self._serving = True
