import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from appkit.errors import FailedPrecondition
from csi_node.kube_access import find_access


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any], current: str = "here") -> Path:
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": current,
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://k:6443", **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return file


def test_service_account(tmp_path: Path, authority: trustme.CA) -> None:
    (tmp_path / "token").write_text("token-of-account\n")
    (tmp_path / "ca.crt").write_bytes(pem(authority))
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = find_access(kubeconfig=None, server="", env=env, account=tmp_path)
    assert (access.url, access.token) == ("https://[fd00::1]:6443", "token-of-account")
    assert len(access.tls.get_ca_certs()) == 1
    (tmp_path / "token").write_text("token-renewed")
    access = find_access(kubeconfig=None, server="", env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account=tmp_path)
    assert (access.url, access.token) == ("https://10.0.0.1:443", "token-renewed")


def test_nothing_given(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="neither --kubeconfig nor --kube-server"):
        find_access(kubeconfig=None, server="", env={}, account=tmp_path)
    with pytest.raises(FailedPrecondition, match="token cannot be read"):
        find_access(kubeconfig=None, server="", env={"KUBERNETES_SERVICE_HOST": "k"}, account=tmp_path)


def test_plain_address() -> None:
    access = find_access(kubeconfig=None, server="http://127.0.0.1:8080", env={"KUBERNETES_SERVICE_HOST": "k"})
    assert (access.url, access.token) == ("http://127.0.0.1:8080", "")


def test_kubeconfig_with_token(tmp_path: Path, authority: trustme.CA) -> None:
    (tmp_path / "ca.pem").write_bytes(pem(authority))
    (tmp_path / "token").write_text("token-in-file\n")
    data = {"certificate-authority-data": base64.b64encode(pem(authority)).decode()}
    access = find_access(kubeconfig=kubeconfig(tmp_path, data, {"token": "token-inline"}), server="", env={})
    assert (access.url, access.token) == ("https://k:6443", "token-inline")
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    file = kubeconfig(tmp_path, {"certificate-authority": "ca.pem"}, {"tokenFile": "token"})
    access = find_access(kubeconfig=file, server="https://other:1", env={})
    assert (access.url, access.token) == ("https://other:1", "token-in-file")
    assert len(access.tls.get_ca_certs()) == 1


def test_kubeconfig_with_certificate(tmp_path: Path, authority: trustme.CA) -> None:
    client = authority.issue_cert("client")
    user = {
        "client-certificate-data": base64.b64encode(client.cert_chain_pems[0].bytes()).decode(),
        "client-key-data": base64.b64encode(client.private_key_pem.bytes()).decode(),
    }
    access = find_access(kubeconfig=kubeconfig(tmp_path, {"insecure-skip-tls-verify": True}, user), server="", env={})
    assert (access.token, access.tls.verify_mode) == ("", ssl.CERT_NONE)


@pytest.mark.parametrize(
    ("user", "current", "words"),
    [({"exec": {"command": "aws"}}, "here", "logs in by a plugin"), ({}, "gone", "contexts has no entry named 'gone'")],
)
def test_kubeconfig_that_cannot_be_used(tmp_path: Path, user: dict[str, Any], current: str, words: str) -> None:
    with pytest.raises(FailedPrecondition, match=words):
        find_access(kubeconfig=kubeconfig(tmp_path, {}, user, current), server="", env={})
    broken = tmp_path / "broken"
    for text, why in (("a: [", "not valid YAML"), ("- 1", "contexts has no entry")):
        broken.write_text(text)
        with pytest.raises(FailedPrecondition, match=why):
            find_access(kubeconfig=broken, server="", env={})
