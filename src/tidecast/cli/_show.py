"""Prints the results of commands: tables for a person, JSON for a program."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidecast._counted import counted
from tidecast._tso import to_datetime

if TYPE_CHECKING:
    from rich.console import Console

    from tidecast import (
        Compared,
        DeadLetterCount,
        Demo,
        Inspected,
        PlaceStatus,
        PlannedTable,
        Proven,
        Published,
        ReplicaReport,
        Replicated,
        Retried,
        RowDifference,
        ShownLetter,
        Snapshot,
        SourceStatus,
        Verified,
    )
    from tidecast.conformance import Report

_VERDICTS = ("match", "mismatch", "none", "zero", "delete", "unreadable")
_WIDTH = 160
_PLACE = ("topic", "partition", "offset")


def _console() -> Console:
    from rich.console import Console  # late, so that `--help` is fast

    # Where nobody looks, a table must not be cut to the width of a terminal that is not there.
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))  # a str would be read as markup: [x] is left out
    _console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _dead_letters(counts: Mapping[str, int], where: object = None) -> None:
    if counts:
        text = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))
        print(f"dead letters: {sum(counts.values()):,} ({text})" + (f" in {where}" if where else ""))


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {warning}")


def published(result: Published, as_json: bool) -> None:
    """Show what `convert` published."""
    messages = [{"table": t, "topic": to, "messages": n} for (t, to), n in sorted(result.messages.items())]
    if as_json:
        _print_json(
            {
                "messages": result.total,
                "tables": messages,
                "schemas": result.schemas,
                "ddl": result.ddl,
                "bootstraps": result.bootstraps,
                "watermarks": result.watermarks,
                "claims": result.claims,
                "skipped": dict(result.skipped),
                "dead_letters": dict(result.dead_letters),
                "warnings": list(result.warnings),
            }
        )
        return
    rows = [(m["table"], m["topic"], m["messages"]) for m in messages]
    _table(f"Published {result.total:,} messages", ("table", "topic", "messages"), rows, ("messages",))
    beside = {
        "schema changes": result.ddl,
        "bootstraps": result.bootstraps,
        "watermarks": result.watermarks,
        "messages stored whole in the claim-check storage": result.claims,
    }
    if others := ", ".join(f"{count:,} {what}" for what, count in beside.items() if count):
        print(f"and {others}")
    for name, count in sorted(result.skipped.items()):
        print(
            f"skipped: {count:,} rows of {name}, which has neither a primary key nor a unique key on NOT NULL columns"
        )
    _warn(result.warnings)
    _dead_letters(result.dead_letters)


def _routed(table: PlannedTable) -> str:
    """Return a table's name, and behind it that in messages, if that is another."""
    return table.table if table.target in ("", table.table) else f"{table.table} → {table.target}"


def planned(tables: Sequence[PlannedTable], as_json: bool) -> None:
    """Show what would be published."""
    if as_json:
        _print_json([asdict(t) for t in tables])
        return
    published = [t for t in tables if t.skipped is None]
    names = ("table", "version", "topic", "partitions", "by", "handle key")
    rows = [
        (_routed(t), str(t.version), t.topic, t.partitions or "new", t.partition_rule, ", ".join(t.handle_key))
        for t in published
    ]
    _table(f"{len(published):,} table versions would be published", names, rows, ("partitions",))
    for t in tables:
        for schema in (s for s in t.schemas if s.refusal):
            print(f"refused by the registry: {schema.subject} of {t.table} version {t.version}: {schema.refusal}")
        if t.unencodable:
            print(f"cannot be encoded: {t.unencodable}")
    skipped = {(t.table, t.skipped) for t in tables if t.skipped}
    for table, why in sorted(skipped):
        print(f"skipped: {table}: {why}")
    lossy = {(t.table, *damage) for t in published for damage in t.lossy_columns}
    if lossy:
        _table("Values that the chosen modes damage", ("table", "column", "damage"), sorted(lossy))


def _checksums(tables: Mapping[str, Mapping[str, int]]) -> None:
    rows = [(table, *(counts.get(v) or None for v in _VERDICTS)) for table, counts in sorted(tables.items())]
    rows.append(("all", *(sum(counts.get(v, 0) for counts in tables.values()) for v in _VERDICTS)))
    _table("Row checksums", ("table", *_VERDICTS), rows, _VERDICTS)


