from pathlib import Path

import pytest

from appkit.settings import SettingsError
from csi_controller.__main__ import ignored_flags, parser, read_settings

CLOUD = """
features:
  provider: default
clusters:
  - url: https://pve1.lan:8006/api2/json
    token_id: "kubernetes-csi@pve!csi"
    token_secret: "11111111-2222-3333-4444-555555555555"
    region: cluster-1
"""


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    path = tmp_path / "cloud.yaml"
    path.write_text(CLOUD)
    return path


def test_the_go_charts_flags_are_read(cloud: Path) -> None:
    flags = [
        "-v=5",
        "--csi-address=unix:///csi/csi.sock",
        f"--cloud-config={cloud}",
        "--metrics-address=:8080",
        "--logtostderr",
    ]
    arguments = parser().parse_args(flags)
    loaded = read_settings(arguments, {})
    assert loaded.settings.csi_address == "unix:///csi/csi.sock"
    assert loaded.settings.log_level == "debug"
    assert loaded.settings.metrics_address == ":8080"
    assert loaded.settings.kube is None
    assert [cluster.region for cluster in loaded.cloud.clusters] == ["cluster-1"]
    assert ignored_flags(arguments) == ["--logtostderr"]


def test_kubernetes_is_found_by_flag_environment_or_pod(cloud: Path) -> None:
    arguments = parser().parse_args([f"--cloud-config={cloud}"])
    by_variable = read_settings(arguments, {"KUBECONFIG": "/k"}).settings.kube
    in_pod = read_settings(arguments, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).settings.kube
    assert by_variable is not None
    assert by_variable.kubeconfig == Path("/k")
    assert in_pod is not None
    assert in_pod.kubeconfig is None


def test_all_problems_at_once(tmp_path: Path) -> None:
    broken = tmp_path / "cloud.yaml"
    broken.write_text(CLOUD.replace("region:", "reigon:"))
    with pytest.raises(SettingsError) as caught:
        read_settings(parser().parse_args([f"--cloud-config={broken}"]), {"PVECLOUD_CSI_CONTROLLER_LOG_LEVEL": "loud"})
    text = "\n".join(caught.value.problems)
    assert "reigon" in text
    assert "log_level" in text.lower()


def test_the_cloud_config_is_needed() -> None:
    with pytest.raises(SettingsError, match="cloud_config"):
        read_settings(parser().parse_args([]), {})
