"""The TLS side of `--secure-port`. Charts of the Go cloud-controller-manager probe it with https and without checking
the name.

Must not be used for anything that trusts the certificate: without files it is self-signed, made anew at each start,
and only kept in memory.
"""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

_VALID = timedelta(days=3650)


def server_tls(cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """A server's context with the given pair, or with a self-signed one. Raises OSError when a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file is not None and key_file is not None:
        context.load_cert_chain(cert_file, key_file)
        return context
    # The ssl module takes certificates from files only; the directory is private and gone before anybody connects.
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.write_bytes(_self_signed(datetime.now(UTC)))
        context.load_cert_chain(pair)
    return context


def _self_signed(now: datetime) -> bytes:
    # Imported here: it costs 10 MB, and only a process with --secure-port and no certificate needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
