"""Whether a changefeed can be: its configuration, the source's tables under it, its sink.

Source: Changefeeds, HTTP API v2.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from tidecast._errors import ConfigError, TidecastError, root_cause
from tidecast._secrets import resolved_settings, resolved_uri, value_of
from tidecast._time_limit import time_limit
from tidecast._uri import masked_sink_uri
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._runner import Runner
from tidecast.changefeed._snapshot import TableEligibility
from tidecast.config import (
    ChangefeedConfig,
    build_config,
    default_replica_config,
    file_content,
    filter_of,
    ignored_parameters,
    merge_replica_configs,
    without_effect,
)
from tidecast.routing import EventFilters, Router, TableFilter

_log = logging.getLogger(__name__)

_SINK_URI, _REPLICA = "CDC:ErrSinkURIInvalid", "CDC:ErrInvalidReplicaConfig"
_SINK_CODES = re.compile(r"CDC:Err(Kafka(?!TopicExpr)|MySQLInvalid|Codec)")
_REPLICA_CODES = re.compile(r"CDC:Err(Sink(?!URI)|Invalid(GlueSchemaRegistryConfig|TableRoutingRule))")
OF_TABLES = frozenset(
    f"CDC:Err{name}"
    for name in (
        *("FilterRuleInvalid", "InvalidIgnoreEventType", "InvalidFilterExpression", "ExpressionColumnNotFound"),
        *("KafkaTopicExprInvalid", "DispatcherFailed", "ColumnSelectorFailed", "TableRouteConflict"),
    )
)
"""The codes of what TiCDC finds as it looks at the tables: in an update they come as the cause of its refusal."""
_PATTERNS_S = 5.0
_MSK = re.compile(r"[a-z0-9.-]+\.kafka(-serverless)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?:\d+")


class ConfigChecks:
    """The checks of a changefeed's configuration.

    `folders` are those that changefeeds may use, any by default; `secrets` the references that they may, none else.
    """

    def __init__(self, runner: Runner, folders: Folders | None, secrets: Collection[str] = ()) -> None:
        self._runner, self._folders, self._secrets = runner, folders, secrets

    def tables(self, config: Mapping[str, Any] | None) -> TableEligibility:
        """Return the source's tables by what the filter of a replica config does with them."""
        chosen, case_sensitive = filter_of(over_defaults(config))
        tables = sorted(self._runner.tables(), key=lambda t: t.name)
        with time_limit(_PATTERNS_S):
            matcher = TableFilter(chosen.rules, case_sensitive=case_sensitive)
            every = [table for table in tables if matcher.matches_schema(table.database)]
            passing = [table for table in every if matcher.matches(table.database, table.table)]
        eligible = [t for t in passing if t.may_have_key or t.view]
        return TableEligibility(every, eligible, [t for t in passing if t not in eligible])

    def verified_tables(self, checked: ChangefeedConfig, config: Mapping[str, Any]) -> TableEligibility:
        """Return the tables, sorted as by `tables`. Raises ConfigError where the configuration does not fit them."""
        tables = self.tables(config)
        router, events = Router(checked.routing), EventFilters(checked.file.filter.event_filters)
        owners: dict[tuple[str, str], tuple[str, str]] = {}
        with time_limit(_PATTERNS_S):
            for table in [*tables.eligible, *(tables.ineligible if checked.force_replicate else ())]:
                if table.view:  # its schema changes leave, and it has no rows
                    continue
                if conflict := router.routes.conflict(owners, table.key[:2]):
                    raise conflict
                router.check(table)
                router.select_columns(table)
                events.check(table)
        return tables

    def check(self, feed_id: str, sink_uri: str, config: Mapping[str, Any]) -> None:
        """Refuse a configuration that cannot be, that does not fit the tables, or whose sink cannot be used."""
        checked = self.checked_config(sink_uri, config)
        tables = self.verified_tables(checked, config)
        if tables.ineligible and not (checked.force_replicate or checked.file.ignore_ineligible_table):
            raise ConfigError(
                f"some tables are not eligible to replicate([{' '.join(t.name for t in tables.ineligible)}]), if you "
                "want to ignore these tables, please set ignore_ineligible_table to true",
                code="CDC:ErrTableIneligible",
            )
        try:
            self._runner.check(checked)
        except TidecastError as error:
            raise _sink_invalid(sink_uri, error) from error
        for warning in ignored_parameters(sink_uri):
            _log.warning("changefeed %s: %s", feed_id, warning)
        if idle := without_effect(config, sink_uri):
            _log.warning("changefeed %s: these settings have no effect here: %s", feed_id, ", ".join(idle))

    def checked_config(self, sink_uri: str, config: Mapping[str, Any]) -> ChangefeedConfig:
        """Return the configuration of a sink URI and a replica config; errors have the words of the API."""
        try:
            with time_limit(_PATTERNS_S):
                return self.config(sink_uri, config)
        except ConfigError as error:
            code = error.code or ""
            if _SINK_CODES.match(code):
                raise _sink_invalid(sink_uri, error) from error
            if not code or code == _REPLICA or _REPLICA_CODES.match(code):
                raise ConfigError(f"invalid replica config: {error_text(error)}", code=_REPLICA) from error
            raise

    def config(self, sink_uri: str, config: Mapping[str, Any]) -> ChangefeedConfig:
        """Return the configuration of a sink URI and a replica config. Raises ConfigError."""
        uri, settings = resolved_uri(sink_uri, self._secret), resolved_settings(config, self._secret)
        built = build_config(uri, file_content(settings), "replica_config")
        if self._folders:
            self._folders.check(built)
        _check_identity(built)
        return built

    def _secret(self, reference: str, name: str) -> str:
        """Return the value of a reference that the server's operator allows: any other would let a client read it."""
        if reference not in self._secrets:
            raise ConfigError(
                f"{name}: changefeeds may not use this reference to a secret of the server's",
                code="CDC:ErrAPIInvalidParam",
                hint="write the secret itself; the server's operator allows references with --allow-secret",
            )
        return value_of(reference, name)


def _check_identity(config: ChangefeedConfig) -> None:
    """Refuse to show the machine's AWS identity, which a client has not, to whatever server a client names."""
    to_msk = config.kafka.tls and all(_MSK.fullmatch(host) for host in config.place.hosts)
    if config.kafka.uses_aws_identity and not to_msk:
        raise ConfigError(
            "changefeeds may use AWS_MSK_IAM with brokers of Amazon MSK alone, and with TLS",
            code="CDC:ErrAPIInvalidParam",
            hint="name the brokers as Amazon does, and enable-tls=true",
        )


def over_defaults(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a replica config with the defaults for what it leaves out."""
    return merge_replica_configs(default_replica_config(), config or {})


def _sink_invalid(sink_uri: str, error: TidecastError) -> ConfigError:
    return ConfigError(f"sink uri invalid '{masked_sink_uri(sink_uri)}': {error_text(error)}", code=_SINK_URI)


def error_text(error: Exception) -> str:
    """Return an error as the API tells it: with TiCDC's code where it has one, and without Java's stack."""
    return error.coded if isinstance(error, TidecastError) else root_cause(error)
