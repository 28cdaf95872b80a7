"""The commands: each reads its options, calls the function of the same name, and shows what that returned."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

import tidecast
from tidecast import OnDataLoss, OnDdl, OnError, OnMismatch, OnUnrepresentable, TableMode
from tidecast._errors import ConfigError
from tidecast.cli import _show
from tidecast.cli._exit_codes import MISMATCH
from tidecast.cli._hidden import HidingFormatter
from tidecast.cli._progress import progress
from tidecast.cli._signals import ended_by_sigterm
from tidecast.cli._spark import runs_spark

app = typer.Typer(
    name="tidecast",
    help="Publish row changes in TiCDC's Kafka protocols, and apply such topics to tables with every checksum checked.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would take [user:password@] for markup, and leave it out
    epilog="Exit codes: 0 done; 1 a checksum, a table or an answer is wrong; 2 wrong usage; 3 the work failed.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidecast {tidecast.__version__}")
        raise typer.Exit


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command was given, of its parameters, which have the names of its function's.

    The function chooses the others. `--source-config` adds to the URI of the source, and to each side of a comparison
    that is one of such files.
    """
    given = {name: value for name, value in parameters.items() if value not in (None, []) and name != "as_json"}
    toml = given.pop("source_config", None)
    if toml:
        from tidecast.config import configured_source, names_files  # which no command needs to show its help

        sides = [name for name in ("a", "b") if names_files(given.get(name, ""))]
        sources = ["source"] if "source" in given else sides
        if not sources:
            raise ConfigError("--source-config is for the files of a storage sink, and none are given")
        given |= {name: configured_source(given[name], toml) for name in sources}
    return given


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options that need no command."""


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The topic to read: kafka://host:port/topic?protocol=…, file:///dir/topic?protocol=…, or a path.",
    ),
]
SourceConfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="The changefeed file of TiCDC's storage sink that wrote the source: how its CSV looks.",
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Schema Registry: http(s)://[user:password@]host:port, glue://region/name or file:///dir."
    ),
]
SourceRegistry = Annotated[
    str | None, typer.Option(metavar="URL", help="The source's Schema Registry, if it differs from --schema-registry.")
]
Config = Annotated[
    str | None, typer.Option(metavar="FILE.toml", help="The changefeed configuration file, as TiCDC reads it.")
]
ClusterId = Annotated[str, typer.Option(metavar="ID", help="The cluster ID to write in Debezium messages.")]
Zone = Annotated[
    str | None,
    typer.Option("--tz", metavar="ZONE", help="The time zone of TIMESTAMP text in messages. Default: the system's."),
]
_DEAD_LETTERS = "The folder for dead letters, the messages that cannot be handled. Default:"
DeadLetters = Annotated[str | None, typer.Option(metavar="DIR", help=f"{_DEAD_LETTERS} WHERE/_dead_letters.")]
UnsentLetters = Annotated[
    str | None,
    typer.Option(metavar="DIR", help=f"{_DEAD_LETTERS} _dead_letters beside the sink's files, or dead-letters."),
]
UnreadLetters = Annotated[
    str | None, typer.Option(metavar="DIR", help=f"{_DEAD_LETTERS} they are counted, and not kept.")
]
Policy = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        help="What to do with a message that cannot be handled: write it to the dead letters and go on, or stop.",
    ),
]
Ca = Annotated[str | None, typer.Option(metavar="FILE", help="Accept only clients with a certificate of this CA.")]
Cert = Annotated[str | None, typer.Option(metavar="FILE", help="The server's certificate file.")]
CertKey = Annotated[str | None, typer.Option(metavar="FILE", help="The certificate's key file.")]
_PLACE = (
    "One of: a folder of tables, a Spark catalog, one table (folder/database/table or catalog.database.table), a "
    "topic, or mysql://user:password@host:port/database."
)
To = Annotated[
    str, typer.Option(metavar="WHERE", help="The folder for tables (WHERE/<database>/<table>), or a Spark catalog.")
]
MismatchPolicy = Annotated[
    OnMismatch,
    typer.Option(help="What to do with a row whose checksum does not match: write a dead letter, apply it, or stop."),
]
Ddl = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[KIND=]POLICY",
        help=f"How tables follow schema changes: {', '.join(OnDdl)}. KIND=POLICY sets it for one kind of change. "
        "Repeatable: --ddl lenient --ddl truncate-table=evolve.",
    ),
]
Mode = Annotated[
    TableMode,
    typer.Option(
        help="What a table holds. current: the newest row of each key. soft-delete: deleted rows too. history: every "
        "version of a row, with its valid times. log: one row per change."
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column to add to the tables: _commit_ts or _verdict. Repeatable."),
]
UnrepresentablePolicy = Annotated[
    OnUnrepresentable,
    typer.Option(
        help="What to do with a value that does not fit the table's type, such as a zero date. null: store null. "
        "string: store the whole column as text. fail: write the row to the dead letters."
    ),
]
ReplicaConfig = Annotated[
    str | None,
    typer.Option(metavar="FILE.toml", help="The replica's configuration file. It renames tables and masks columns."),
]
ReplayWindow = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --checkpoint: how long to remember applied keys, in commit-ts time. Messages that TiCDC sends again "
        "in this time change nothing. Default: 24h.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
@runs_spark
def demo(
    folder: Annotated[
        str, typer.Option("--dir", metavar="DIR", help="The folder to create topics and tables in.")
    ] = "tidecast-demo",
    as_json: Json = False,
) -> None:
    """Try tidecast on files, without any server.

    Publishes a change log as Avro, verifies it, and applies it to Delta tables. Publishes it as Debezium and Simple,
    too.
    """
    logging.getLogger("tidecast").setLevel(logging.ERROR)  # its warnings about values that Debezium damages
    with progress(as_json) as step:
        result = tidecast.demo(folder, progress=step)
    _show.demo(result, as_json)


@app.command()
@runs_spark
def convert(
    source: Source,
    sink: Annotated[
        str,
        typer.Argument(metavar="SINK", help="The topic to publish to, as a TiCDC sink URI: kafka://… or file:///…."),
    ],
    config: Config = None,
    schema_registry: Registry = None,
    source_schema_registry: SourceRegistry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    cluster_id: ClusterId = "default",
    dead_letters: UnsentLetters = None,
    on_error: Policy = OnError.DEAD_LETTER,
    as_json: Json = False,
) -> None:
    """Read a topic in one protocol and publish it in another.

    Reads the topic up to its current end, then stops.
    """
    given = _given(locals())
    with progress(as_json) as step:
        result = tidecast.convert(**given, progress=step)
    _show.published(result, as_json)


@app.command()
@runs_spark
def plan(
    source: Source,
    sink: Annotated[
        str,
        typer.Argument(metavar="SINK", help="The sink URI that you would give to convert."),
    ],
    config: Config = None,
    schema_registry: Registry = None,
    source_schema_registry: SourceRegistry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    cluster_id: ClusterId = "default",
    as_json: Json = False,
) -> None:
    """Show what convert would publish, without publishing.

    Shows topics, partitions, schemas that the registry would refuse, and columns that would lose information.
    """
    given = _given(locals())
    with progress(as_json) as step:
        result = tidecast.plan(**given, progress=step)
    _show.planned(result, as_json)


@app.command()
@runs_spark
def verify(
    source: Source,
    schema_registry: Registry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    mismatches: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder to write mismatches to, as JSON Lines.")
    ] = None,
    dead_letters: UnreadLetters = None,
    as_json: Json = False,
) -> None:
    """Check the checksum of every row; exit with 1 on a mismatch."""
    given = _given(locals())
    with progress(as_json) as step:
        result = tidecast.verify(**given, progress=step)
    _show.verified(result, as_json, given["source"], {"--schema-registry": schema_registry, "--tz": tz})
    if not result.ok:
        raise typer.Exit(MISMATCH)


@app.command()
@runs_spark
def replicate(
    source: Source,
    to: To,
    schema_registry: Registry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    dead_letters: DeadLetters = None,
    on_error: Policy = OnError.DEAD_LETTER,
    on_mismatch: MismatchPolicy = OnMismatch.DEAD_LETTER,
    ddl: Ddl = None,
    mode: Mode = TableMode.CURRENT,
    metadata: Metadata = None,
    on_unrepresentable: UnrepresentablePolicy = OnUnrepresentable.NULL,
    config: ReplicaConfig = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The folder that records progress. The next run continues from it."),
    ] = None,
    continuous: Annotated[
        bool,
        typer.Option("--continuous/--once", help="Run until SIGTERM, or stop at the topic's current end."),
    ] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="With --continuous: read at most N messages of a Kafka partition per batch."
        ),
    ] = None,
    replay_window: ReplayWindow = None,
    compact_every: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="With --checkpoint: compact a table's small files every N versions. 0 turns it off. Default: 50.",
        ),
    ] = None,
    resolved_only: Annotated[
        bool,
        typer.Option(
            "--resolved-only",
            help="With --checkpoint: apply rows only when a watermark covers them. Each batch then ends at one "
            "point in time of the source, which snapshot --as-of can find.",
        ),
    ] = False,
    on_data_loss: Annotated[
        OnDataLoss | None,
        typer.Option(
            help="With --checkpoint: what to do if the next messages are gone from the topic: fail (default), or "
            "continue with those that are left."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what the next batch would do to each table, and change nothing."),
    ] = False,
    addr: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="With --continuous: serve the status page and /metrics at this address."
        ),
    ] = None,
    ca: Ca = None,
    cert: Cert = None,
    key: CertKey = None,
    users_file: Annotated[
        str | None,
        typer.Option(
            "--users",
            metavar="FILE.toml",
            help='The file with the status page\'s users, one per line: name = "password".',
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Apply a topic to tables, and check every checksum.

    Messages that arrive twice and restarts do not change the result.
    """
    given = _given(locals())
    with progress(as_json) as step, ended_by_sigterm(continuous) as stop:
        result = tidecast.replicate(
            **given,
            ready=lambda url: print(f"the status page is at {url}", file=sys.stderr, flush=True),
            stop=stop,
            progress=step,
        )
    (_show.replica_plans if dry_run else _show.replicated)(result, as_json)


