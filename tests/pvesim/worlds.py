"""Ready-made worlds for tests and the demonstration. Each call builds a fresh one.

Must stay small and well known: many tests name these hosts, VMs, storages and tokens.
"""

from typing import Any

from tests.pvesim.blocks import BlockBackend
from tests.pvesim.world import World

CSI_TOKEN = "kubernetes-csi@pve!csi"
CSI_SECRET = "11111111-2222-3333-4444-555555555555"
CCM_TOKEN = "kubernetes@pve!ccm"
CCM_SECRET = "66666666-7777-8888-9999-000000000000"
ROOT_TOKEN = "root@pam!full"
ROOT_SECRET = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
CSI_PRIVILEGES = ["VM.Audit", "VM.Config.Disk", "Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit"]
CCM_PRIVILEGES = ["VM.Audit", "VM.GuestAgent.Audit", "Sys.Audit"]
# Two workers on each of three hosts: 111 and 112 on pve1, 121 and 122 on pve2, 131 and 132 on pve3.
WORKERS = (111, 112, 121, 122, 131, 132)


def system_uuid(vmid: int) -> str:
    """The SMBIOS UUID of a worker, as its Node's systemUUID shows it."""
    return f"00000000-0000-4000-8000-{vmid:012d}"


def worker_ip(vmid: int) -> str:
    """The worker's address on the guests' network."""
    return f"10.0.0.{vmid}"


def three_hosts_dict(**overrides: Any) -> dict[str, Any]:
    """The world file of `three_hosts`, to be changed before it is built."""
    raw: dict[str, Any] = {
        "region": "cluster-1",
        "cluster": "lab",
        "nodes": {f"pve{n}": {"ip": f"192.0.2.{n}", "cpus": 16, "memory": "64G"} for n in (1, 2, 3)},
        "storages": {
            "local": {
                "type": "dir",
                "path": "/var/lib/vz",
                "content": "images,iso,vztmpl,snippets,import,backup,rootdir",
            },
            "local-lvm": {"type": "lvmthin", "vgname": "pve", "thinpool": "data", "content": "images,rootdir"},
            "ceph": {"type": "rbd", "pool": "kubernetes", "content": "images", "size": "1T"},
        },
        "roles": {"CSI": CSI_PRIVILEGES, "CCM": CCM_PRIVILEGES},
        "tokens": {
            CSI_TOKEN: {"secret": CSI_SECRET},
            CCM_TOKEN: {"secret": CCM_SECRET},
            ROOT_TOKEN: {"secret": ROOT_SECRET, "privsep": False},
        },
        "acl": [
            {"user": "kubernetes-csi@pve", "role": "CSI"},
            {"token": CSI_TOKEN, "role": "CSI"},
            {"user": "kubernetes@pve", "role": "CCM"},
            {"token": CCM_TOKEN, "role": "CCM"},
        ],
        "vms": {vmid: _worker(vmid) for vmid in WORKERS},
    }
    return raw | overrides


def _worker(vmid: int) -> dict[str, Any]:
    return {
        "node": f"pve{(vmid - 100) // 10}",
        "running": True,
        "config": {
            "name": f"worker-{vmid - 100}",
            "cores": 4,
            "memory": 8192,
            "ostype": "l26",
            "scsihw": "virtio-scsi-pci",
            "agent": "1",
            "boot": "order=scsi0",
            "smbios1": f"uuid={system_uuid(vmid)}",
            "net0": f"virtio=BC:24:11:00:00:{vmid % 100:02X},bridge=vmbr0",
            "ipconfig0": f"ip={worker_ip(vmid)}/24,gw=10.0.0.1",
            "scsi0": f"local-lvm:vm-{vmid}-disk-0,size=20G",
        },
        "agent": {
            "hostname": f"worker-{vmid - 100}",
            "interfaces": [
                _interface("lo", "00:00:00:00:00:00", ("ipv4", "127.0.0.1", 8), ("ipv6", "::1", 128)),
                _interface("eth0", f"bc:24:11:00:00:{vmid % 100:02x}", ("ipv4", worker_ip(vmid), 24)),
            ],
        },
    }


def _interface(name: str, mac: str, *addresses: tuple[str, str, int]) -> dict[str, Any]:
    return {
        "name": name,
        "hardware-address": mac,
        "ip-addresses": [{"ip-address-type": kind, "ip-address": ip, "prefix": bits} for kind, ip, bits in addresses],
    }


def three_hosts(*, blocks: BlockBackend | None = None, **overrides: Any) -> World:
    """Hosts pve1..3, six running workers, storages local (dir), local-lvm (lvmthin) and ceph (rbd, shared)."""
    return World.from_dict(three_hosts_dict(**overrides), blocks=blocks)
