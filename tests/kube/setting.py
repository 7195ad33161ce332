"""The bench's setting: three Proxmox VE hosts as in the manuals' demonstrations, and which worker VMs have a kubelet.

Must not start anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.pvesim.worlds import three_hosts_dict

REGION: Final = "cluster-1"
LOCAL_STORAGE: Final = "local-lvm"
SHARED_STORAGE: Final = "ceph"
DRIVER_NAMESPACE: Final = "csi-proxmox"


@dataclass(frozen=True)
class Worker:
    """A worker VM and its Node. With `kubelet` it runs Pods; the others are objects that the scheduler sees."""

    name: str
    vmid: int
    host: str
    kubelet: bool


WORKERS: Final = (
    Worker("worker-1", 111, "pve1", kubelet=False),
    Worker("worker-2", 112, "pve2", kubelet=True),
    Worker("worker-3", 113, "pve3", kubelet=True),
)


def worker(name: str) -> Worker:
    """By the Node's name."""
    return next(each for each in WORKERS if each.name == name)


def world(machine_uuid: str) -> dict[str, Any]:
    """The world file. All kubelets run on this machine, so their VMs have its UUID."""
    vms = {each.vmid: _vm(each, machine_uuid if each.kubelet else node_uuid(each)) for each in WORKERS}
    return three_hosts_dict(vms=vms)


def node_uuid(each: Worker) -> str:
    """SMBIOS UUID of a VM without kubelet."""
    return f"00000000-0000-4000-8000-{each.vmid:012d}"


def _vm(each: Worker, uuid: str) -> dict[str, Any]:
    return {
        "node": each.host,
        "running": True,
        "config": {
            "name": each.name,
            "cores": 4,
            "memory": 8192,
            "ostype": "l26",
            "scsihw": "virtio-scsi-pci",
            "boot": "order=scsi0",
            "smbios1": f"uuid={uuid}",
            "net0": f"virtio=BC:24:11:00:00:{each.vmid % 100:02X},bridge=vmbr0",
            "scsi0": f"{LOCAL_STORAGE}:vm-{each.vmid}-disk-0,size=32G",
        },
    }


def machine_uuid() -> str:
    """What a kubelet on this machine tells as its systemUUID, in the form that an SMBIOS table has."""
    for source in ("/sys/class/dmi/id/product_uuid", "/etc/machine-id"):
        try:
            digits = Path(source).read_text(encoding="ascii").strip().replace("-", "").lower()
        except OSError:
            continue
        if len(digits) == 32:
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    raise FileNotFoundError("this machine has neither an SMBIOS UUID nor /etc/machine-id (systemd-machine-id-setup)")


def cloud_config(url: str, ca_file: Path, token_id: str, token_secret: str) -> Mapping[str, Any]:
    """As the manuals show it."""
    cluster = {
        "url": f"{url}/api2/json",
        "insecure": False,
        "ca_file": str(ca_file),
        "token_id": token_id,
        "token_secret": token_secret,
        "region": REGION,
    }
    return {"clusters": [cluster]}
