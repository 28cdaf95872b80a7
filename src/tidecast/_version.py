"""The version of tidecast; pyproject.toml has the same."""

__version__ = "0.1.0"
