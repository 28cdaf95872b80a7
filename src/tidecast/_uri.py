"""Places with messages as URIs, and URIs without their secrets."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlencode, urlsplit

from pydantic import SecretStr

from tidecast._errors import ConfigError

HIDDEN = "xxxxx"
_SECRET = re.compile(
    r"pass|pwd|secret|token|cred|signature|bearer|cookie|jaas|(access|account|shared|api|private)[-_. ]?key"
    r"|(?<![a-z])(sas|auth(entication|orization)?)(?![a-z0-9])",
    re.I,
)
_SECRETS = frozenset({"sasl-password", "sasl-gssapi-password", "sasl-oauth-client-secret"})
SINK_PARAMETERS = _SECRETS | frozenset(
    (
        *("protocol", "transaction-atomicity", "schema-registry", "only-output-updated-columns", "content-compatible"),
        *("debezium-disable-schema", "debezium-include-start-ts", "partition-num", "replication-factor"),
        *("kafka-version", "max-message-bytes"),
        *("compression", "kafka-client-id", "auto-create-topic", "dial-timeout", "write-timeout", "read-timeout"),
        *("required-acks", "enable-tls", "ca", "cert", "key", "insecure-skip-verify", "sasl-user", "sasl-mechanism"),
        *("sasl-gssapi-auth-type", "sasl-gssapi-keytab-path", "sasl-gssapi-kerberos-config-path"),
        *("sasl-gssapi-service-name", "sasl-gssapi-user", "sasl-gssapi-realm", "sasl-gssapi-disable-pafxfast"),
        *("sasl-oauth-client-id", "sasl-oauth-token-url", "sasl-oauth-scopes", "sasl-oauth-grant-type"),
        *("sasl-oauth-audience",),
        *(
            "enable-tidb-extension",
            "max-batch-size",
            "avro-enable-watermark",
            "avro-include-before-value",
            "avro-decimal-handling-mode",
        ),
        *("avro-bigint-unsigned-handling-mode", "encoding-format", "output-row-key", "format", "layout"),
        *("worker-count", "flush-interval", "file-size", "use-table-id-as-path", "output-column-id"),
        "spool-disk-quota",
    )
)
"""The parameters that a sink URI may have: TiCDC's, and `format` of topics in files."""
SOURCE_PARAMETERS = SINK_PARAMETERS | frozenset(
    (
        *("topics", "start", "large-message-handle-compression", "claim-check-storage-uri", "layout", "terminator"),
        *("csv-delimiter", "csv-quote", "csv-null", "csv-include-commit-ts", "csv-output-old-value"),
        *("csv-output-handle-key", "csv-binary-encoding-method", "csv-output-field-header", "column-selectors"),
        *("debezium-decimal-handling-mode", "debezium-bigint-unsigned-handling-mode"),
    )
)
_STORAGE_SECRETS = frozenset(
    ("access-key", "secret-access-key", "session-token", "external-id", "account-key", "sas-token", "encryption-key")
)
_S3 = frozenset(
    (
        *("access-key", "secret-access-key", "session-token", "endpoint", "region", "force-path-style", "role-arn"),
        *("external-id", "use-accelerate-endpoint", "profile", "provider", "storage-class", "sse", "sse-kms-key-id"),
        "acl",
    )
)
_GCS = frozenset(("credentials-file", "endpoint", "storage-class", "predefined-acl"))
_AZURE = frozenset(
    (
        *("account-name", "account-key", "sas-token", "endpoint", "access-tier", "encryption-scope", "encryption-key"),
        *("storage-class",),
    )
)
STORAGE_PARAMETERS: Mapping[str, frozenset[str]] = {"s3a": _S3, "gs": _GCS, "abfs": _AZURE, "abfss": _AZURE}
"""The parameters of a storage's URI, beside those of messages, by what Spark calls the storage.

Source: Other documents, URIs of external storage.
"""
_OF_STORAGES = _S3 | _GCS | _AZURE
UNWRITTEN: Mapping[str, str] = {
    **dict.fromkeys(("sse", "sse-kms-key-id", "encryption-scope", "encryption-key"), "set the bucket's own encryption"),
    **dict.fromkeys(("acl", "predefined-acl"), "set the bucket's own access rules"),
    **dict.fromkeys(("storage-class", "access-tier"), "let a rule of the bucket move what is old"),
}
"""Those of them for what is written that have no effect here, each with what serves in its place."""
_PUBLIC = (SOURCE_PARAMETERS | _OF_STORAGES) - _SECRETS - _STORAGE_SECRETS
"""Parameters whose values may be shown. Any other may be a credential under a name that nobody here knows."""
# A password may hold what should have been escaped; only a port cannot be one.
_USERINFO = re.compile(r"^((?:[^:/?#]+://|//)?[^:/?#@]*):(?!//|[0-9]+(?:[/?#,]|$))(?:[^/?#]*|.*)@")
_PARAM = re.compile(r"([?&])([^=&#?]+)(=?)([^&]*)")
_FRAGMENT = re.compile(r"#.+", re.S)
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
_FILE_URI = re.compile(r"file:(?://(?:localhost)?(?=/)|(?!//))(/[^?#]*)", re.I)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
SHORTEST_HIDDEN = 4
"""What is shorter stands in many words: to hide it would show where it is."""
_KAFKA = ("kafka", "kafka+ssl")
REMOTE_SCHEMES: Mapping[str, str] = {
    "s3": "s3a",
    "s3a": "s3a",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "azure": "abfss",
    "azblob": "abfss",
    "hdfs": "hdfs",
    "webhdfs": "webhdfs",
}
"""The schemes of remote storages, each with what Spark calls it; `gcs`, `azure` and `azblob` are TiCDC's names."""
_CONTAINERS = ("azure", "azblob")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_KAFKA_PORT = 9092
_SINGLE_FILES = (".jsonl.gz", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Place:
    """A place with messages, taken apart.

    `hosts` are `host:port`, none for files. `path` is the URI's path, decoded; `topic` the default topic: the path
    of a Kafka URI, the last segment of a file's, without its suffix where it is a single file. `params` are the
    query's parameters, of which the first of a name counts.
    """

    scheme: str
    hosts: tuple[str, ...]
    path: str
    topic: str
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    password: SecretStr = field(default_factory=lambda: SecretStr(""))
    root: str = ""

    @property
    def is_kafka(self) -> bool:
        """Tell whether the messages lie in Kafka, not in files."""
        return self.scheme in _KAFKA

    @property
    def single_file(self) -> bool:
        """Tell whether the place is one file of messages, by its suffix, and not a folder."""
        return not self.is_kafka and self.path.endswith(_SINGLE_FILES)


def parse_place(uri: str) -> Place:
    """Return what a URI `kafka://host[:port][,host…]/topic?…` or `file:///folder/topic?…` says.

    Raises ConfigError (`CDC:ErrSinkURIInvalid`) for any other; its text has no secrets. A place without a topic is
    refused unless the parameter `topics` chooses them, or it is a whole bucket, which a storage sink may write to.
    Source: Changefeed configuration, sink URI.
    """
    if _UNPRINTABLE.search(uri):
        raise _invalid(uri, "it contains a blank or a control character", "write %20 for a blank")
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _invalid(uri, "it is not a URI") from None
    params: dict[str, str] = {}
    storage = parts.scheme in REMOTE_SCHEMES
    # TiCDC takes the + of a secret for itself there, and takes names in any spelling.
    for name, value in parse_qsl(parts.query.replace("+", "%2B") if storage else parts.query, keep_blank_values=True):
        spelt = name.lower().replace("_", "-")
        params.setdefault(spelt if storage and spelt in _OF_STORAGES else name, value)
    userinfo, _, netloc = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    path, root = unquote(parts.path), ""
    if parts.scheme in _KAFKA:
        hosts = tuple(_host(uri, host) for host in netloc.split(","))
        topic = path.strip("/")
    elif parts.scheme in ("file", "dbfs"):
        if netloc not in ("", "localhost") or not path.startswith("/"):
            raise _invalid(uri, "a file's path is absolute", "write file:///folder/topic")
        hosts, topic = (), _file_topic(path)
    elif storage:
        hosts, topic = (), _file_topic(path)
        root = storage_root(parts.scheme, parts.netloc, params.get("account-name", ""))
        if password or not root:
            raise _invalid(uri, "this is no place on a storage", storage_hint(parts.scheme))
    else:
        known = "write kafka://host:9092/topic, file:///folder/topic or s3a://bucket/folder/topic"
        raise _invalid(uri, f"unknown scheme '{parts.scheme}'", known)
    if not topic and not root and not params.get("topics"):
        raise _invalid(
            uri, "[CDC:ErrKafkaInvalidConfig]no topic is specified in sink-uri", "end the path with the topic's name"
        )
    return Place(parts.scheme, hosts, path, topic, params, unquote(user), SecretStr(unquote(password)), root)


def storage_root(scheme: str, netloc: str, account: str = "") -> str:
    """Return the URI of a whole bucket or container, by the name that Spark knows it by; empty where nothing is named.

    A container is one of an account: as `container@account.dfs.core.windows.net`, or by its name beside it.
    """
    if scheme not in _CONTAINERS:
        return netloc and f"{'gs' if scheme == 'gcs' else scheme}://{netloc}"
    if netloc and _ACCOUNT.fullmatch(account) and "@" not in netloc:
        netloc = f"{netloc}@{account}.dfs.core.windows.net"
    return f"abfss://{netloc}" if "@" in netloc else ""


def storage_hint(scheme: str) -> str:
    """Return how a place on a storage is written."""
    if scheme in _CONTAINERS:
        whole = "abfss://container@ACCOUNT.dfs.core.windows.net/folder"
        return f"write {whole}, or a URI of messages as {scheme}://container/folder?account-name=ACCOUNT"
    return f"write {scheme}://bucket/folder/topic; credentials belong into the environment, or a URI of messages"


def _file_topic(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return next((name.removesuffix(s) for s in _SINGLE_FILES if name.endswith(s)), name)


def scheme_of(text: str) -> str:
    """Return the scheme that a text begins with, in lower case; nothing where it begins with none."""
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


def source_uri(text: str) -> str:
    """Return a source's URI: the text itself, or for a path with `?` and parameters behind it the `file://` URI.

    What begins like a scheme is a URI; in a path only `?` has a meaning, and it may be relative and begin with `~/`.
    """
    if _SCHEME.match(text) or not text or "\0" in text:
        return text
    path, separator, query = text.partition("?")
    return f"{Path(path).expanduser().absolute().as_uri()}{separator}{query}"


def unknown_parameters(place: Place, known: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each parameter whose name is not among the known ones, with the one that was probably meant, if any."""
    if place.root:
        known = {*known, *STORAGE_PARAMETERS.get(REMOTE_SCHEMES[place.scheme], ())}
    for name in place.params:
        if name not in known:
            spelt = re.sub("[_ .]", "-", name.strip().lower())
            yield name, next(iter(difflib.get_close_matches(spelt, known, n=1, cutoff=0.75)), None)


def local_path(text: str | os.PathLike[str], option: str) -> Path:
    """Return the local path that an option names: a plain path, or a `file://` URI, which is percent-decoded.

    What begins like a scheme is one; a path may have a colon behind a `/`, as `./a:b`. Raises ConfigError, which names
    the option, for every other scheme and for a text that is no path. Source: Other documents, RFC 8089.
    """
    place = os.fspath(text)
    scheme = _SCHEME.match(place)
    if scheme and scheme[1].lower() != "file":
        raise ConfigError(
            f"{option}: {scheme[1]}: is not a storage that is supported here",
            where=_UNPRINTABLE.sub("?", redact_uri(place)),
            hint="name a local folder, as /folder, ./folder or file:///folder",
        )
    uri = _FILE_URI.fullmatch(place)
    if scheme and not uri:
        hint = "write file:///folder, with %23 for # and %3F for ?"
        raise ConfigError(f"{option}: this is no file:// URI", where=_UNPRINTABLE.sub("?", place), hint=hint)
    path = os.fsdecode(unquote_to_bytes(uri[1])) if uri else place
    if not path or "\0" in path:
        raise ConfigError(f"{option}: {place!r} names no folder", hint="as /folder, ./folder or file:///folder")
    return Path(path)


def redact_uri(uri: str) -> str:
    """Return a URI, with or without its scheme, with `xxxxx` for all that may be a secret.

    That is the password of its user, the value of every parameter but those that are known to hold none, and what
    follows a `#`. The value of a parameter may be such a URI.
    """
    return _redacted(uri, _redacted_value)


def masked_sink_uri(uri: str) -> str:
    """Return a sink URI without secrets, as TiCDC shows it.

    If a parameter was hidden, all are in order of name, and escaped as Go does.
    """
    shown = redact_uri(uri)
    before, separator, rest = shown.partition("?")
    if rest == uri.partition("?")[2]:
        return shown
    query, mark, fragment = rest.partition("#")
    parameters = sorted(parse_qsl(query, keep_blank_values=True), key=lambda parameter: parameter[0])
    return before + separator + urlencode(parameters) + mark + fragment


def _redacted_value(text: str) -> str:
    return _redacted(text, lambda inner: HIDDEN if re.search("[:@?#]", inner) else inner)


def _redacted(uri: str, public: Callable[[str], str]) -> str:
    """Return a URI without its secrets; `public` shows the values of public parameters."""

    def parameter(match: re.Match[str]) -> str:
        before, name, equals, value = match.groups()
        if unquote(name) not in _PUBLIC:
            return f"{before}{name}={HIDDEN if value else ''}" if equals else f"{before}{HIDDEN}"
        inner = unquote(value)
        shown = public(inner)
        return f"{before}{name}{equals}{value if shown == inner else shown}"

    return _FRAGMENT.sub(f"#{HIDDEN}", _PARAM.sub(parameter, _USERINFO.sub(rf"\1:{HIDDEN}@", uri)))


def secrets_of(place: Place) -> list[str]:
    """Return the texts of a place that may be secrets, but those too short to look for in other texts."""
    hidden = (v for k, v in place.params.items() if is_secret_name(k) or k not in _PUBLIC)
    return [text for text in (place.password.get_secret_value(), *hidden) if len(text) >= SHORTEST_HIDDEN]


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets, one of which may be a part of another; an empty one is none."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a setting of this name holds a secret."""
    return bool(_SECRET.search(name))


def _host(uri: str, text: str) -> str:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+)(?::([0-9]{1,5}))?", text)
    if not found or int(found[2] or _KAFKA_PORT) not in range(1, 65536):
        raise _invalid(uri, "every broker is host:port", "write kafka://host:9092/topic")
    return f"{found[1]}:{found[2] or _KAFKA_PORT}"


def _invalid(uri: str, why: str, hint: str | None = None) -> ConfigError:
    shown = _UNPRINTABLE.sub("?", redact_uri(uri))
    return ConfigError(f"sink uri invalid '{shown}': {why}", code="CDC:ErrSinkURIInvalid", hint=hint)
