"""Numbers as the text that TiDB writes: plain digits, never an exponent."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model._types import MAX_DECIMAL_PRECISION

_PLAIN_SCALE = 6


def decimal_text(column: Column, precision: int, scale: int) -> Column:
    """Return a DECIMAL(precision, scale) of the model as text with all digits of its scale, never an exponent.

    In: decimal(precision, scale), or string where the model holds the column as text (see `spark_type`), which
    comes back as it is. Out: string, such as `-12.500` or `0.0000000`.
    """
    if not 0 < precision <= MAX_DECIMAL_PRECISION:
        return column
    text = column.cast("string")
    if scale <= _PLAIN_SCALE:
        return text
    # Without ANSI, Spark writes decimals below a millionth with an exponent; one plus such a number has none.
    tiny = F.abs(column) < F.lit("1e-6").cast("decimal(7,6)")
    one_more = F.abs(column).try_cast(f"decimal({scale + 1},{scale})") + F.lit(1).cast("decimal(1,0)")
    plain = F.concat(F.when(column < 0, "-0").otherwise("0"), F.substring(one_more.cast("string"), 2, scale + 1))
    return F.when(tiny, plain).otherwise(text)
