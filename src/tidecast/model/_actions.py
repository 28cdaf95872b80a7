"""The kind of a schema change, by its statement: TiDB's action number and TiCDC's name of the event."""

from __future__ import annotations

from typing import NamedTuple

from tidecast.model._ddl_parser import Statement, read_statement


class Action(NamedTuple):
    """A kind of schema change: TiDB's number of the DDL action, and its name in TiCDC's event filters."""

    number: int
    event: str

    @property
    def type(self) -> str:
        """TiCDC's type of such a schema change, as Simple names it."""
        return next((name for name, numbers in _TYPES.items() if self.number in numbers), "QUERY")


_TYPES = {
    "CREATE": (3,),
    "RENAME": (14,),
    "CINDEX": (7, 9, 32),
    "DINDEX": (8, 10, 33),
    "ERASE": (4,),
    "TRUNCATE": (11,),
    "ALTER": (5, 6, 12, 13, 15, 17, 18, 19, 20, 22, 23, 41, 42, 61, 64, 71, 72),
}
"""The numbers of each type; all others are `QUERY`."""
UNKNOWN = Action(0, "")
MULTI_SCHEMA_CHANGE = Action(61, "multi schema change")

_CREATE_INDEX, _DROP_INDEX = Action(7, "create index"), Action(8, "drop index")
_DROP_PRIMARY_KEY = Action(33, "drop primary key")
_ADD_FOREIGN_KEY = Action(9, "add foreign key")
_MODIFY_COLUMN = Action(12, "modify column")
_REORGANIZE = Action(64, "reorganize table partition")
_CHARSET = Action(22, "modify table charset and collate")
_INDEXES = {"FULLTEXT": Action(230, ""), "HYBRID": Action(231, "")}
"""Kinds of indexes that have actions of their own, which event filters cannot name."""
_RENAME_TABLE, _RECOVER_TABLE = Action(14, "rename table"), Action(25, "recover table")

_STATEMENTS = {
    ("CREATE", "DATABASE"): Action(1, "create schema"),
    ("DROP", "DATABASE"): Action(2, "drop schema"),
    ("ALTER", "DATABASE"): Action(26, "modify schema charset and collate"),
    ("CREATE", "TABLE"): Action(3, "create table"),
    ("DROP", "TABLE"): Action(4, "drop table"),
    ("CREATE", "VIEW"): Action(21, "create view"),
    ("DROP", "VIEW"): Action(24, "drop view"),
    ("TRUNCATE", "TABLE"): Action(11, "truncate table"),
    ("RENAME", "TABLE"): _RENAME_TABLE,
    ("RECOVER", "TABLE"): _RECOVER_TABLE,
    ("FLASHBACK", "TABLE"): _RECOVER_TABLE,
    ("CREATE", "INDEX"): _CREATE_INDEX,
    ("DROP", "INDEX"): _DROP_INDEX,
}
_REORGANIZING = (
    ("REORGANIZE", "PARTITION"),
    ("COALESCE", "PARTITION"),
    ("ADD", "PARTITIONS"),
    ("SPLIT", "MAXVALUE"),
    ("MERGE", "FIRST"),
)
_CLAUSES: dict[tuple[str, ...], Action] = {
    ("ADD", "PRIMARY"): Action(32, "add primary key"),
    ("DROP", "PRIMARY"): _DROP_PRIMARY_KEY,
    ("ADD", "FULLTEXT"): _INDEXES["FULLTEXT"],
    ("ADD", "FOREIGN"): MULTI_SCHEMA_CHANGE,
    ("DROP", "FOREIGN"): Action(10, "drop foreign key"),
    **{("ADD", what): _CREATE_INDEX for what in ("UNIQUE", "INDEX", "KEY")},
    **{("DROP", what): _DROP_INDEX for what in ("INDEX", "KEY")},
    **{("RENAME", what): Action(18, "rename index") for what in ("INDEX", "KEY")},
    ("ALTER", "INDEX"): Action(41, "alter index visibility"),
    **{(verb, "PARTITION"): Action(19, "add table partition") for verb in ("ADD", "LAST")},
    **{(verb, "PARTITION"): Action(20, "drop table partition") for verb in ("DROP", "FIRST")},
    ("TRUNCATE", "PARTITION"): Action(23, "truncate table partition"),
    **dict.fromkeys(_REORGANIZING, _REORGANIZE),
    ("EXCHANGE", "PARTITION"): Action(42, "exchange table partition"),
    ("REMOVE", "PARTITIONING"): Action(72, "remove table partitioning"),
    ("PARTITION", "BY"): Action(71, "alter table partitioning"),
    ("ADD", "COLUMN"): Action(5, "add column"),
    ("DROP", "COLUMN"): Action(6, "drop column"),
    **{(verb, "COLUMN"): _MODIFY_COLUMN for verb in ("MODIFY", "CHANGE", "RENAME")},
    ("ALTER", "COLUMN"): Action(15, "set default value"),
    ("REMOVE", "TTL"): Action(67, "alter ttl remove"),
    **{(option,): Action(65, "alter ttl info") for option in ("TTL", "TTL_ENABLE", "TTL_JOB_INTERVAL")},
    **{(option,): Action(13, "rebase auto id") for option in ("FORCE", "AUTO_INCREMENT")},
    ("COMMENT",): Action(17, "modify table comment"),
    **{(option,): _CHARSET for option in ("CONVERT", "CHARSET", "COLLATE")},
    ("RENAME",): _RENAME_TABLE,
}
"""By the words that a clause of ALTER TABLE begins with, or the first of them."""

