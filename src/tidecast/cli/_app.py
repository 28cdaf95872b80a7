"""The commands: each reads its options, calls the function of the same name, and shows what that returned."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import Annotated

import typer

import tidecast
from tidecast import OnDataLoss, OnDdl, OnError, OnMismatch, OnUnrepresentable, TableMode
from tidecast.cli import _show
from tidecast.cli._exit_codes import MISMATCH
from tidecast.cli._hidden import HidingFormatter
from tidecast.cli._progress import progress
from tidecast.cli._signals import ended_by_sigterm
from tidecast.cli._spark import runs_spark

app = typer.Typer(
    name="tidecast",
    help="TiCDC's protocols on Spark: publish row changes to topics, and turn topics into verified tables.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would take [user:password@] for markup, and leave it out
    epilog="Exit codes: 0 done; 1 rows do not match their checksums, or tables what they should; 2 wrongly called; "
    "3 the work failed.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidecast {tidecast.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take what no command is needed for."""


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Where to read: kafka://host:port/topic?protocol=…, file:///dir/topic?protocol=…, or a path",
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Schema Registry: http(s)://[user:password@]host:port, glue://region/name or file:///dir."
    ),
]
SourceRegistry = Annotated[
    str | None, typer.Option(metavar="URL", help="The source's Schema Registry, where it is another one.")
]
Config = Annotated[str | None, typer.Option(metavar="FILE.toml", help="TiCDC's changefeed configuration.")]
ClusterId = Annotated[str, typer.Option(metavar="ID", help="Cluster id in Debezium messages.")]
Zone = Annotated[
    str | None, typer.Option("--tz", metavar="ZONE", help="Time zone of TIMESTAMP text. Default: the system's.")
]
DeadLetters = Annotated[str | None, typer.Option(metavar="DIR", help="Folder for messages that cannot be handled.")]
Policy = Annotated[OnError, typer.Option("--on-error", help="Set such messages aside, or stop at the first.")]
Ca = Annotated[str | None, typer.Option(metavar="FILE", help="Authority of the clients' certificates.")]
Cert = Annotated[str | None, typer.Option(metavar="FILE", help="The server's certificate.")]
CertKey = Annotated[str | None, typer.Option(metavar="FILE", help="The certificate's key.")]
_PLACE = (
    "A folder of tables or a Spark catalog, a table (folder/database/table, catalog.database.table), a topic, or "
    "mysql://user:password@host:port/database."
)
To = Annotated[
    str, typer.Option(metavar="WHERE", help="A folder (tables at WHERE/<database>/<table>) or a Spark catalog.")
]
MismatchPolicy = Annotated[
    OnMismatch,
    typer.Option(help="Set rows that do not fit their checksums aside, apply them all the same, or stop at one."),
]
Ddl = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[KIND=]POLICY",
        help="Which schema changes the tables follow, and which of them stop the run: "
        f"{', '.join(OnDdl)}; may be repeated, as in --ddl lenient --ddl truncate-table=evolve.",
    ),
]
Mode = Annotated[
    TableMode,
    typer.Option(
        help="Keep the rows as they are, deleted ones marked as such, too, each version of a row with the times "
        "that bound it, or a row for each change."
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column to add to the tables: _commit_ts or _verdict; may be repeated."),
]
UnrepresentablePolicy = Annotated[
    OnUnrepresentable,
    typer.Option(
        help="A value that a table's type cannot hold, such as a zero date, is null there; or its column keeps "
        "MySQL's text; or its row is set aside."
    ),
]
ReplicaConfig = Annotated[str | None, typer.Option(metavar="FILE.toml", help="Names of tables, and columns to mask.")]
ReplayWindow = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --checkpoint: for how long of commit-ts a key is remembered, which what TiCDC sends again sets "
        "not back. By default 24h.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
@runs_spark
def demo(
    folder: Annotated[
        str, typer.Option("--dir", metavar="DIR", help="Where to put topics and tables.")
    ] = "tidecast-demo",
    as_json: Json = False,
) -> None:
    """Go the whole way on files: every protocol, verified tables.

    A change log is published in every protocol, verified, and applied to Delta tables.
    """
    logging.getLogger("tidecast").setLevel(logging.ERROR)  # what Debezium does to values is no matter of the demo
    with progress(as_json) as step:
        result = tidecast.demo(folder, progress=step)
    _show.demo(result, as_json)


@app.command()
@runs_spark
def convert(
    source: Source,
    sink: Annotated[
        str, typer.Argument(metavar="SINK", help="Where to publish: TiCDC's sink URI, kafka://… or file:///….")
    ],
    config: Config = None,
    schema_registry: Registry = None,
    source_schema_registry: SourceRegistry = None,
    zone: Zone = None,
    cluster_id: ClusterId = "default",
    dead_letters: DeadLetters = None,
    on_error: Policy = OnError.DEAD_LETTER,
    as_json: Json = False,
) -> None:
    """Read a topic in one protocol, publish it in another.

    It is read once, up to its present end.
    """
    with progress(as_json) as step:
        result = tidecast.convert(
            source,
            sink,
            config=config,
            schema_registry=schema_registry,
            source_schema_registry=source_schema_registry,
            tz=zone,
            cluster_id=cluster_id,
            dead_letters=dead_letters,
            on_error=on_error,
            progress=step,
        )
    _show.published(result, as_json)


@app.command()
@runs_spark
def plan(
    source: Source,
    sink: Annotated[
        str,
        typer.Argument(metavar="SINK", help="Where it would be published: TiCDC's sink URI, kafka://… or file:///…."),
    ],
    config: Config = None,
    schema_registry: Registry = None,
    source_schema_registry: SourceRegistry = None,
    zone: Zone = None,
    cluster_id: ClusterId = "default",
    as_json: Json = False,
) -> None:
    """Show what convert would publish, and publish nothing.

    It shows topics, partitions, schemas, and the columns that the modes damage.
    """
    with progress(as_json) as step:
        result = tidecast.plan(
            source,
            sink,
            config=config,
            schema_registry=schema_registry,
            source_schema_registry=source_schema_registry,
            tz=zone,
            cluster_id=cluster_id,
            progress=step,
        )
    _show.planned(result, as_json)


@app.command()
@runs_spark
def verify(
    source: Source,
    schema_registry: Registry = None,
    zone: Zone = None,
    mismatches: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the mismatches, a JSON line each.")
    ] = None,
    dead_letters: DeadLetters = None,
    as_json: Json = False,
) -> None:
    """Check every row's checksum; exit 1 on a mismatch."""
    with progress(as_json) as step:
        result = tidecast.verify(
            source,
            schema_registry=schema_registry,
            tz=zone,
            mismatches=mismatches,
            dead_letters=dead_letters,
            progress=step,
        )
    _show.verified(result, as_json, source, {"--schema-registry": schema_registry, "--tz": zone})
    if not result.ok:
        raise typer.Exit(MISMATCH)


