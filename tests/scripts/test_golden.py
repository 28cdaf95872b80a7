"""`scripts/golden` shows golden messages as a person can read them."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from golden_data import lines
from script_module import load_script

ROOT = Path(__file__).parents[2]
PUBLIC = ROOT / "tests" / "golden" / "public"
golden = load_script("golden")
FILES = sorted(f.name for f in PUBLIC.glob("*.jsonl.gz"))


def run(*arguments: str | Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "golden", *arguments], capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("file", FILES)
def test_every_message_is_a_line_of_json(file: str) -> None:
    """The first fifty of each file: all there is of it, and nothing that is still in base64."""
    for line, text in islice(zip(golden.read(PUBLIC / file), golden.texts(PUBLIC / file), strict=True), 50):
        shown = json.loads(text)
        assert shown.keys() == line.keys()
        assert {name: shown[name] for name in line if name not in golden.PARTS} == {
            name: value for name, value in line.items() if name not in golden.PARTS
        }
        for part in golden.PARTS:
            assert line.get(part) is None or (shown[part] and not isinstance(shown[part], str)), text


def shown(variant: str, event: int, **options: bool) -> str:
    return str(next(golden.texts(PUBLIC / f"{variant}.jsonl.gz", event=event, **options)))


def test_each_form_is_decoded() -> None:
    """One insert as Simple in JSON and in Avro, and as Avro; JSON as it was sent."""
    in_json, in_avro, avro = (
        json.loads(shown(v, 44))["value"] for v in ("simple-json", "simple-avro-checksum", "avro-checksum")
    )
    row = {"k1": "\u2028line\u2029sep", "k2": "-2147483648", "n": "99999999.9999"}
    assert row.items() <= in_json["data"].items()
    assert in_avro["table"] == "t_cpk"
    assert (row | {"k2": -2147483648}).items() <= in_avro["data"].items()
    assert avro["schema"] == "orc_t_cpk-value/1"
    assert (row | {"k2": -2147483648}).items() <= avro["record"].items()
    line = next(m for m in golden.read(PUBLIC / "simple-json.jsonl.gz") if m["n"] == 44)
    assert shown("simple-json", 44).endswith(f'"value": {base64.b64decode(line["value"]).decode()}}}')


def test_schemas_of_debezium_are_digests_unless_asked_for() -> None:
    short, long = (json.loads(shown("debezium", 44, schemas=asked))["value"] for asked in (False, True))
    assert len(short["schema"]) == 12
    assert long["schema"]["type"] == "struct"
    assert short["payload"] == long["payload"]


def test_two_files_differ_by_lines(tmp_path: Path) -> None:
    """One value of one message is another one; in base64 most of the line would be."""
    file, name = PUBLIC / "simple-json-handlekey.jsonl.gz", "simple-json-handlekey"
    messages = lines(file)
    changed = base64.b64decode(messages[3]["value"]).replace(b'"INSERT"', b'"UPDATE"')
    messages[3]["value"] = base64.b64encode(changed).decode()
    other = tmp_path / file.name
    other.write_bytes(gzip.compress("".join(json.dumps(m) + "\n" for m in messages).encode()))
    status, (_, _, place, removed, added) = run(name, other)
    assert (status, place) == (1, "@@ -4 +4 @@")
    assert removed[1:].replace('"INSERT"', '"UPDATE"') == added[1:]
    assert run(name, file) == (0, [])


def test_a_name_that_is_no_file_is_told() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "golden", "simpel"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "there is no golden file simpel" in done.stderr
    assert "simple-json.jsonl.gz" in done.stderr
