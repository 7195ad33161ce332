"""Requests as validated, frozen values: every INVALID_ARGUMENT of this service is born here.

A path must lie under the kubelet's directory. Anywhere else, a mount made in this container is seen by nobody, and the
Pod would write to the node's own disk (the directory differs with k0s, microk8s and others).
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from appkit.errors import FailedPrecondition, InvalidRequest, Unsupported
from csi_node.expansion import Expand
from csi_node.host.filesystems import SUPPORTED, FormatOptions
from csi_node.publishing import Publish
from csi_node.staging import Stage
from csikit import contract
from csikit.capabilities import AccessMode, Capability, check_supported, parse_capability
from csikit.pb import csi_pb2

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"", "0", "f", "false"})
_SIZES = {
    contract.CONTEXT_BLOCK_SIZE: (512, 65536),
    contract.CONTEXT_INODE_SIZE: (128, 4096),
}
"""Least and greatest value of the mkfs parameters, in bytes; the tools themselves are stricter in between."""

_PATH_BYTES, _NAME_BYTES = 4095, 255
"""What Linux takes for a path and for one name in it."""

_NOT_FOR_A_VOLUME = frozenset(
    "bind rbind move remount loop offset sizelimit helper uhelper journal_path journal_dev logdev rtdev "
    "shared slave private unbindable rshared rslave rprivate runbindable".split()
)
"""Options that make mount(8) do something else than mount this disk, bring in another disk, or hide the mount.

