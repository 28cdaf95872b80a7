"""Tests that say what others nearly say, and take long: `TIDECAST_FULL=1` runs them, too."""

from __future__ import annotations

import os

import pytest

FULL = bool(os.environ.get("TIDECAST_FULL"))
full = pytest.mark.skipif(not FULL, reason="only with TIDECAST_FULL=1")