@app.command()
@runs_spark
def replicate(
    source: Source,
    to: To,
    schema_registry: Registry = None,
    zone: Zone = None,
    dead_letters: DeadLetters = None,
    on_error: Policy = OnError.DEAD_LETTER,
    on_mismatch: MismatchPolicy = OnMismatch.DEAD_LETTER,
    ddl: Ddl = None,
    mode: Mode = TableMode.CURRENT,
    metadata: Metadata = None,
    on_unrepresentable: UnrepresentablePolicy = OnUnrepresentable.NULL,
    config: ReplicaConfig = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder that keeps what was applied; the next run goes on there.")
    ] = None,
    continuous: Annotated[
        bool,
        typer.Option("--continuous/--once", help="Go on with what comes until SIGTERM, or end at the present end."),
    ] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of each Kafka partition, the most messages that --continuous takes at once."
        ),
    ] = None,
    replay_window: ReplayWindow = None,
    compact_every: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="With --checkpoint: make large files of small ones at each N-th version of a table; 0 for never. "
            "By default 50.",
        ),
    ] = None,
    resolved_only: Annotated[
        bool,
        typer.Option(
            "--resolved-only",
            help="With --checkpoint: let rows wait until a watermark covers them, so that each batch ends at one time "
            "of the source, which snapshot --as-of finds.",
        ),
    ] = False,
    on_data_loss: Annotated[
        OnDataLoss | None,
        typer.Option(
            help="With --checkpoint: stop where the topic no longer holds what follows it, which is the default, or go "
            "on with what is there."
        ),
    ] = None,
    addr: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="With --continuous: where to show a status page, and /metrics."),
    ] = None,
    ca: Ca = None,
    cert: Cert = None,
    key: CertKey = None,
    users: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help='Who may look, a line each: name = "password".')
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every row's checksum, apply a topic to tables.

    Replays and restarts change nothing in the result.
    """
    with progress(as_json) as step, ended_by_sigterm(continuous) as stop:
        result = tidecast.replicate(
            source,
            to,
            schema_registry=schema_registry,
            tz=zone,
            checkpoint=checkpoint,
            dead_letters=dead_letters,
            on_error=on_error,
            on_mismatch=on_mismatch,
            ddl=ddl or (),
            mode=mode,
            metadata=metadata or (),
            on_unrepresentable=on_unrepresentable,
            config=config,
            continuous=continuous,
            batch_size=batch_size,
            replay_window=replay_window,
            compact_every=compact_every,
            resolved_only=resolved_only,
            on_data_loss=on_data_loss,
            addr=addr,
            ca=ca,
            cert=cert,
            key=key,
            users_file=users,
            ready=lambda url: print(f"the status page is at {url}", file=sys.stderr, flush=True),
            stop=stop,
            progress=step,
        )
    _show.replicated(result, as_json)


@app.command()
@partial(runs_spark, once=False)
def prove(
    where: Annotated[
        str, typer.Argument(metavar="WHERE", help="The folder or Spark catalog that replicate was given as --to.")
    ],
    as_json: Json = False,
) -> None:
    """Check replicated tables against their ledger.

    It computes what their rows come to; exit 1 on a difference.
    """
    with progress(as_json) as step:
        result = tidecast.prove(where, progress=step)
    _show.proven(result, as_json)
    if not result.ok:
        raise typer.Exit(MISMATCH)


@app.command()
@partial(runs_spark, once=False)
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_PLACE)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, to compare with it.")],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column by which rows belong together; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="How many rows of a table to name.")] = 20,
    schema_registry: Registry = None,
    zone: Zone = None,
    ddl: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[KIND=]POLICY", help="Which schema changes the tables of a topic follow, as for replicate."
        ),
    ] = None,
    on_unrepresentable: UnrepresentablePolicy = OnUnrepresentable.NULL,
    config: ReplicaConfig = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="Of TiDB: a TSO or a time as of which it is read.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare tables, or what a topic comes to, row by row.

    It names the rows that differ; exit 1 on a difference.
    """
    with progress(as_json) as step:
        result = tidecast.compare(
            a,
            b,
            schema_registry=schema_registry,
            tz=zone,
            ddl=ddl or (),
            on_unrepresentable=on_unrepresentable,
            config=config,
            as_of=as_of,
            key=key or (),
            limit=limit,
            progress=step,
        )
    _show.compared(result, as_json)
    if not result.ok:
        raise typer.Exit(MISMATCH)


