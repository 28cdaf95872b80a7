"""Topics to tables: order, reconcile, apply; what cannot be applied goes to the dead letters."""

from tidecast.replica._replicate import ON_ERROR, replicate
from tidecast.replica._report import Replicated, TableReport

__all__ = ["ON_ERROR", "Replicated", "TableReport", "replicate"]
