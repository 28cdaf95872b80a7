"""What a storage's URI says by TiCDC's parameters: who asks, and where the storage is.

Source: Other documents, URIs of external storage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidecast._errors import ConfigError
from tidecast._go import parse_bool
from tidecast._uri import REMOTE_SCHEMES, STORAGE_PARAMETERS

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
_ENDPOINT = re.compile(r"https?://[^/?#@\s]+/?")
_ASSUMED = "let the environment assume the role, as AWS_ROLE_ARN or a profile does"
_UNUSABLE = {
    **dict.fromkeys(("role-arn", "external-id"), _ASSUMED),
    "profile": "name it in the environment, as AWS_PROFILE",
    "provider": "leave it out: endpoint says where the storage is",
    "credentials-file": "name it in the environment, as GOOGLE_APPLICATION_CREDENTIALS",
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
        scheme, _, authority = root.partition("://")
        kind = REMOTE_SCHEMES[scheme]
        given = {n: params[n] for n in STORAGE_PARAMETERS.get(kind, ()) if params.get(n)}
        for name, hint in _UNUSABLE.items():
            if name in given:
                raise _wrong(f"{name} has no effect here", root, hint)
        if kind == "s3a":
            return _s3(root, authority, given)
        if "endpoint" in given:
            raise _wrong("endpoint has no effect here", root, "leave it out: the storage's name says where it is")
        return _azure(authority, given) if kind.startswith("abfs") else cls()


def _s3(root: str, bucket: str, given: Mapping[str, str]) -> UriSettings:
    if ("access-key" in given) != ("secret-access-key" in given):
        raise _wrong("access-key and secret-access-key belong together", root, "give both, or neither")
    if _truth(given, "use-accelerate-endpoint", root):
        hint = "leave it out: the bucket's own endpoint serves as well"
        raise _wrong("use-accelerate-endpoint has no effect here", root, hint)
    said = {name: given[name] for name in _S3A if name in given}
    if "access-key" in said:  # to which no other key's token belongs; an empty setting stands before a bucketless one
        said.setdefault("session-token", "")
    if "endpoint" in said:
        if not _ENDPOINT.fullmatch(said["endpoint"]):
            raise _wrong("endpoint is no address of a store", root, "write endpoint=http://host:9000, without a user")
        said = {"force-path-style": "true", "region": _REGION, **said}  # as for TiCDC, whatever the store
    if "force-path-style" in said:
        said["force-path-style"] = str(_truth(said, "force-path-style", root)).lower()
    return UriSettings({f"fs.s3a.bucket.{bucket}.{_S3A[name]}": value for name, value in said.items()})


def _azure(authority: str, given: Mapping[str, str]) -> UriSettings:
    host = authority.rpartition("@")[2]
    if key := given.get("account-key"):
        return UriSettings({f"fs.azure.account.key.{host}": key}, {"account_key": key})
    if token := given.get("sas-token"):
        hadoop = {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": token}
        return UriSettings(hadoop, {"sas_token": token})
    return UriSettings()


def _truth(given: Mapping[str, str], name: str, root: str) -> bool:
    try:
        return parse_bool(given.get(name, "false"))
    except ValueError as error:
        raise _wrong(f"{name}: {error}", root, f"{name}=true or {name}=false") from None


def _wrong(what: str, root: str, hint: str) -> ConfigError:
    return ConfigError(what, code="CDC:ErrStorageSinkInvalidConfig", where=root, hint=hint)
