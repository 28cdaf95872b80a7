"""A kit for whoever writes a reader of TiCDC's topics, in any language: messages as files, answers as JSON Lines.

It knows no reader, not even tidecast's own.
"""

from tidecast.conformance._check import Feature, Report, check, features_of
from tidecast.conformance._write import write

__all__ = ["Feature", "Report", "check", "features_of", "write"]
