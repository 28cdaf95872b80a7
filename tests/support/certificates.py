"""Certificates for tests that need TLS: an authority nobody knows, and what it signs for 127.0.0.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority:
    """Signs certificates; its own lies in `ca`, all files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test authority")])
        own = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        signs = dict.fromkeys(_USES, False) | {"key_cert_sign": True}
        own = own.add_extension(x509.KeyUsage(**signs), critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.ca.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Write a certificate for 127.0.0.1 and its key, and return both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        named = self._builder(subject, key).add_extension(here, critical=False).add_extension(issuer, critical=False)
        signed = named.sign(self._key, hashes.SHA256())
        files = self.folder / f"{name}.pem", self.folder / f"{name}-key.pem"
        files[0].write_bytes(signed.public_bytes(_PEM))
        files[1].write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
