"""tidecast: TiCDC's protocols on Spark, in both directions.

What these names stand for is imported when it is asked for: `import tidecast` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidecast._version import __version__

if TYPE_CHECKING:  # the same names as in _MODULES, for whoever reads types
    from tidecast import functions
    from tidecast._demo import Demo, DemoTable, DemoTopic, demo
    from tidecast._errors import (
        ConfigError,
        CorruptedData,
        DecodeError,
        EncodeError,
        MissingRuntime,
        RegistryError,
        SchemaRefused,
        SourceChanged,
        TableRefused,
        TerminalError,
        TidecastError,
        TransientError,
        Unreachable,
    )
    from tidecast._policy import OnDataLoss, OnDdl, OnError, OnMismatch, OnUnrepresentable, TableMode
    from tidecast.api import (
        DeadLetterCount,
        Events,
        PlaceStatus,
        ReplicaReport,
        SourceStatus,
        TableSummary,
        Verified,
        compare,
        convert,
        decode,
        list_dead_letters,
        plan,
        prove,
        read,
        replicate,
        retry_dead_letters,
        serve,
        snapshot,
        status,
        verify,
    )
    from tidecast.checksum import Verdict
    from tidecast.config import configured_source
    from tidecast.inspection import ColumnShown, Inspected, ShownLetter, follow, inspect, show_dead_letter
    from tidecast.model import (
        Bootstrap,
        Column,
        DataType,
        Ddl,
        Definition,
        Index,
        Kind,
        Op,
        Reason,
        SchemaHistory,
        Statement,
        TableChanges,
        TableSchema,
    )
    from tidecast.publish import PlannedSchema, PlannedTable, Published
    from tidecast.replica import (
        Compared,
        ComparedTable,
        ProofVerdict,
        Proven,
        ProvenTable,
        Replicated,
        Retried,
        RowDifference,
        SchemaChange,
        Snapshot,
        SourceSnapshot,
        TablePlan,
        TableReport,
        TableSnapshot,
    )
    from tidecast.runtime import configure_spark, spark_session


__all__ = [
    "Bootstrap",
    "Column",
    "ColumnShown",
    "Compared",
    "ComparedTable",
    "ConfigError",
    "CorruptedData",
    "DataType",
    "Ddl",
    "DeadLetterCount",
    "DecodeError",
    "Definition",
    "Demo",
    "DemoTable",
    "DemoTopic",
    "EncodeError",
    "Events",
    "Index",
    "Inspected",
    "Kind",
    "MissingRuntime",
    "OnDataLoss",
    "OnDdl",
    "OnError",
    "OnMismatch",
    "OnUnrepresentable",
    "Op",
    "PlaceStatus",
    "PlannedSchema",
    "PlannedTable",
    "ProofVerdict",
    "Proven",
    "ProvenTable",
    "Published",
    "Reason",
    "RegistryError",
    "ReplicaReport",
    "Replicated",
    "Retried",
    "RowDifference",
    "SchemaChange",
    "SchemaHistory",
    "SchemaRefused",
    "ShownLetter",
    "Snapshot",
    "SourceChanged",
    "SourceSnapshot",
    "SourceStatus",
    "Statement",
    "TableChanges",
    "TableMode",
    "TablePlan",
    "TableRefused",
    "TableReport",
    "TableSchema",
    "TableSnapshot",
    "TableSummary",
    "TerminalError",
    "TidecastError",
    "TransientError",
    "Unreachable",
    "Verdict",
    "Verified",
    "__version__",
    "compare",
    "configure_spark",
    "configured_source",
    "convert",
    "decode",
    "demo",
    "follow",
    "functions",
    "inspect",
    "list_dead_letters",
    "plan",
    "prove",
    "read",
    "replicate",
    "retry_dead_letters",
    "serve",
    "show_dead_letter",
    "snapshot",
    "spark_session",
    "status",
    "verify",
]

_MODULES = {
    "_demo": "Demo DemoTable DemoTopic demo",
    "_errors": """
        ConfigError CorruptedData DecodeError EncodeError MissingRuntime RegistryError SchemaRefused SourceChanged
        TableRefused TerminalError TidecastError TransientError Unreachable
    """,
    "_policy": "OnDataLoss OnDdl OnError OnMismatch OnUnrepresentable TableMode",
    "api": """
        DeadLetterCount Events PlaceStatus ReplicaReport SourceStatus TableSummary Verified compare convert decode
        list_dead_letters plan prove read replicate retry_dead_letters serve snapshot status verify
    """,
    "checksum": "Verdict",
    "config": "configured_source",
    "functions": "functions",
    "inspection": "ColumnShown Inspected ShownLetter follow inspect show_dead_letter",
    "model": """
        Bootstrap Column DataType Ddl Definition Index Kind Op Reason SchemaHistory Statement TableChanges TableSchema
    """,
    "publish": "PlannedSchema PlannedTable Published",
    "replica": """
        Compared ComparedTable ProofVerdict Proven ProvenTable Replicated Retried RowDifference SchemaChange Snapshot
        SourceSnapshot TablePlan TableReport TableSnapshot
    """,
    "runtime": "configure_spark spark_session",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # a checker would take it for a promise that there is every name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_MODULE_OF[name]}")
        value = module if name == _MODULE_OF[name] else getattr(module, name)
        globals()[name] = value  # asked once
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF})
