"""The settings file of a replica: names, keys, masked columns, and policies for schema changes."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, ValidationError

from tidecast._config_model import ConfigModel
from tidecast._errors import ConfigError
from tidecast._secrets import resolved_settings
from tidecast.replica.tables._keys import KeyedTable, Keys
from tidecast.replica.tables._mask import Mask, Masks
from tidecast.replica.tables._route import Route, Routes
from tidecast.storage import AnyPath, storage_path


class _File(ConfigModel):
    route: Annotated[tuple[Route, ...], Field(strict=False)] = ()
    mask: Annotated[tuple[Mask, ...], Field(strict=False)] = ()
    tables: Annotated[tuple[KeyedTable, ...], Field(strict=False)] = ()
    ddl: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it


@dataclass(frozen=True)
class Settings:
    """The settings of a file, or none."""

    routes: Routes = field(default_factory=Routes)
    masks: Masks = field(default_factory=Masks)
    ddl: Mapping[str, str] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)

    @classmethod
    def of(cls, config: str | os.PathLike[str] | None) -> Settings:
        """Return what the file of `--config` says, nothing where there is none; raises as `read` does."""
        return cls() if config is None else cls.read(storage_path(os.fspath(config), "--config"))

    @classmethod
    def read(cls, file: AnyPath) -> Settings:
        """Return what a TOML file says. Raises ConfigError where it cannot be read, or says what cannot be."""
        where = str(file)
        try:
            said = _File.model_validate(resolved_settings(tomllib.loads(file.read_bytes().decode())))
        except OSError as error:
            raise ConfigError(f"the file cannot be read: {error.strerror}", where=where) from None
        except UnicodeDecodeError:
            raise ConfigError("the file is not UTF-8 text", where=where) from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"this is not TOML: {error}", where=where) from None
        except ValidationError as error:
            every = error.errors(include_input=False, include_url=False, include_context=False)
            unknown = [one for one in every if one["type"] == "extra_forbidden"]  # a key that lacks may be misspelt
            first = (unknown or every)[0]
            words = "there is no such key" if unknown else first["msg"]
            at_top = unknown and len(first["loc"]) == 1
            hint = f"at the top of a replica's file are {', '.join(_File.model_fields)}" if at_top else None
            raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {words}", where=where, hint=hint) from None
        return cls(Routes(said.route), Masks(said.mask), said.ddl, Keys(said.tables))


NO_SETTINGS = Settings()
