"""Where tables lie, and in which format: a folder of Delta tables, or a catalog of Delta or Iceberg tables."""

from tidecast.replica.targets._table import CONTENTS, TableState, TargetTable, key_note
from tidecast.replica.targets._target import Target, parse_target

__all__ = ["CONTENTS", "TableState", "Target", "TargetTable", "key_note", "parse_target"]
