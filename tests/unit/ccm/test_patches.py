from typing import Any

from ccm.facts import InstanceFacts
from ccm.patches import address_patch, initial_patch, needs_init
from kubekit.nodes import INSTANCE_ID, UNINITIALIZED_TAINT

FACTS = InstanceFacts(
    region="cluster-1",
    vmid=113,
    name="worker-3",
    host="pve3",
    uuid="e1b85c47-2f6d-4d0a-8c3e-7f9a4b6d5c13",
    instance_type="4VCPU-8GB",
)
TAINT = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "db", "effect": "NoExecute"}


def node(*taints: dict[str, str], provider_id: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"taints": list(taints)}
    return {"metadata": {"name": "worker-3"}, "spec": spec | ({"providerID": provider_id} if provider_id else {})}


def test_one_patch_has_labels_provider_id_and_the_untaint() -> None:
    assert initial_patch(node(OTHER, TAINT), FACTS, "default") == {
        "metadata": {
            "labels": {
                "topology.kubernetes.io/zone": "pve3",
                "failure-domain.beta.kubernetes.io/zone": "pve3",
                "topology.proxmox.sinextra.dev/zone": "pve3",
                "topology.kubernetes.io/region": "cluster-1",
                "failure-domain.beta.kubernetes.io/region": "cluster-1",
                "topology.proxmox.sinextra.dev/region": "cluster-1",
                "node.kubernetes.io/instance-type": "4VCPU-8GB",
                "beta.kubernetes.io/instance-type": "4VCPU-8GB",
            }
        },
        "spec": {"providerID": "proxmox://cluster-1/113", "taints": [OTHER]},
    }


def test_the_last_taint_leaves_no_empty_list() -> None:
    assert initial_patch(node(TAINT), FACTS, "default")["spec"]["taints"] is None


def test_every_taint_of_the_key_goes() -> None:
    odd = {"key": UNINITIALIZED_TAINT, "effect": "NoExecute"}
    assert initial_patch(node(odd, OTHER, TAINT), FACTS, "default")["spec"]["taints"] == [OTHER]


def test_a_provider_id_that_is_there_stays() -> None:
    patch = initial_patch(node(TAINT, provider_id="proxmox://e1b85c47-2f6d-4d0a-8c3e-7f9a4b6d5c13"), FACTS, "capmox")
    assert "providerID" not in patch["spec"]
    assert patch["metadata"]["annotations"] == {INSTANCE_ID: "113"}


def test_needs_init_looks_at_the_key_alone() -> None:
    assert needs_init(node({"key": UNINITIALIZED_TAINT, "effect": "NoExecute"}))
    assert not needs_init(node(OTHER))
    assert not needs_init({"metadata": {"name": "x"}, "spec": {"taints": None}})
    assert not needs_init({"metadata": {"name": "x"}})


def test_equal_addresses_are_not_written_again() -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "worker-3"}]
    assert address_patch({"status": {"addresses": addresses}}, addresses) is None
    assert address_patch({"status": {"addresses": addresses[::-1]}}, addresses) == {"status": {"addresses": addresses}}
    assert address_patch({}, addresses) == {"status": {"addresses": addresses}}
