"""The public names of each folder: others depend on them, so that a change of the list is a decision."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

import tidecast
from tidecast import Events, Replicated, TableChanges, TableReport
from tidecast.model import Pipeline, RowSource

PUBLIC = {
    "tidecast": """
        Bootstrap Column ColumnShown Compared ComparedTable ConfigError CorruptedData DataType Ddl DeadLetterCount
        DecodeError Definition Demo DemoTable DemoTopic EncodeError Events Index Inspected Kind MissingRuntime
        OnDataLoss OnDdl OnError OnMismatch OnUnrepresentable Op PlaceStatus PlannedSchema PlannedTable ProofVerdict
        Proven ProvenTable Published Reason RegistryError ReplicaReport Replicated Retried RowDifference SchemaChange
        SchemaHistory SchemaRefused ShownLetter Snapshot SourceChanged SourceSnapshot SourceStatus Statement
        TableChanges TableMode TablePlan TableRefused TableReport TableSchema TableSnapshot TableSummary TerminalError
        TidecastError TransientError Unreachable Verdict Verified __version__ compare configure_spark configured_source
        convert decode demo follow functions inspect list_dead_letters plan prove read replicate retry_dead_letters
        serve show_dead_letter snapshot spark_session status verify
    """,
    "tidecast.api": """
        DeadLetterCount Events PlaceStatus ReplicaReport SourceStatus TableSummary TopicSource Verified
        compare convert decode list_dead_letters plan prove read replicate retry_dead_letters serve snapshot status
        verify
    """,
    "tidecast.inspection": """
        ColumnShown Inspected ShownLetter follow inspect show_dead_letter
    """,
    "tidecast.functions": """
        from_ticdc_avro row_checksum
    """,
    "tidecast.model": """
        ALTER_EVENTS Action Bootstrap CHECKSUM Column DDL_EVENTS DataType Ddl Definition Events HEADERS Index
        InvalidSchema Kind LOGICAL_BITS MAX_DECIMAL_PRECISION Name Op Pipeline RECORD Reason RowSource SchemaHistory
        SchemaKey Statement TableChanges TableSchema bit_default bit_width checked compose ddl_action ddl_type
        latest_tso physical_ms read_statement renamed_tables row_type sanitize spark_type to_datetime type_name
        usual_length with_commit_ts with_digits
    """,
    "tidecast.spark": """
        LONG_TEXTS MAX_LENGTH evaluated_once handed_over inheriting mapped number_at parallel_map persisted
        reused small_table sql_column sql_name sql_text union untraced with_looked_up
    """,
    "tidecast.values": """
        BYTES DIGITS INTEGERS PLAIN Quoting TEXT alike arrow_type avro_bytes base64_text beginnings bit_bytes bit_number
        by_distinct bytes_of_base64 bytes_read calendar_value clock_micros clock_text content_of date_text days_of
        decimal_bytes decimal_of_bytes decimal_text enum_element enum_number field fixed_bytes for_spark from_spark
        from_text gather is_zone joined json_object json_string json_value micros_of moment_text null_where nulls
        numbers plain_number real refused rewritten row_type set_elements set_mask shift_zone shortest_text spread
        text_of_bytes to_numpy valid whole
    """,
    "tidecast.protocols": """
        CHECKSUM Codec CodecOptions Controls DecodeOptions Decoded Decoder Description Encoder Marks Message Reader
        Rejected RoutedTable Rows SinkCodec TableVersion WireProtocol all_protocols check_readable check_writable
        codec_for find_protocol guess_protocol known_names protocol_named
    """,
    "tidecast.protocols.avro": """
        AvroEncoder AvroOptions PROTOCOL decode_column encode_ddl encode_watermark key_schema lossy_columns
        read_table_schema schema_key value_schema
    """,
    "tidecast.protocols.debezium": """
        DdlHistory DebeziumEncoder DebeziumOptions PROTOCOL encode_ddl encode_watermark lossy_columns
    """,
    "tidecast.protocols.simple": """
        PROTOCOL SimpleEncoder SimpleOptions claim_check_locations encode_bootstrap encode_ddl encode_watermark
        table_schema
    """,
    "tidecast.checksum": """
        Verdict Verdicts explained row_checksums verdicts
    """,
    "tidecast.registry": """
        CONFLUENT FRAMINGS Framing RegisteredSchema Registry SchemaId bounded_json check_glue_url framing_of
        glue_url header open_registry subject_for
    """,
    "tidecast.storage": """
        AnyPath Entry Lock RemotePath StateFile check_exclusive copy entries entry files_below folder_path locked
        make_folder move options_of path_of path_uri remove_file remove_tree replace_file s3_options spark_input
        spark_inputs spark_output storage_path sync_folder touch write_new
    """,
    "tidecast.topics": """
        Counts DATE_SEPARATORS DEAD_LETTERS DeadLetter DeadLetters SinkFiles FileTopics Int64 KafkaOptions Offsets
        ReadableTopics Records RecordsHere Spans Split StorageSink TopicInfo Topics WritableTopics append_lines
        check_storage check_written claim_folder claim_location compress count_rows dead_letters_folder
        dead_letters_in decompressed fetched_claims file_errors files_by_table first_dead_letters
        is_of_storage_sink is_storage_sink kafka_errors
        open_sink_folder open_topics read_dead_letters refuse_dead_letters replace_dead_letters sequence_name
        store_claims write_dead_letters
    """,
    "tidecast.sources": """
        Batch DATABASE_SCHEMES DEAD_LETTER Database Here Messages Progress TopicStream VERIFICATION batch_of
        check_source check_source_of chosen columns_of database_errors dead_letters decode_records filter_commit_ts
        in_one_pass messages_of narrowed open_source parse_database read_database read_here read_progress
        read_records read_topic reader_of records_here source_errors source_name split_at_commit_ts subjects_of
        then then_with unpacked verdicts_on verified with_verdict
    """,
    "tidecast.routing": """
        ColumnMatcher ColumnSelector Dispatcher EventFilter EventFilters Filter Partitions Router RoutingRules
        RowFilter TableFilter TableMatcher TableRoutes check_event_filters check_target column_selection filter_errors
        target_name target_pattern
    """,
    "tidecast.config": """
        ChangefeedConfig build_config check_types checked_replica_config completed_replica_config
        configured_source default_replica_config file_content filter_of load_config mask_replica_config
        merge_replica_configs ignored_parameters names_files patched_replica_config read_replica_config
        replica_config_for
        secret_values unmask_replica_config without_effect
    """,
    "tidecast.publish": """
        Bootstraps PlannedSchema PlannedTable Published announce bootstraps_of check_publishable plan publish
    """,
    "tidecast.changefeed": """
        ChangefeedSpec Changefeeds Feed Folders Job Problem Runner Snapshot SparkRunner State StepResult
        TableEligibility Timing lag_seconds
    """,
    "tidecast.replica": """
        Again AllTables AppliedBatch AppliedKeys AppliedSource ApplyOptions Compared ComparedTable Contents OneTable
        ProofVerdict Proofs Proven ProvenTable ReplicaStatus Replicated Retried RowDifference Rows SchemaChange
        Settings Side Snapshot SourceSnapshot State Status Step TablePlan TableReport TableSnapshot TableStatus Topic
        TopicTables applied_sources at_places check_applied compare concerned is_table last_schema_changes
        maintain noted_in_commits parse_target place_of prove renamed_names replicate snapshot write_ledger
    """,
    "tidecast.server": """
        Access Listener Service build_app build_replica_app read_users
    """,
    "tidecast.conformance": """
        Feature Report check features_of write
    """,
    "tidecast.runtime": """
        ICEBERG_JARS Java MASTER MYSQL_JARS QUICK REMOTE RunningTasks SPARK_JARS check_executors check_zone
        command_settings configure_spark fetch_jars find_java is_iceberg local_zone outside_settings
        read_jar_list running_session settings_of_command spark_session unknown_zone without_secrets
    """,
    "tidecast.cli": """
        main
    """,
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_these(module: str) -> None:
    face = importlib.import_module(module)
    assert sorted(face.__all__) == sorted(PUBLIC[module].split())
    assert all(hasattr(face, name) for name in face.__all__)


HEAVY = {
    *("confluent_kafka", "fastapi", "prometheus_client", "pyarrow", "pydantic", "pyspark", "re2", "rich", "sqlglot"),
    "uvicorn",
}


@pytest.mark.parametrize(
    "program",
    [
        "import tidecast; tidecast.ConfigError, tidecast.OnError, dir(tidecast)",
        "from tidecast.cli import main; sys.argv = ['tidecast', '--help']; main()",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(program: str) -> None:
    ending = f"print('imported:', *({HEAVY} & sys.modules.keys()))"
    program = f"import atexit, sys; atexit.register(lambda: {ending}); {program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


def test_the_client_needs_nothing_heavy_to_ask_a_server() -> None:
    heavy = (HEAVY | {"typer"}) - {"re2"}  # which durations in Go's form take, and is quick
    program = f"""
