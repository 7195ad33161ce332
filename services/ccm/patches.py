"""The bodies that are written to a Node. Pure: the Node as read and what is known of its VM in, a JSON merge patch out.

A merge patch replaces lists whole, so `spec.taints` and `status.addresses` are always sent complete; the caller sends
each patch guarded by the uid and resourceVersion of the very object that was passed in here.
"""

from collections.abc import Mapping
from typing import Any

from ccm.addresses import Address
from ccm.facts import InstanceFacts, Provider
from ccm.labels import instance_type_labels, topology_labels
from kubekit.nodes import INSTANCE_ID, UNINITIALIZED_TAINT, addresses_of, has_taint, without_taint

Patch = dict[str, Any]


def needs_init(node: Mapping[str, Any]) -> bool:
    """Whether the kubelet's "wait for the cloud provider" taint is still there; its value and effect do not matter."""
    return has_taint(node, UNINITIALIZED_TAINT)


def initial_patch(node: Mapping[str, Any], facts: InstanceFacts, provider: Provider) -> Patch:
    """Labels, providerID and the removal of the taint, in one write: a Node is never schedulable without its topology.

    A providerID that is already there stays (the API server refuses a change). With `capmox` it does not say which VM
    it is, so the vmid goes into an annotation, as the Go cloud-controller-manager does.
    """
    metadata: Patch = {
        "labels": topology_labels(region=facts.region, zone=facts.host) | instance_type_labels(facts.instance_type)
    }
    spec: Patch = {"taints": without_taint(node, UNINITIALIZED_TAINT) or None}
    if provider == "capmox":
        metadata["annotations"] = {INSTANCE_ID: str(facts.vmid)}
    if not (node.get("spec") or {}).get("providerID"):
        spec["providerID"] = facts.provider_id(provider)
    return {"metadata": metadata, "spec": spec}


def address_patch(node: Mapping[str, Any], addresses: list[Address]) -> Patch | None:
    """The whole list for the status sub-resource, or None when the Node has exactly these, in this order."""
    if addresses_of(node) == addresses:
        return None
    return {"status": {"addresses": addresses}}
