"""The command line."""

from tidecast.cli._main import main

__all__ = ["main"]
