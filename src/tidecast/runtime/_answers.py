"""Whether the Spark that is asked for answers, and if it does not start, why.

Spark itself would retry for a minute, through Spark Connect for ten, before it says that nobody answers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException, PySparkImportError

from tidecast._errors import ConfigError, MissingRuntime, TerminalError, TidecastError, Unreachable, root_cause
from tidecast.runtime._where import without_secrets

_ANSWER_S = 10
_ENDED = "Cannot call methods on a stopped SparkContext"
_BAD_SETTING = re.compile(r"Could not parse Master URL|java\.lang\.(IllegalArgument|NumberFormat)Exception")


def check_master(master: str) -> None:
    """Raise Unreachable unless one of the masters of a standalone cluster, if it is one, takes a connection."""
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://").split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"{address!r} is not the address of a Spark master", hint="write spark://host:7077")
    for address in addresses:
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
            return
    raise Unreachable(
        "no Spark master answers", where=master, hint="is the cluster up, and the port open to this host?"
    )


def check_remote(url: str) -> None:
    """Raise Unreachable unless a Spark Connect server answers. A URL may hold a token, and is not shown."""
    try:
        import grpc  # type: ignore[import-untyped]
        from pyspark.sql.connect.client import DefaultChannelBuilder

        builder = DefaultChannelBuilder(url)
        channel = builder.toChannel()
    except (ImportError, PySparkImportError) as error:
        raise MissingRuntime(
            f"the client of Spark Connect is not complete: {error}", hint="pip install 'tidecast[connect]'"
        ) from None
    except (PySparkException, ValueError):
        hint = "write sc://host:15002, with parameters as sc://host:15002/;use_ssl=true;token=…"
        raise ConfigError("this is no address of a Spark Connect server", hint=hint) from None
    try:
        grpc.channel_ready_future(channel).result(timeout=_ANSWER_S)
    except grpc.FutureTimeoutError:
        hint = "is the server up, its port open to this host, and does it speak TLS as you do?"
        raise Unreachable("no Spark Connect server answers", where=f"sc://{builder.endpoint}", hint=hint) from None
    finally:
        channel.close()


@contextmanager
def start_errors(settings: Mapping[str, str]) -> Iterator[None]:
    """Tell in a line, without secrets, why a session cannot be made."""
    try:
        yield
    except TidecastError:
        raise
    except Exception as error:  # py4j, Java and gRPC have errors of their own
        cause = without_secrets(root_cause(error), settings)
        if _ENDED in cause:
            cause = "the cluster ended the application: its executors do not start, or do not reach this driver"
        kind = ConfigError if _BAD_SETTING.search(cause) else TerminalError
        raise kind(f"Spark does not start: {cause}", hint="TIDECAST_SPARK_LOG=warn shows more") from None
