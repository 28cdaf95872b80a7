"""The program: runs the command line and turns what it raises into a line and an exit code."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from pathlib import Path

from tidecast._errors import ConfigError, CorruptedData, TidecastError, root_cause
from tidecast.cli._exit_codes import FAILED, INTERRUPTED, MISMATCH, WRONG_CALL

_MEMORY = "raise it with --conf spark.driver.memory=8g, or on a cluster spark.executor.memory"
_NO_WRITING = re.compile("DELTA_CANNOT_CREATE_LOG_PATH|Mkdirs failed|Permission denied|No space left|Read-only file")


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 a checksum or a table is wrong, 2 wrong usage, 3 the work failed, 130 interrupted.
    `tidecast cli` has those of TiCDC's client.
    """
    try:
        _run(sys.argv[1:])
    except ConfigError as error:
        _fail(str(error), WRONG_CALL)
    except CorruptedData as error:
        _fail(str(error), MISMATCH)
    except TidecastError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except Exception as error:
        if "TIDECAST_DEBUG" in os.environ:
            raise
        _fail(_explained(error))


def _run(arguments: list[str]) -> None:
    if arguments[:1] == ["cli"]:  # scripts call it often: keep its imports few
        from tidecast.cli._cdc import cdc

        sys.exit(cdc(arguments[1:]))
    from tidecast.cli._app import app
    from tidecast.cli._hidden import HidingFormatter

    if logging.lastResort:  # what prints warnings where nothing else is set up
        logging.lastResort.setFormatter(HidingFormatter())
    app()


def _explained(error: Exception) -> str:
    """Return a line about an unexpected error."""
    cause = root_cause(error)
    if "OutOfMemoryError" in cause:
        return f"Spark's Java ran out of memory: {cause} ({_MEMORY})"
    if _is_java_gone(error):  # it ends where a task gets no memory
        return f"Spark's Java stopped, perhaps out of memory: {cause} ({_MEMORY})"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if _NO_WRITING.search(cause):
        return f"cannot write: {cause}"
    return f"internal error: {cause} (set TIDECAST_DEBUG=1 to see where)"


def _is_java_gone(error: Exception) -> bool:
    """Tell whether Java gave py4j no answer; that has an error of its own for it, or leaves the socket's alone."""
    (*_, raised) = traceback.extract_tb(error.__traceback__)
    no_answer = isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError"
    return no_answer and "py4j" in Path(raised.filename).parts


def _fail(text: str, code: int = FAILED) -> None:
    from tidecast.cli._hidden import hidden

    print(f"tidecast: {hidden(' '.join(text.split()))}", file=sys.stderr)
    sys.exit(code)
