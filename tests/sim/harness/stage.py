"""What every episode begins with: 3 hosts, 8 worker VMs, 5 storages, a Node for each worker. Data only.

Half of the VMs boot from shared storage, so that they can be moved; three have a SCSI controller for each disk, whose
unplugging needs the guest.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccm.settings import CcmSettings
from ccm.settings import Loaded as CcmLoaded
from csi_controller.settings import ControllerSettings
from csi_controller.settings import Loaded as ControllerLoaded
from kubekit.nodes import PROVIDED_NODE_IP, UNINITIALIZED_TAINT
from pvekit.settings import CloudConfig
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, CSI_SECRET, CSI_TOKEN, three_hosts_dict

REGION = "cluster-1"
HOSTS = ("pve1", "pve2", "pve3")
VMIDS = (111, 112, 113, 121, 122, 123, 131, 132)
OWNER = 9999
GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class StorageKind:
    """`formats`: what a StorageClass may ask for on it."""

    name: str
    shared: bool
    formats: tuple[str, ...] = ("",)


STORAGES = (
    StorageKind("local-lvm", shared=False),
    StorageKind("local", shared=False, formats=("", "raw", "qcow2")),
    StorageKind("vg", shared=False),
    StorageKind("ceph", shared=True),
    StorageKind("nfs", shared=True, formats=("", "qcow2")),
)
_SINGLE = frozenset([112, 121, 131])


def home_of(vmid: int) -> str:
    """The host on which a VM begins."""
    return f"pve{(vmid - 100) // 10}"


def node_name(vmid: int) -> str:
    return f"worker-{vmid - 100}"


def system_uuid(vmid: int, life: int) -> str:
    """The SMBIOS UUID of a VM's n-th life."""
    return f"00000000-0000-4000-8{life:03d}-{vmid:012d}"


def vm_config(vmid: int, life: int, boot_disk: str) -> dict[str, str]:
    """A worker's configuration."""
    return {
        "name": node_name(vmid),
        "cores": "4",
        "memory": "8192",
        "ostype": "l26",
        "scsihw": "virtio-scsi-single" if vmid in _SINGLE else "virtio-scsi-pci",
        "boot": "order=scsi0",
        "smbios1": f"uuid={system_uuid(vmid, life)}",
        "net0": f"virtio=BC:24:11:00:00:{vmid % 100:02X},bridge=vmbr0",
        "scsi0": boot_disk,
    }


def boot_storage(vmid: int) -> str:
    return "ceph" if vmid % 2 else "local-lvm"


def new_world(seed: int) -> World:
    """Proxmox VE, with the delays that were measured."""
    raw = three_hosts_dict(seed=seed, profile="as measured")
    raw["storages"]["vg"] = {"type": "lvm", "vgname": "vg", "content": "images", "size": "24G"}
    raw["storages"]["nfs"] = {"type": "nfs", "content": "images"}
    raw["vms"] = {
        vmid: {
            "node": home_of(vmid),
            "running": True,
            "config": vm_config(vmid, 0, f"{boot_storage(vmid)}:vm-{vmid}-disk-0,size=20G"),
        }
        for vmid in VMIDS
    }
    return World.from_dict(raw)


def kube_node(vmid: int, life: int) -> dict[str, Any]:
    """A Node as its kubelet registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(vmid), "annotations": {PROVIDED_NODE_IP: f"10.0.0.{vmid}"}},
        "spec": {"taints": [{"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}]},
        "status": {"nodeInfo": {"systemUUID": system_uuid(vmid, life)}},
    }


def _cloud(token: str, secret: str) -> CloudConfig:
    urls = [f"https://{host}:8006" for host in HOSTS]
    return CloudConfig.model_validate(
        {"clusters": [{"region": REGION, "urls": urls, "token_id": token, "token_secret": secret}]}
    )


def controller_settings() -> ControllerLoaded:
    """The CSI controller, called in process."""
    return ControllerLoaded(
        ControllerSettings(cloud_config=Path("unused"), csi_address=""), _cloud(CSI_TOKEN, CSI_SECRET)
    )


def ccm_settings() -> CcmLoaded:
    """The cloud-controller-manager, alone, hence without a Lease."""
    return CcmLoaded(CcmSettings(cloud_config=Path("unused"), leader_elect=False), _cloud(CCM_TOKEN, CCM_SECRET))