def verified(result: Verified, as_json: bool, source: str, options: Mapping[str, str | None]) -> None:
    """Show what `verify` found in a source, read with these options: with the command that shows each mismatch."""
    shown = [{**wrong, "inspect": _inspect_command(source, wrong, options)} for wrong in result.mismatches]
    if as_json:
        _print_json(
            {
                "verified": result.verdicts["match"] + result.verdicts["mismatch"],
                "verdicts": {v: result.verdicts[v] for v in _VERDICTS},
                "corrupted": result.corrupted,
                "tables": {t: dict(c) for t, c in sorted(result.tables.items())},
                "mismatches": shown,
                "dead_letters": dict(result.dead_letters),
                "warnings": result.warnings,
            }
        )
        return
    _checksums(result.tables)
    for wrong in shown:
        expected = "no number" if wrong["expected"] is None else wrong["expected"]
        print(
            f"mismatch: topic {wrong['topic']} partition {wrong['partition']} offset {wrong['offset']} "
            f"{wrong['table']} {wrong['key']}: expected {expected}, actual {wrong['actual']}"
        )
        print(f"  {wrong['inspect']}")
    hidden = result.verdicts["mismatch"] - len(result.mismatches)
    if hidden > 0:
        print(f"… and {hidden:,} more mismatches; --mismatches DIR writes them all")
    if result.corrupted:
        print(f"corrupted: {result.corrupted:,} rows were damaged before they were sent")
    _warn(result.warnings)
    _dead_letters(result.dead_letters)


def _inspect_command(source: str, place: Mapping[str, object], options: Mapping[str, str | None]) -> str:
    """Return the command that explains the message at a place."""
    named = {f"--{name}": str(place[name]) for name in _PLACE if place[name] is not None}
    return _shell_command(["inspect", source], named | dict(options))


def _shell_command(words: Sequence[str], options: Mapping[str, str | None]) -> str:
    """Return a command of ours; where a secret was given, and not by reference, it has `xxxxx`."""
    from tidecast._secrets import resolved_uri  # late, so that `--help` is fast
    from tidecast._uri import HIDDEN, redact_uri

    def shown(word: str) -> str:
        hidden = resolved_uri(word, lambda reference, name: HIDDEN)
        return word if hidden == redact_uri(hidden) else redact_uri(word)

    given = [word for name, text in options.items() if text is not None for word in (name, text)]
    return shlex.join([_command("tidecast"), *map(shown, (*words, *given))])


def replicated(result: Replicated, as_json: bool) -> None:
    """Show what `replicate` applied."""
    if as_json:
        _print_json(asdict(result))
        return
    counts = ("rows", "upserted", "deleted", "unchanged", "refused")
    tables = sorted(result.tables, key=lambda t: t.name)
    if tables:
        rows = [(t.name, *(getattr(t, count) for count in counts), t.where) for t in tables]
        _table("Tables", ("table", *counts, "where"), rows, counts)
        _checksums({t.name: t.checksums for t in tables})
    else:
        print("no rows were applied")
    warnings = [f"{t.name}: {warning}" for t in tables for warning in t.warnings]
    for t in tables:
        warnings += [
            f"{t.name}: column {name}: {counted(count, 'value does', 'values do')} not fit its type, stored as NULL"
            for name, count in sorted(t.unrepresentable.items())
        ]
    _warn([*warnings, *result.warnings])
    _dead_letters(result.dead_letters, result.dead_letters_in)


def replica_plans(result: Replicated, as_json: bool) -> None:
    """Show what `replicate --dry-run` found to do."""
    if as_json:
        _print_json(asdict(result))
        return
    for one in sorted(result.plans, key=lambda plan: plan.name):
        print(f"{one.name} ({one.where})")
        for action in one.actions:
            print(f"  {action}")
    if not result.plans:
        print("nothing is to be done")
    for reason, count in sorted(result.dead_letters.items()):
        print(f"set aside {counted(count, 'message', 'messages')} that cannot be read: {reason}")
    _warn(result.warnings)


def retried(result: Retried, as_json: bool) -> None:
    """Show the result of a retry of dead letters."""
    if as_json:
        _print_json(asdict(result))
        return
    print(f"{result.applied:,} of {result.letters:,} dead letters were applied")
    warnings = [f"{t.name}: {warning}" for t in result.tables for warning in t.warnings]
    _warn([*warnings, *result.warnings])
    _dead_letters(result.dead_letters)


