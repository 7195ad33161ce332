"""What the driver must know about each Proxmox VE storage type to name and size a volume. A table, pure.

Must not ask a storage anything. A type that is not listed (third-party plugins: drbd, linstor, custom) is treated as a
block type whose rounding is unknown, so that the real size is read back after an allocation.
"""

from dataclasses import dataclass

MIB = 1024 * 1024

RAW = "raw"
QCOW2 = "qcow2"


@dataclass(frozen=True, slots=True)
class StorageType:
    """Traits of a plugin type.

    `has_files`: volumes are image files in the owner's directory, with an extension, and may be qcow2.
    `step_bytes`: sizes are multiples of this. `exact`: the storage holds exactly what was asked in that step.
    """

    name: str
    has_files: bool
    step_bytes: int
    exact: bool


_FILES = ("dir", "nfs", "cifs", "cephfs", "btrfs", "glusterfs")
_EXTENT_BYTES = 4 * MIB  # LVM's default physical extent

_TYPES = {
    **{name: StorageType(name, has_files=True, step_bytes=MIB, exact=True) for name in _FILES},
    "lvm": StorageType("lvm", has_files=False, step_bytes=_EXTENT_BYTES, exact=True),
    "lvmthin": StorageType("lvmthin", has_files=False, step_bytes=_EXTENT_BYTES, exact=True),
    "zfspool": StorageType("zfspool", has_files=False, step_bytes=MIB, exact=True),
    "rbd": StorageType("rbd", has_files=False, step_bytes=MIB, exact=True),
}


def storage_type(name: str) -> StorageType:
    """Traits of the plugin type `name`."""
    return _TYPES.get(name) or StorageType(name, has_files=False, step_bytes=MIB, exact=False)
