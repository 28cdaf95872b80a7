"""The tables of TiCDC's changefeed file, as TOML has them: every documented key with its type and default.

A key's name is the attribute's with hyphens, and keys have the order in which TiCDC's HTTP API writes them. Keys that
mean nothing to this program are here too, so that a file that TiCDC takes is taken. Source: Changefeed configuration.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from tidecast._config_model import EMPTY_IS_UNSET, ConfigModel, Many, Secret
from tidecast.registry import glue_url
from tidecast.routing import ColumnSelector, Dispatcher, Filter

DURATION = "a Go duration"
Duration = Annotated[str, DURATION]


class Mounter(ConfigModel):
    """`[mounter]`."""

    worker_num: int = 16


class Csv(ConfigModel):
    """`[sink.csv]`."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    binary_encoding_method: str = "base64"
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False


class CodecConfig(ConfigModel):
    """`[sink.kafka-config.codec-config]`. A protocol checks those that are its own."""

    enable_tidb_extension: bool = False
    max_batch_size: int = 16
    avro_enable_watermark: bool = False
    avro_include_before_value: bool = False
    avro_decimal_handling_mode: Annotated[str, EMPTY_IS_UNSET] = "precise"
    avro_bigint_unsigned_handling_mode: Annotated[str, EMPTY_IS_UNSET] = "long"
    encoding_format: Annotated[str, EMPTY_IS_UNSET] = "json"
    output_row_key: bool = False


class LargeMessageHandle(ConfigModel):
    """`[sink.kafka-config.large-message-handle]`."""

    large_message_handle_option: Annotated[str, EMPTY_IS_UNSET] = "none"
    large_message_handle_compression: Annotated[Literal["none", "snappy", "lz4"], EMPTY_IS_UNSET] = "none"
    claim_check_storage_uri: Secret = Field(default_factory=lambda: SecretStr(""))
    claim_check_raw_value: bool = False


class GlueSchemaRegistry(ConfigModel):
    """`[sink.kafka-config.glue-schema-registry-config]`. Without keys, AWS's own places are looked into for them."""

    registry_name: str = ""
    region: str = ""
    access_key: Secret | None = None
    secret_access_key: Secret | None = None
    token: Secret | None = None

    @property
    def url(self) -> str:
        """The registry as a URL, with its secrets."""
        keys = {"access-key": self.access_key, "secret-access-key": self.secret_access_key, "token": self.token}
        given = {name: key.get_secret_value() for name, key in keys.items() if key and key.get_secret_value()}
        return glue_url(self.registry_name, self.region, given)


class KafkaConfig(ConfigModel):
    """`[sink.kafka-config]`. What is None was not said; `tidecast.topics` knows the defaults and checks them."""

    partition_num: int | None = None
    replication_factor: int | None = None
    kafka_version: str | None = None
    max_message_bytes: int | None = None
    compression: str | None = None
    kafka_client_id: str | None = None
    auto_create_topic: bool | None = None
    dial_timeout: str | None = None
    write_timeout: str | None = None
    read_timeout: str | None = None
    required_acks: int | None = None
    sasl_user: str | None = None
    sasl_password: Secret | None = None
    sasl_mechanism: str | None = None
    sasl_gssapi_auth_type: str | None = None
    sasl_gssapi_keytab_path: str | None = None
    sasl_gssapi_kerberos_config_path: str | None = None
    sasl_gssapi_service_name: str | None = None
    sasl_gssapi_user: str | None = None
    sasl_gssapi_password: Secret | None = None
    sasl_gssapi_realm: str | None = None
    sasl_gssapi_disable_pafxfast: bool | None = None
    sasl_oauth_client_id: str | None = None
    sasl_oauth_client_secret: Secret | None = None
    sasl_oauth_token_url: str | None = None
    sasl_oauth_scopes: Many | None = None
    sasl_oauth_grant_type: str | None = None
    sasl_oauth_audience: str | None = None
    enable_tls: bool | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure_skip_verify: bool | None = None
    codec_config: CodecConfig = CodecConfig()
    large_message_handle: LargeMessageHandle = LargeMessageHandle()
    glue_schema_registry_config: GlueSchemaRegistry | None = None
    output_raw_change_event: bool = False


class MysqlConfig(ConfigModel):
    """`[sink.mysql-config]`."""

    worker_count: int | None = None
    max_txn_row: int | None = None
    max_multi_update_row_size: int | None = None
    max_multi_update_row: int | None = None
    tidb_txn_mode: str | None = None
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    time_zone: str | None = None
    write_timeout: str | None = None
    read_timeout: str | None = None
    timeout: str | None = None
    enable_batch_dml: bool | None = None
    enable_multi_statement: bool | None = None
    enable_cache_prepared_statement: bool | None = None


class PulsarOauth2(ConfigModel):
    """`[sink.pulsar-config.oauth2]`."""

    oauth2_issuer_url: str = ""
    oauth2_audience: str = ""
    oauth2_private_key: Secret | None = None
    oauth2_client_id: str = ""
    oauth2_scope: str = ""


