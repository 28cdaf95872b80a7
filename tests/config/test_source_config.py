"""TiCDC's changefeed file as what it tells of a source."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tidecast._csv_format import CsvFormat, csv_format
from tidecast._errors import ConfigError
from tidecast.api import TopicSource
from tidecast.config import configured_source, load_config

pytestmark = pytest.mark.unit


def _told(source: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(source).query, keep_blank_values=True))


def test_a_file_tells_how_csv_looks(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(
        '[sink]\nprotocol = "csv"\nterminator = "\\n"\n[sink.csv]\ndelimiter = "|&"\nquote = ""\nnull = ""\n'
        'include-commit-ts = true\nbinary-encoding-method = "hex"\n'
    )
    told = _told(configured_source("s3://bucket/prefix", file))
    assert told["protocol"] == "csv"
    assert csv_format(told) == CsvFormat("|&", "", "", True, binary_encoding_method="hex", terminator="\n")


def test_the_field_of_a_handle_key_is_read_alone(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text('[sink]\nprotocol = "csv"\n[sink.csv]\noutput-handle-key = true\n')
    assert csv_format(_told(configured_source("s3://bucket/prefix", file))) == CsvFormat(output_handle_key=True)
    with pytest.raises(ConfigError, match="output-handle-key adds a field") as refused:
        load_config("file:///folder?protocol=csv", file)
    assert refused.value.code == "CDC:ErrSinkInvalidConfig"


def test_what_the_uri_says_stands(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text('[sink]\nprotocol = "csv"\n[sink.csv]\ninclude-commit-ts = true\n')
    source = "folder?csv-include-commit-ts=false&protocol=canal-json"
    assert configured_source(source, file).startswith(f"{source}&")
    told = _told(configured_source(source, file))
    assert (told["csv-include-commit-ts"], told["protocol"]) == ("false", "canal-json")


def test_selectors_of_the_source_tell_nothing_of_routed_tables(tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    selectors = '[sink]\nprotocol = "csv"\ncolumn-selectors = [{matcher = ["a.*"], columns = ["*", "!b"]}]\n'
    file.write_text(selectors)
    told = _told(configured_source("folder", file))["column-selectors"]
    assert json.loads(told) == [{"matcher": ["a.*"], "columns": ["*", "!b"]}]
    file.write_text(f'{selectors}dispatchers = [{{matcher = ["a.*"], target-schema = "c"}}]\n')
    with pytest.raises(ConfigError, match="column-selectors name tables of the source"):
        configured_source("folder", file)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"csv-delimiter": "abcd"}, "csv config delimiter contains more than three characters"),
        ({"csv-delimiter": ""}, "csv config delimiter cannot be empty"),
        ({"csv-quote": "''"}, "more than one character"),
        ({"csv-quote": ","}, "csv config quote and delimiter has common characters"),
        ({"csv-binary-encoding-method": "base32"}, "hex or base64"),
        ({"csv-include-commit-ts": "maybe"}, "csv-include-commit-ts"),
        ({"terminator": ""}, "terminator is empty"),
    ],
)
def test_wrong_settings_are_refused(params: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        csv_format(params)


@pytest.mark.parametrize("name", ["debezium-decimal-handling-mode", "debezium-bigint-unsigned-handling-mode"])
def test_a_source_takes_parameters_of_newer_ticdc_s_sink(name: str) -> None:
    """Whose URI may name how it writes large numbers: as doubles and longs or as text, which are all read."""
    TopicSource.check(f"kafka://h:9092/t?protocol=debezium&{name}=string", schema_registry=None, tz="UTC")
