"""A database of MySQL or TiDB as a source: each of its rows as an insert, as it is now or was at one time.

The server shows every value as text, or in hexadecimal, so that no driver's types have a say. Spark reads it by JDBC.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import SecretStr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.utils import is_remote

from tidecast._errors import ConfigError, TerminalError, TidecastError, Unreachable, root_cause
from tidecast._uri import hide, redact_uri
from tidecast.model import (
    CHECKSUM,
    RECORD,
    Column,
    DataType,
    Events,
    Index,
    Kind,
    Op,
    Reason,
    TableChanges,
    TableSchema,
    bit_width,
    row_type,
)
from tidecast.runtime import MYSQL_JARS, fetch_jars
from tidecast.spark import mapped, sql_name
from tidecast.values import BYTES, TEXT, for_spark, from_text, refused
from tidecast.values import row_type as arrow_row_type

DATABASE_SCHEMES = ("mysql", "tidb", "mysql+ssl", "tidb+ssl")
_PORTS = {"mysql": 3306, "tidb": 4000}
_ROWS_OF_A_PART, _MAX_PARTS, _FETCH = 200_000, 256, 5_000
_CAUSES: Sequence[tuple[re.Pattern[str], type[TidecastError], str]] = (
    (re.compile("Access denied|Unknown database|denied to user", re.I), ConfigError, "the server refuses"),
    (re.compile("fail to connect|connection refused|UnknownHost|timed out", re.I), Unreachable, "no answer"),
    (re.compile(r"java\.sql\."), TerminalError, "the database cannot be read"),
)
_CLASSES = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")


@dataclass(frozen=True)
class Database:
    """A database, who asks for it, and the commit-ts as of which TiDB shows it, None for now."""

    uri: str
    host: str
    port: int
    name: str
    user: str
    password: SecretStr
    tls: bool
    ca: str = ""
    as_of: int | None = None

    @property
    def where(self) -> str:
        """The name of it in errors, without its secrets."""
        return redact_uri(self.uri)


def parse_database(uri: str, as_of: int | None = None) -> Database:
    """Return what a URI `mysql://user:password@host:port/database` says. Raises ConfigError for one that is none.

    With `mysql+ssl` or `tidb+ssl` the server's certificate is checked, against the authority in the file `ca` where
    that parameter is given.
    """

    def wrong(why: str) -> ConfigError:
        hint = "write mysql://user:password@host:3306/database, with %40 for @ in a password"
        return ConfigError(why, where=redact_uri(uri), hint=hint)

    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong("this is no URI of a database") from None
    if parts.scheme not in DATABASE_SCHEMES or not host or not parts.username:
        raise wrong("this is no URI of a database")
    name, params = unquote(parts.path.strip("/")), dict(parse_qsl(parts.query, keep_blank_values=True))
    if not name or "/" in name:
        raise wrong("this names no database")
    if unknown := [param for param in params if param != "ca"]:
        raise wrong(f"unknown parameter {unknown[0]}")
    kind, _, tls = parts.scheme.partition("+")
    if "ca" in params and not tls:
        raise wrong(f"ca is for {kind}+ssl")
    password = SecretStr(unquote(parts.password or ""))
    user, ca = unquote(parts.username), params.get("ca", "")
    return Database(uri, host, port or _PORTS[kind], name, user, password, bool(tls), ca, as_of)


def read_database(spark: SparkSession, database: Database) -> Events:
    """Return the rows of each table of a database as inserts; views are left out.

    Raises ConfigError where the server refuses the user or the database, or `as_of` where it is no TiDB, and
    Unreachable where it does not answer.
    """
    _add_driver(spark)
    with database_errors(database):
        server = _Server(spark, database)
        (version,) = server.query("SELECT CAST(VERSION() AS CHAR) AS version", at_now=True)
        if database.as_of is not None and "TiDB" not in version["version"]:
            raise ConfigError("--as-of is for TiDB, and this is another server", where=database.where)
        described = server.described()
        tables = tuple(server.changes(schema, rows) for schema, rows in described)
    nothing = spark.createDataFrame([], RECORD).selectExpr("*", "'' AS reason", "'' AS detail")
    return Events(tables, nothing, position="commit_ts", has_commit_ts=True, versions_by_time=True)


@contextmanager
def database_errors(database: Database) -> Iterator[None]:
    """Turn what Spark raises while it reads a database into the errors of tidecast."""
    try:
        yield
    except TidecastError:
        raise
    except Exception as error:
        cause, secret = " ".join(root_cause(error).split()), database.password.get_secret_value()
        shown = _CLASSES.sub("", hide(cause, [secret]))
        for words, kind, what in _CAUSES:
            if words.search(cause):
                raise kind(f"{what}: {shown}", where=database.where) from None
        raise


def _add_driver(spark: SparkSession) -> None:
    """Give a session the driver; a Spark Connect server has to have it."""
    if not is_remote():
        for jar in fetch_jars(MYSQL_JARS):
            spark.sql(f"ADD JAR '{jar}'")


@dataclass(frozen=True)
class _Server:
    spark: SparkSession
    database: Database
    _options: Mapping[str, str] = field(default_factory=dict)

    def query(self, query: str, *, at_now: bool = False) -> list[Row]:
        """Return the rows of a query about the database."""
        return self._frame(query, at_now=at_now).collect()

    def _frame(self, query: str, predicates: Sequence[str] = (), *, at_now: bool = False) -> DataFrame:
        it = self.database
        host = f"[{it.host}]" if ":" in it.host else it.host
        # The scheme lets Spark write names as MySQL reads them.
        url = f"jdbc:mysql://{host}:{it.port}/{quote(it.name)}?permitMysqlScheme=true"
        if it.tls:
            url += "&sslMode=verify-full" + (f"&serverSslCert={quote(it.ca)}" if it.ca else "")
        else:  # MySQL 8 asks for it, as without TLS a password is sent under the server's key
            url += "&allowPublicKeyRetrieval=true"
        start = "SET time_zone = '+00:00', sql_mode = ''"
        if it.as_of is not None and not at_now:
            start += f", tidb_snapshot = '{it.as_of}'"
        properties = {
            "driver": "org.mariadb.jdbc.Driver",
            "user": it.user,
            "password": it.password.get_secret_value(),
            "sessionInitStatement": start,
            "fetchsize": str(_FETCH),
            "pushDownPredicate": "false",  # the server would compare text by its collation
        }
        table = f"({query}) AS `of_tidecast`"
        if predicates:
            return self.spark.read.jdbc(url, table, predicates=list(predicates), properties=properties)
        return self.spark.read.jdbc(url, table, properties=properties)

    def described(self) -> list[tuple[TableSchema, int]]:
        """Return each table, and about how many rows it has."""
        of_schema = f"t.TABLE_SCHEMA = {_text(self.database.name)}"
        names = ("TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "COLUMN_TYPE", "CHARACTER_SET_NAME", "IS_NULLABLE", "EXTRA")
        numbers = ("ORDINAL_POSITION", "CHARACTER_MAXIMUM_LENGTH", "NUMERIC_PRECISION", "NUMERIC_SCALE")
        listed = [f"CAST(c.{n} AS CHAR) AS {n.lower()}" for n in (*names, *numbers, "DATETIME_PRECISION")]
        columns = self.query(
            f"SELECT {', '.join(listed)}, CAST(t.TABLE_ROWS AS CHAR) AS table_rows FROM information_schema.COLUMNS c "
            "JOIN information_schema.TABLES t ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME "
            f"WHERE {of_schema} AND t.TABLE_TYPE = 'BASE TABLE'"
        )
        listed = [
            f"CAST(t.{n} AS CHAR) AS {n.lower()}" for n in ("TABLE_NAME", "INDEX_NAME", "COLUMN_NAME", "NULLABLE")
        ]
        listed.append("CAST(t.SEQ_IN_INDEX AS CHAR) AS seq_in_index")
        indexes = self.query(
            f"SELECT {', '.join(listed)} FROM information_schema.STATISTICS t WHERE {of_schema} AND t.NON_UNIQUE = 0"
        )
        by_table, of_indexes = defaultdict[str, list[Row]](list), defaultdict[tuple[str, str], list[Row]](list)
        for row in sorted(columns, key=lambda row: int(row["ordinal_position"])):
            by_table[row["table_name"]].append(row)
        for row in sorted(indexes, key=lambda row: int(row["seq_in_index"])):
            of_indexes[row["table_name"], row["index_name"]].append(row)
        found = []
        for table, rows in sorted(by_table.items()):
            unique = tuple(_index(name, parts) for (of, name), parts in of_indexes.items() if of == table)
            usable = tuple(index for index in unique if index)
            schema = TableSchema(self.database.name, table, 0, 0, tuple(map(_column, rows)), usable)
            found.append((schema, int(rows[0]["table_rows"] or 0)))
        return found

    def changes(self, schema: TableSchema, rows: int) -> TableChanges:
        """Return the rows of a table as inserts, read in parts of its key where there are many."""
        shown = [f"{_shown(c)} AS {sql_name(f'c{n}')}" for n, c in enumerate(schema.columns)]
        key = schema.column(schema.handle_key[0]) if schema.handle_key else None
        whole = key is not None and key.data_type.kind is Kind.INTEGER
        place = f"{sql_name(schema.database)}.{sql_name(schema.table)}"
        predicates: Sequence[str] = ()
        if key is not None and whole and rows > _ROWS_OF_A_PART:
            shown.append(f"{sql_name(key.name)} AS `k`")
            predicates = self._parts(place, key.name, min(rows // _ROWS_OF_A_PART + 1, _MAX_PARTS))
        texts = self._frame(f"SELECT {', '.join(shown)} FROM {place}", predicates)
        return TableChanges(schema, _inserts(schema, texts, self.database.where), rows, 0, 0, shows_before=False)

    def _parts(self, place: str, key: str, number: int) -> list[str]:
        (ends,) = self.query(
            f"SELECT CAST(MIN({sql_name(key)}) AS CHAR) AS low, CAST(MAX({sql_name(key)}) AS CHAR) AS high FROM {place}"
        )
        if ends["low"] is None:
            return []
        low, high = int(ends["low"]), int(ends["high"])
        bounds = sorted({low + (high - low) * n // number for n in range(1, number)} - {low})
        starts: list[int | None] = [None, *bounds]
        pairs = zip(starts, [*bounds, None], strict=True)
        clauses = ([f"k >= {a}"] * (a is not None) + [f"k < {b}"] * (b is not None) for a, b in pairs)
        return [" AND ".join(clause) or "1 = 1" for clause in clauses]


def _index(name: str, parts: Sequence[Row]) -> Index | None:
    """Return a unique index of columns, None for one of expressions."""
    if any(part["column_name"] is None for part in parts):
        return None
    nullable = any(part["nullable"] == "YES" for part in parts)
    return Index(name, True, name == "PRIMARY", nullable, tuple(part["column_name"] for part in parts))


def _column(row: Row) -> Column:
    kind = row["data_type"].lower()
    precision, scale = int(row["numeric_precision"] or 0), int(row["numeric_scale"] or 0)
    data_type = DataType(
        kind,
        row["character_set_name"] or "binary",
        length=precision or int(row["character_maximum_length"] or 0),
        decimal=scale or int(row["datetime_precision"] or 0),
        unsigned="unsigned" in row["column_type"].lower(),
    )
    virtual = "VIRTUAL" in (row["extra"] or "").upper()
    return Column(row["column_name"], data_type, row["is_nullable"] == "YES", default_known=False, virtual=virtual)


def _shown(column: Column) -> str:
    """Return the SQL by which the server shows a column's value."""
    if column.virtual:
        return "CAST(NULL AS CHAR)"  # a bare one has a type of its own, which not every driver can read
    return _SHOWN.get(column.data_type.kind, "CAST({0} AS CHAR)").format(sql_name(column.name))


