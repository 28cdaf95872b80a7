"""A path on a remote store: as much of `pathlib.Path` as is needed, over fsspec's file systems."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from tidecast._errors import ConfigError, Unreachable
from tidecast._uri import SHORTEST_HIDDEN, hide

_SECRET = re.compile(r"key|secret|token|password|credential|sas", re.I)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError")
"""What Amazon's driver raises before it asks the store, which is no matter of trying again."""


@dataclass(frozen=True)
class Store:
    """A bucket, a container or a name node. `root` is its URI, `scheme` what Spark calls its kind.

    `extra` names the optional dependencies with fsspec's driver; `options` are the driver's. `hadoop` are settings for
    Spark's connector that a URI gave.
    """

    root: str
    scheme: str
    extra: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def place(self) -> tuple[str, str]:
        """The names that tell it from other stores, however its scheme is written."""
        return self.scheme.replace("abfss", "abfs"), self.authority

    @property
    def authority(self) -> str:
        """The bucket, the container with its account, or the name node."""
        return self.root.partition("://")[2]

    @property
    def has_folders(self) -> bool:
        """Tell whether it is a file system, whose folders are more than the beginnings of names."""
        return self.scheme in ("hdfs", "webhdfs")

    @cached_property
    def opened(self) -> tuple[Any, str]:
        """The file system of fsspec, and what it calls the root. Raises ConfigError where its driver is missing."""
        import fsspec  # what a local folder does not need

        try:
            # What is listed must be what is there: other processes write, too.
            system, base = fsspec.url_to_fs(f"{self.root}/", use_listings_cache=False, **self.options)
        except ImportError as error:
            name = self.root.partition(":")[0]
            hint = f"pip install 'tidecast[{self.extra}]'" if self.extra else str(error).splitlines()[0]
            raise ConfigError(f"{name}:// needs a package that is not there", where=self.root, hint=hint) from None
        except Exception as error:
            raise ConfigError(f"the storage cannot be opened: {self.public(error)}", where=self.root) from None
        return system, base.rstrip("/")

    def public(self, error: Exception) -> str:
        """Return an error's text in one line, without the secrets of the options."""
        text = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
        named = (value for name, value in self.options.items() if _SECRET.search(name) and isinstance(value, str))
        secrets = [value for value in named if len(value) >= SHORTEST_HIDDEN]
        return hide(text, [*secrets, *(quote(secret, safe="") for secret in secrets)])


@dataclass(frozen=True)
class RemotePath:
    """A file or a folder on a remote store. `path` begins with `/`, or is empty for the store's root.

    Nothing is remembered of what is there. Methods are those of `pathlib.Path` and raise OSError as they do, and
    Unreachable where the store does not answer. A store of objects has no empty folders.
    """

    store: Store
    path: str

    def __str__(self) -> str:
        return f"{self.store.root}{self.path}"

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.store, f"{self.path}/{name}")

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.store.root, *self.path.split("/")[1:])

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.store, self.path.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def relative_to(self, other: RemotePath) -> str:
        if not self.is_relative_to(other):
            raise ValueError(f"{self} is not in {other}")
        return self.path[len(other.path) :].strip("/")

    def is_relative_to(self, other: object) -> bool:
        return (
            isinstance(other, RemotePath)
            and self.store.place == other.store.place
            and f"{self.path}/".startswith(f"{other.path}/")
        )

    def absolute(self) -> RemotePath:
        return self

    def exists(self) -> bool:
        with self.asked() as (system, path):
            return bool(system.exists(path))

    def is_dir(self) -> bool:
        with self.asked() as (system, path):
            return bool(system.isdir(path))

    def is_file(self) -> bool:
        with self.asked() as (system, path):
            return bool(system.isfile(path))

    def read_bytes(self) -> bytes:
        with self.asked() as (system, path):
            return bytes(system.cat_file(path))

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def open(self, mode: str) -> IO[bytes]:
        with self.asked() as (system, path):
            file: IO[bytes] = system.open(path, mode)
            return file

    @contextmanager
    def asked(self) -> Iterator[tuple[Any, str]]:
        """Give the file system and what it calls this path, and turn the errors of drivers into those of Python."""
        system, base = self.store.opened
        try:
            yield system, f"{base}{self.path}" or "/"
        except FileExistsError:
            raise
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such file, folder or bucket", str(self)) from None
        except OSError as error:
            raise type(error)(error.errno or errno.EIO, self.store.public(error), str(self)) from None
        except (MemoryError, TypeError, AttributeError):  # an error of ours
            raise
        except Exception as error:
            if type(error).__name__ in _NO_CREDENTIALS:
                raise PermissionError(errno.EACCES, self.store.public(error), str(self)) from None
            what = f"the storage does not answer: {type(error).__name__}: {self.store.public(error)}"
            raise Unreachable(what, where=str(self)) from None


AnyPath = Path | RemotePath
