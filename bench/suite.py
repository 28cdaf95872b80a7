"""What the tests have, for programs: their servers, and messages of the Simple protocol."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from growing_topic import ID, Said, ddl, table, watermark
from known_schemas import KnownSchemas
from servers import KafkaBroker, SchemaRegistry
from servers._process import free_ports

__all__ = ["ID", "KafkaBroker", "KnownSchemas", "Said", "SchemaRegistry", "ddl", "free_ports", "table", "watermark"]
