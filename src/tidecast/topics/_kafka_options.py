"""The connection options of a Kafka sink URI, for the two Kafka clients that we use.

librdkafka looks at the cluster (topics, partitions, offsets); Spark's Java client moves the messages.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tidecast._errors import ConfigError
from tidecast._go import parse_bool, parse_duration, parse_int
from tidecast.topics._kafka_sasl import SaslOptions

_log = logging.getLogger(__name__)

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_LARGEST_REQUEST = 2**31 - 1
_MORE_OVERHEAD = 64
"""How much more than TiCDC's 36 bytes Kafka's Java client counts for a message's own, and a little to spare."""


def _truth(text: str) -> bool:
    return bool(text) and parse_bool(text)


def _seconds(text: str) -> float:
    return parse_duration(text) / 10**9


@dataclass(frozen=True, kw_only=True)
class KafkaOptions(SaslOptions):
    """The connection parameters of a Kafka sink URI, under TiCDC's names (with `_` for `-`), defaults and checks.

    Durations are in seconds. Raises `ConfigError` with TiCDC's code for a value that cannot be.
    """

    partition_num: int | None = None
    replication_factor: int = 1
    auto_create_topic: bool = True
    max_message_bytes: int = 10485760
    compression: str = "none"
    kafka_client_id: str | None = None
    required_acks: int = -1
    dial_timeout: float = 10.0
    read_timeout: float = 10.0
    write_timeout: float = 10.0
    enable_tls: bool | None = None
    ca: str = ""
    cert: str = ""
    key: str = ""
    insecure_skip_verify: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, str]) -> KafkaOptions:
        """Read the parameters of a sink URI; those that say nothing about the connection are ignored."""
        given: dict[str, Any] = {}
        for member in fields(cls):
            name = member.name.replace("_", "-")
            if name in params:
                read = next(reader for kind, reader in _READERS.items() if str(member.type).startswith(kind))
                try:
                    given[member.name] = read(params[name])
                except ValueError:
                    raise ConfigError(
                        f"{name} cannot be {params[name]!r}",
                        code="CDC:ErrSinkURIInvalid",
                        where="sink URI",
                        hint=_HINTS.get(read),
                    ) from None
        return cls(**given)

    def __post_init__(self) -> None:
        files = [bool(path) for path in (self.ca, self.cert, self.key)]
        client_id = self.kafka_client_id
        for broken, code, message in (
            (
                self.partition_num is not None and self.partition_num <= 0,
                "CDC:ErrKafkaInvalidPartitionNum",
                f"invalid partition num {self.partition_num}",
            ),
            (
                self.required_acks not in (-1, 0, 1),
                "CDC:ErrKafkaInvalidRequiredAcks",
                f"invalid required acks {self.required_acks}, only support these values: "
                "0(NoResponse),1(WaitForLocal) and -1(WaitForAll)",
            ),
            (
                client_id is not None and not re.fullmatch(r"[A-Za-z0-9._-]+", client_id),
                "CDC:ErrKafkaInvalidClientID",
                f"invalid kafka client ID '{client_id}'",
            ),
            (
                self.max_message_bytes <= 0,
                "CDC:ErrCodecInvalidConfig",
                f"Codec invalid config: invalid max-message-bytes {self.max_message_bytes}",
            ),
            (
                self.replication_factor <= 0,
                "CDC:ErrKafkaInvalidConfig",
                f"invalid replication-factor {self.replication_factor}",
            ),
            *(
                (seconds <= 0, "CDC:ErrKafkaInvalidConfig", f"{name}-timeout must be greater than zero")
                for name, seconds in (
                    ("dial", self.dial_timeout),
                    ("write", self.write_timeout),
                    ("read", self.read_timeout),
                )
            ),
            (
                any(files) and not all(files),
                "CDC:ErrKafkaInvalidConfig",
                "ca, cert and key files should all be supplied",
            ),
            (
                all(files) and self.enable_tls is False,
                "CDC:ErrKafkaInvalidConfig",
                "credential files are supplied, but 'enable-tls' is set to false",
            ),
            *((True, "CDC:ErrKafkaInvalidConfig", wrong) for wrong in self.sasl_wrongs()),
        ):
            if broken:
                raise ConfigError(message, code=code, where="sink URI")

    @property
    def tls(self) -> bool:
        """Tell whether the connection is encrypted: as asked, or because certificates are given."""
        return bool(self.ca) if self.enable_tls is None else self.enable_tls

    @property
    def security(self) -> str:
        """Kafka's name for the kind of connection."""
        return ("SASL_" if self.sasl_mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")

    def for_librdkafka(self) -> dict[str, Any]:
        """Return the connection's settings for confluent-kafka."""
        settings: dict[str, Any] = {
            "security.protocol": self.security,
            "socket.connection.setup.timeout.ms": max(1000, int(self.dial_timeout * 1000)),
        }
        if self.kafka_client_id:
            settings["client.id"] = self.kafka_client_id
        settings |= self.sasl_for_librdkafka()
        if self.ca:
            settings |= {
                "ssl.ca.location": self.ca,
                "ssl.certificate.location": self.cert,
                "ssl.key.location": self.key,
            }
        if self.insecure_skip_verify and self.tls:
            settings["ssl.endpoint.identification.algorithm"] = "none"
        return settings

    def for_spark(self) -> dict[str, str]:
        """Return the connection's settings as options of Spark's Kafka source and sink."""
        settings = {"security.protocol": self.security, **self.sasl_for_java()}
        if self.kafka_client_id:
            settings["client.id"] = self.kafka_client_id
        if self.ca:
            # their contents, not their paths: the files need not lie on the executors
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _content(self.ca),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _content(self.cert),
                "ssl.keystore.key": _content(self.key),
            }
        if self.insecure_skip_verify and self.tls:
            # All that Kafka's Java client can leave out, and so the other one does: it asks who signed the certificate.
            _log.warning("insecure-skip-verify: brokers' names are not checked, but their certificates' signatures are")
            settings["ssl.endpoint.identification.algorithm"] = ""
        return {f"kafka.{name}": value for name, value in settings.items()}

    def for_spark_writes(self) -> dict[str, str]:
        """Return the options of Spark's Kafka sink: the connection's, and how messages are sent.

        A partition's order holds in every case: Kafka's producer keeps it by itself as long as all replicas
        acknowledge (it is idempotent then), otherwise by sending one request at a time.
        """
        compression = self.compression.lower()
        if compression not in _COMPRESSIONS:
            _log.warning("unknown compression %r, messages are not compressed", self.compression)
            compression = "none"
        settings = {
            "acks": "all" if self.required_acks == -1 else str(self.required_acks),
            "compression.type": compression,
            "max.request.size": str(min(self.max_message_bytes + _MORE_OVERHEAD, _LARGEST_REQUEST)),
            "buffer.memory": str(max(32 << 20, 2 * self.max_message_bytes)),
            "max.block.ms": str(int(self.dial_timeout * 1000)),
            "request.timeout.ms": str(int(self.read_timeout * 1000)),
            "delivery.timeout.ms": str(int(self.read_timeout * 1000) * 3),
        }
        if self.required_acks != -1:
            settings |= {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}
        return self.for_spark() | {f"kafka.{name}": value for name, value in settings.items()}


_READERS: dict[str, Callable[[str], object]] = {"int": parse_int, "bool": _truth, "float": _seconds, "str": str}
_HINTS: dict[Callable[[str], object], str] = {
    parse_int: "write a whole number",
    _truth: "write true or false",
    _seconds: "write a number with a unit, such as 10s",
}


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a PEM file"
        raise ConfigError(f"the file cannot be read: {reason}", code="CDC:ErrKafkaInvalidConfig", where=path) from None