_SHOWN: Mapping[Kind, str] = {
    Kind.BINARY: "HEX({0})",
    Kind.BIT: "HEX({0} + 0)",
    Kind.FLOAT: "CAST({0} + 0e0 AS CHAR)",  # a float shows six digits only
    Kind.TEXT: "CONVERT({0} USING utf8mb4)",
}
"""Of other kinds the text."""


_READERS: Mapping[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.BINARY: lambda _, text: _bytes(text, 0),
    Kind.BIT: lambda data_type, text: _bytes(text, 2 * bit_width(data_type)),
    **dict.fromkeys((Kind.INTEGER, Kind.YEAR), lambda data_type, text: from_text(data_type, _without_zeros(text))),
    Kind.ENUM: lambda _, text: text,
    Kind.SET: lambda _, text: text,
}
"""How what the server shows is read; of other kinds it is the model's text."""


def _without_zeros(text: pa.Array) -> pa.Array:
    """Return whole numbers without the zeros in front that ZEROFILL and YEAR show."""
    return pc.replace_substring_regex(text, "^(-?)0+([0-9])", r"\1\2")


def _bytes(text: pa.Array, digits: int) -> pa.Array:
    return pa.array([None if t is None else bytes.fromhex(t.rjust(digits, "0")) for t in text.to_pylist()], BYTES)


