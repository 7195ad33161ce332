"""The peers' cloud-config file as they document it, as their code reads it, and what is wrong with a wrong one."""

from pathlib import Path

import pytest

from appkit.settings import SettingsError, load
from pvekit.settings import CloudConfig

ONE = """
features:
  provider: capmox
  controllerVmID: 5000
  network: {mode: qemu, external_ip_cidrs: "10.0.0.0/8, 192.168.0.0/16", ipv6_support_disabled: true}
clusters:
  - url: https://pve.example.com:8006/api2/json
    insecure: false
    token_id: "kubernetes-csi@pve!csi"
    token_secret: "s3cr3t-value"
    region: cluster-1
"""


def loaded(tmp_path: Path, text: str) -> CloudConfig:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load(CloudConfig, file=file)


def test_as_the_peers_read_it(tmp_path: Path) -> None:
    config = loaded(tmp_path, ONE)
    cluster = config.clusters[0]
    assert cluster.urls == ("https://pve.example.com:8006/api2/json",)
    assert (cluster.region, cluster.insecure, cluster.token_id) == ("cluster-1", False, "kubernetes-csi@pve!csi")
    assert cluster.token_secret is not None
    assert cluster.token_secret.get_secret_value() == "s3cr3t-value"
    assert "s3cr3t" not in repr(config)
    assert cluster.timeout_s > 30
    assert (config.features.provider, config.features.controller_vmid) == ("capmox", 5000)
    assert config.features.network.mode == "qemu"
    assert config.features.network.ipv6_support_disabled


def test_as_the_peers_document_it(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        ONE.replace("controllerVmID", "controllerVMID").replace(
            'network: {mode: qemu, external_ip_cidrs: "10.0.0.0/8, 192.168.0.0/16", ipv6_support_disabled: true}',
            "network: auto\n  external_ip_cidrs: 10.0.0.0/8\n  ip_sort_order: fd00::/8",
        ),
    )
    assert config.features.controller_vmid == 5000
    assert config.features.network.mode == "auto"
    assert config.features.network.external_ip_cidrs == "10.0.0.0/8"
    assert config.features.network.ip_sort_order == "fd00::/8"


def test_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path, ONE[ONE.index("clusters:") :])
    assert config.features.controller_vmid == 9999
    assert config.features.provider == "default"
    assert loaded(tmp_path, "features:\n" + ONE[ONE.index("clusters:") :]).features.controller_vmid == 9999


def test_several_addresses_and_token_files(tmp_path: Path) -> None:
    text = """
clusters:
  - urls: ["https://a:8006", "https://b:8006/api2/json/"]
    token_id_file: /etc/id
    token_secret_file: /etc/secret
    region: r1
"""
    cluster = loaded(tmp_path, text).clusters[0]
    assert cluster.urls == ("https://a:8006/api2/json", "https://b:8006/api2/json")
    assert cluster.token_secret_file == Path("/etc/secret")
    assert cluster.token_secret is None


WRONG = [
    (("url: https://pve.example.com:8006/api2/json", "url: httpfoo"), "must be an address like"),
    (("url: https://pve.example.com:8006/api2/json", "url: https://user:pw@h:8006"), "must not contain a user"),
    (('token_secret: "s3cr3t-value"', ""), "exactly one of token_secret and token_secret_file"),
    (('token_id: "kubernetes-csi@pve!csi"', "token_id: x\n    token_id_file: /x"), "exactly one of token_id"),
    (("insecure: false", "username: root@pam\n    password: s3cr3t-pw"), "username and password are not supported"),
    (("insecure: false", "insecur: false"), 'clusters[0].insecur: unknown key, did you mean "insecure"?'),
    (("controllerVmID: 5000", "controllerVmID: 100"), "greater than 100"),
    (("provider: capmox", "provider: other"), "provider"),
    (("mode: qemu", "mode: other"), "mode"),
    (("region: cluster-1", "region: a/b"), "region"),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_what_is_wrong_is_told(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, ONE.replace(*change))
    assert says in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_no_cluster_and_the_same_region_twice(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="clusters"):
        loaded(tmp_path, "clusters: []")
    cluster = ONE[ONE.index("  - url") :]
    with pytest.raises(SettingsError, match="two clusters have the same region: cluster-1"):
        loaded(tmp_path, ONE + cluster.lstrip("\n"))


@pytest.mark.parametrize(
    "bad", ['token_id: "csi@pve!csi\\n"', 'token_secret: "two words"', 'token_secret: "schl\u00fcssel"']
)
def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(tmp_path: Path, bad: str) -> None:
    file = tmp_path / "cloud.yaml"
    lines = [line for line in ONE.splitlines() if bad.partition(":")[0] not in line]
    file.write_text("\n".join([*lines, f"    {bad}"]), encoding="utf-8")
    with pytest.raises(SettingsError, match="printable ASCII") as caught:
        load(CloudConfig, file=file)
    assert "two words" not in str(caught.value)
    assert "schl" not in str(caught.value)


def test_a_token_is_not_sent_in_clear_text_unless_told_to(tmp_path: Path) -> None:
    clear = ONE.replace("https://", "http://")
    with pytest.raises(SettingsError, match="clear text"):
        loaded(tmp_path, clear)
    assert loaded(tmp_path, clear.replace("insecure: false", "insecure: true")).clusters[0].urls[0].startswith("http:")
