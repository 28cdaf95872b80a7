"""SASL for the two Kafka clients: the options of each mechanism, and their names in either client."""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidecast._errors import ConfigError, needs_extra

_SECURITY = "org.apache.kafka.common.security"
_IAM = "AWS_MSK_IAM"
_OAUTH = "OAUTHBEARER"
_AUTHORITIES = (
    *("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"),
    *("/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"),
)
_CLIENT_CREDENTIALS = "client_credentials"
# Kafka's own client before 3.9.1 would read what file: names, and quote it in an error.
_TOKEN_URL = re.compile(r"https?://[^/?#@\s]+(?:[/?][^#\s]*)?", re.I)


@dataclass(frozen=True, kw_only=True)
class SaslOptions:
    """The parameters of a sink URI that say who we are, under TiCDC's names (with `_` for `-`)."""

    sasl_mechanism: str = ""
    sasl_user: str = ""
    sasl_password: str = field(default="", repr=False)
    sasl_oauth_client_id: str = ""
    sasl_oauth_client_secret: str = field(default="", repr=False)
    sasl_oauth_token_url: str = ""
    sasl_oauth_scopes: str = ""
    sasl_oauth_grant_type: str = _CLIENT_CREDENTIALS
    sasl_oauth_audience: str = ""
    sasl_gssapi_auth_type: str = ""
    sasl_gssapi_keytab_path: str = ""
    sasl_gssapi_service_name: str = ""
    sasl_gssapi_user: str = ""
    sasl_gssapi_realm: str = ""

    def sasl_wrongs(self) -> Iterator[str]:
        """Yield what is wrong with them."""
        mechanism = self.sasl_mechanism.upper()
        if mechanism and mechanism not in _MECHANISMS:
            yield f"sasl-mechanism {self.sasl_mechanism} is not supported, only {', '.join(_MECHANISMS)} are"
        elif (self.sasl_user or self.sasl_password) and not mechanism:
            yield "sasl-user and sasl-password need a sasl-mechanism"
        elif mechanism != _OAUTH and (
            self.sasl_oauth_client_id or self.sasl_oauth_client_secret or self.sasl_oauth_token_url
        ):
            yield f"sasl-oauth-client-id, -client-secret and -token-url need sasl-mechanism={_OAUTH}"
        elif mechanism:
            yield from _MECHANISMS[mechanism].wrongs(self)

    @property
    def uses_aws_identity(self) -> bool:
        """Tell whether the machine's own AWS credentials are used."""
        return self.sasl_mechanism.upper() == _IAM

    def sasl_for_librdkafka(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka that say who we are."""
        mechanism = self.sasl_mechanism.upper()
        return {"sasl.mechanism": mechanism, **_MECHANISMS[mechanism].native(self)} if mechanism else {}

    def sasl_for_java(self) -> dict[str, str]:
        """Return the settings of Kafka's own client that say who we are."""
        mechanism = self.sasl_mechanism.upper()
        return {"sasl.mechanism": mechanism, **_MECHANISMS[mechanism].java(self)} if mechanism else {}


class _Mechanism(NamedTuple):
    """A mechanism: what is wrong with its parameters, and either client's settings."""

    wrongs: Callable[[SaslOptions], Iterator[str]]
    native: Callable[[SaslOptions], dict[str, Any]]
    java: Callable[[SaslOptions], dict[str, str]]


def _jaas(module: str, **options: str) -> str:
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"') for value in options.values())
    said = "".join(f' {name}="{value}"' for name, value in zip(options, quoted, strict=True))
    return f"{module} required{said};"


def _nothing(options: SaslOptions) -> Iterator[str]:
    yield from ()


def _password_native(options: SaslOptions) -> dict[str, str]:
    return {"sasl.username": options.sasl_user, "sasl.password": options.sasl_password}


def _plain_java(options: SaslOptions) -> dict[str, str]:
    return _password_java(options, f"{_SECURITY}.plain.PlainLoginModule")


def _scram_java(options: SaslOptions) -> dict[str, str]:
    return _password_java(options, f"{_SECURITY}.scram.ScramLoginModule")


def _password_java(options: SaslOptions, module: str) -> dict[str, str]:
    return {"sasl.jaas.config": _jaas(module, username=options.sasl_user, password=options.sasl_password)}


def _oauth_wrongs(options: SaslOptions) -> Iterator[str]:
    if not (options.sasl_oauth_client_id and options.sasl_oauth_client_secret and options.sasl_oauth_token_url):
        yield "OAUTHBEARER needs sasl-oauth-client-id, sasl-oauth-client-secret and sasl-oauth-token-url"
    elif not _TOKEN_URL.fullmatch(options.sasl_oauth_token_url):
        yield "sasl-oauth-token-url is not http(s)://host[:port][/path]"
    elif options.sasl_oauth_grant_type != _CLIENT_CREDENTIALS:
        yield f"sasl-oauth-grant-type is not supported, only {_CLIENT_CREDENTIALS} is"
    elif options.sasl_oauth_audience:
        yield "sasl-oauth-audience is not supported: Spark's Kafka client asks for no audience"


def _oauth_secret(options: SaslOptions) -> str:
    """Return the client's secret, which TiCDC has in Base64."""
    try:
        return base64.b64decode(options.sasl_oauth_client_secret, validate=True).decode()
    except (binascii.Error, ValueError):
        raise ConfigError(
            "sasl-oauth-client-secret is not Base64",
            code="CDC:ErrKafkaInvalidConfig",
            where="sink URI",
            hint="as in TiCDC it is the secret in Base64, with a reference, too: printf %s SECRET | base64",
        ) from None


def _oauth_native(options: SaslOptions) -> dict[str, str]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": options.sasl_oauth_client_id,
        "sasl.oauthbearer.client.secret": _oauth_secret(options),
        "sasl.oauthbearer.token.endpoint.url": options.sasl_oauth_token_url,
        **({"sasl.oauthbearer.scope": options.sasl_oauth_scopes} if options.sasl_oauth_scopes else {}),
        **_trusted_by_system(),
    }


