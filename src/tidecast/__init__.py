"""tidecast: TiCDC's protocols on Spark, in both directions."""

from tidecast._api import Verified, convert, inspect, plan, read, replicate, serve, verify
from tidecast._demo import Demo, DemoTable, DemoTopic, demo
from tidecast._errors import (
    ConfigError,
    CorruptedData,
    DecodeError,
    EncodeError,
    MissingRuntime,
    RegistryError,
    SchemaRefused,
    TerminalError,
    TidecastError,
    TransientError,
    Unreachable,
)
from tidecast._inspect import Inspected
from tidecast.publish import PlannedTable, Published
from tidecast.replica import Replicated
from tidecast.runtime import spark_session

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "CorruptedData",
    "DecodeError",
    "Demo",
    "DemoTable",
    "DemoTopic",
    "EncodeError",
    "Inspected",
    "MissingRuntime",
    "PlannedTable",
    "Published",
    "RegistryError",
    "Replicated",
    "SchemaRefused",
    "TerminalError",
    "TidecastError",
    "TransientError",
    "Unreachable",
    "Verified",
    "__version__",
    "convert",
    "demo",
    "inspect",
    "plan",
    "read",
    "replicate",
    "serve",
    "spark_session",
    "verify",
]
