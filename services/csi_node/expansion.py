"""Expand: the new size of a disk reaches the filesystem on it.

Must not believe a size that the kernel does not show. Callers hold the volume's in-flight lock.
"""

from dataclasses import dataclass
from pathlib import Path

from appkit.errors import FailedPrecondition, NotFound, OutOfRange
from csi_node.host.devices import Device, Devices
from csi_node.host.filesystems import SUPPORTED, Filesystems
from csi_node.host.kernel import Kernel
from csi_node.host.mounts import Mounts


@dataclass(frozen=True)
class Expand:
    """What is to be grown: the volume at `volume_path`, a staging or target path, a block volume's included.

    `required_bytes` 0: to whatever size the disk has. `limit_bytes` 0: no limit.
    """

    volume_id: str
    volume_path: Path
    staging_path: Path | None
    required_bytes: int
    limit_bytes: int


class Expansion:
    """Grows volumes on this node."""

    def __init__(self, *, kernel: Kernel, devices: Devices, mounts: Mounts, filesystems: Filesystems) -> None:
        self._kernel = kernel
        self._devices = devices
        self._mounts = mounts
        self._filesystems = filesystems

    async def expand(self, wanted: Expand) -> int:
        """Grow the volume and answer the size of its disk in bytes.

        Raises NotFound (no volume at that path), Unavailable (the disk does not show the new size yet), OutOfRange
        (it is larger than the limit).
        """
        number = await self._kernel.block_device_number(wanted.volume_path)
        if number is not None:
            device = await self._devices.find_number(number)
            if device is None:
                raise FailedPrecondition(f"the disk {number} behind {wanted.volume_path} has gone")
            return _size_within(wanted, await self._devices.wait_size(device, wanted.required_bytes))
        mount = self._mounts.find(wanted.volume_path)
        if mount is None:
            raise NotFound(f"volume {wanted.volume_id} is not at {wanted.volume_path}: nothing is mounted there")
        if mount.fs_type not in SUPPORTED:
            raise NotFound(f"{wanted.volume_path} is a {mount.fs_type} mount, not a volume of this driver")
        device = await self._devices.find_number(mount.number)
        if device is None:
            raise FailedPrecondition(
                f"the disk {mount.number} behind {wanted.volume_path} has gone; stage the volume again"
            )
        device = await self._devices.wait_size(device, wanted.required_bytes)
        size = _size_within(wanted, device)
        if mount.read_only and wanted.staging_path is not None:
            # A Pod that may only read: the mount to grow through is the staged one.
            staged = self._mounts.find(wanted.staging_path)
            mount = staged if staged is not None and staged.number == mount.number else mount
        if mount.read_only:
            raise FailedPrecondition(
                f"{mount.path} is mounted read-only; a filesystem is grown through a writable mount"
            )
        async with self._devices.pinned(device):
            await self._filesystems.grow_mounted(device, mount.fs_type, mount.path)
        return size


def _size_within(wanted: Expand, device: Device) -> int:
    size = device.disk.size_bytes
    if 0 < wanted.limit_bytes < size:
        raise OutOfRange(
            f"{device.disk} of volume {wanted.volume_id} is larger than the limit of {wanted.limit_bytes} bytes"
        )
    return size
