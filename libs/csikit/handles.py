r"""Volume handles and node ids: parse and format, pure.

Both are stored in Kubernetes objects that outlive every release, so every form the peers ever wrote is read, and what
is read is written back letter by letter (golden tables in the tests). A handle is never repaired or guessed at: what
does not parse is InvalidRequest with the reason.

A handle is `<region>/<zone>/<storage>/<disk>`, split at the first three slashes; the disk may hold one itself:

    cluster-1/pve1/local-lvm/vm-9999-pvc-<uuid>                 block storage of one host
    cluster-1/pve1/local/9999/vm-9999-pvc-<uuid>.raw            file storage (directory of the owner, then the file)
    cluster-1//ceph/vm-9999-pvc-<uuid>                          shared or replicated: the zone is empty
    cluster-1/pve1/zfs/vm-10001-pvc-<uuid>                      replicated: owned by a helper VM
    cluster-1/pve1/local-lvm/vm-9999-snapshot-<uuid>            snapshot id: a full copy
    cluster-1/pve1/local-lvm/base-100-disk-0                    hand-written static volume

The zone names the host at the time of writing. Where the volume is now, is looked up, not read from here.
"""

import re
from dataclasses import dataclass

from appkit.errors import InvalidRequest

_OWNER = re.compile(r"(?:^|-)(?:vm|base|subvol)-([1-9][0-9]{2,8})(?:-|$)")
_DIRECTORY = re.compile(r"[1-9][0-9]{2,8}")
_EXTENSIONS = frozenset({"raw", "qcow2", "vmdk"})
_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_FORBIDDEN = frozenset(" ,;:?#%&\\\"'=")
# A linked clone on a file storage carries its base: 100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2
_MOST_PIECES = 4
_VMID_MIN, _VMID_MAX = 100, 999_999_999


class MalformedHandle(InvalidRequest):
    """No volume of this driver was ever called like this, so there is none.

    DeleteVolume and look-ups may answer "does not exist" from it; everything that acts on a volume lets it through.
    """


@dataclass(frozen=True, slots=True)
class VolumeHandle:
    """One volume of one Proxmox cluster. `zone` is a host name, or empty for shared and replicated storage."""

    region: str
    zone: str
    storage: str
    disk: str

    @property
    def volid(self) -> str:
        """Proxmox's own identifier, `storage:disk`."""
        return f"{self.storage}:{self.disk}"

    @property
    def volume_name(self) -> str:
        """The disk without directory and file extension; the same on every storage type."""
        name = self.disk.rpartition("/")[2]
        stem, dot, extension = name.rpartition(".")
        return stem if dot and extension in _EXTENSIONS else name

    @property
    def owner_vmid(self) -> int | None:
        """Id under which Proxmox files the volume: the directory of the file if there is one, else the name's number.

        None for a name that carries no number, as some hand-written volumes do.
        """
        *directories, name = self.disk.split("/")
        if directories and _DIRECTORY.fullmatch(directories[-1]):
            return int(directories[-1])
        found = _OWNER.search(name)
        return int(found.group(1)) if found else None

    def __str__(self) -> str:
        return format_handle(self)


def parse_handle(text: str) -> VolumeHandle:
    """Read a volume handle or snapshot id. Raises MalformedHandle that shows the text and says what is wrong."""
    parts = text.split("/", 3)
    if len(parts) != 4:
        raise _bad_handle(text, "four parts are expected")
    handle = VolumeHandle(*parts)
    for what, value in (("region", handle.region), ("storage", handle.storage), ("disk", handle.disk)):
        if not value:
            raise _bad_handle(text, f"its {what} is empty")
    for what, value in (("region", handle.region), ("zone", handle.zone), ("storage", handle.storage)):
        if value and not _SEGMENT.fullmatch(value):
            raise _bad_handle(text, f"its {what} {value!r} holds characters that no {what} can have")
    _check_disk(text, handle.disk)
    return handle


def format_handle(handle: VolumeHandle) -> str:
    """Inverse of `parse_handle`."""
    return f"{handle.region}/{handle.zone}/{handle.storage}/{handle.disk}"


def _check_disk(text: str, disk: str) -> None:
    """The disk ends up in URLs and drive strings, where a comma, a blank or a `..` would change the meaning."""
    pieces = disk.split("/")
    if len(pieces) > _MOST_PIECES:
        raise _bad_handle(text, "its disk has too many slashes")
    if not all(pieces):
        raise _bad_handle(text, "its disk has an empty part")
    if any(piece.startswith(".") for piece in pieces):
        raise _bad_handle(text, "a part of its disk begins with a dot")
    if not disk.isprintable() or set(disk) & _FORBIDDEN:
        raise _bad_handle(text, f"its disk {disk!r} holds a character that no Proxmox volume can have")


def _bad_handle(text: str, why: str) -> MalformedHandle:
    return MalformedHandle(f"volume id {text!r} is not <region>/<zone>/<storage>/<disk>: {why}")


@dataclass(frozen=True, slots=True)
class NodeId:
    """What NodeGetInfo announces: the Kubernetes node name, and the VM's id when the machine knows it."""

    name: str
    vmid: int | None = None

    def __str__(self) -> str:
        return format_node_id(self)


def parse_node_id(text: str) -> NodeId:
    """Read `<node name>` or `<node name>/<vmid>`. Raises InvalidRequest."""
    name, slash, number = text.partition("/")
    if not name or not _SEGMENT.fullmatch(name):
        raise InvalidRequest(f"node id {text!r} is not <node name>[/<vmid>]: {name!r} cannot be a node name")
    if not slash:
        return NodeId(name)
    if not (number.isascii() and number.isdigit()) or not _VMID_MIN <= int(number) <= _VMID_MAX:
        raise InvalidRequest(
            f"node id {text!r} is not <node name>[/<vmid>]: {number!r} is not a VM id ({_VMID_MIN} to {_VMID_MAX})"
        )
    return NodeId(name, int(number))


def format_node_id(node_id: NodeId) -> str:
    """Inverse of `parse_node_id`."""
    return node_id.name if node_id.vmid is None else f"{node_id.name}/{node_id.vmid}"
