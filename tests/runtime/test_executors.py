"""Executors that lack tidecast are found before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidecast import ConfigError, _version
from tidecast.runtime import _executors, check_executors


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session whose executors count as other machines."""
    monkeypatch.setattr(_executors, "_OURS", ())
    yield spark
    spark.conf.unset(_executors._CHECKED)


def test_executors_with_this_tidecast_are_asked_once(asked: SparkSession) -> None:
    check_executors(asked)
    assert asked.conf.get(_executors._CHECKED) == "true"
    asked.conf.set(_executors._CHECKED, "surely")
    check_executors(asked)
    assert asked.conf.get(_executors._CHECKED) == "surely"


def test_another_version_is_refused_with_its_place(asked: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_executors, "__version__", "9.9.9")
    words = f"executors' Python has tidecast {_version.__version__}"
    with pytest.raises(ConfigError, match=re.escape(words)) as refused:
        check_executors(asked)
    assert "python" in str(refused.value.where)
    assert "PYSPARK_PYTHON" in str(refused.value.hint)


def test_executors_without_python_are_told(asked: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked.sparkContext, "pythonExec", "/no/python")
    with pytest.raises(ConfigError, match=r"executors' Python cannot be used: Cannot run program \"/no/python\""):
        check_executors(asked)
