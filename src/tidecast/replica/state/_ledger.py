"""The ledger: a table with a row for each batch, of what it brought and which version of each table it made."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import ConfigError
from tidecast.replica._report import COUNTS, PROOF, Replicated, TableReport
from tidecast.replica.targets import Target, TargetTable, parse_target
from tidecast.spark import small_table
from tidecast.storage import AnyPath, entry, make_folder, replace_file, storage_path

_TIMES = ("first_commit_ts", "last_commit_ts")
_NUMBERS = pa.map_(pa.string(), pa.int64())
_TABLE = pa.struct(
    [
        ("database", pa.string()),
        ("table", pa.string()),
        ("version", pa.int64()),
        *((name, pa.int64()) for name in (*COUNTS, *_TIMES)),
        ("checksums", _NUMBERS),
        ("unrepresentable", _NUMBERS),
        *((name, pa.int64()) for name in PROOF),
    ]
)
_COLUMNS = {
    "source": pa.string(),
    "checkpoint": pa.string(),
    "batch": pa.int64(),
    "applied_at": pa.timestamp("us", "UTC"),
    "offsets": _NUMBERS,
    "resolved_ts": pa.int64(),
    "has_commit_ts": pa.bool_(),
    "begun_ts": pa.int64(),
    "lost": pa.string(),
    "dead_letters": _NUMBERS,
    "tables": pa.list_(_TABLE),
}

_SOURCES, _CHECKPOINTS = "_sources", "_checkpoints"
"""Folders beside the ledger's files; their names hide them from those who remove files."""

_LATER = {"checkpoint": "string", "has_commit_ts": "boolean", "begun_ts": "bigint", "lost": "string"}
"""Columns that a ledger of an older version lacks."""


@dataclass(frozen=True)
class AppliedBatch:
    """A batch of a source: its number in a checkpoint, the ends of what it read, and the resolved-ts it came to.

    `offsets` has those ends that it moved, by `topic/partition` or file. `has_commit_ts`: see `Events`. No schema
    change of this batch, and nothing of earlier attempts at it, lies above `begun_ts`. `lost` says which messages went
    before they were read.
    """

    source: str
    checkpoint: str
    number: int
    offsets: Mapping[str, int]
    resolved_ts: int | None
    has_commit_ts: bool
    begun_ts: int | None = None
    lost: str | None = None


def place_of(spark: SparkSession, to: str, source: str) -> AnyPath:
    """Return a folder that is held while a source is applied to the tables in `to`.

    Of a catalog it is one in the ledger's, which is made for it: all runs find that, wherever they run. Raises
    ConfigError where the ledger lies on no storage that is known here.
    """
    target = parse_target(to)
    name = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()  # a name may be too long for a folder
    if target.folder is not None:
        return target.folder / "_tidecast" / "sources" / name
    ledger = target.ledger(spark)
    if not ledger.exists():
        ledger.add_rows(small_table(spark, [], _COLUMNS), "no batch")
    return storage_path(ledger.location(), "--to") / _SOURCES / name


def write_ledger(spark: SparkSession, to: str, batch: AppliedBatch, applied: Replicated) -> None:
    """Add the row of a batch that has been applied to the tables in `to`, and is not committed yet.

    A batch that is applied once more, after a crash, has a row for each time. The table `_tidecast/batches` beside the
    others has these columns:

    - `source`, `checkpoint`, `batch`, `applied_at`, `offsets`, `resolved_ts`, `has_commit_ts`, `begun_ts`, `lost`;
    - `dead_letters`, a number for each reason;
    - `tables`, for each that had changes: `database`, `table`, `version` (the table's newest one afterwards), the
      counts of `TableReport`, the lowest and the highest commit-ts, `checksums` and `unrepresentable`. The last three
      are the table's row count, row hash and column hash.
    """
    target = parse_target(to)
    tables = [_row(spark, target, table) for table in applied.tables]
    now = dt.datetime.now(dt.UTC)
    ends, dead_letters = list(batch.offsets.items()), list(applied.dead_letters.items())
    reached = (ends, batch.resolved_ts, batch.has_commit_ts, batch.begun_ts, batch.lost)
    row = (batch.source, batch.checkpoint, batch.number, now, *reached, dead_letters, tables)
    frame = small_table(spark, [row], _COLUMNS).coalesce(1)
    place = target.ledger(spark)
    place.add_rows(frame, f"batch {batch.number}")
    if batch.number == 1:
        _note_checkpoint(place, batch.checkpoint)


def check_applied(spark: SparkSession, to: str, checkpoint: str) -> None:
    """Raise ConfigError where the ledger of `to` has no batch of a checkpoint: its tables lack what that has applied.

    A ledger that is older than the column `checkpoint` tells nothing. A file in its folder tells the same as its rows,
    which take Spark four jobs to look through.
    """
    ledger = parse_target(to).ledger(spark, make_database=False)
    if ledger.exists():
        noted = _of_checkpoint(ledger, checkpoint)
        if noted is not None and entry(noted) is not None:
            return
        batches = ledger.read()
        if "checkpoint" not in batches.columns:
            return
        if not batches.where(F.col("checkpoint") == checkpoint).isEmpty():
            _note_checkpoint(ledger, checkpoint)
            return
    raise ConfigError(
        "the checkpoint goes on after batches that were applied to other tables, or these are gone",
        where=to,
        hint="name the tables that it was used with, or a new checkpoint, to apply the topic from its beginning",
    )


def _note_checkpoint(ledger: TargetTable, checkpoint: str) -> None:
    if noted := _of_checkpoint(ledger, checkpoint):
        make_folder(noted.parent)
        replace_file(noted, b"")


def _of_checkpoint(ledger: TargetTable, checkpoint: str) -> AnyPath | None:
    """Return the file that says that a ledger has batches of a checkpoint; None for one in a catalog, or of none."""
    return ledger.path / _CHECKPOINTS / checkpoint if ledger.path is not None and checkpoint else None


def read_ledger(spark: SparkSession, target: Target, to: str) -> DataFrame:
    """Return the batches in a target's ledger; `source` is what its checkpoint is called by the newest of its batches.

    Raises ConfigError where there is no ledger.
    """
    ledger = target.ledger(spark, make_database=False)
    if not ledger.exists():
        hint = "replicate with --checkpoint writes it"
        raise ConfigError("there is no ledger of batches beside the tables", where=to, hint=hint)
    batches = ledger.read()
    lacking = {name: kind for name, kind in _LATER.items() if name not in batches.columns}
    batches = batches.withColumns({name: F.lit(None).cast(kind) for name, kind in lacking.items()})
    # A checkpoint is one source, whose brokers, or which topics it has, may change.
    of_checkpoint = F.coalesce(F.nullif("checkpoint", F.lit("")), "source")
    return batches.withColumn("source", F.max_by("source", "applied_at").over(Window.partitionBy(of_checkpoint)))


def _row(spark: SparkSession, target: Target, table: TableReport) -> dict[str, object]:
    taken = table.upserted or table.deleted or table.unchanged or table.row_count is not None
    place = target.table(spark, table.database, table.table, make_database=False) if taken else None
    return {
        "database": table.database,
        "table": table.table,
        "version": place.version() if place else None,
        **{name: getattr(table, name) for name in (*COUNTS, *_TIMES, *PROOF)},
        "checksums": list(table.checksums.items()),
        "unrepresentable": list(table.unrepresentable.items()),
    }