class PulsarConfig(ConfigModel):
    """`[sink.pulsar-config]`."""

    tls_key_file_path: str | None = None
    tls_certificate_file: str | None = None
    tls_trust_certs_file_path: str | None = None
    pulsar_producer_cache_size: int | None = None
    pulsar_version: str | None = None
    compression_type: str | None = None
    authentication_token: Secret | None = None
    connection_timeout: int | None = None
    operation_timeout: int | None = None
    batching_max_messages: int | None = None
    batching_max_publish_delay: int | None = None
    send_timeout: int | None = None
    token_from_file: str | None = None
    basic_user_name: str | None = None
    basic_password: Secret | None = None
    auth_tls_certificate_path: str | None = None
    auth_tls_private_key_path: str | None = None
    oauth2: PulsarOauth2 | None = None
    output_raw_change_event: bool | None = None


class CloudStorageConfig(ConfigModel):
    """`[sink.cloud-storage-config]`. What is None was not said."""

    worker_count: int | None = None
    flush_interval: str | None = None
    file_size: int | None = None
    spool_disk_quota: int | None = None
    output_column_id: bool | None = None
    file_expiration_days: int | None = None
    file_cleanup_cron_spec: str | None = None
    flush_concurrency: int | None = None
    use_table_id_as_path: bool | None = None
    output_raw_change_event: bool = False


class Debezium(ConfigModel):
    """`[sink.debezium]`."""

    output_old_value: bool = True
    include_start_ts: bool | None = None


class Open(ConfigModel):
    """`[sink.open]`."""

    output_old_value: bool = True


class Integrity(ConfigModel):
    """`[integrity]`: row checksums, and what becomes of a row that does not fit its own."""

    integrity_check_level: Literal["none", "correctness"] = "none"
    corruption_handle_level: Literal["warn", "error"] = "warn"


class Sink(ConfigModel):
    """`[sink]`."""

    protocol: str = ""
    schema_registry: Secret | None = None
    csv: Csv = Csv()
    dispatchers: Annotated[tuple[Dispatcher, ...], Field(strict=False)] = ()
    column_selectors: Annotated[tuple[ColumnSelector, ...], Field(strict=False)] = ()
    transaction_atomicity: str = ""
    encoder_concurrency: Annotated[int, Field(ge=0)] = 32
    terminator: str = "\r\n"
    date_separator: str = "day"
    enable_partition_separator: bool = True
    file_index_digit: int | None = None
    enable_kafka_sink_v2: bool | None = None
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    content_compatible: bool = False
    safe_mode: bool | None = None
    kafka_config: KafkaConfig = KafkaConfig()
    pulsar_config: PulsarConfig | None = None
    mysql_config: MysqlConfig | None = None
    cloud_storage_config: CloudStorageConfig = CloudStorageConfig()
    advance_timeout_in_sec: int = 150
    send_bootstrap_interval_in_sec: int = 120
    send_bootstrap_in_msg_count: int = 10000
    send_bootstrap_to_all_partition: bool = True
    send_all_bootstrap_at_start: bool = False
    debezium_disable_schema: bool = False
    debezium: Debezium = Debezium()
    open: Open = Open()
    case_sensitive: bool | None = None
    force_replicate: bool | None = None
    integrity: Integrity | None = None


class Memory(ConfigModel):
    """`[consistent.memory-usage]`."""

    memory_quota_percentage: int = 50


class Consistent(ConfigModel):
    """`[consistent]`."""

    level: str = "none"
    max_log_size: int = 64
    flush_interval: int = 2000
    meta_flush_interval: int = 200
    encoding_worker_num: int = 16
    flush_worker_num: int = 8
    storage: Secret = Field(default_factory=lambda: SecretStr(""))
    use_file_backend: bool = False
    compression: str = ""
    flush_concurrency: int | None = None
    memory_usage: Memory = Memory()


class Scheduler(ConfigModel):
    """`[scheduler]`."""

    enable_table_across_nodes: bool = False
    region_threshold: int = 10000
    region_count_per_span: int = 100
    region_count_refresh_interval: Duration = "5m"
    write_key_threshold: int = 0
    scheduling_task_count_per_node: int = 20
    enable_splittable_check: bool = False
    force_split: bool = False
    balance_score_threshold: int = 20
    min_traffic_percentage: float = 0.8
    max_traffic_percentage: float = 1.25


class SyncedStatus(ConfigModel):
    """`[synced-status]`."""

    synced_check_interval: int = 300
    checkpoint_interval: int = 15


class Changefeed(ConfigModel):
    """The whole file."""

    performance_mode: Annotated[Literal["throughput", "low-latency"] | None, EMPTY_IS_UNSET] = None
    memory_quota: int = 1 << 30
    case_sensitive: bool = False
    force_replicate: bool = False
    ignore_ineligible_table: bool = False
    check_gc_safe_point: bool = True
    enable_sync_point: bool = False
    enable_table_monitor: bool = False
    bdr_mode: bool = False
    enable_active_active: bool = False
    active_active_progress_interval: Duration = "30m"
    active_active_sync_stats_interval: Duration = "1m"
    sync_point_interval: Duration = "10m"
    sync_point_retention: Duration = "24h"
    sql_mode: str = ""
    filter: Filter = Filter()
    mounter: Mounter = Mounter()
    sink: Sink = Sink()
    consistent: Consistent = Consistent()
    scheduler: Scheduler = Scheduler()
    integrity: Integrity = Integrity()
    changefeed_error_stuck_duration: Duration = "30m"
    event_collector_batch_count: int | None = None
    event_collector_batch_bytes: int | None = None
    synced_status: SyncedStatus = SyncedStatus()
