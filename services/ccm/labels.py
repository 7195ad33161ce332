"""Which labels a Node gets, and what a legal label value is. Pure; knows no Proxmox answer and no Kubernetes call.

Keys are those of Kubernetes (GA and their beta forerunners, which older schedulers and charts still read) and those of
the Go cloud-controller-manager, which the CSI driver and its users' StorageClasses rely on.
"""

import re
from typing import Final

INSTANCE_TYPE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.proxmox.sinextra.dev/zone",
)
REGION_LABELS: Final = (
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "topology.proxmox.sinextra.dev/region",
)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def is_label_value(text: str) -> bool:
    """Whether the API server takes `text` as a label's value: at most 63 characters, letters or digits at both ends."""
    return _LABEL_VALUE.fullmatch(text) is not None


def topology_labels(*, region: str, zone: str) -> dict[str, str]:
    """The labels that say where a machine is: `region` is the Proxmox cluster, `zone` the host."""
    return dict.fromkeys(ZONE_LABELS, zone) | dict.fromkeys(REGION_LABELS, region)


def instance_type_labels(instance_type: str) -> dict[str, str]:
    """The labels that say how big a machine is."""
    return dict.fromkeys(INSTANCE_TYPE_LABELS, instance_type)
