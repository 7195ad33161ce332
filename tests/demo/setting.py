"""The setting of the story: the simulator's ready-made cluster, its workers as Nodes, the StorageClasses.

Must not start anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.pvesim import worlds

REGION: Final = "cluster-1"
HOSTS: Final = ("pve1", "pve2", "pve3")
LOCAL_STORAGE: Final = "local-lvm"
SHARED_STORAGE: Final = "ceph"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"


@dataclass(frozen=True)
class Worker:
    """One worker VM, which is also one Kubernetes Node."""

    vmid: int

    @property
    def name(self) -> str:
        """Of the VM and of the Node."""
        return f"worker-{self.vmid - 100}"

    @property
    def host(self) -> str:
        """The Proxmox VE host it runs on."""
        return f"pve{(self.vmid - 100) // 10}"


WORKERS: Final = tuple(Worker(vmid) for vmid in worlds.WORKERS)


@dataclass(frozen=True)
class StorageClass:
    """What of a StorageClass reaches the driver."""

    name: str
    parameters: Mapping[str, str]
    fs_type: str


# The class of the CSI page: fstype xfs, ssd on local-lvm.
PROXMOX_DATA: Final = StorageClass("proxmox-data", {"storage": LOCAL_STORAGE, "ssd": "true"}, "xfs")
PROXMOX_SHARED: Final = StorageClass("proxmox-shared", {"storage": SHARED_STORAGE, "ssd": "true"}, "xfs")


def node_object(worker: Worker) -> dict[str, Any]:
    """A Node as a kubelet with --cloud-provider=external registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": worker.name,
            "labels": {"kubernetes.io/hostname": worker.name, "kubernetes.io/os": "linux"},
            "annotations": {"alpha.kubernetes.io/provided-node-ip": worlds.worker_ip(worker.vmid)},
        },
        "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": worlds.worker_ip(worker.vmid)},
                {"type": "Hostname", "address": worker.name},
            ],
            "nodeInfo": {"systemUUID": worlds.system_uuid(worker.vmid), "kubeletVersion": "v1.36.0"},
        },
    }


def cloud_config(url: str, ca_file: str, token_id: str, token_secret: str) -> dict[str, Any]:
    """The cloud-config file, as the Go programs read it too."""
    return {
        "clusters": [
            {
                "url": f"{url}/api2/json",
                "insecure": False,
                "ca_file": ca_file,
                "token_id": token_id,
                "token_secret": token_secret,
                "region": REGION,
            }
        ]
    }