def _rows(schema: TableSchema, shown: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield `data` and `reason` of the rows that the server shows: columns of text, in the table's order."""
    values, lost = [], np.zeros(shown.num_rows, bool)
    # Behind the table's columns may be the key's, by which the parts are chosen.
    for column, of in zip(schema.columns, shown.columns, strict=False):
        text = of.cast(TEXT)
        value = _READERS.get(column.data_type.kind, from_text)(column.data_type, text)
        unread = refused(text, value)
        lost = lost if unread is None else lost | unread
        values.append(value)
    data = pa.StructArray.from_arrays(values, fields=[*arrow_row_type(schema)])
    reason = pc.if_else(pa.array(lost), str(Reason.BAD_VALUE), pa.scalar(None, pa.string()))
    yield pa.RecordBatch.from_arrays([for_spark(data), reason], names=["data", "reason"])


def _inserts(schema: TableSchema, texts: DataFrame, where: str) -> DataFrame:
    """Return the frame of `TableChanges`.

    Rows with a key are all of one commit-ts; rows without one have none, so that equal ones are all there.
    """
    types = row_type(schema)
    read = T.StructType([T.StructField("data", types), T.StructField("reason", T.StringType())])
    record = {f.name: F.lit(None).cast(f.dataType) for f in RECORD.fields}
    record |= {"topic": F.lit(where), "partition": F.lit(0), "offset": F.monotonically_increasing_id()}
    more = {
        "op": F.lit(str(Op.CREATE)),
        "commit_ts": F.lit(0 if schema.handle_key else None).cast("bigint"),
        "table_id": F.lit(None).cast("bigint"),
        "old": F.lit(None).cast(types),
        "data": F.col("data"),
        "checksum": F.lit(None).cast(CHECKSUM),
        "reason": F.col("reason"),
        "detail": F.lit(None).cast("string"),
    }
    rows = mapped(texts, partial(_rows, schema), read)
    return rows.select(*(value.alias(name) for name, value in {**record, **more}.items()))


def _text(value: str) -> str:
    """Return a text as MySQL's literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
