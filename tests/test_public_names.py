"""The public names of each folder: others depend on them, so that a change of the list is a decision."""

from __future__ import annotations

import importlib

import pytest

PUBLIC = {
    "tidecast": """
        ConfigError CorruptedData DecodeError Demo DemoTable DemoTopic EncodeError Inspected MissingRuntime
        PlannedTable Published RegistryError Replicated SchemaRefused TerminalError TidecastError TransientError
        Unreachable Verified __version__ convert demo inspect plan read replicate serve spark_session verify
    """,
    "tidecast.model": """
        Action Bootstrap CHECKSUM Column DataType Ddl Definition Events HEADERS Index InvalidSchema Kind
        MAX_DECIMAL_PRECISION Name
        Op RECORD Reason SchemaHistory SchemaKey Statement TableChanges TableSchema checked compose ddl_action
        ddl_type is_tso physical_ms physical_ms_of read_statement row_type sanitize spark_type to_datetime
    """,
    "tidecast.spark": """
        bad_names block_collapse_project called evaluated_once let parallel_map small_table sql_column sql_name sql_text
        union with_looked_up
    """,
    "tidecast.expressions": """
        MAX_LENGTH as_listed bit_bytes bit_number bit_width decimal_text enum_element enum_number has_any set_elements
        set_mask set_number shift_zone shortest_text signed trimmed unsigned_number unsigned_text
    """,
    "tidecast.protocols": """
        Codec CodecOptions DecodeOptions Description Message RoutedTable WireProtocol all_protocols check_writable
        codec_for find_protocol guess_protocol known_names protocol_named
    """,
    "tidecast.protocols.avro": """
        PROTOCOL AvroOptions decode encode_ddl encode_key encode_value encode_watermark key_schema lossy_columns
        unencodable value_schema
    """,
    "tidecast.protocols.debezium": """
        PROTOCOL DdlHistory DebeziumOptions decode encode_ddl encode_key encode_value encode_watermark lossy_columns
        unencodable
    """,
    "tidecast.protocols.simple": """
        PROTOCOL SimpleOptions claim_check_location decode encode_bootstrap encode_ddl encode_value encode_watermark
        table_schema unencodable
    """,
    "tidecast.checksum": """
        Verdict explain row_checksum verdict verify with_verdict
    """,
    "tidecast.registry": """
        Registry bounded_json open_registry subject_for
    """,
    "tidecast.topics": """
        Choice Int64 KafkaOptions Offsets OnError Records TopicInfo Topics append_lines check_storage check_written
        claim_folder claim_location compress compressed count_rows decompressed fetched_claims file_errors
        kafka_errors open_topics refuse_dead_letters store_claims write_dead_letters
    """,
    "tidecast.sources": """
        Batch Progress TopicStream check_protocol check_source decode_records read_records read_topic source_errors
    """,
    "tidecast.routing": """
        ColumnMatcher ColumnSelector Dispatcher EventFilter EventFilters Filter Router RoutingRules TableFilter
        TableMatcher check_event_filters
    """,
    "tidecast.config": """
        ChangefeedConfig build_config checked_replica_config completed_replica_config
        default_replica_config file_content filter_of load_config mask_replica_config merge_replica_configs
        patched_replica_config read_replica_config replica_config_for secret_values unmask_replica_config
        without_effect
    """,
    "tidecast.publish": """
        Bootstraps PlannedSchema PlannedTable Published announce bootstraps_of check_publishable filter_commit_ts plan
        publish
    """,
    "tidecast.changefeed": """
        ChangefeedSpec Changefeeds Feed Folders Job Problem Runner Snapshot SparkRunner State StepResult
        TableEligibility Timing lag_seconds masked_sink_uri
    """,
    "tidecast.replica": """
        OnMismatch Replicated TableReport parse_target replicate
    """,
    "tidecast.server": """
        Access Listener Service build_app read_users
    """,
    "tidecast.runtime": """
        Java SPARK_JARS check_avro_limits check_zone fetch_jars find_java local_zone read_jar_list spark_session
        unknown_zone
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