@app.command()
@partial(runs_spark, once=False)
def prove(
    to: Annotated[
        str, typer.Argument(metavar="WHERE", help="The folder or Spark catalog that replicate wrote to (--to).")
    ],
    as_json: Json = False,
) -> None:
    """Check replicated tables against their ledger.

    Compares the row count and hash of each table with those that replicate recorded. Exits with 1 on a difference.
    """
    with progress(as_json) as step:
        result = tidecast.prove(to, progress=step)
    _show.proven(result, as_json)
    if not result.ok:
        raise typer.Exit(MISMATCH)


@app.command()
@partial(runs_spark, once=False)
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_PLACE)],
    b: Annotated[str, typer.Argument(metavar="B", help="What to compare A with, given like A.")],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A key column to match rows by. Repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="List at most N differing rows per table.")] = 20,
    schema_registry: Registry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    ddl: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[KIND=]POLICY", help="For a topic: how its tables follow schema changes, as for replicate."
        ),
    ] = None,
    on_unrepresentable: UnrepresentablePolicy = OnUnrepresentable.NULL,
    config: ReplicaConfig = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="For TiDB: read the tables as of this TSO or time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare two sets of tables row by row.

    Lists the rows that differ, and exits with 1 if there are any. For a topic, compares the tables that replicate would
    make from it.
    """
    given = _given(locals())
    with progress(as_json) as step:
        result = tidecast.compare(**given, progress=step)
    _show.compared(result, as_json)
    if not result.ok:
        raise typer.Exit(MISMATCH)


dead_letters_app = typer.Typer(
    help="List, explain and retry messages that could not be applied.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(dead_letters_app, name="dead-letters")
Letters = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="The folder of dead letters, or the place that replicate wrote to (--to)."),
]


@dead_letters_app.command("list")
@runs_spark
def list_dead_letters(
    where: Letters,
    as_json: Json = False,
) -> None:
    """Count dead letters by topic and reason."""
    _show.dead_letters(tidecast.list_dead_letters(where), as_json)


@dead_letters_app.command("show")
@runs_spark
def show_dead_letter(
    where: Letters,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Show the first dead letter of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="P", help="Show the first dead letter of this partition.")
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="Show the dead letter at this offset.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="WORD", help="Show the first dead letter with this reason.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="The protocol. Default: guessed from the message.")
    ] = None,
    schema_registry: Registry = None,
    tz: Zone = None,
    source: Annotated[
        str | None, typer.Option(metavar="URI", help="The replica's source, for the commands that it prints.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The replica's --checkpoint, for the commands that it prints."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain one dead letter, and print commands to inspect and retry it.

    Shows where the message came from, why it could not be applied, and what it holds.
    """
    result = tidecast.show_dead_letter(
        where,
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
        protocol=protocol,
        schema_registry=schema_registry,
        tz=tz,
    )
    options = {"--schema-registry": schema_registry, "--tz": tz}
    _show.dead_letter(result, as_json, where, source, checkpoint, options)


