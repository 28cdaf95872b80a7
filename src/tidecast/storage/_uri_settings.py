"""What a storage's URI says by TiCDC's parameters: who asks, and where the storage is.

Source: Other documents, URIs of external storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidecast._errors import ConfigError

_S3A = {
    "access-key": "access.key",
    "secret-access-key": "secret.key",
    "session-token": "session.token",
    "endpoint": "endpoint",
    "region": "endpoint.region",
    "force-path-style": "path.style.access",
}
"""The names of Hadoop's S3A, behind `fs.s3a.bucket.NAME.`."""
_REGION = "us-east-1"
_UNUSABLE = {
    "role-arn": "let the environment assume the role, as AWS_ROLE_ARN or a profile does",
    "external-id": "let the environment assume the role, as AWS_ROLE_ARN or a profile does",
    "use-accelerate-endpoint": "leave it out: the bucket's own endpoint serves as well",
}


@dataclass(frozen=True)
class UriSettings:
    """Settings for Spark's connector, by Hadoop's names, and for fsspec's driver, where those do not tell it."""

    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, root: str, params: Mapping[str, str]) -> UriSettings:
        """Return what a URI's parameters say of the bucket or container `root`.

        Raises ConfigError (`CDC:ErrStorageSinkInvalidConfig`) for what cannot be had, or is not whole.
        """
        given = {name: value for name, value in params.items() if value}
        for name, hint in _UNUSABLE.items():
            if given.get(name, "false") != "false":
                raise _wrong(f"{name} has no effect here", root, hint)
        scheme, _, authority = root.partition("://")
        return _KINDS.get(scheme, _none)(root, authority, given)


def _none(root: str, authority: str, given: Mapping[str, str]) -> UriSettings:
    return UriSettings()


def _s3(root: str, bucket: str, given: Mapping[str, str]) -> UriSettings:
    if ("access-key" in given) != ("secret-access-key" in given):
        raise _wrong("access-key and secret-access-key belong together", root, "give both, or neither")
    if "endpoint" in given:  # as it is for TiCDC, whatever the store
        given = {"force-path-style": "true", "region": _REGION, **given}
    return UriSettings({f"fs.s3a.bucket.{bucket}.{_S3A[name]}": given[name] for name in _S3A if name in given})


def _gcs(root: str, bucket: str, given: Mapping[str, str]) -> UriSettings:
    file = given.get("credentials-file")
    if not file:
        return UriSettings()
    hadoop = {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": file,
    }
    return UriSettings(hadoop, {"token": file})


def _azure(root: str, authority: str, given: Mapping[str, str]) -> UriSettings:
    host = authority.rpartition("@")[2]
    if key := given.get("account-key"):
        return UriSettings({f"fs.azure.account.key.{host}": key}, {"account_key": key})
    if token := given.get("sas-token"):
        hadoop = {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": token}
        return UriSettings(hadoop, {"sas_token": token})
    return UriSettings()


_KINDS = {"s3": _s3, "s3a": _s3, "gs": _gcs, "abfs": _azure, "abfss": _azure}


def _wrong(what: str, root: str, hint: str) -> ConfigError:
    return ConfigError(what, code="CDC:ErrStorageSinkInvalidConfig", where=root, hint=hint)
