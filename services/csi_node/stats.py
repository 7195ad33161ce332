"""How full a published volume is. Changes nothing, and never answers for the filesystem above an unmounted path."""

from dataclasses import dataclass
from pathlib import Path

from appkit.errors import NotFound
from csi_node.host.devices import Devices
from csi_node.host.kernel import Kernel, Usage
from csi_node.host.mounts import Mounts


@dataclass(frozen=True)
class BlockUsage:
    """A block volume: only its size is known, in bytes."""

    total_bytes: int


class Stats:
    """Measures volumes on this node."""

    def __init__(self, *, kernel: Kernel, devices: Devices, mounts: Mounts) -> None:
        self._kernel = kernel
        self._devices = devices
        self._mounts = mounts

    async def measure(self, volume_id: str, volume_path: Path) -> Usage | BlockUsage:
        """Usage of the volume at this path. Raises NotFound when it is not there, DeadMount when it does not answer."""
        if self._mounts.find(volume_path) is None:
            raise NotFound(f"volume {volume_id} is not at {volume_path}: nothing is mounted there")
        number = await self._kernel.block_device_number(volume_path)
        if number is None:
            return await self._kernel.usage(volume_path)
        device = await self._devices.find_number(number)
        if device is None:
            raise NotFound(f"the disk {number} of volume {volume_id} at {volume_path} has gone")
        return BlockUsage(device.disk.size_bytes)
