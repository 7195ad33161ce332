"""How a volume is to be used, parsed from the protocol into a frozen value, and which uses are possible.

A Proxmox disk is plugged into one VM at a time, so only the four single-node modes are. Which file systems the node can
make is the node's to decide, not this module's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from appkit.errors import InvalidRequest
from csikit.pb import csi_pb2

# The name becomes part of a command (`mkfs.<type>`), so it is checked here, before anybody uses it.
_FS_TYPE = re.compile(r"[a-z][a-z0-9]{0,15}")


class AccessMode(StrEnum):
    """The protocol's access modes under their own names."""

    SINGLE_NODE_WRITER = "SINGLE_NODE_WRITER"
    SINGLE_NODE_READER_ONLY = "SINGLE_NODE_READER_ONLY"
    SINGLE_NODE_SINGLE_WRITER = "SINGLE_NODE_SINGLE_WRITER"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"
    MULTI_NODE_READER_ONLY = "MULTI_NODE_READER_ONLY"
    MULTI_NODE_SINGLE_WRITER = "MULTI_NODE_SINGLE_WRITER"
    MULTI_NODE_MULTI_WRITER = "MULTI_NODE_MULTI_WRITER"


_KUBERNETES_NAMES = {
    AccessMode.MULTI_NODE_READER_ONLY: "ReadOnlyMany",
    AccessMode.MULTI_NODE_SINGLE_WRITER: "one writer and many readers",
    AccessMode.MULTI_NODE_MULTI_WRITER: "ReadWriteMany",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """One way of use. `fs_type` is empty when the caller leaves it to us, and always for a block volume."""

    access: Literal["mount", "block"]
    fs_type: str
    mount_flags: tuple[str, ...]
    mode: AccessMode
    mount_group: str = ""

    @property
    def is_read_only(self) -> bool:
        """Nobody may write, whatever the publish call says."""
        return self.mode is AccessMode.SINGLE_NODE_READER_ONLY


def parse_capability(message: csi_pb2.VolumeCapability) -> Capability:
    """Raises InvalidRequest when the access type or mode is missing or unknown, or the file system's name is odd."""
    access = message.WhichOneof("access_type")
    if access is None:
        raise InvalidRequest("volume capability names neither a block nor a mount access type")
    mode = _parse_mode(message)
    if access == "block":
        return Capability("block", "", (), mode)
    fs_type = message.mount.fs_type
    if fs_type and not _FS_TYPE.fullmatch(fs_type):
        raise InvalidRequest(f"file system type {fs_type!r} is not a name of lower-case letters and digits")
    return Capability("mount", fs_type, tuple(message.mount.mount_flags), mode, message.mount.volume_mount_group)


def parse_capabilities(messages: Iterable[csi_pb2.VolumeCapability]) -> tuple[Capability, ...]:
    """Parse a request's list. Raises InvalidRequest when it is empty."""
    parsed = tuple(parse_capability(message) for message in messages)
    if not parsed:
        raise InvalidRequest("no volume capability is given; at least one is needed")
    return parsed


def find_objection(capability: Capability) -> str | None:
    """Why a volume of this driver cannot be used so, in words for the user; None when it can."""
    if (name := _KUBERNETES_NAMES.get(capability.mode)) is None:
        return None
    return (
        f"access mode {capability.mode} ({name}) is not possible: a Proxmox disk is attached to one VM at a time;"
        " use ReadWriteOnce or ReadWriteOncePod"
    )


def check_supported(capability: Capability) -> None:
    """Raises InvalidRequest with the text of `find_objection`."""
    if objection := find_objection(capability):
        raise InvalidRequest(objection)


def _parse_mode(message: csi_pb2.VolumeCapability) -> AccessMode:
    number = message.access_mode.mode
    if not message.HasField("access_mode") or number == csi_pb2.VolumeCapability.AccessMode.UNKNOWN:
        raise InvalidRequest("volume capability names no access mode")
    try:
        return AccessMode(csi_pb2.VolumeCapability.AccessMode.Mode.Name(number))
    except ValueError:
        raise InvalidRequest(f"volume capability has access mode {number}, which CSI 1.13 does not know") from None
