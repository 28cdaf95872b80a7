"""What TiCDC's documents show: command lines, a configuration, and the body that its own client sends."""

from __future__ import annotations

import json

# Command lines of TiCDC's documents: of the Avro page, in English and in Chinese, and of the Debezium page.
DOCUMENTED = {
    "kafka-avro": """cdc cli changefeed create --pd=http://127.0.0.1:2379 --changefeed-id="kafka-avro" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml""",  # noqa: E501
    "kafka-avro-enable-extension": """cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-enable-extension" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&enable-tidb-extension=true" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml""",  # noqa: E501
    "kafka-avro-string-option": """cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-string-option" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml""",  # noqa: E501
    "kafka-debezium": """cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-debezium" --sink-uri="kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0&protocol=debezium" """,  # noqa: E501
}
DOCUMENTED_FILE = """[sink]
dispatchers = [
{matcher = ['*.*'], topic = "tidb_{schema}_{table}"},
]
"""

# The body that TiCDC's own command line sends for an Avro changefeed, in its order of members.
REPLICA_CONFIG = json.loads("""
{"memory_quota":1073741824,"case_sensitive":false,"ignore_ineligible_table":true,"check_gc_safe_point":true,
 "enable_sync_point":false,"enable_table_monitor":false,"bdr_mode":false,"enable_active_active":false,
 "active_active_progress_interval":1800000000000,"active_active_sync_stats_interval":60000000000,
 "sync_point_interval":600000000000,"sync_point_retention":86400000000000,"filter":{"rules":["*.*"]},
 "mounter":{"worker_num":16},"sink":{"protocol":"avro","schema_registry":"http://127.0.0.1:8081",
 "csv":{"delimiter":",","quote":"\\"","null":"\\\\N","include_commit_ts":false,"binary_encoding_method":"base64",
 "output_old_value":false,"output_handle_key":false,"output_field_header":false},
 "dispatchers":[{"matcher":["*.*"],"topic":"tidb_{schema}_{table}"}],"encoder_concurrency":32,"terminator":"\\r\\n",
 "date_separator":"day","enable_partition_separator":true,"only_output_updated_columns":false,
 "delete_only_output_handle_key_columns":false,"content_compatible":false,"advance_timeout":150,
 "send_bootstrap_interval_in_sec":120,"send_bootstrap_in_msg_count":10000,"send_bootstrap_to_all_partition":true,
 "send-all-bootstrap-at-start":false,"debezium_disable_schema":false,"debezium":{"output_old_value":true},
 "open":{"output_old_value":true}},"consistent":{"level":"none","max_log_size":64,"flush_interval":2000,
 "meta_flush_interval":200,"encoding_worker_num":16,"flush_worker_num":8,"storage":"","use_file_backend":false,
 "compression":"","memory_usage":{"memory_quota_percentage":50}},"scheduler":{"enable_table_across_nodes":false,
 "region_threshold":10000,"region_count_per_span":100,"region_count_refresh_interval":300000000000,
 "write_key_threshold":0,"scheduling_task_count_per_node":20,"enable_splittable_check":false,"force_split":false,
 "balance_score_threshold":20,"min_traffic_percentage":0.8,"max_traffic_percentage":1.25},
 "integrity":{"integrity_check_level":"none","corruption_handle_level":"warn"},
 "changefeed_error_stuck_duration":1800000000000,"synced_status":{"synced_check_interval":300,"checkpoint_interval":15}}
""")
