from typing import Any

from kubekit import nodes

TAINT = {"key": nodes.UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
OTHER = {"key": "other", "effect": "NoExecute"}


def node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "worker-11", "uid": "u", **parts.pop("metadata", {})}, **parts}


def test_identity_of_a_full_node() -> None:
    identity = nodes.identity_of(
        node(
            metadata={
                "labels": {
                    "topology.kubernetes.io/region": "general",
                    "topology.proxmox.sinextra.dev/region": "cluster-1",
                    "topology.kubernetes.io/zone": "pve1",
                },
                "annotations": {nodes.PROVIDED_NODE_IP: "10.0.0.1, fd00::1", nodes.INSTANCE_ID: "111"},
            },
            spec={"providerID": "proxmox://cluster-1/111"},
            status={"nodeInfo": {"systemUUID": "11111111-2222-3333-4444-555555555555"}},
        )
    )
    assert (identity.name, identity.uid) == ("worker-11", "u")
    assert (identity.region, identity.zone) == ("cluster-1", "pve1")
    assert identity.provided_ips == ("10.0.0.1", "fd00::1")
    assert identity.provider_id == "proxmox://cluster-1/111"
    assert identity.instance_id_annotation == "111"
    assert identity.system_uuid == "11111111-2222-3333-4444-555555555555"


def test_identity_of_an_empty_node() -> None:
    identity = nodes.identity_of(node(spec=None, status={}))
    assert identity == nodes.NodeIdentity("worker-11", "u", "", "", "", "", "", (), {})


def test_taints_are_fresh_lists_and_whole() -> None:
    tainted = node(spec={"taints": [TAINT, OTHER, {**TAINT, "effect": "NoExecute"}]})
    assert nodes.has_taint(tainted, nodes.UNINITIALIZED_TAINT)
    assert nodes.without_taint(tainted, nodes.UNINITIALIZED_TAINT) == [OTHER]
    nodes.taints_of(tainted)[0]["key"] = "changed"
    assert tainted["spec"]["taints"][0] == TAINT
    assert not nodes.has_taint(node(), "x")


def test_adding_a_taint_twice_is_once() -> None:
    once = nodes.with_taint(node(spec={"taints": [OTHER]}), nodes.SHUTDOWN_TAINT)
    assert once == [OTHER, {"key": nodes.SHUTDOWN_TAINT, "effect": "NoSchedule"}]
    assert nodes.with_taint(node(spec={"taints": once}), nodes.SHUTDOWN_TAINT) == once


def test_ready_is_true_only() -> None:
    for status, ready in (("True", True), ("False", False), ("Unknown", False)):
        assert nodes.is_ready(node(status={"conditions": [{"type": "Ready", "status": status}]})) is ready
    assert not nodes.is_ready(node())


def test_addresses_in_order() -> None:
    addresses = [{"type": "InternalIP", "address": "1"}, {"type": "Hostname", "address": "h"}]
    assert nodes.addresses_of(node(status={"addresses": addresses})) == addresses
    assert nodes.addresses_of(node()) == []