@dead_letters_app.command("retry")
@partial(runs_spark, once=False)
def retry_dead_letters(
    source: Source,
    to: To,
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="The replica's --checkpoint.")],
    schema_registry: Registry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    dead_letters: DeadLetters = None,
    on_mismatch: MismatchPolicy = OnMismatch.DEAD_LETTER,
    ddl: Ddl = None,
    mode: Mode = TableMode.CURRENT,
    metadata: Metadata = None,
    on_unrepresentable: UnrepresentablePolicy = OnUnrepresentable.NULL,
    config: ReplicaConfig = None,
    replay_window: ReplayWindow = None,
    on_data_loss: Annotated[
        OnDataLoss | None,
        typer.Option(
            help="What to do with a dead letter whose message is gone from the topic: keep it (fail), or apply it "
            "(continue)."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Apply dead letters again, after you fixed their cause.

    Takes the options of the replicate command that wrote them. Never overwrites a newer row with the same key.
    """
    given = _given(locals())
    with progress(as_json) as step:
        result = tidecast.retry_dead_letters(**given, progress=step)
    _show.retried(result, as_json)


@app.command()
@runs_spark
def status(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="The replica's source. Needed for the backlog of a Kafka topic."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="The replica's --checkpoint. Given alone, no Spark is started.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="The replica's --to. Adds its ledger, schema changes and dead letters."),
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="DIR", help="With a catalog as --to: the folder of dead letters.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the progress of a replica: offsets, backlog and lag.

    Also shows the resolved-ts, waiting rows, dead letters by reason, and the last schema changes.
    """
    with progress(as_json or to is None) as step:
        result = tidecast.status(source, checkpoint=checkpoint, to=to, dead_letters=dead_letters, progress=step)
    _show.status(result, as_json)


@app.command()
@runs_spark
def snapshot(
    to: Annotated[str, typer.Argument(metavar="WHERE", help="The place that replicate wrote to (--to).")],
    as_of: Annotated[str, typer.Option("--as-of", metavar="TIME", help="A TSO, or a time such as 2026-01-31T12:00Z.")],
    as_json: Json = False,
) -> None:
    """Find the table versions of one point in time.

    They show the source as it was then.
    """
    _show.snapshot(tidecast.snapshot(to, as_of), as_json)


@app.command()
@runs_spark
def inspect(
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="The topic to read: a URI or a path.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Explain at most N messages.")] = 10,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Explain the last N messages instead of the first.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Only messages of this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="P", help="Only messages of this partition.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the message at this offset.")] = None,
    table: Annotated[
        str | None, typer.Option(metavar="DATABASE.TABLE", help="Only messages with a row of this table.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Only messages whose row has this value, before or after the change. Repeatable. May be JSON: "
            '{"id":7}.',
        ),
    ] = None,
    commit_ts: Annotated[
        str | None,
        typer.Option(
            metavar="TIME[..TIME]",
            help="Only messages with this commit-ts: a TSO, a time, or a range of either.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Explain new messages until Ctrl-C. --last N starts with the last N messages."),
    ] = False,
    hex: Annotated[  # noqa: A002 - named as the option is
        str | None, typer.Option(metavar="MESSAGE", help="Explain this message, given in hexadecimal.")
    ] = None,
    base64: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="Explain this message, given in base64.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The protocol, if the URI names none. Default: guessed from the message."),
    ] = None,
    schema_registry: Registry = None,
    source_config: SourceConfig = None,
    tz: Zone = None,
    as_json: Json = False,
) -> None:
    """Explain messages: type, table, time, columns, checksum.

    Shows which bytes each column adds to the checksum.
    """
    if sum(given is not None for given in (source, hex, base64)) != 1:
        raise typer.BadParameter("give one of SOURCE, --hex MESSAGE or --base64 MESSAGE")
    given = _given(locals())
    del given["follow"]
    if follow and source is not None:
        if offset is not None:
            raise typer.BadParameter("give --follow or --offset, not both")
        del given["limit"]
        _show.followed(tidecast.follow(**given), as_json)
        return
    with progress(as_json) as step:
        result = tidecast.inspect(**given, progress=step)
    _show.inspected(result, as_json)


