"""Certificates and kubeconfigs of one bench: a CA of its own, made anew at each start.

Must not outlive the bench: keys lie in its folder, readable by their owner alone.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = dt.timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """Files of a certificate and of its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs for one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench-ca")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = (
            self._builder(self._name, self._key).add_extension(constraints, critical=True).sign(self._key, _HASH)
        )
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, file: str, name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """A certificate for user `name` in `groups`; with `hosts` (names, addresses) it may serve too."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
        builder = self._builder(x509.Name(subject), key).add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        pair = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        pair.certificate.write_bytes(builder.sign(self._key, _HASH).public_bytes(serialization.Encoding.PEM))
        _write_secret(pair.key, _private_pem(key))
        return pair

    def service_account_keys(self) -> Pair:
        """Key pair for service accounts' tokens (`certificate` is the public key)."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = Pair(self._folder / "sa.pub", self._folder / "sa.key")
        pair.certificate.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        _write_secret(pair.key, _private_pem(key))
        return pair

    def kubeconfig(self, file: Path, server: str, user: Pair | str) -> Path:
        """Writes a kubeconfig for a certificate or a bearer token."""
        who: dict[str, Any] = (
            {"token": user}
            if isinstance(user, str)
            else {"client-certificate": str(user.certificate), "client-key": str(user.key)}
        )
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": {"server": server, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "user", "user": who}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "user"}}],
            "current-context": "bench",
        }
        _write_secret(file, yaml.safe_dump(document, sort_keys=False).encode())
        return file

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + VALID)
        )


_HASH = hashes.SHA256()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
