"""What this node tells about itself, from its Node object. Pure."""

from collections.abc import Mapping
from typing import Any

from appkit.errors import FailedPrecondition, Unavailable
from appkit.logs import get_logger
from csikit import contract

UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"

_log = get_logger(__name__)


def topology_of(node: Mapping[str, Any]) -> dict[str, str]:
    """Region and zone of a Node under the keys that volumes are bound by.

    Proxmox's own labels win over the general ones, as with the Go driver. A Node without a zone is one whose
    cloud-controller-manager sets none (shared storage only), but before that has initialised the Node it is one that
    must wait: kubelet asks once and keeps the answer.

    Raises Unavailable while the labels are not there yet, FailedPrecondition when two labels contradict each other
    (kubelet would refuse a topology that differs from the Node's label of the same name).
    """
    labels: Mapping[str, str] = node.get("metadata", {}).get("labels") or {}
    taints = node.get("spec", {}).get("taints") or []
    region = _pick(labels, (contract.LABEL_REGION,), contract.TOPOLOGY_REGION)
    zone = _pick(labels, (contract.LABEL_NODE, contract.LABEL_ZONE), contract.TOPOLOGY_ZONE)
    waiting = any(taint.get("key") == UNINITIALIZED_TAINT for taint in taints)
    if not region or (waiting and not zone):
        missing = contract.TOPOLOGY_ZONE if region else contract.TOPOLOGY_REGION
        raise Unavailable(
            f"Node {node.get('metadata', {}).get('name', '')} has no label {missing} yet: the cloud-controller-manager "
            "has not initialised it. Is one running? It sets the labels; without one, set them by hand"
        )
    return {contract.TOPOLOGY_REGION: region} | ({contract.TOPOLOGY_ZONE: zone} if zone else {})


def max_volumes_of(node: Mapping[str, Any]) -> int:
    """How many volumes may be attached: the Node's label if it says 1 to 30, else the default.

    Zero would mean "no limit" to Kubernetes, so it cannot be what somebody wants who sets it.
    """
    label = (node.get("metadata", {}).get("labels") or {}).get(contract.LABEL_MAX_VOLUMES)
    if label is None:
        return contract.MAX_VOLUMES_DEFAULT
    if label.isascii() and label.isdecimal() and 1 <= int(label) <= contract.MAX_VOLUMES_HARD_LIMIT:
        return int(label)
    _log.warning(
        "label %s=%s is not a number from 1 to %d; %d is used",
        contract.LABEL_MAX_VOLUMES,
        label,
        contract.MAX_VOLUMES_HARD_LIMIT,
        contract.MAX_VOLUMES_DEFAULT,
    )
    return contract.MAX_VOLUMES_DEFAULT


def _pick(labels: Mapping[str, str], own: tuple[str, ...], general: str) -> str:
    ours = next(((name, labels[name]) for name in own if labels.get(name)), None)
    theirs = labels.get(general, "")
    if ours is None:
        return theirs
    if theirs and ours[1] != theirs:
        raise FailedPrecondition(
            f"label {ours[0]}={ours[1]} contradicts label {general}={theirs}: kubelet refuses to register a driver "
            "whose topology differs from the Node's labels; make them equal"
        )
    return ours[1]
