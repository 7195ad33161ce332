from typing import Any

import pytest

from appkit.errors import FailedPrecondition, Unavailable
from csi_node.node_info import UNINITIALIZED_TAINT, max_volumes_of, topology_of

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
OWN_REGION, OWN_NODE = "topology.proxmox.sinextra.dev/region", "topology.proxmox.sinextra.dev/node"
OWN_ZONE = "topology.proxmox.sinextra.dev/zone"


def node(labels: dict[str, str] | None, *, tainted: bool = False) -> dict[str, Any]:
    taints = [{"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}] if tainted else None
    return {"metadata": {"name": "worker-11", "labels": labels}, "spec": {"taints": taints}}


@pytest.mark.parametrize(
    ("labels", "topology"),
    [
        ({REGION: "r1", ZONE: "pve1"}, {REGION: "r1", ZONE: "pve1"}),
        ({OWN_REGION: "r1", OWN_NODE: "pve1"}, {REGION: "r1", ZONE: "pve1"}),
        ({OWN_REGION: "r1", OWN_ZONE: "pve1"}, {REGION: "r1", ZONE: "pve1"}),
        ({OWN_REGION: "r1", ZONE: "pve1", OWN_NODE: "pve1"}, {REGION: "r1", ZONE: "pve1"}),
        ({REGION: "r1"}, {REGION: "r1"}),
    ],
)
def test_topology(labels: dict[str, str], topology: dict[str, str]) -> None:
    assert topology_of(node(labels)) == topology


@pytest.mark.parametrize(
    ("labels", "tainted", "missing"),
    [
        (None, False, REGION),
        ({ZONE: "pve1"}, False, REGION),
        ({REGION: ""}, True, REGION),
        ({REGION: "r1"}, True, ZONE),
    ],
)
def test_not_initialised_yet(labels: dict[str, str] | None, missing: str, *, tainted: bool) -> None:
    with pytest.raises(Unavailable, match=f"worker-11 has no label {missing} yet: the cloud-controller-manager"):
        topology_of(node(labels, tainted=tainted))


def test_labels_that_contradict_each_other() -> None:
    with pytest.raises(FailedPrecondition, match=f"{OWN_NODE}=pve1 contradicts label {ZONE}=dc-2"):
        topology_of(node({REGION: "r1", OWN_NODE: "pve1", ZONE: "dc-2"}))


@pytest.mark.parametrize(
    ("label", "limit"), [("1", 1), ("30", 30), ("0", 24), ("31", 24), ("x", 24), ("-1", 24), ("", 24), (None, 24)]
)
def test_limit(label: str | None, limit: int) -> None:
    labels = {} if label is None else {"csi.proxmox.sinextra.dev/max-volume-attachments": label}
    assert max_volumes_of(node(labels)) == limit
    assert max_volumes_of({}) == 24