def dead_letters(counts: Sequence[DeadLetterCount], as_json: bool) -> None:
    """Show how many dead letters there are."""
    if as_json:
        _print_json([asdict(one) for one in counts])
        return
    if not counts:
        print("dead letters: none")
        return
    rows = [(one.topic, one.reason, one.count, one.detail or "") for one in counts]
    _table("Dead letters", ("topic", "reason", "count", "example"), rows, ("count",))


def dead_letter(
    letter: ShownLetter,
    as_json: bool,
    where: str,
    source: str | None,
    checkpoint: str | None,
    options: Mapping[str, str | None],
) -> None:
    """Show a dead letter of a folder in full, with the commands to go on with; what is not known is in capitals."""
    at = (letter.topic, letter.partition, letter.offset)
    place = dict(zip(_PLACE, at, strict=True))
    replica = {"--to": letter.to or "TABLES", "--checkpoint": checkpoint or "CHECKPOINT"}
    folder = {"--dead-letters": None if letter.to else where}
    commands = {
        "inspect": _inspect_command(source or "SOURCE", place, options),
        "retry": _shell_command(["dead-letters", "retry", source or "SOURCE"], {**replica, **folder, **options}),
    }
    if as_json:
        others = [dict(zip(_PLACE, one, strict=True)) for one in letter.others]
        _print_json({**asdict(letter), "others": others, "commands": commands})
        return
    print(f"{_place(*at)}: {letter.reason}")
    time = datetime.fromtimestamp(letter.timestamp / 1000, UTC) if letter.timestamp is not None else None
    for label, value in (
        ("detail", letter.detail),
        ("sent at", time and time.isoformat(timespec="milliseconds")),
        *map(_content, ("key", "value"), (letter.key, letter.value)),
    ):
        if value is not None:
            print(f"  {label}: {value}")
    print("The message by itself:")
    _inspected(letter.message)
    print("\nTo inspect it in its topic, and to retry all dead letters of the replica:")
    for command in commands.values():
        print(f"  {command}")
    if letter.matching > 1:
        print(f"{letter.matching - 1:,} more dead letters match, such as")
    for other in letter.others:
        print(f"  {_place(*other)}")


def _content(name: str, encoded: str | None) -> tuple[str, str | None]:
    """Return what a message holds as text, where it is text on one line, and else in Base64."""
    if not encoded:
        return name, None if encoded is None else "empty"
    try:
        text = base64.b64decode(encoded).decode()
    except UnicodeDecodeError:
        text = ""
    return (name, text) if text and text.isprintable() else (f"{name} in Base64", encoded)


def _place(topic: str | None, partition: int | None, offset: int | None) -> str:
    there = zip(_PLACE, (topic, partition, offset), strict=True)
    return " ".join(f"{name} {value}" for name, value in there if value is not None)


def status(result: ReplicaReport, as_json: bool) -> None:
    """Show how far a replica is."""
    if as_json:
        sources = [{**asdict(one), "backlog": one.backlog} for one in result.sources]
        _print_json({**asdict(result), "sources": sources})
        return
    for source in result.sources:
        _source_status(source)
    if result.dead_letters is not None:
        dead_letters(result.dead_letters, False)
    if result.schema_changes:
        names = ("commit-ts", "table", "query", "outcome", "cause")
        rows = [
            (str(c.commit_ts), ".".join(filter(None, (c.database, c.table))), c.query, c.outcome, c.cause)
            for c in result.schema_changes
        ]
        _table("Last schema changes", names, rows)


def _source_status(source: SourceStatus) -> None:
    applied = f", applied at {source.applied_at.isoformat(timespec='seconds')}" if source.applied_at else ""
    print(f"{source.source}: batch {source.batch:,}{applied}")
    if source.resolved_time is not None and source.lag is not None:
        time = source.resolved_time.isoformat(timespec="milliseconds")
        print(f"resolved-ts {source.resolved_ts} ({time}), {timedelta(seconds=round(source.lag))} ago")
    else:
        print("resolved-ts: unknown, no watermark has been read")
    waits = {"for the schemas of their tables": source.rows_waiting, "for a resolved-ts": source.rows_unresolved}
    for what, rows in waits.items():
        if rows:
            print(f"{counted(rows, 'row waits', 'rows wait')} {what}")
    if source.problem:
        print(f"backlog unknown: {source.problem}" if source.backlog is None else f"warning: {source.problem}")
    if any(place.file for place in source.places):
        _files(source)
        return
    counts = ("offset", "end", "backlog")
    of_partitions = [(p.topic, str(p.partition), p.offset, p.end, p.backlog) for p in source.places]
    _table(
        "Partitions", ("topic", "partition", *counts), [*of_partitions, ("all", "", None, None, source.backlog)], counts
    )


