"""Kafka Connect's own JSON converter takes every message with a schema, and Debezium's classes give the same times."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_data import lines
from java_program import Ask, compiled
from pyspark.sql import SparkSession

from tidecast.model import Column, DataType
from tidecast.protocols.debezium import DebeziumOptions
from tidecast.protocols.debezium._value_columns import json_column
from tidecast.values import arrow_type


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The Java program, compiled: a line of output for each line of input."""
    return compiled("ReadMessages", "read-messages.jars", tmp_path_factory.mktemp("classes"))


@pytest.mark.kafka
@pytest.mark.parametrize("variant", ["debezium", "debezium-ext", "debezium-colsel"])
def test_kafka_connect_reads_the_messages(variant: str, golden: Callable[[str], Path], ask: Ask) -> None:
    """The golden messages are those that the encoder makes, byte for byte: test_debezium_golden.

    Kafka Connect takes no table with a virtual column.
    """
    parts = [part for message in lines(golden(f"{variant}.jsonl.gz")) for part in (message["key"], message["value"])]
    answers = ask(parts)
    refused = set()
    for part, answer in zip(parts, answers, strict=True):
        said = json.loads(base64.b64decode(part))
        names = [f["field"] for side in said["schema"]["fields"][:1] for f in side.get("fields", ())]
        if len(names) > len(set(names)):  # TiCDC declares a virtual column twice
            assert "duplication" in answer
            refused.add(said["payload"]["source"]["table"])
            continue
        assert not answer.startswith("error:"), (answer, part)
        assert known(json.loads(answer)["payload"], said["schema"]) == known(said["payload"], said["schema"])
    assert refused == (set() if variant == "debezium-colsel" else {"t_gen", "t_expr"})


@pytest.mark.kafka
def test_kafka_connect_refuses_a_value_that_its_schema_does_not_allow(ask: Ask) -> None:
    schema = {"type": "struct", "optional": False, "fields": [{"type": "int32", "optional": False, "field": "a"}]}
    message = json.dumps({"payload": {"a": None}, "schema": schema})
    (answer,) = ask([base64.b64encode(message.encode()).decode()])
    assert answer.startswith("error:")


def known(payload: Any, schema: dict[str, Any]) -> Any:
    """Return what Kafka Connect keeps of a payload: the members that its schema names, each as precise as its type."""
    match schema["type"]:
        case _ if payload is None:
            return None
        case "float" | "double" as kind:
            return struct.pack(kind[0], payload)
        case "array":
            return [known(item, schema["items"]) for item in payload]
        case "struct":
            return {f["field"]: known(payload.get(f["field"]), f) for f in schema["fields"]}
    return payload


DAYS = ["1970-01-01", "1969-12-31", "1000-01-01", "9999-12-31", "2024-02-29"]
CLOCKS = ["00:00:00.000000", "12:34:56.123456", "23:59:59.999999"]
DURATIONS = {"-PT838H59M59S": "-838:59:59", "PT838H59M59S": "838:59:59", "-PT0.000001S": "-00:00:00.000001"}


def test_debezium_gives_the_same_times(ask: Ask, spark: SparkSession) -> None:
    moments = [f"{day} {clock}" for day in DAYS for clock in CLOCKS]
    asked: dict[str, tuple[DataType, str]] = {f"date {day}": (DataType("date"), day) for day in DAYS}
    for moment in moments:
        java = moment.replace(" ", "T")
        milliseconds = java[:-3]
        asked[f"microtimestamp {java}"] = (DataType("datetime", decimal=6), moment)
        asked[f"timestamp {milliseconds}"] = (DataType("datetime", decimal=3), moment[:-3])
    asked |= {f"microtime {java}": (DataType("time", decimal=6), text) for java, text in DURATIONS.items()}
    assert ask(list(asked)) == [shown(kind, text) for kind, text in asked.values()]


def shown(kind: DataType, text: str) -> str:
    """Return a value as our messages show it."""
    (found,) = json_column(Column("c", kind), pa.array([text], arrow_type(kind)), DebeziumOptions()).to_pylist()
    return str(found)


@pytest.mark.parametrize("moment", ["2023-11-30 12:34:56", "2023-11-30 12:34:56.120000", "1970-01-01 00:00:01"])
def test_debezium_gives_the_same_instants(moment: str, ask: Ask, spark: SparkSession) -> None:
    """Debezium leaves out zeros at the end of a fraction, which TiCDC writes."""
    (java,) = ask([f"zonedtimestamp {moment.replace(' ', 'T')}"])
    assert json.loads(shown(DataType("timestamp"), moment)).replace("0000Z", "Z") == java
