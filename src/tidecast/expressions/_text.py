"""Text: decimals as TiDB writes them, plain digits and never an exponent; what characters a text holds."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import MAX_DECIMAL_PRECISION

MAX_LENGTH = (1 << 31) - 1
"""More characters or bytes than any text has: a length for what is left of one."""

LONG_TEXTS = {"maxStringLen": str(MAX_LENGTH)}
"""Options with which Spark reads JSON that holds texts so long; without, it takes none above 20 million characters."""

_PLAIN_SCALE = 6
_BYTE = 0x100


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
    # Neither `abs` nor a minus sign before the cast: Spark rounds what they give to 34 digits.
    least, most = (F.lit(bound).cast("decimal(7,6)") for bound in ("-0.000001", "0.000001"))
    tiny = (column > least) & (column < most)
    one_more = F.abs(column.try_cast(f"decimal({scale + 1},{scale})")) + F.lit(1).cast("decimal(1,0)")
    plain = F.concat(F.when(column < 0, "-0").otherwise("0"), F.substring(one_more.cast("string"), 2, scale + 1))
    return F.when(tiny, plain).otherwise(text)


def trimmed(text: Column) -> Column:
    """Return the text of a decimal number without the zeros that end its fraction; it must have a point."""
    return F.when(text.endswith("0"), F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))).otherwise(text)
