"""The command line."""

from tidecast.cli._app import main

__all__ = ["main"]