import atexit, sys
atexit.register(lambda: print('imported:', *({heavy} & sys.modules.keys())))
from tidecast.cli import main
sys.argv = ['tidecast', 'cli', 'changefeed', 'list', '--server', 'http://127.0.0.1:1']
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "connection refused" in done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


def test_an_unknown_name_is_none_of_the_package() -> None:
    with pytest.raises(AttributeError, match="module 'tidecast' has no attribute 'nothing'"):
        getattr(tidecast, "nothing")  # noqa: B009 - the checker knows as well
    assert {*tidecast.__all__} <= {*dir(tidecast)}


def test_a_checker_sees_the_names_that_are_imported_when_needed() -> None:
    tree = ast.parse(Path(tidecast.__file__ or "").read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {n.name: (node.module or "").removeprefix("tidecast.") for node in imports for n in node.names}
    seen["functions"] = "functions"  # a module
    assert seen == tidecast._MODULE_OF
    assert {*seen, "__version__"} == {*tidecast.__all__}


def test_what_public_functions_return_is_public() -> None:
    """So is what that has in its fields and properties."""
    reached: set[type] = set()

    def reach(annotation: Any) -> None:
        for inner in get_args(annotation):
            reach(inner)
        if not (isinstance(annotation, type) and annotation.__module__.startswith("tidecast")) or annotation in reached:
            return
        reached.add(annotation)
        if dataclasses.is_dataclass(annotation):
            for hint in get_type_hints(annotation, localns={"SchemaHistory": tidecast.SchemaHistory}).values():
                reach(hint)
        for member in vars(annotation).values():
            if isinstance(member, property | cached_property):
                reach(get_type_hints(getattr(member, "fget", None) or getattr(member, "func", None)).get("return"))

    for name in tidecast.__all__:
        if inspect.isfunction(function := getattr(tidecast, name)):
            for one in (*get_overloads(function), function):
                reach(get_type_hints(one).get("return"))
    # `Events.rows` and `TableChanges.source` are for other parts of tidecast.
    assert {kind for kind in reached if getattr(tidecast, kind.__name__, None) is not kind} == {RowSource, Pipeline}
    assert {Events, TableChanges, Replicated, TableReport} <= reached