@app.command()
@partial(runs_spark, once=False)
def server(
    source: Annotated[
        str, typer.Option(metavar="URI", help="The source of row changes: kafka://…, file:///… or a path.")
    ],
    addr: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address to listen on.")] = "127.0.0.1:8300",
    data_dir: Annotated[
        str, typer.Option(metavar="DIR", help="The folder that stores the changefeeds.")
    ] = "tidecast-data",
    allow_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Let changefeeds use the folders below this one. Repeatable. Default: the current folder.",
        ),
    ] = None,
    allow_secret: Annotated[
        list[str] | None,
        typer.Option(metavar="REFERENCE", help="Let changefeeds use this secret: env:NAME or file:/path. Repeatable."),
    ] = None,
    schema_registry: Registry = None,
    tz: Zone = None,
    cluster_id: ClusterId = "default",
    ca: Ca = None,
    cert: Cert = None,
    key: CertKey = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="A user of the API and the status page.", envvar="TICDC_USER")
    ] = None,
    password: Annotated[
        str | None, typer.Option(metavar="WORD", help="The password of --user.", envvar="TICDC_PASSWORD")
    ] = None,
    users_file: Annotated[
        str | None,
        typer.Option("--users", metavar="FILE.toml", help='A file with more users, one per line: name = "password".'),
    ] = None,
) -> None:
    """Run changefeeds, with TiCDC's HTTP API and a status page.

    Serves metrics at /metrics. Stop it with SIGTERM or Ctrl-C.
    """
    given = _given(locals())
    if bool(given.pop("user", None)) != bool(given.pop("password", None)):
        raise typer.BadParameter("give both --user and --password")
    handler = logging.StreamHandler()
    handler.setFormatter(HidingFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    tidecast.serve(
        **given,
        users={user: password} if user and password else None,
        ready=lambda url: print(f"tidecast listens at {url}", flush=True),
    )


conformance_app = typer.Typer(
    help="Test your own consumer of TiCDC's topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(conformance_app, name="conformance")
Kit = Annotated[str, typer.Argument(metavar="DIR", help="The kit's folder.")]


@conformance_app.command("write")
def write_conformance(folder: Kit) -> None:
    """Write the test kit to an empty folder.

    The kit has cases, messages, schemas and expected answers. Answer the cases in cases.jsonl, then run check.
    """
    from tidecast import conformance

    cases = conformance.write(folder)
    print(f"{len(cases)} cases in {folder}: answer those in cases.jsonl")


@conformance_app.command("check")
def check_conformance(
    folder: Kit,
    results: Annotated[str, typer.Argument(metavar="RESULTS", help="The file with your answers, as JSON Lines.")],
    as_json: Json = False,
) -> None:
    """Check your answers, and exit with 1 if any is wrong.

    Prints how many answers are right for each feature. Exits with 1 if there are no answers.
    """
    from tidecast import conformance

    report = conformance.check(folder, results)
    _show.conformance(report, as_json)
    if report.failed or not report.answered:
        raise typer.Exit(MISMATCH)


@app.command(
    "cli",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def cdc_cli(context: typer.Context) -> None:
    """Manage changefeeds with the commands of `cdc cli`."""
    from tidecast.cli._cdc import cdc  # a client of its own, which no other command needs

    raise typer.Exit(cdc(context.args))


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)