With `private`, an unmount in this container would not reach the host, which would go on using a detached disk.
"""


def parse_stage(request: csi_pb2.NodeStageVolumeRequest, kubelet_dir: Path) -> Stage:
    """Raises InvalidRequest, FailedPrecondition (path outside the kubelet's directory) and Unsupported."""
    volume_id = parse_volume_id(request.volume_id)
    path = parse_path("staging_target_path", request.staging_target_path, kubelet_dir)
    capability = _capability(request)
    if contract.SECRET_ENCRYPTION_PASSPHRASE in request.secrets:
        raise Unsupported(
            f"volume {volume_id} is to be encrypted ({contract.SECRET_ENCRYPTION_PASSPHRASE} is given), which "
            "this release cannot do; it is not stored unencrypted instead"
        )
    if capability.fs_type and capability.fs_type not in SUPPORTED:
        raise Unsupported(f"file system {capability.fs_type} is not supported; {' and '.join(SUPPORTED)} are")
    for flag in capability.mount_flags:
        _check_mount_flag(flag)
    context = request.volume_context
    return Stage(
        volume_id=volume_id,
        wwn=_wwn(request.publish_context),
        staging_path=path,
        block=capability.access == "block",
        fs_type=capability.fs_type,
        mount_flags=capability.mount_flags,
        read_only=capability.is_read_only or "ro" in capability.mount_flags,
        ssd=_flag(context, contract.CONTEXT_SSD),
        format_options=FormatOptions(
            block_size=_size(context, contract.CONTEXT_BLOCK_SIZE),
            inode_size=_size(context, contract.CONTEXT_INODE_SIZE),
        ),
        resize_required=_flag(request.publish_context, contract.PUBLISH_RESIZE_REQUIRED),
    )


def parse_publish(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> Publish:
    """Raises InvalidRequest, and FailedPrecondition for a path outside the kubelet's directory or a missing stage."""
    volume_id = parse_volume_id(request.volume_id)
    target = parse_path("target_path", request.target_path, kubelet_dir)
    capability = _capability(request)
    if not request.staging_target_path:
        raise FailedPrecondition(
            f"volume {volume_id} must be staged before it is published: staging_target_path is empty"
        )
    staging = parse_path("staging_target_path", request.staging_target_path, kubelet_dir)
    if target.is_relative_to(staging) or staging.is_relative_to(target):
        raise InvalidRequest(f"target_path {target} and staging_target_path {staging} must not lie in one another")
    return Publish(
        volume_id=volume_id,
        wwn=_wwn(request.publish_context),
        staging_path=staging,
        target_path=target,
        block=capability.access == "block",
        read_only=request.readonly or capability.is_read_only,
        exclusive=capability.mode is AccessMode.SINGLE_NODE_SINGLE_WRITER,
    )


def parse_expand(request: csi_pb2.NodeExpandVolumeRequest) -> Expand:
    """Raises InvalidRequest. A path without a volume is not wrong in itself: it is looked up and not found."""
    volume_path = _volume_path(request.volume_path)
    if "\0" in request.staging_target_path:
        raise InvalidRequest("staging_target_path holds a NUL character")
    if min(request.capacity_range.required_bytes, request.capacity_range.limit_bytes) < 0:
        raise InvalidRequest("capacity_range has a negative size")
    return Expand(
        volume_id=parse_volume_id(request.volume_id),
        volume_path=volume_path,
        staging_path=Path(request.staging_target_path) if request.staging_target_path else None,
        required_bytes=request.capacity_range.required_bytes,
        limit_bytes=request.capacity_range.limit_bytes,
    )


def parse_stats(request: csi_pb2.NodeGetVolumeStatsRequest) -> tuple[str, Path]:
    """Volume id and path. Raises InvalidRequest."""
    return parse_volume_id(request.volume_id), _volume_path(request.volume_path)


def parse_volume_id(text: str) -> str:
    """Raises InvalidRequest when it is empty. Its form is the controller's business: the disk is found by its WWN."""
    if not text:
        raise InvalidRequest("volume_id is empty")
    return text


def parse_path(field: str, text: str, kubelet_dir: Path) -> Path:
    """An absolute path without `..` in the kubelet's directory. Raises InvalidRequest and FailedPrecondition."""
    if not text:
        raise InvalidRequest(f"{field} is empty")
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or "\0" in text:
        raise InvalidRequest(f"{field} {text!r} is not an absolute path without '..'")
    if len(os.fsencode(text)) > _PATH_BYTES or any(len(os.fsencode(part)) > _NAME_BYTES for part in path.parts):
        raise InvalidRequest(
            f"{field} is longer than Linux allows: {_PATH_BYTES} bytes, and {_NAME_BYTES} for each name in it"
        )
    if not path.is_relative_to(kubelet_dir) or path == PurePosixPath(kubelet_dir):
        raise FailedPrecondition(
            f"{field} {text} is not under {kubelet_dir}, the kubelet directory of this service (--kubelet-dir); "
            "a mount made there would not reach the Pod"
        )
    return Path(path)


def _volume_path(text: str) -> Path:
    """Whatever path kubelet knows the volume by: it is looked up, not made."""
    if not text:
        raise InvalidRequest("volume_path is empty")
    if "\0" in text:
        raise InvalidRequest("volume_path holds a NUL character")
    return Path(text)


def _check_mount_flag(flag: str) -> None:
    if not flag or not flag.isprintable() or "," in flag or " " in flag:
        raise InvalidRequest(f"mount flag {flag!r} is not one option")
    name = flag.partition("=")[0].lower()
    if name in _NOT_FOR_A_VOLUME or name.startswith("x-mount."):
        raise InvalidRequest(f"mount flag {flag!r} cannot be used for a volume")


def _capability(request: csi_pb2.NodeStageVolumeRequest | csi_pb2.NodePublishVolumeRequest) -> Capability:
    if not request.HasField("volume_capability"):
        raise InvalidRequest("volume_capability is missing")
    capability = parse_capability(request.volume_capability)
    check_supported(capability)
    return capability


def _wwn(publish_context: Mapping[str, str]) -> str:
    path = publish_context.get(contract.PUBLISH_DEVICE_PATH, "")
    if not path:
        raise InvalidRequest(f"publish_context has no {contract.PUBLISH_DEVICE_PATH}: was the volume attached?")
    return contract.wwn_from_device_path(path)


def _flag(context: Mapping[str, str], key: str) -> bool:
    value = context.get(key, "").lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise InvalidRequest(f"{key} is {context[key]!r}, but must be true or false")


def _size(context: Mapping[str, str], key: str) -> int | None:
    value = context.get(key, "")
    if not value:
        return None
    least, greatest = _SIZES[key]
    if (
        not (value.isascii() and value.isdecimal())
        or len(value) > len(str(greatest))
        or not least <= int(value) <= greatest
        or int(value).bit_count() != 1
    ):
        raise InvalidRequest(f"{key} is {value!r}, but must be a power of two from {least} to {greatest} (bytes)")
    return int(value)
