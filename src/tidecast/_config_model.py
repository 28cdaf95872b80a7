"""The base of the models of TiCDC's changefeed file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticUseDefault


class ConfigModel(BaseModel):
    """A table of the file. Types are TOML's own: a quoted number is no number."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"),
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
    )


def _set(value: object) -> object:
    if value == "":
        raise PydanticUseDefault
    return value


EMPTY_IS_UNSET = BeforeValidator(_set)
"""For a choice that TiCDC takes for the default where it is empty."""

Secret = Annotated[SecretStr, Field(strict=False, max_length=65_536)]
Pattern = Annotated[str, Field(max_length=10_000)]
Many = Annotated[tuple[Pattern, ...], Field(strict=False)]
