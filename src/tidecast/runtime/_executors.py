"""Whether the executors have a Python with this tidecast, which reads messages there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, root_cause
from tidecast._version import __version__
from tidecast.runtime._where import MASTER

_NO_PROGRAM = re.compile('Cannot run program "[^"]*"')
_OURS = (None, sys.executable)
_CHECKED = "spark.tidecast.executorsChecked"
_HINT = (
    f"install tidecast {__version__} where the executors run, and name that Python in PYSPARK_PYTHON, or in "
    "spark.pyspark.python"
)


def check_executors(spark: SparkSession) -> None:
    """Raise ConfigError where an executor's Python lacks this tidecast; a session is asked once.

    One tiny task tells. On the driver's own machine, with the driver's Python, nothing need be asked.
    """
    ours = isinstance(spark, SparkSession) and os.environ.get("PYSPARK_PYTHON") in _OURS  # else a server's
    here = ours and str(spark.conf.get(MASTER, "")).startswith("local")
    if here or spark.conf.get(_CHECKED, None) is not None:
        return
    # A function that is no module's own is sent as it is, so that it runs where tidecast is missing.
    try:
        (found,) = spark.range(1).coalesce(1).mapInArrow(_asking(), "python string, version string").collect()
    except Exception as error:  # Spark's, py4j's, or that of the client of Spark Connect
        missing = _NO_PROGRAM.search(str(error))
        words = missing[0] if missing else root_cause(error)
        raise ConfigError(f"the executors' Python cannot be used: {words}", hint=_HINT) from None
    if found["version"] != __version__:
        has = f"tidecast {found['version']}" if found["version"] else "no tidecast"
        raise ConfigError(f"the executors' Python has {has}", where=found["python"], hint=_HINT)
    spark.conf.set(_CHECKED, "true")


def _asking() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyarrow

        try:
            from tidecast._version import __version__ as version
        except ImportError:
            version = ""
        for batch in batches:
            columns = {"python": [sys.executable] * batch.num_rows, "version": [version] * batch.num_rows}
            yield pyarrow.RecordBatch.from_pydict(columns)

    ask.__module__ = "__main__"
    return ask
