"""CSI volume name → disk name on a storage. Pure, deterministic, for ever.

A repeated CreateVolume must come to the same disk, so no rule here may ever change for a name that it already covers.
Names that the peer would have given (`vm-9999-pvc-<uuid>`) come out as the peer gave them. A name that the storage
cannot hold (too long, or with characters that LVM, a URL or a drive string would choke on) is cut, its bad characters
become `-`, and a hash of the whole name is appended, so that two such names never meet.
"""

import hashlib
import re

from csi_controller.storage_types import RAW, StorageType

# A device-mapper name holds 127 characters: volume group, every hyphen of the name doubled, and for a thin snapshot
# "snap_" and up to 40 characters of its name beside it.
BLOCK_NAME_LIMIT = 63
# A directory entry holds 255 bytes; CSI names have at most 128 characters, so only hashed names come near.
FILE_NAME_LIMIT = 200

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS = 16


def image_name(kind: StorageType, owner_vmid: int, csi_name: str) -> str:
    """`vm-<owner>-<name>`, without directory and extension: what is unique in the storage."""
    prefix = f"vm-{owner_vmid}-"
    room = (FILE_NAME_LIMIT if kind.has_files else BLOCK_NAME_LIMIT) - len(prefix)
    safe = _UNSAFE.sub("-", csi_name)
    if safe == csi_name and len(safe) <= room:
        return prefix + safe
    digest = hashlib.sha256(csi_name.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{prefix}{safe[: room - _HASH_DIGITS - 1]}-{digest}"


def file_name(kind: StorageType, owner_vmid: int, csi_name: str, image_format: str) -> str:
    """The name sent to the storage: with the format's extension where that decides the format."""
    name = image_name(kind, owner_vmid, csi_name)
    return f"{name}.{image_format}" if kind.has_files or image_format != RAW else name


def disk_name(kind: StorageType, owner_vmid: int, csi_name: str, image_format: str) -> str:
    """The disk part of the volume handle: `9999/vm-9999-x.raw` on file storages, `vm-9999-x` on block storages."""
    name = file_name(kind, owner_vmid, csi_name, image_format)
    return f"{owner_vmid}/{name}" if kind.has_files else name
