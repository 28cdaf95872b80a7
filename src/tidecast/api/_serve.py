"""Changefeeds over a source, until a signal ends them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, needs_extra
from tidecast._secrets import check_reference
from tidecast._uri import redact_uri
from tidecast.api._source import TopicSource
from tidecast.changefeed import Changefeeds, Folders, SparkRunner
from tidecast.storage import check_exclusive, storage_path

_CLUSTER_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")
_NO_CLUSTER_IDS = ("owner", "capture", "task", "changefeed", "job", "meta")
_LAST_STEP_S = 60


def serve(
    source: str,
    *,
    addr: str = "127.0.0.1:8300",
    data_dir: str = "tidecast-data",
    allow_path: Sequence[str] = (".",),
    allow_secret: Sequence[str] = (),
    schema_registry: str | None = None,
    tz: str | None = None,
    cluster_id: str = "default",
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    users: Mapping[str, str] | None = None,
    users_file: str | None = None,
    ready: Callable[[str], None] = lambda url: None,
    spark: SparkSession | None = None,
) -> None:
    """Run changefeeds over a source until SIGTERM or SIGINT: TiCDC's HTTP API, a status page, metrics.

    Changefeeds are kept in the folder `data_dir`; those that ran when the server ended go on. Their sinks,
    registries and claim checks may be folders only below those of `allow_path`, on any storage; they may refer to no
    secrets but those of `allow_secret`, each `env:NAME` or `file:/path`. `addr` is `host:port`:
    any but this machine's own takes TLS (`cert`, `key`; with `ca` clients need certificates, too) and users:
    `users` are names with passwords, `users_file` is a TOML file of more, a line `name = "password"` each. `tz` is
    the zone of TIMESTAMP text, by default the system's, `cluster_id` the cluster's id in Debezium messages. `ready`
    gets the server's URL. Raises ConfigError, Unreachable, and TerminalError where the address or the folder is taken,
    or Spark dies.
    """
    with needs_extra("server", "the server"):
        from tidecast.server import Access, Listener, Service, build_app

    access = Access.of(users, users_file, ca=ca, cert=cert, key=key)
    if not _CLUSTER_ID.fullmatch(cluster_id) or cluster_id in _NO_CLUSTER_IDS:
        raise ConfigError(
            f"bad cluster-id {cluster_id!r}", hint="letters, digits and - between them, for example tidb-1"
        )
    home = storage_path(data_dir, "--data-dir")
    folders = Folders([storage_path(path, "--allow-path") for path in allow_path], own=home)
    for reference in allow_secret:
        check_reference(reference, "--allow-secret")
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    check_exclusive(home, "--data-dir")
    listener = Listener.open(addr, access)
    with ExitStack() as stack:
        runner = SparkRunner(
            checked.session,
            checked.uri,
            home / "source",
            registry=checked.registry,
            zone=checked.zone,
            cluster_id=cluster_id,
        )
        feeds = Changefeeds(home / "changefeeds", runner, addr=listener.addr, folders=folders, secrets=allow_secret)
        stack.callback(feeds.close, _LAST_STEP_S)
        app = build_app(
            feeds, listener.access, addr=listener.addr, cluster_id=cluster_id, source=redact_uri(checked.uri)
        )
        service = Service(app, listener)
        ready(listener.url)
        with service.while_alive(feeds.alive):
            service.run()
