"""An Iceberg table: format version 2, in which changed rows are position deletes and new files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast.replica.targets._table import KEY, OURS, TargetTable
from tidecast.replica.targets.iceberg._names import shown_name, stored_name
from tidecast.spark import sql_name, sql_text

_NEW: Mapping[str, str] = {
    "format-version": "2",
    **dict.fromkeys(("write.merge.mode", "write.update.mode", "write.delete.mode"), "merge-on-read"),
    "write.metadata.delete-after-commit.enabled": "true",  # each commit leaves a file of all the metadata
    "history.expire.max-snapshot-age-ms": str(7 * 24 * 3_600_000),
}
_WRITES = ("append", "overwrite", "delete")  # and not `replace`, which compacts
_NOTE, _COMPACTED, _MADE = "tidecast.appended", "tidecast.compacted", "tidecast.made"
_EXPIRE_AFTER = 20
"""So many compactions, one clean-up."""

_SIZES: Mapping[str, str] = {"target-file-size-bytes": str(128 << 20), "min-input-files": "2"}


@dataclass(frozen=True)
class IcebergTarget(TargetTable):
    """One Iceberg table of a `catalog`."""

    catalog: str = ""

    @property
    def counts_versions(self) -> bool:
        return False  # a snapshot's id is any number, and in no other table

    def exists(self) -> bool:
        if not super().exists():
            return False
        self.spark.sql(f"REFRESH TABLE {self.name}")  # its catalog may remember what another program has changed since
        return True

    def version(self) -> int | None:
        snapshot = self._properties().get("current-snapshot-id", "none") if self.exists() else "none"
        return None if snapshot == "none" else int(snapshot)

    def written_since(self, version: int) -> bool:
        snapshots = self._metadata("snapshots")
        before = snapshots.where(F.col("snapshot_id") == version).select(F.col("committed_at").alias("before"))
        if before.first() is None:
            return True  # it was the newest one, and is no longer there: others came
        later = snapshots.join(before, F.col("committed_at") > F.col("before"))
        return later.where(F.col("operation").isin(*_WRITES)).first() is not None

    def made(self) -> str | None:
        return self._properties().get(_MADE)

    def made_anew_since(self, version: int, made: str | None) -> bool:
        return not self.exists() or self.made() != made

    def read(self) -> DataFrame:
        rows = super().read()
        return _renamed(rows, list(map(shown_name, rows.columns)))

    def location(self) -> str:
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").where("col_name = 'Location'")
        return str(_only(described.select("data_type"))[0])

    def stored(self, name: str) -> str:
        return stored_name(name)

    def create(
        self, rows: DataFrame, key: tuple[str, ...], notes: Mapping[str, str], *, appended: bool = False
    ) -> None:
        writer = self._stored(rows).writeTo(self.name).using("iceberg")
        for name, value in {**_NEW, **_hidden({KEY: json.dumps(key), _MADE: uuid4().hex, **notes})}.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def append(self, rows: DataFrame, note: str) -> None:
        # Whoever expires snapshots removes the note of one; a property stays. Where this ends before that is set, the
        # snapshot is the newest one, which stays.
        before = self._noted()
        note = f"{int(before.partition(' ')[0]) + 1 if before else 0:020} {note}"
        self._write(rows, note)
        self.remember({_NOTE: note})

    def _add_rows(self, rows: DataFrame, note: str) -> None:
        there = self.read().columns
        if lacking := {field.name: field.dataType for field in rows.schema.fields if field.name not in there}:
            self.add(lacking)
        self._write(rows, note)

    def _write(self, rows: DataFrame, note: str) -> None:
        self._stored(rows).writeTo(self.name).option(f"snapshot-property.{_NOTE}", note).append()

    def note(self, beginning: str) -> str | None:
        note = (self._noted() or "").partition(" ")[2]
        return note if note.startswith(beginning) else None

    def _noted(self) -> str | None:
        """Return the newest note of those that led to the table's present rows, after its number."""
        led = self._metadata("history").where("is_current_ancestor")
        snapshots = self._metadata("snapshots").join(led, "snapshot_id", "left_semi")
        newest = _only(snapshots.agg(F.max(F.col("summary")[_NOTE])))[0]
        return newest or self._properties().get(_NOTE)

    def widens(self, old: Mapping[str, T.DataType], new: Mapping[str, T.DataType]) -> bool:
        return all(is_promotion(old[name], kind) for name, kind in new.items())

    def rewrite(self, rows: DataFrame) -> None:
        writer = self._stored(rows).writeTo(self.name).using("iceberg")
        if note := self._noted():  # no snapshot before leads to the new rows
            writer = writer.option(f"snapshot-property.{_NOTE}", note)
        writer.replace()

    def remember(self, notes: Mapping[str, str]) -> None:
        super().remember(_hidden(notes))

    def compact(self, every: int) -> None:
        times, last = map(int, self._properties().get(_COMPACTED, "0 0").split())
        if self._sequence_number() - last < every:
            return
        self._call("rewrite_data_files", _SIZES)
        self._call("rewrite_position_delete_files", _SIZES)
        times += 1
        if times % _EXPIRE_AFTER == 0:
            self._call("expire_snapshots")
        self.remember({_COMPACTED: f"{times} {self._sequence_number()}"})

    def _call(self, procedure: str, options: Mapping[str, str] | None = None) -> None:
        """Call a procedure of the catalog on the table."""
        catalog = sql_name(self.catalog)
        table = f"table => {sql_text(self.name.removeprefix(f'{catalog}.'))}"
        pairs = ", ".join(f"'{name}', '{value}'" for name, value in (options or {}).items())
        told = f", options => map({pairs})" if pairs else ""
        self.spark.sql(f"CALL {catalog}.system.{procedure}({table}{told})").collect()

    def _sequence_number(self) -> int:
        """Return the number of the newest snapshot, counted from the first one."""
        entries = self._metadata("metadata_log_entries")
        return _only(entries.agg(F.max("latest_sequence_number")))[0] or 0

    def _metadata(self, name: str) -> DataFrame:
        return self.spark.table(f"{self.name}.{name}")

    def _stored(self, rows: DataFrame) -> DataFrame:
        return _renamed(rows, list(map(stored_name, rows.columns)))

    def _properties(self) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return {row["key"]: _shown(row["key"], row["value"]) for row in rows}


def is_promotion(old: T.DataType, new: T.DataType) -> bool:
    """Tell whether Iceberg can give a column a wider type without a new file.

    Source: Other documents, Iceberg's type promotion.
    """
    if isinstance(old, T.DecimalType) and isinstance(new, T.DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return (old, new) in _PROMOTIONS


_PROMOTIONS = [(T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType())]


def _renamed(rows: DataFrame, names: list[str]) -> DataFrame:
    return rows if rows.columns == names else rows.toDF(*names)


def _hidden(notes: Mapping[str, str]) -> dict[str, str]:
    """Return our properties as Spark shows them whatever they say: it hides values in which it sees a URL or a secret.

    A column's name may be `url` or `password`.
    """
    return {name: value.encode().hex() if name.startswith(OURS) else value for name, value in notes.items()}


def _shown(name: str, value: str) -> str:
    """Undo `_hidden`."""
    if not name.startswith(OURS):
        return value
    try:
        return bytes.fromhex(value).decode()
    except ValueError:
        hint = "spark.sql.redaction.options.regex and spark.redaction.regex must not match its name"
        raise ConfigError(f"Spark does not show the table's property {name}", hint=hint) from None


def _only(frame: DataFrame) -> Row:
    row = frame.first()
    assert row is not None
    return row