ALTER_EVENTS = frozenset(action.event for action in _CLAUSES.values() if action.event)
"""The names of what ALTER TABLE may do."""
DDL_EVENTS = ALTER_EVENTS | {action.event for action in _STATEMENTS.values()}
"""The names of all schema changes that a statement tells."""

_OPTIONS = ("AUTO_INCREMENT", "CHARSET", "COLLATE", "COMMENT", "CONVERT", "FORCE")
_SPECIFICATIONS = ("ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "ALTER", *_OPTIONS)
"""What a further clause of ALTER TABLE begins with; another word is the next name of a list."""


def ddl_type(sql: str, number: object = None) -> str:
    """Return TiCDC's type of a statement. Its text tells it, but of some foreign keys TiDB's `number` of it alone."""
    return (_ADD_FOREIGN_KEY if number == _ADD_FOREIGN_KEY.number else ddl_action(sql)).type


def ddl_action(sql: str, kind: str = "") -> Action:
    """Return what a statement does, as far as its text tells it; the text is one that TiCDC has printed.

    `kind` is TiCDC's type of it, where a source tells it: the text of a foreign key does not say whether that makes
    an index.
    """
    statement = read_statement(sql, tidb_clauses=True)
    if statement is None:
        return UNKNOWN
    if statement.subject == "INDEX" and (kinds := {*statement.modifiers} - {"UNIQUE"}):
        return next((_INDEXES[kind] for kind in kinds if kind in _INDEXES), UNKNOWN)
    if (statement.verb, statement.subject) != ("ALTER", "TABLE"):
        return _of_index(statement, _STATEMENTS.get((statement.verb, statement.subject), UNKNOWN))
    if any(action[0] in _SPECIFICATIONS for action in statement.actions[1:]):
        return MULTI_SCHEMA_CHANGE
    if statement.actions == (("ADD", "FOREIGN"),) and kind == "CINDEX":
        return _ADD_FOREIGN_KEY
    first = statement.actions[0] if statement.actions else ()
    return _of_index(statement, _CLAUSES.get(first) or _CLAUSES.get(first[:1], UNKNOWN))


def _of_index(statement: Statement, action: Action) -> Action:
    """Return what a statement does to its index: whoever drops the index of the primary key drops that."""
    return _DROP_PRIMARY_KEY if action is _DROP_INDEX and statement.is_on_primary_key else action
