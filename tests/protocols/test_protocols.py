"""The register of protocols, and that nothing outside their folders names one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tidecast
from tidecast._errors import ConfigError
from tidecast.protocols import (
    CodecOptions,
    all_protocols,
    codec_for,
    find_protocol,
    guess_protocol,
    known_names,
    protocol_named,
)

SOURCE = Path(tidecast.__file__).parent
PROTOCOLS = SOURCE / "protocols"
FOLDERS = sorted("-".join(p.parent.relative_to(PROTOCOLS).parts) for p in PROTOCOLS.glob("*/**/__init__.py"))
NAMES = {*known_names()} - {"default"}  # which is a word of other things, too
OPTIONS = {
    "config/_file.py": {"avro"},  # encoding-format
    "config/_build.py": {"debezium"},  # the table of a parameter
    "cli/_cdc_flags.py": {"simple"},  # --simple of changefeed query
    "cli/_cdc_diff.py": {"csv", "debezium"},  # keys of TiCDC's configuration
    "_demo.py": {"debezium", "simple"},  # what the demo shows
    # The conformance kit measures us as anybody, and so asks no other part what protocols there are.
    "conformance/_bad_inputs.py": {"avro", "canal-json", "debezium", "simple"},
    "conformance/_cases.py": {"avro", "canal-json", "debezium", "simple"},
}
"""Names of options and texts that are a protocol's name, too."""


def test_every_folder_is_in_the_register() -> None:
    ours = [p.name for p in all_protocols() if p.reader or p.codec]
    assert ours == [name.replace("_", "-") for name in FOLDERS]


def test_names_are_found_in_any_case_and_no_others() -> None:
    assert len(known_names()) == len(set(known_names()))
    for name in known_names():
        protocol = find_protocol(name.upper())
        assert protocol is protocol_named(name)
        assert name in (protocol.name, *protocol.aliases)
    assert find_protocol("") is None
    with pytest.raises(ConfigError, match="unknown 'nothing' message protocol"):
        protocol_named("nothing")


def test_what_is_only_read_is_no_sink() -> None:
    for protocol in all_protocols():
        if protocol.codec is None:
            with pytest.raises(ConfigError, match=f"protocol {protocol.name} is not written by tidecast"):
                codec_for(protocol.name, CodecOptions())


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"\0\0\0\0\x01x", "avro"),
        (b'{"payload":{}}', "debezium"),
        (b'{"schema":{},"payload":{}}', "debezium"),
        (b'{"id":0,"database":"d","table":"t"}', "canal-json"),
        (b'{"version":1,"type":"WATERMARK"}', "simple"),
        (b"\x16", "simple"),
        (b"anything", "simple"),
        (b"", "simple"),
    ],
)
def test_a_message_is_taken_for_what_it_looks_like(value: bytes, name: str) -> None:
    assert guess_protocol(value).name == name


def test_descriptions_bear_any_bytes() -> None:
    for protocol in all_protocols():
        for value in (
            None,
            b"",
            b"\0",
            b"\x01",
            b"\x02\xff",
            b"{",
            b"[]",
            b"null",
            b'{"payload":[]}',
            b'{"type":1}',
            b"[" * 9999,
        ):
            described = protocol.describe(None, value)
            assert isinstance(described.type, str), (protocol.name, value)
            assert isinstance(described.table, str), (protocol.name, value)


def test_no_other_folder_names_a_protocol() -> None:
    found = {}
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        if place.startswith("protocols/"):
            continue
        texts = {n.value for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Constant)}
        if named := (texts & NAMES) - OPTIONS.get(place, set()):
            found[place] = named
    assert not found