def _trusted_by_system() -> dict[str, str]:
    """Return the file of the system's authorities: librdkafka looks where the system that built it has that file."""
    files = (ssl.get_default_verify_paths().cafile, *_AUTHORITIES)
    found = next((file for file in files if file and Path(file).is_file()), None)
    return {"https.ca.location": found} if found else {}


def _oauth_java(options: SaslOptions) -> dict[str, str]:
    scope = {"scope": options.sasl_oauth_scopes} if options.sasl_oauth_scopes else {}
    return {
        "sasl.jaas.config": _jaas(
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
            clientId=options.sasl_oauth_client_id,
            clientSecret=_oauth_secret(options),
            **scope,
        ),
        "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": options.sasl_oauth_token_url,
    }


def _gssapi_wrongs(options: SaslOptions) -> Iterator[str]:
    needed = (options.sasl_gssapi_keytab_path, options.sasl_gssapi_user, options.sasl_gssapi_realm)
    if options.sasl_gssapi_auth_type.lower() != "keytab":
        yield "sasl-gssapi-auth-type is not supported, only keytab is: neither Kafka client takes a password"
    elif not (all(needed) and options.sasl_gssapi_service_name):
        yield ("GSSAPI needs sasl-gssapi-keytab-path, sasl-gssapi-user, sasl-gssapi-realm and sasl-gssapi-service-name")


def _principal(options: SaslOptions) -> str:
    return f"{options.sasl_gssapi_user}@{options.sasl_gssapi_realm}"


def _gssapi_native(options: SaslOptions) -> dict[str, str]:
    return {
        "sasl.kerberos.service.name": options.sasl_gssapi_service_name,
        "sasl.kerberos.principal": _principal(options),
        "sasl.kerberos.keytab": options.sasl_gssapi_keytab_path,
    }


def _gssapi_java(options: SaslOptions) -> dict[str, str]:
    keytab = options.sasl_gssapi_keytab_path
    module = "com.sun.security.auth.module.Krb5LoginModule"
    own = _jaas(module, useKeyTab="true", storeKey="true", keyTab=keytab, principal=_principal(options))
    return {"sasl.jaas.config": own, "sasl.kerberos.service.name": options.sasl_gssapi_service_name}


def _iam_native(options: SaslOptions) -> dict[str, Any]:
    """Return what signs a token each time one is needed: to librdkafka Amazon's mechanism is OAUTHBEARER."""
    with needs_extra("msk", f"sasl-mechanism={_IAM}"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-untyped]
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(f"{_IAM} needs a region", where="sink URI", hint="set AWS_REGION")

    def token(_: str) -> tuple[str, float]:
        signed, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return signed, expires_ms / 1000

    return {"sasl.mechanism": _OAUTH, "oauth_cb": token}


def _iam_java(options: SaslOptions) -> dict[str, str]:
    package = "software.amazon.msk.auth.iam"
    return {
        "sasl.jaas.config": _jaas(f"{package}.IAMLoginModule"),
        "sasl.client.callback.handler.class": f"{package}.IAMClientCallbackHandler",
    }


_MECHANISMS: dict[str, _Mechanism] = {
    "PLAIN": _Mechanism(_nothing, _password_native, _plain_java),
    "SCRAM-SHA-256": _Mechanism(_nothing, _password_native, _scram_java),
    "SCRAM-SHA-512": _Mechanism(_nothing, _password_native, _scram_java),
    _OAUTH: _Mechanism(_oauth_wrongs, _oauth_native, _oauth_java),
    "GSSAPI": _Mechanism(_gssapi_wrongs, _gssapi_native, _gssapi_java),
    _IAM: _Mechanism(_nothing, _iam_native, _iam_java),
}