dead_letters_app = typer.Typer(help="Messages that could not be applied.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(dead_letters_app, name="dead-letters")


@dead_letters_app.command("list")
@runs_spark
def list_dead_letters(
    where: Annotated[str, typer.Argument(metavar="WHERE", help="The folder of dead letters, or replicate's --to.")],
    as_json: Json = False,
) -> None:
    """Count dead letters by topic and reason."""
    _show.dead_letters(tidecast.list_dead_letters(where), as_json)


@dead_letters_app.command("show")
@runs_spark
def show_dead_letter(
    where: Annotated[str, typer.Argument(metavar="WHERE", help="The folder of dead letters, or replicate's --to.")],
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The first of this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="P", help="The first of this partition.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="The one at this offset.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="WORD", help="The first with this reason.")] = None,
    protocol: Annotated[str | None, typer.Option(metavar="NAME", help="The protocol. Default: guessed.")] = None,
    schema_registry: Registry = None,
    zone: Zone = None,
    source: Annotated[str | None, typer.Option(metavar="URI", help="The replica's source, for the commands.")] = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="Its --checkpoint, for the commands.")] = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter, and the commands to go on with.

    It tells where it came from, why it is one, and what its message says. It takes no Spark, but for some messages.
    """
    result = tidecast.show_dead_letter(
        where,
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
        protocol=protocol,
        schema_registry=schema_registry,
        tz=zone,
    )
    options = {"--schema-registry": schema_registry, "--tz": zone}
    _show.dead_letter(result, as_json, where, source, checkpoint, options)


@dead_letters_app.command("retry")
@partial(runs_spark, once=False)
def retry_dead_letters(
    source: Source,
    to: To,
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="The checkpoint of the replica.")],
    schema_registry: Registry = None,
    zone: Zone = None,
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
            help="Leave dead letters alone whose message the topic no longer has, or apply them all the same."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Apply dead letters once more, when what was wrong is right.

    No newer row of a key is set back.
    """
    with progress(as_json) as step:
        result = tidecast.retry_dead_letters(
            source,
            to,
            checkpoint=checkpoint,
            schema_registry=schema_registry,
            tz=zone,
            dead_letters=dead_letters,
            on_mismatch=on_mismatch,
            ddl=ddl or (),
            mode=mode,
            metadata=metadata or (),
            on_unrepresentable=on_unrepresentable,
            config=config,
            replay_window=replay_window,
            on_data_loss=on_data_loss,
            progress=step,
        )
    _show.retried(result, as_json)


