"""The folders that changefeeds may use: clients of a server's API name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidecast._errors import ConfigError
from tidecast._uri import REMOTE_SCHEMES, parse_place, scheme_of
from tidecast.config import ChangefeedConfig
from tidecast.storage import AnyPath, RemotePath, path_of, storage_path
from tidecast.topics import claim_folder


@dataclass(frozen=True)
class Folders:
    """The folders in which, at any depth, changefeeds may have sinks, registries and claim checks.

    `own` is the server's own, in which they may not.
    """

    allowed: Sequence[AnyPath]
    own: AnyPath

    def check(self, config: ChangefeedConfig) -> None:
        """Raise ConfigError (`CDC:ErrAPIInvalidParam`) for a changefeed that uses any other."""
        for name, folder in _folders(config):
            if not self._allows(folder):
                raise ConfigError(
                    f"{name}: {folder} lies outside of the folders that changefeeds may use",
                    code="CDC:ErrAPIInvalidParam",
                    hint="the server's operator allows others with --allow-path",
                )

    def _allows(self, folder: AnyPath) -> bool:
        if isinstance(folder, RemotePath):
            inside = any(folder.is_relative_to(allowed) for allowed in self.allowed)
            return inside and not folder.is_relative_to(self.own)
        try:
            real = folder.resolve()
            if any(part.is_symlink() for part in (real, *real.parents)):  # a circle of links, from Python 3.13 on
                return False
            inside = any(real.is_relative_to(allowed.resolve()) for allowed in _local(self.allowed))
            return inside and not any(real.is_relative_to(own.resolve()) for own in _local([self.own]))
        except (OSError, RuntimeError, ValueError):  # such a circle before, a name that no file can have
            return False


def _local(paths: Sequence[AnyPath]) -> Iterator[Path]:
    return (path for path in paths if not isinstance(path, RemotePath))


def _folders(config: ChangefeedConfig) -> Iterator[tuple[str, AnyPath]]:
    if not config.place.is_kafka:
        sink = path_of(config.place)
        yield "sink_uri", sink
        yield "sink_uri", sink.parent  # the other topics are folders in it
    registry = config.schema_registry or ""
    if scheme_of(registry) in ("file", "dbfs", *REMOTE_SCHEMES):
        yield "schema_registry", storage_path(registry, "schema_registry")
    storage = config.large_message_handle.claim_check_storage_uri.get_secret_value()
    if storage and (claims := claim_folder(storage)):
        yield "claim_check_storage_uri", claims
    elif scheme_of(storage):
        yield "claim_check_storage_uri", path_of(parse_place(storage))
