"""TiCDC's HTTP API, a status page and metrics over changefeeds; status page and metrics of a replica."""

from tidecast.server._access import Access, read_users
from tidecast.server._app import build_app
from tidecast.server._replica import build_replica_app
from tidecast.server._run import Listener, Service

__all__ = ["Access", "Listener", "Service", "build_app", "build_replica_app", "read_users"]