@app.command()
@runs_spark
def status(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="The replica's source, to ask a Kafka topic how much is to be read."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="replicate's --checkpoint; alone it takes no Spark.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="WHERE", help="replicate's --to: the ledger, schema changes, dead letters.")
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="DIR", help="With --to: the folder of dead letters, for a catalog.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell how far a replica is: offsets, backlog, lag, and more.

    That is resolved-ts, what waits, dead letters by reason, and the last schema changes.
    """
    with progress(as_json or to is None) as step:
        result = tidecast.status(source, checkpoint=checkpoint, to=to, dead_letters=dead_letters, progress=step)
    _show.status(result, as_json)


@app.command()
@runs_spark
def snapshot(
    to: Annotated[str, typer.Argument(metavar="WHERE", help="Where the tables are, as replicate's --to.")],
    as_of: Annotated[str, typer.Option("--as-of", metavar="TIME", help="A TSO, or a time such as 2026-01-31T12:00Z.")],
    as_json: Json = False,
) -> None:
    """Tell which table versions show their source at one time."""
    _show.snapshot(tidecast.snapshot(to, as_of), as_json)


@app.command()
@runs_spark
def inspect(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="Where to read: a source's URI or path.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many messages to explain.")] = 10,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Explain the last N messages instead of the first.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Only messages of this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="P", help="Only those of this partition.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only those at this offset.")] = None,
    table: Annotated[
        str | None, typer.Option(metavar="DATABASE.TABLE", help="Only those with a row of this table.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help='Only those whose row has this value, before or after its change; may be repeated. JSON, as {"id":7}, '
            "is taken, too.",
        ),
    ] = None,
    commit_ts: Annotated[
        str | None,
        typer.Option(
            metavar="TIME[..TIME]", help="Only those whose row was committed then: a TSO or a time, or a range."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with each message that comes, after the --last ones, until Ctrl-C."),
    ] = False,
    hexed: Annotated[str | None, typer.Option("--hex", metavar="MESSAGE", help="One message, in hexadecimal.")] = None,
    base64: Annotated[str | None, typer.Option("--base64", metavar="MESSAGE", help="One message, in base64.")] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="The protocol, where no URI names it. Default: guessed.")
    ] = None,
    schema_registry: Registry = None,
    zone: Zone = None,
    as_json: Json = False,
) -> None:
    """Explain messages: type, table, time, columns, checksum.

    The checksum is shown column by column. One message, given as --hex or --base64, takes no Spark.
    """
    if sum(given is not None for given in (source, hexed, base64)) != 1:
        raise typer.BadParameter("give one of SOURCE, --hex MESSAGE or --base64 MESSAGE")
    if follow and source is not None:
        if offset is not None:
            raise typer.BadParameter("--follow has no --offset: it shows what comes")
        coming = tidecast.follow(
            source,
            last=last or 0,
            topic=topic,
            partition=partition,
            table=table,
            key=key or (),
            commit_ts=commit_ts,
            protocol=protocol,
            schema_registry=schema_registry,
            tz=zone,
        )
        _show.followed(coming, as_json)
        return
    with progress(as_json) as step:
        result = tidecast.inspect(
            source,
            limit=limit,
            last=last,
            topic=topic,
            partition=partition,
            offset=offset,
            table=table,
            key=key or (),
            commit_ts=commit_ts,
            hex=hexed,
            base64=base64,
            protocol=protocol,
            schema_registry=schema_registry,
            tz=zone,
            progress=step,
        )
    _show.inspected(result, as_json)


@app.command()
@partial(runs_spark, once=False)
def server(
    source: Annotated[
        str, typer.Option(metavar="URI", help="Where changes come from: kafka://…, file:///… or a path.")
    ],
    addr: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8300",
    data_dir: Annotated[str, typer.Option(metavar="DIR", help="Where changefeeds are kept.")] = "tidecast-data",
    allow_path: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Below it changefeeds may use folders. Default: the current folder."),
    ] = None,
    allow_secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REFERENCE", help="A secret that changefeeds may refer to: env:NAME or file:/path. Default: none."
        ),
    ] = None,
    schema_registry: Registry = None,
    zone: Zone = None,
    cluster_id: ClusterId = "default",
    ca: Ca = None,
    cert: Cert = None,
    key: CertKey = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="A user who may ask.", envvar="TICDC_USER")] = None,
    password: Annotated[
        str | None, typer.Option(metavar="WORD", help="That user's password.", envvar="TICDC_PASSWORD")
    ] = None,
    users: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help='More users, a line each: name = "password".')
    ] = None,
) -> None:
    """Run changefeeds, with TiCDC's HTTP API and a status page.

    Metrics are at /metrics. It ends at SIGTERM or SIGINT.
    """
    if bool(user) != bool(password):
        raise typer.BadParameter("--user and --password go together")
    handler = logging.StreamHandler()
    handler.setFormatter(HidingFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    tidecast.serve(
        source,
        addr=addr,
        data_dir=data_dir,
        allow_path=allow_path or ["."],
        allow_secret=allow_secret or (),
        schema_registry=schema_registry,
        tz=zone,
        cluster_id=cluster_id,
        ca=ca,
        cert=cert,
        key=key,
        users={user: password} if user and password else None,
        users_file=users,
        ready=lambda url: print(f"tidecast listens at {url}", flush=True),
    )


conformance_app = typer.Typer(
    help="Test other consumers of TiCDC's topics: messages as files, answers as JSON Lines.",
    short_help="Test other consumers of TiCDC's topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(conformance_app, name="conformance")
Kit = Annotated[str, typer.Argument(metavar="DIR", help="The folder of the kit.")]


@conformance_app.command("write")
def write_conformance(folder: Kit) -> None:
    """Write the kit to an empty folder: cases, their messages, schemas, and what is expected."""
    from tidecast import conformance

    cases = conformance.write(folder)
    print(f"{len(cases)} cases in {folder}: answer those in cases.jsonl")


@conformance_app.command("check")
def check_conformance(
    folder: Kit,
    results: Annotated[str, typer.Argument(metavar="RESULTS", help="The file of answers, as JSON Lines.")],
    as_json: Json = False,
) -> None:
    """Compare answers with what is expected; exit 1 where some are wrong.

    It tells of each feature how many are right. Without any answer it ends with 1, too.
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
    """Manage a server's changefeeds, as TiCDC's `cdc cli` does."""
    from tidecast.cli._cdc import cdc  # a client of its own, which no other command needs

    raise typer.Exit(cdc(context.args))


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)
