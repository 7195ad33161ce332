from pathlib import Path
from typing import Any

import pytest

from appkit.settings import SettingsError
from ccm.settings import LIFECYCLE_CONTROLLER, NODE_CONTROLLER, CcmSettings, load_settings

CLOUD = """
features:
  provider: default
clusters:
  - url: https://pve1.lan:8006/api2/json
    insecure: false
    token_id: "kubernetes@pve!ccm"
    token_secret: "5ecret"
    region: cluster-1
"""


def problems(tmp_path: Path, cloud: str = CLOUD, **overrides: Any) -> list[str]:
    file = tmp_path / "cloud.yaml"
    file.write_text(cloud)
    with pytest.raises(SettingsError) as error:
        load_settings(config=None, env={}, overrides={"cloud_config": str(file), **overrides})
    return [problem.replace(f"{tmp_path}/", "") for problem in error.value.problems]


def test_defaults(tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD)
    loaded = load_settings(config=None, env={"PVECLOUD_CCM_CLOUD_CONFIG": str(file)}, overrides={})
    assert loaded.settings.leader_elect_resource_name == "cloud-controller-manager-proxmox"
    assert loaded.settings.leader_elect_resource_namespace == "kube-system"
    assert loaded.settings.leader_elect
    assert [cluster.region for cluster in loaded.cloud.clusters] == ["cluster-1"]


@pytest.mark.parametrize(
    ("controllers", "node", "lifecycle"),
    [
        (["*"], True, True),
        (["cloud-node", "cloud-node-lifecycle"], True, True),
        (["cloud-node-lifecycle"], False, True),
        (["cloud-node-controller"], True, False),
        (["*", "-cloud-node"], False, True),
        (["-cloud-node-lifecycle-controller", "*", "-service", "-route"], True, False),
        (["*", "cloud-node"], True, True),
    ],
)
def test_controllers(controllers: list[str], node: bool, lifecycle: bool) -> None:
    settings = CcmSettings(cloud_config=Path("x"), controllers=tuple(controllers))
    assert (settings.runs(NODE_CONTROLLER), settings.runs(LIFECYCLE_CONTROLLER)) == (node, lifecycle)


def test_problems_of_both_files_are_told_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, CLOUD.replace("region: cluster-1", ""), controllers=["nodes"], concurrent_node_syncs=0)
    assert "no such controller: nodes; known are *" in found[0]
    assert "concurrent_node_syncs" in found[1]
    assert "cloud.yaml: clusters[0].region: is required" in found


@pytest.mark.parametrize("network", ["network: {mode: qemu}", "network: auto"])
def test_a_guest_agent_mode_is_refused_plainly(tmp_path: Path, network: str) -> None:
    (problem,) = problems(tmp_path, CLOUD.replace("provider: default", network))
    assert problem.startswith("cloud.yaml: features.network.mode: ")
    assert "guest agent, which this version does not read yet" in problem


def test_a_feature_that_would_write_other_zones_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, CLOUD.replace("provider: default", "ha_group: true"))
    assert problem.startswith("cloud.yaml: features.ha_group: ")


def test_a_region_must_be_a_label_value(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, CLOUD.replace("cluster-1", "-cluster:1"))
    assert problem.startswith("cloud.yaml: clusters: region '-cluster:1' cannot be a label value")


def test_no_cloud_config_at_all() -> None:
    with pytest.raises(SettingsError, match="cloud_config: is required"):
        load_settings(config=None, env={}, overrides={})


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"tls_cert_file": "c.pem"}, "go together"),
        ({"leader_elect_renew_deadline": 20.0}, "must hold"),
        ({"bind_address": "nowhere"}, "bind_address"),
        ({"secure_port": "70000"}, "secure_port"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, overrides: dict[str, Any], text: str) -> None:
    (problem,) = problems(tmp_path, **overrides)
    assert text in problem
    assert "5ecret" not in problem
