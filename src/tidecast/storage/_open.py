"""From an option's text, or a place of messages, to a path; and from a path to what Spark calls it.

A remote store's credentials and endpoint come from the URI of a place with messages, or from the environment, as its
driver for fsspec has it (`AWS_…`, `FSSPEC_S3_…`); for S3 from Spark's settings as well (`spark.hadoop.fs.s3a.…`), so
that they are given once. Spark learns what a URI says where it gets the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._uri import REMOTE_SCHEMES, Place, local_path, redact_uri, scheme_of, storage_hint, storage_root
from tidecast.runtime import outside_settings, running_session, settings_of_command
from tidecast.storage._remote import AnyPath, RemotePath, Store
from tidecast.storage._uri_settings import UriSettings

_GLOB = re.compile(r"[\[\]{}*?\\]")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
_VOLUMES = "/Volumes/"
_BEFORE = ("", "spark.hadoop.")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_NOTHING = UriSettings()


def storage_path(text: str | os.PathLike[str], option: str) -> AnyPath:
    """Return the folder or file that an option names: a plain path, or a URI, which is percent-decoded.

    Local ones as `local_path` returns them; `dbfs:/Volumes/…` is one of these. Raises ConfigError, which names the
    option, for a scheme that is no storage here, for what is no path, and where the driver of the storage is missing.
    """
    place = os.fspath(text)
    scheme = scheme_of(place)
    if scheme == "dbfs":
        path = unquote(place.partition(":")[2])
        if not path.startswith(_VOLUMES):
            raise ConfigError(
                f"{option}: of dbfs: only volumes are supported", hint="as dbfs:/Volumes/catalog/schema/…"
            )
        return Path(path)
    if scheme not in REMOTE_SCHEMES:
        return local_path(text, option)
    try:
        parts = urlsplit(place)
        root, path = storage_root(parts.scheme, parts.netloc), unquote(parts.path)
    except ValueError:
        raise ConfigError(f"{option}: this is no URI", where=_UNPRINTABLE.sub("?", redact_uri(place))) from None
    if parts.query or parts.fragment:
        hint = "write %23 for # and %3F for ?; credentials belong into the environment"
        raise ConfigError(f"{option}: the URI of a folder has no ? and no #", where=redact_uri(root + path), hint=hint)
    if not root:
        raise ConfigError(
            f"{option}: this is no place on a storage", where=redact_uri(place), hint=storage_hint(scheme)
        )
    return _remote(root, path, option)


def folder_path(text: str | os.PathLike[str], option: str) -> AnyPath:
    """Return the folder that an option names, there or not. Raises ConfigError as `storage_path`, and for a file."""
    folder = storage_path(text, option)
    if not isinstance(folder, RemotePath):
        for path in (folder, *folder.parents):
            if os.path.isfile(path):  # noqa: PTH113 - a Path's raises where a folder may not be looked into
                raise ConfigError(f"{option}: this is a file, and no folder", where=str(path))
    return folder


def path_of(place: Place, option: str = "URI") -> AnyPath:
    """Return the path of a place with messages in files. Raises ConfigError as `storage_path`, and `UriSettings`."""
    if not place.root:
        return Path(place.path)
    return _remote(place.root, place.path, option, UriSettings.of(place.root, place.params))


def options_of(place: Place) -> Mapping[str, Any]:
    """Return what fsspec's driver has to know of a place on a remote store: as its URI says, else Spark's settings.

    Raises ConfigError as `UriSettings`.
    """
    return _options(place.root, UriSettings.of(place.root, place.params))


def _options(root: str, said: UriSettings) -> Mapping[str, Any]:
    scheme, _, authority = root.partition("://")
    return s3_options(authority, said.hadoop) if REMOTE_SCHEMES[scheme] == "s3a" else said.driver


def _remote(root: str, path: str, option: str, said: UriSettings = _NOTHING) -> RemotePath:
    scheme, _, authority = root.partition("://")
    path = path.rstrip("/")
    segments = path.split("/")[1:]
    if ":" in authority.rpartition("@")[0] or not authority or (scheme.startswith("s3") and "@" in authority):
        raise ConfigError(f"{option}: this is no place on a storage", where=redact_uri(root), hint=storage_hint(scheme))
    if _UNPRINTABLE.search(path) or any(segment in ("", ".", "..") for segment in segments):
        hint = "leave out what is empty, . or .."
        raise ConfigError(
            f"{option}: this is no path on a storage", where=_UNPRINTABLE.sub("?", root + path), hint=hint
        )
    store = Store(root, REMOTE_SCHEMES[scheme], _EXTRAS.get(scheme, ""), _options(root, said), said.hadoop)
    _ = store.opened  # a driver that is missing is told now
    return RemotePath(store, path)


def path_uri(path: AnyPath) -> str:
    """Return what an error calls a place of files."""
    return str(path) if isinstance(path, RemotePath) else f"file://{path}"


def spark_input(path: AnyPath) -> str:
    """Return a path as Spark reads it, whatever its default file system is: no pattern, although it has `[`."""
    return spark_inputs([path])[0]


def spark_inputs(paths: Sequence[AnyPath]) -> list[str]:
    """Return paths as `spark_input` does; of the store that many of them share Spark is told once."""
    for store in {id(p.store): p.store for p in paths if isinstance(p, RemotePath)}.values():
        _tell_spark(store)
    return [_GLOB.sub(r"\\\g<0>", _spark_name(path)) for path in paths]


def spark_output(path: AnyPath) -> str:
    """Return a path as Spark writes it, whatever its default file system is; Spark is told what its URI said."""
    if isinstance(path, RemotePath):
        _tell_spark(path.store)
    return _spark_name(path)


def _spark_name(path: AnyPath) -> str:
    if isinstance(path, RemotePath):
        return f"{path.store.scheme}://{path.store.authority}{path.path}"
    absolute = str(path.absolute())
    databricks = absolute.startswith(_VOLUMES) and "DATABRICKS_RUNTIME_VERSION" in os.environ
    return f"dbfs:{absolute}" if databricks else f"file://{absolute}"


def _tell_spark(store: Store) -> None:
    """Let Spark know what a URI says of its store.

    Hadoop keeps to what it is told first of a bucket, in all sessions of a Java. So whoever says something else later,
    or says nothing, would read or write with the other's credentials, or at the other's endpoint. Raises ConfigError.
    """
    if (session := running_session()) is None:
        return
    told = _told.setdefault(session, {})
    if (first := told.get(store.place)) is None:
        told[store.place] = store
        for name, value in store.hadoop.items():
            session.conf.set(name, value)
    elif first.options != store.options:
        raise ConfigError(
            "Spark has been told other credentials or another endpoint for this bucket",
            where=store.root,
            hint="Hadoop keeps to the first: give the same in all URIs, or by Spark's settings and in none, or restart",
        )


def _spark_setting(session: SparkSession | None) -> Callable[[str], str | None]:
    """Return what tells the settings of Spark, of the session that runs or else of one that would be started now."""
    if session is not None:
        conf = session.conf
        of_uris = {name for store in _told.get(session, {}).values() for name in store.hadoop}
        return lambda name: None if name in of_uris else conf.get(name, None)
    settings = {**outside_settings(), **settings_of_command()}
    return lambda name: settings.get(name)


_told: WeakKeyDictionary[SparkSession, dict[tuple[str, str], Store]] = WeakKeyDictionary()
"""The stores that a session knows, by their places, as it was told of them first."""
_known: WeakKeyDictionary[SparkSession, dict[object, dict[str, Any]]] = WeakKeyDictionary()
"""The options of buckets by session and environment. To ask a session is dear, and Hadoop asks it once as well."""


def s3_options(bucket: str, said: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return s3fs' options for a bucket, as far as Spark's settings of Hadoop's S3A tell them; `said` go before."""
    session = running_session()
    if session is None or said:
        own, of_spark = said or {}, _spark_setting(session)
        return _s3_options(bucket, lambda name: own[name] if name in own else of_spark(name))
    known = _known.setdefault(session, {})
    key = bucket, *((name, value) for name, value in os.environ.items() if name.startswith(("AWS_", "FSSPEC_")))
    if key not in known:
        known[key] = _s3_options(bucket, _spark_setting(session))
    return known[key]


def _s3_options(bucket: str, setting: Callable[[str], str | None]) -> dict[str, Any]:

    def of(name: str) -> str | None:
        names = (f"{before}{n}" for n in (f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}") for before in _BEFORE)
        return next((value for n in names if (value := setting(n)) is not None), None)

    options: dict[str, Any] = {}
    for option, name in (("key", "access.key"), ("secret", "secret.key"), ("token", "session.token")):
        if value := of(name):
            options[option] = value
    if endpoint := of("endpoint"):
        scheme = "http" if (of("connection.ssl.enabled") or "").lower() == "false" else "https"
        options["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := of("endpoint.region"):
        options["client_kwargs"] = {"region_name": region}
    if (of("path.style.access") or "").lower() == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if (of("aws.credentials.provider") or "").endswith("AnonymousAWSCredentialsProvider"):
        options["anon"] = True
    return options
