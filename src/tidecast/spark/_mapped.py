"""Functions on Arrow batches, run by Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

_HEADERS = "headers"


def mapped(
    frame: DataFrame, make: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]], out: T.StructType
) -> DataFrame:
    """Return what a function makes of each batch of a frame; see `handed_over`. It is sent to the tasks."""

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            yield from make(batch)

    return handed_over(frame, batches, out)


def handed_over(
    frame: DataFrame, batches: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], out: T.StructType
) -> DataFrame:
    """Return what a function makes of the batches of each task; it sees headers as JSON, and returns them so.

    Spark takes longer to hand over an array of structs than all other columns of a message together.
    """
    if _HEADERS not in frame.columns:
        return frame.mapInArrow(batches, out)
    made = frame.withColumn(_HEADERS, F.to_json(_HEADERS)).mapInArrow(batches, _with_text(out))
    if _HEADERS not in out.names:
        return made
    return made.withColumn(_HEADERS, F.from_json(_HEADERS, out[_HEADERS].dataType.simpleString()))


def _with_text(out: T.StructType) -> T.StructType:
    """Return columns with headers as text."""
    text = T.StructField(_HEADERS, T.StringType())
    return T.StructType([text if field.name == _HEADERS else field for field in out.fields])
