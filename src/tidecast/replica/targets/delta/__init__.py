"""Tables of Delta Lake, in a folder or a catalog."""

from tidecast.replica.targets.delta._table import DeltaTarget

__all__ = ["DeltaTarget"]
