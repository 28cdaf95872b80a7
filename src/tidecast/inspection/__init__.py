"""Messages explained for a person."""

from tidecast.inspection._inspect import follow, inspect
from tidecast.inspection._inspected import ColumnShown, Inspected
from tidecast.inspection._letters import ShownLetter, show_dead_letter

__all__ = ["ColumnShown", "Inspected", "ShownLetter", "follow", "inspect", "show_dead_letter"]
