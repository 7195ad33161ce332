"""Where the API server is and how to be let in: the Pod's service account, a kubeconfig, or a plain address.

Read anew for each use: service account tokens are replaced every hour, and this service asks only now and then.
Speaks to nobody itself.
"""

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appkit.errors import FailedPrecondition
from appkit.logs import register_secret
from appkit.settings import parse_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class KubeAccess:
    """An API server and the proof of who asks. `token` is empty when a client certificate, or nothing, is the proof."""

    url: str
    tls: ssl.SSLContext
    token: str


def find_access(
    *, kubeconfig: Path | None, server: str, env: Mapping[str, str], account: Path = SERVICE_ACCOUNT
) -> KubeAccess:
    """A kubeconfig if there is one, else a bare address, else the Pod's service account.

    `server` also replaces the kubeconfig's address. Raises FailedPrecondition with what is missing.
    """
    if kubeconfig is not None:
        return _from_kubeconfig(kubeconfig, server)
    if server:
        return KubeAccess(server, ssl.create_default_context(), "")
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise FailedPrecondition(
            "no way to the Kubernetes API server: not in a Pod (KUBERNETES_SERVICE_HOST is not set), "
            "and neither --kubeconfig nor --kube-server is given"
        )
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = _secret(_read(account / "token").decode().strip())
    return KubeAccess(url, _context(_read(account / "ca.crt"), None, None), token)


def _from_kubeconfig(file: Path, server: str) -> KubeAccess:
    try:
        document = parse_yaml(_read(file).decode())
    except ValueError as error:
        raise FailedPrecondition(f"{file}: {error}") from error
    document = document if isinstance(document, dict) else {}
    context = _named(document, "contexts", "context", str(document.get("current-context", "")), file)
    cluster = _named(document, "clusters", "cluster", str(context.get("cluster", "")), file)
    user = _named(document, "users", "user", str(context.get("user", "")), file)
    if "exec" in user or "auth-provider" in user:
        raise FailedPrecondition(f"{file}: the user logs in by a plugin; give this service a token or a certificate")
    token = user.get("token") or (
        _read(file.parent / user["tokenFile"]).decode().strip() if user.get("tokenFile") else ""
    )
    authority = _material(cluster, "certificate-authority", file)
    tls = _context(authority, _material(user, "client-certificate", file), _material(user, "client-key", file))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return KubeAccess(server or str(cluster.get("server", "")), tls, _secret(str(token)))


def _named(document: dict[str, Any], section: str, key: str, name: str, file: Path) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            return dict(entry.get(key) or {})
    raise FailedPrecondition(f"{file}: {section} has no entry named {name!r}")


def _material(entry: dict[str, Any], key: str, file: Path) -> bytes | None:
    """A certificate or key, given as `<key>-data` (base64) or as the path of a file, relative to the kubeconfig."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(str(data))
    return _read(file.parent / str(entry[key])) if entry.get(key) else None


def _context(authority: bytes | None, certificate: bytes | None, key: bytes | None) -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if certificate and key:
        # The ssl module reads a key from a file only; this one is readable to us alone, and gone at once.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            tls.load_cert_chain(pair.name)
    return tls


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FailedPrecondition(f"{file} cannot be read: {error.strerror}") from error


def _secret(token: str) -> str:
    register_secret(token)
    return token
