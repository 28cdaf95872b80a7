"""Errors of librdkafka and of Spark's Kafka source and sink, as tidecast's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidecast._errors import ConfigError, TerminalError, TidecastError, TransientError, Unreachable


@contextmanager
def kafka_errors(where: str) -> Iterator[None]:
    """Turn what Spark's Kafka source and sink raise while they run into the errors of tidecast, on one line.

    Errors that are not Kafka's go through unchanged.
    """
    try:
        yield
    except TidecastError:
        raise
    except Exception as error:
        found = _KAFKA_ERROR.search(str(error))
        if found is None:
            raise
        name, words = found[1], (found[2] or found[1]).strip().rstrip(".")
        kind, code, hint = _KINDS.get(name, _OTHER)
        raise kind(f"Kafka says: {words}", code=code, where=where, hint=hint) from None


# The last is what Spark's source says where a broker did not answer, but did when it was asked what it still has.
_KAFKA_ERROR = re.compile(
    r"(?:org\.apache\.(?:kafka\.common\.(?:errors|config)\.|spark\.sql\.kafka010\.Kafka)"
    r"|javax\.security\.auth\.login\.(?=LoginException)"
    r"|java\.util\.concurrent\.(?=TimeoutException: Cannot fetch record))(\w+)Exception(?:: ([^\r\n]*))?"
)
_Kind = tuple[type[TidecastError], str, str | None]
_CREDENTIALS: _Kind = (
    ConfigError,
    "CDC:ErrKafkaNewProducer",
    "check sasl-mechanism and what goes with it, as sasl-user and sasl-password, or enable-tls, ca, cert and key",
)
_TOKENS: _Kind = (
    Unreachable,
    "CDC:ErrKafkaNewProducer",
    "check sasl-oauth-token-url, and that its server answers driver and executors",
)
_RIGHTS: _Kind = (ConfigError, "CDC:ErrKafkaAsyncSendMessage", "ask for the right to use the topic")
_SIZE: _Kind = (TerminalError, "CDC:ErrMessageTooLarge", "raise max-message-bytes and the topic's max.message.bytes")
_OTHER: _Kind = (TransientError, "CDC:ErrKafkaAsyncSendMessage", None)
_KINDS: dict[str, _Kind] = {
    "SaslAuthentication": _CREDENTIALS,
    "SslAuthentication": _CREDENTIALS,
    "UnsupportedSaslMechanism": _CREDENTIALS,
    "Config": (
        ConfigError,
        "CDC:ErrKafkaNewProducer",
        "AWS_MSK_IAM takes software.amazon.msk:aws-msk-iam-auth among Spark's jars",
    ),
    "Login": _TOKENS,  # librdkafka, which asked before with the same credentials, got one
    "TopicAuthorization": _RIGHTS,
    "GroupAuthorization": _RIGHTS,
    "ClusterAuthorization": _RIGHTS,
    "RecordTooLarge": _SIZE,
    "IllegalState": (TransientError, "CDC:ErrKafkaNewProducer", "messages went while they were read: start again"),
    "Timeout": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs and has the topic"),
    "Network": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs"),
    "Disconnect": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs"),
}


def unreachable(words: str, where: str, *, answered: bool = True) -> Unreachable:
    """Return the error for a cluster that does not answer; `answered` where something did that speaks otherwise."""
    return Unreachable(
        f"Kafka does not answer: {words}",
        code="CDC:ErrKafkaNewProducer",
        where=where,
        hint="check host and port and whether the broker runs"
        if answered
        else "check host and port, and whether this port wants enable-tls or sasl-mechanism",
    )


def no_token(words: str, where: str) -> Unreachable:
    """Return the error for a server of tokens that does not answer."""
    return Unreachable(words, code=_TOKENS[1], where=where, hint=_TOKENS[2])


def not_let_in(words: str, where: str) -> ConfigError:
    """Return the error for a cluster that refuses our credentials."""
    return ConfigError(
        f"Kafka does not let us in: {words}",
        code="CDC:ErrKafkaNewProducer",
        where=where,
        hint=_CREDENTIALS[2],
    )
