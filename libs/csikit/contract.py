"""Names and values that clusters already rely on: driver name, label and context keys, disk identity.

Identifiers are forever: a value here is stored in PersistentVolumes, VolumeAttachments and VM configs, so it may be
added to but never changed. The names are those of sergelogvinov/proxmox-csi-plugin 0.19. Pure; no I/O.

A disk's identity is the volume's own. The World Wide Name that the guest sees is derived from the volume's region,
storage and name. It does not depend on the zone, because a volume keeps its identity when it moves to another host,
nor on the directory and extension, because those change when it moves to another storage type.
"""

import hashlib
import re
from typing import Final

from appkit.errors import InvalidRequest
from csikit.handles import VolumeHandle

DRIVER_NAME: Final = "csi.proxmox.sinextra.dev"

# Topology segments of volumes and nodes, and the Node labels that override them when a node registers.
TOPOLOGY_REGION: Final = "topology.kubernetes.io/region"
TOPOLOGY_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_REGION: Final = "topology.proxmox.sinextra.dev/region"
LABEL_NODE: Final = "topology.proxmox.sinextra.dev/node"
LABEL_ZONE: Final = "topology.proxmox.sinextra.dev/zone"
"""Documented by the peer in place of `LABEL_NODE`, which its code reads; both are honoured."""
LABEL_MAX_VOLUMES: Final = "csi.proxmox.sinextra.dev/max-volume-attachments"
ANNOTATION_INSTANCE_ID: Final = "proxmox.sinextra.dev/instance-id"

FILESYSTEMS: Final = ("ext4", "xfs")
"""What the node service can make, check and grow; the controller refuses others before a volume is made for one."""

# Publish context: what the controller tells the node about the attached disk.
PUBLISH_DEVICE_PATH: Final = "DevicePath"
PUBLISH_LUN: Final = "lun"
PUBLISH_RESIZE_REQUIRED: Final = "resizeRequired"

# Volume context: the StorageClass parameters, under their own names.
CONTEXT_STORAGE: Final = "storage"
CONTEXT_STORAGE_FORMAT: Final = "storageFormat"
CONTEXT_AIO: Final = "aio"
CONTEXT_BACKUP: Final = "backup"
CONTEXT_CACHE: Final = "cache"
CONTEXT_IOTHREAD: Final = "iothread"
CONTEXT_SSD: Final = "ssd"
CONTEXT_DISK_IOPS: Final = "diskIOPS"
CONTEXT_DISK_MBPS: Final = "diskMBps"
CONTEXT_BLOCK_SIZE: Final = "blockSize"
CONTEXT_INODE_SIZE: Final = "inodeSize"
CONTEXT_REPLICATE: Final = "replicate"
CONTEXT_REPLICATE_SCHEDULE: Final = "replicateSchedule"
CONTEXT_REPLICATE_ZONES: Final = "replicateZones"
CONTEXT_RESIZE_REQUIRED: Final = "resizeRequired"
CONTEXT_RESIZE_SIZE_BYTES: Final = "resizeSizeBytes"
CONTEXT_POD_NAME: Final = "csi.storage.k8s.io/pod.name"
CONTEXT_POD_NAMESPACE: Final = "csi.storage.k8s.io/pod.namespace"

SECRET_ENCRYPTION_PASSPHRASE: Final = "encryption-passphrase"  # noqa: S105 - the name of the key, not a secret

CONTROLLER_VM_ID: Final = 9999
"""Owner id of plain volumes unless `features.controllerVmID` says otherwise. No VM of this id exists."""

MAX_VOLUMES_HARD_LIMIT: Final = 30
MAX_VOLUMES_DEFAULT: Final = 24

_DEVICE_PREFIX: Final = "/dev/disk/by-id/wwn-"
_WWN: Final = re.compile(r"0x[0-9a-f]{16}")


def _digest(handle: VolumeHandle) -> str:
    """Hex SHA-256 of the part of a handle that stays when the volume moves."""
    return hashlib.sha256(f"{handle.region}/{handle.storage}/{handle.volume_name}".encode()).hexdigest()


def wwn_of(handle: VolumeHandle) -> str:
    """World Wide Name of the volume's disk, `0x5` and 15 hex digits (NAA type 5), as Proxmox takes it for `wwn=`."""
    return f"0x5{_digest(handle)[:15]}"


def serial_of(handle: VolumeHandle) -> str:
    """Serial number of the volume's disk, 20 hex digits: which every kind of QEMU disk shows to its guest in full."""
    return _digest(handle)[:20]


def device_path(wwn: str) -> str:
    """Where udev links a disk of this World Wide Name. Raises InvalidRequest for anything but `0x` and 16 digits."""
    folded = wwn.lower()
    if not _WWN.fullmatch(folded):
        raise InvalidRequest(f"{wwn!r} is not a World Wide Name: 0x and 16 hex digits are expected")
    return _DEVICE_PREFIX + folded


def wwn_from_device_path(path: str) -> str:
    """Inverse of `device_path`; also reads the slot-derived names that the peer wrote. Raises InvalidRequest."""
    wwn = path.removeprefix(_DEVICE_PREFIX)
    if wwn == path or not _WWN.fullmatch(wwn.lower()):
        raise InvalidRequest(f"device path {path!r} is not of the form {_DEVICE_PREFIX}0x<16 hex digits>")
    return wwn.lower()
