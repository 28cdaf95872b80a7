"""From a URL to the registry behind it."""

from __future__ import annotations

from tidecast._errors import ConfigError
from tidecast._uri import REMOTE_SCHEMES, scheme_of
from tidecast.registry._base import Registry
from tidecast.registry._folder import FolderRegistry
from tidecast.registry._glue import GlueRegistry
from tidecast.registry._http import HttpRegistry
from tidecast.storage import storage_path


def open_registry(url: str, *, timeout: float = 10.0, retry_for: float = 30.0) -> Registry:
    """Return the Schema Registry at an `http`, `https`, `glue` or storage URL, without asking it anything yet.

    `timeout` is the most seconds that one request may take, `retry_for` how long a registry that does not answer
    is asked again. Raises `ConfigError` for any other URL.
    """
    scheme = scheme_of(url)
    if scheme in ("http", "https"):
        return HttpRegistry(url, timeout=timeout, retry_for=retry_for)
    if scheme == "glue":
        return GlueRegistry(url, timeout=timeout, retry_for=retry_for)
    if scheme in ("file", "dbfs", *REMOTE_SCHEMES):
        return FolderRegistry(storage_path(url, "--schema-registry"))
    raise ConfigError(
        "a schema registry is an http://, https://, glue:// or file:// URL", hint="for example file:///tmp/schemas"
    )