def _files(source: SourceStatus) -> None:
    """Show how far files were read: there may be too many to name each."""
    topics: dict[str, list[PlaceStatus]] = {}
    for place in source.places:
        topics.setdefault(place.topic or place.file or "", []).append(place)  # a lone file is in no topic
    known = source.backlog is not None
    counts = ("files", "bytes read", "backlog in bytes")
    rows = [
        (topic, len(files), sum(f.offset for f in files), sum(f.backlog or 0 for f in files) if known else None)
        for topic, files in sorted(topics.items())
    ]
    _table("Files of messages", ("topic", *counts), rows, counts)


def snapshot(result: Snapshot, as_json: bool) -> None:
    """Show which versions of tables `snapshot` found."""
    tables = [{"table": t.name, "version": t.version, "query": t.query} for t in result.tables]
    if as_json:
        _print_json({"as_of": result.as_of, "sources": [asdict(s) for s in result.sources], "tables": tables})
        return
    for source in result.sources:
        time = to_datetime(source.resolved_ts).isoformat(timespec="milliseconds")
        print(f"{source.source}: resolved-ts {source.resolved_ts} ({time}), batch {source.batch}")
    rows = [(t["table"], str(t["version"]), t["query"]) for t in tables]
    _table("Tables at this time", ("table", "version", "query"), rows)


def proven(result: Proven, as_json: bool) -> None:
    """Show what `prove` found."""
    if as_json:
        _print_json({"ok": result.ok, **asdict(result)})
        return
    rows = [(t.table, t.verdict.value, t.rows, t.expected) for t in result.tables]
    _table("Tables and their ledger", ("table", "verdict", "rows", "in the ledger"), rows, ("rows", "in the ledger"))
    for t in result.tables:
        if t.detail:
            print(f"{t.table}: {t.verdict.value.replace('-', ' ')}: {t.detail}")


def conformance(report: Report, as_json: bool) -> None:
    """Show how a consumer did in the conformance kit."""
    if as_json:
        _print_json(
            {"ok": report.answered and not report.failed, "features": [asdict(feature) for feature in report.features]}
        )
        return
    protocols = list(dict.fromkeys(f.protocol for f in report.features))
    cells = {(f.feature, f.protocol): f"{f.passed} of {f.answered}" if f.answered else "–" for f in report.features}
    names = dict.fromkeys(f.feature for f in report.features)
    rows = [(name, *(cells.get((name, protocol), "") for protocol in protocols)) for name in names]
    _table("Right answers", ("feature", *protocols), rows, protocols)
    if not report.answered:
        print("there are no answers")
    for f in report.features:
        if f.failed:
            print(f"{f.protocol}, {f.feature}: {f.failed} wrong, first {f.first}")


def compared(result: Compared, as_json: bool) -> None:
    """Show what `compare` found."""
    if as_json:
        _print_json({"ok": result.ok, **asdict(result)})
        return
    numbers = ("rows in A", "rows in B", "only in A", "only in B", "changed")
    rows = [
        (
            t.table,
            *((None,) * len(numbers) if t.rows_a is None else (t.rows_a, t.rows_b, t.only_a, t.only_b, t.changed)),
        )
        for t in result.tables
    ]
    _table("Tables", ("table", *numbers), rows, numbers)
    for t in result.tables:
        for remark in t.remarks:
            print(f"{t.table}: {remark}")
        for row in t.rows:
            print(f"{t.table} {_difference(row)}")
        if t.different > len(t.rows):
            print(f"{t.table}: … and {t.different - len(t.rows):,} more; --limit N lists more")
    _warn(result.warnings)


