"""Commands that are printed to go on with, and dead letters that are shown: without Spark."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path

import pytest
from small_topic import TWO_ROWS
from typer.testing import CliRunner

import tidecast
from tidecast.cli import _show
from tidecast.cli._app import app

SECRET = "hunter22"


def test_a_run_without_rows_says_so_and_where_its_dead_letters_are(capsys: pytest.CaptureFixture[str]) -> None:
    _show.replicated(tidecast.Replicated((), {"bad-json": 2}, Path("/t/_dead_letters")), False)
    said = capsys.readouterr().out
    assert said == "no rows were applied\ndead letters: 2 (bad-json 2) in /t/_dead_letters\n"


def test_a_mismatch_has_the_command_that_explains_it(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"table": "shop.t", "key": '{"id":7}', "expected": 1, "actual": 2, "corrupted": False}
    places = ({"topic": "t", "partition": 2, "offset": 6}, {"topic": "u v", "partition": None, "offset": 0})
    result = tidecast.Verified(mismatches=[{**place, **row} for place in places])
    source = f"kafka://h:9092/t?protocol=avro&topics=t|u&sasl-user=me&sasl-password={SECRET}"
    options = {"--schema-registry": f"http://me:{SECRET}@r:8081", "--tz": None}
    _show.verified(result, True, source, options)
    as_json = capsys.readouterr().out
    _show.verified(result, False, source, options)
    text = capsys.readouterr().out
    assert SECRET not in as_json + text
    found = [one["inspect"] for one in json.loads(as_json)["mismatches"]]
    assert [line.strip() for line in text.splitlines() if line.startswith("  ")] == found
    said = [shlex.split(command)[1:] for command in found]
    head = ["inspect", source.replace(SECRET, "xxxxx")]
    tail = ["--schema-registry", "http://me:xxxxx@r:8081"]
    assert said == [
        [*head, "--topic", "t", "--partition", "2", "--offset", "6", *tail],
        [*head, "--topic", "u v", "--offset", "0", *tail],
    ]


def test_a_secret_that_is_given_by_reference_is_left_to_be_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"topic": "t", "partition": 0, "offset": 6, "table": "a.b", "key": None, "expected": 1, "actual": 2}
    source, registry = "kafka://h/t?sasl-user=me&sasl-password=env:WORD", "http://me:env:WORD@r"
    _show.verified(tidecast.Verified(mismatches=[wrong]), True, source, {"--schema-registry": registry})
    words = shlex.split(json.loads(capsys.readouterr().out)["mismatches"][0]["inspect"])
    assert (words[2], words[-1]) == (source, registry)


def letter(offset: int, reason: str, value: str, **more: object) -> str:
    record = {"topic": "t", "partition": 0, "offset": offset, "timestamp": 1_700_000_000_000, "key": None}
    encoded = base64.b64encode(value.encode()).decode()
    return json.dumps({**record, "value": encoded, "headers": None, "reason": reason, "detail": None, **more}) + "\n"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of tables that have dead letters."""
    monkeypatch.setattr("tidecast.inspection._events.spark_session", lambda *_, **__: pytest.fail("Spark was started"))
    folder = tmp_path / "tables" / "_dead_letters"
    folder.mkdir(parents=True)
    (folder / "part-b.jsonl").write_text(letter(9, "bad-json", "{", key="aw==") + letter(7, "bad-json", "{no"))
    (folder / "part-a.jsonl").write_text(letter(8, "schema-change", TWO_ROWS[0], detail="no table can follow it"))
    return tmp_path / "tables"


def test_a_dead_letter_is_shown_in_full(tables: Path) -> None:
    first = tidecast.show_dead_letter(str(tables))
    assert (first.offset, first.reason, first.value) == (7, "bad-json", "e25v")
    fault = "Expecting property name enclosed in double quotes at character 1"
    assert first.message.problem == f"bad-json: {fault}"
    assert (first.to, first.matching, first.others) == (str(tables), 3, [("t", 0, 8), ("t", 0, 9)])
    options = ("--source", f"kafka://h/t?sasl-password={SECRET}", "--checkpoint", "my c")
    shown = CliRunner().invoke(app, ["dead-letters", "show", str(tables), "--offset", "8", "--json", *options])
    said = json.loads(shown.stdout)
    assert (said["reason"], said["detail"], said["matching"]) == ("schema-change", "no table can follow it", 1)
    assert (said["message"]["type"], said["message"]["sql"]) == ("CREATE", "CREATE TABLE `t`")
    assert [c["name"] for c in said["message"]["columns"]] == ["id", "name"]
    source = "kafka://h/t?sasl-password=xxxxx"
    retry = ["dead-letters", "retry", source, "--to", str(tables), "--checkpoint", "my c"]
    assert shlex.split(said["commands"]["retry"])[1:] == retry
    inspect = ["inspect", source, "--topic", "t", "--partition", "0", "--offset", "8"]
    assert shlex.split(said["commands"]["inspect"])[1:] == inspect
    text = CliRunner().invoke(app, ["dead-letters", "show", f"{tables}/_dead_letters", "--reason", "bad-json"]).stdout
    for words in (
        "topic t partition 0 offset 7: bad-json\n",
        "sent at: 2023-11-14T22:13:20.000+00:00\n",
        "  value: {no\n",
        "1 more dead",
    ):
        assert words in text
    assert f"retry SOURCE --to {tables} --checkpoint CHECKPOINT\n" in text


def test_a_dead_letter_of_a_replica_that_took_it_for_another_protocol_is_explained(tables: Path) -> None:
    other = letter(10, "bad-message", TWO_ROWS[0], detail="neither op nor ddl")
    (tables / "_dead_letters" / "part-c.jsonl").write_text(other)
    shown = tidecast.show_dead_letter(str(tables), offset=10)
    assert (shown.detail, shown.message.problem) == ("neither op nor ddl", None)
    assert (shown.message.type, shown.message.sql) == ("CREATE", "CREATE TABLE `t`")


def test_dead_letters_are_counted_by_topic_and_reason(tables: Path, tmp_path: Path) -> None:
    counted = CliRunner().invoke(app, ["dead-letters", "list", str(tables), "--json"])
    assert json.loads(counted.stdout) == [
        {"topic": "t", "reason": "bad-json", "count": 2, "detail": None},
        {"topic": "t", "reason": "schema-change", "count": 1, "detail": "no table can follow it"},
    ]
    assert CliRunner().invoke(app, ["dead-letters", "list", str(tmp_path)]).stdout == "dead letters: none\n"
    with pytest.raises(tidecast.ConfigError, match="there is no such folder"):
        tidecast.list_dead_letters(str(tmp_path / "none"))


def test_what_is_in_brackets_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    query = "CREATE TABLE t (id bigint /*T![auto_rand] AUTO_RANDOM(5) */, name varchar(9) COMMENT '[/bold]')"
    made = tidecast.SchemaChange(1, "shop", "", query, "applied", "[red]")
    _show.status(tidecast.ReplicaReport((), None, (made,)), False)
    shown = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-2].split("│")]
    assert shown == ["", "1", "shop", query, "applied", "[red]", ""]


def test_what_is_no_dead_letter_is_not_shown(tables: Path) -> None:
    with pytest.raises(tidecast.ConfigError, match="there is no dead letter of offset 8 reason bad-json"):
        tidecast.show_dead_letter(str(tables), offset=8, reason="bad-json")
    (tables / "_dead_letters" / "part-c.jsonl").write_text("[]\n")
    with pytest.raises(tidecast.ConfigError, match=r"part-c.jsonl: it has a line that is no dead letter"):
        tidecast.show_dead_letter(str(tables))
