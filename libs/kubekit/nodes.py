"""Reading Nodes; pure.

Must not decide anything about clouds or Proxmox: it names the places in a Node where identity, addresses and taints
stand (Kubernetes 1.37; annotation and label keys of the Go cloud-controller-manager for Proxmox).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubekit.objects import Object, uid_of

PROVIDED_NODE_IP = "alpha.kubernetes.io/provided-node-ip"
INSTANCE_ID = "proxmox.sinextra.dev/instance-id"
UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"

_REGION_LABELS = ("topology.proxmox.sinextra.dev/region", "topology.kubernetes.io/region")
_ZONE_LABELS = ("topology.proxmox.sinextra.dev/zone", "topology.kubernetes.io/zone")


@dataclass(frozen=True)
class NodeIdentity:
    """What a Node says of the machine it runs on; a text is "" where the Node does not say.

    `region` and `zone` come from the Proxmox labels, else from the general ones. `provided_ips` are the items of the
    kubelet's `--node-ip` as written; checking them is the reader's.
    """

    name: str
    uid: str
    provider_id: str
    system_uuid: str
    instance_id_annotation: str
    region: str
    zone: str
    provided_ips: tuple[str, ...]
    labels: Mapping[str, str]


def identity_of(node: Object) -> NodeIdentity:
    """The identity in a Node object."""
    metadata, labels = node["metadata"], node["metadata"].get("labels") or {}
    annotations = metadata.get("annotations") or {}
    provided = str(annotations.get(PROVIDED_NODE_IP, ""))
    return NodeIdentity(
        name=metadata["name"],
        uid=uid_of(node),
        provider_id=(node.get("spec") or {}).get("providerID") or "",
        system_uuid=((node.get("status") or {}).get("nodeInfo") or {}).get("systemUUID") or "",
        instance_id_annotation=str(annotations.get(INSTANCE_ID, "")),
        region=_first(labels, _REGION_LABELS),
        zone=_first(labels, _ZONE_LABELS),
        provided_ips=tuple(each.strip() for each in provided.split(",") if each.strip()),
        labels=dict(labels),
    )


def taints_of(node: Object) -> list[dict[str, Any]]:
    """The Node's taints, in order; a fresh list of fresh mappings."""
    return [dict(taint) for taint in (node.get("spec") or {}).get("taints") or []]


def has_taint(node: Object, key: str) -> bool:
    """Whether a taint of that key is there, with whatever value and effect."""
    return any(taint.get("key") == key for taint in taints_of(node))


def without_taint(node: Object, key: str) -> list[dict[str, Any]]:
    """The taints less every one of that key. A patch writes the list whole: taints have no merge key."""
    return [taint for taint in taints_of(node) if taint.get("key") != key]


def with_taint(node: Object, key: str, effect: str = "NoSchedule") -> list[dict[str, Any]]:
    """The taints and, unless key and effect are there already, one more at the end."""
    taints = taints_of(node)
    if any((taint.get("key"), taint.get("effect")) == (key, effect) for taint in taints):
        return taints
    return [*taints, {"key": key, "effect": effect}]


def is_ready(node: Object) -> bool:
    """Whether the Ready condition says True; missing and Unknown are not ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def addresses_of(node: Object) -> list[dict[str, str]]:
    """`status.addresses`, in order, each `{"type", "address"}`."""
    return [dict(each) for each in (node.get("status") or {}).get("addresses") or []]


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")