def _difference(row: RowDifference) -> str:
    key = ", ".join(f"{name} {_value(value)}" for name, value in row.key.items())
    if not row.times_a or not row.times_b:
        times = row.times_a + row.times_b
        return f"({key}): only in {'A' if row.times_a else 'B'}" + (f", {times:,} times" if times > 1 else "")
    said = [f"{name} {_value(a)} in A, {_value(b)} in B" for name, (a, b) in row.columns.items()]
    if row.times_a != row.times_b:
        a, b = (counted(times, "time", "times") for times in (row.times_a, row.times_b))
        said.append(f"{a} in A, {b} in B")
    return f"({key}): {'; '.join(said)}"


def _value(text: str | None) -> str:
    return "NULL" if text is None else json.dumps(text, ensure_ascii=False)


def demo(result: Demo, as_json: bool) -> None:
    """Show the result of `demo`, and commands to try next."""
    if as_json:
        _print_json(asdict(result))
        return
    counts = ("published", "verified", "deletes", "rows")
    rows: list[Sequence[object]] = [
        (t.table, t.topic, *(getattr(t, c) for c in counts), os.path.relpath(t.where, result.folder))
        for t in result.tables
    ]
    rows.append(("all", "", *(sum(getattr(t, c) for t in result.tables) for c in counts), ""))
    title = "A week of a tea shop: published as Avro, verified, applied to tables"
    names = ("table", "topic", *counts[:3], "rows in the table", "folder")
    _table(title, names, rows, (*counts, "rows in the table"))
    for other in result.others:
        print(f"also published as {other.protocol.capitalize()}: {other.rows:,} rows and {other.ddl:,} schema changes")
    _dead_letters(result.dead_letters)
    busiest = max(result.tables, key=lambda t: t.published).where
    options = f"{shlex.quote(result.source)} --schema-registry {shlex.quote(result.schema_registry)} --tz UTC"
    load = f'import tidecast; tidecast.spark_session().read.format("delta").load("{busiest}").show()'
    print(f"All files are in {result.folder}. To inspect messages, verify them again, or read a table:")
    print(f"  {_command('tidecast')} inspect {options} --limit 3")
    print(f"  {_command('tidecast')} verify {options}")
    for other in result.others:
        print(f"  {_command('tidecast')} inspect {shlex.quote(other.source)} --limit 9")
    print(f"  {_command('python')} -c {shlex.quote(load)}")


def _command(name: str) -> str:
    """Return how a program beside this Python is called from here: by its name, or by its path."""
    path = os.path.join(os.path.dirname(sys.executable), name)  # noqa: PTH118, PTH120 - with pathlib's `..` resolved
    return name if shutil.which(name) == path else os.path.relpath(path)


def inspected(messages: Sequence[Inspected], as_json: bool) -> None:
    """Show messages explained."""
    if as_json:
        _print_json([asdict(m) for m in messages])
        return
    followed(messages, False)
    if not messages:
        print("no message matches")


def followed(messages: Iterable[Inspected], as_json: bool) -> None:
    """Show messages as they come; as JSON, a line each."""
    for number, message in enumerate(messages):
        if as_json:
            print(json.dumps(asdict(message), default=str, ensure_ascii=False))
        else:
            print(end="\n" if number else "")
            _inspected(message)
        sys.stdout.flush()


def _inspected(m: Inspected) -> None:
    place = " ".join(filter(None, (m.topic, _place(None, m.partition, m.offset)))) if m.topic else "message"
    row = f", row {m.row} of its message" if m.row is not None else ""
    print(f"{place}: {m.protocol} {m.type} {m.table}".rstrip() + row)
    for label, value in (
        ("commit-ts", f"{m.commit_ts} ({m.time})" if m.commit_ts else None),
        ("key schema id", m.key_schema_id),
        ("value schema id", m.value_schema_id),
        ("sql", m.sql),
        ("problem", m.problem),
    ):
        if value is not None:
            print(f"  {label}: {value}")
    if m.columns:
        names = ("column", "type", "old", "new", "checksum bytes") if m.type in _ROWS else ("column", "type")
        rows = [(c.name, c.type, c.old, c.new, c.checked) for c in m.columns]
        _table("", names, [row[: len(names)] for row in rows])
    if m.verdict and m.type in ("INSERT", "UPDATE"):
        numbers = f"expected {m.expected}, computed {m.actual}" if m.expected is not None else f"computed {m.actual}"
        print(f"  checksum: {m.verdict} ({numbers}){', corrupted at the source' if m.corrupted else ''}")


_ROWS = ("INSERT", "UPDATE", "DELETE")
