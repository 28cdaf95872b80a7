"""How a changefeed writes CSV files: `[sink.csv]` and the terminator of its lines.

Source: Storage sink, CSV files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tidecast._errors import ConfigError
from tidecast._go import parse_bool

WRONG = "CDC:ErrSinkInvalidConfig"
_LONGEST_DELIMITER = 3
_LINE_BREAKS = ("\r", "\n")
TOLD_BY = {
    "delimiter": "csv-delimiter",
    "quote": "csv-quote",
    "null": "csv-null",
    "include_commit_ts": "csv-include-commit-ts",
    "output_old_value": "csv-output-old-value",
    "output_handle_key": "csv-output-handle-key",
    "binary_encoding_method": "csv-binary-encoding-method",
    "output_field_header": "csv-output-field-header",
    "terminator": "terminator",
    "column_selectors": "column-selectors",
    "content_compatible": "content-compatible",
}
"""The parameter of a source's URI that tells a setting. TiCDC has all but the last in its file alone."""


@dataclass(frozen=True)
class CsvFormat:
    """The settings of `[sink.csv]` by TiCDC's names, and some of `[sink]`.

    These are `terminator`, with which lines end, `column_selectors`, which drop columns: JSON, empty for none, and
    `content_compatible`, with which lines of Canal-JSON show whole types.
    """

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    output_old_value: bool = False
    binary_encoding_method: str = "base64"
    output_field_header: bool = False
    output_handle_key: bool = False
    terminator: str = "\r\n"
    column_selectors: str = ""
    content_compatible: bool = False

    @property
    def meta(self) -> tuple[str, ...]:
        """The names of the fields before a row's columns."""
        more = (
            ("commit-ts", self.include_commit_ts),
            ("is-update", self.output_old_value),
            ("handle-key", self.output_handle_key),
        )
        return ("operation", "table", "schema", *(name for name, there in more if there))


def csv_format(params: Mapping[str, str]) -> CsvFormat:
    """Return the format that a source's parameters tell, else TiCDC's defaults.

    Raises ConfigError for a setting that TiCDC refuses.
    """
    told: dict[str, Any] = {}
    for setting in fields(CsvFormat):
        text = params.get(TOLD_BY[setting.name])
        if text is not None:
            told[setting.name] = _truth(setting.name, text) if isinstance(setting.default, bool) else text
    return checked_format(CsvFormat(**told))


def _truth(name: str, text: str) -> bool:
    try:
        return parse_bool(text)
    except ValueError as error:
        raise ConfigError(f"{TOLD_BY[name]}: {error}", where="source URI") from None


def checked_format(made: CsvFormat) -> CsvFormat:
    """Return a format. Raises ConfigError for one that TiCDC refuses, or whose marks are not ASCII."""
    wrong = None
    if len(made.quote.encode()) > 1:
        wrong = "csv config quote contains more than one character"
    elif made.quote in _LINE_BREAKS:
        wrong = "csv config quote cannot be line break character"
    elif not made.delimiter:
        wrong = "csv config delimiter cannot be empty"
    elif len(made.delimiter.encode()) > _LONGEST_DELIMITER:
        wrong = (
            "csv config delimiter contains more than three characters, note that escape sequences can only be used in "
            "double quotes in toml configuration items."
        )
    elif any(c in made.delimiter for c in _LINE_BREAKS):
        wrong = "csv config delimiter contains line break characters"
    elif made.quote and made.quote in made.delimiter:
        wrong = "csv config quote and delimiter has common characters which is not allowed"
    elif made.binary_encoding_method not in ("base64", "hex"):
        wrong = "csv config binary-encoding-method can only be hex or base64"
    elif not made.terminator:
        wrong = "the terminator is empty"
    elif not made.delimiter.isascii():
        wrong = "csv config delimiter is read where it has ASCII characters"
    if wrong:
        raise ConfigError(wrong, code=WRONG, where="source")
    return made
