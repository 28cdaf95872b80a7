"""Messages explained for a person."""

from tidecast.inspection._inspect import inspect
from tidecast.inspection._inspected import ColumnShown, Inspected

__all__ = ["ColumnShown", "Inspected", "inspect"]
