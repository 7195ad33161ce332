"""The block back end: what stands behind volumes and plugged disks besides the bookkeeping.

Must not know the API. `NoBlocks` is for tests of rules; `hostblocks.py` has real files and loop devices.
"""

from typing import Protocol

from tests.pvesim.state import Plugged, Vm, Volume


class BlockBackend(Protocol):
    """Called after the bookkeeping has changed and before the API answers; an OSError becomes the task's error."""

    async def allocate(self, volume: Volume) -> None:
        """A volume came to be."""
        ...

    async def free(self, volume: Volume) -> None:
        """A volume is gone (a guest that has it open keeps it)."""
        ...

    async def resize(self, volume: Volume) -> None:
        """A volume has grown; guests that have it see that at once."""
        ...

    async def copy(self, source: Volume, target: Volume) -> None:
        """`target`, allocated before, becomes a copy of `source`."""
        ...

    async def rename(self, volume: Volume, former_name: str) -> None:
        """A volume has another name now."""
        ...

    async def plug(self, vm: Vm, plugged: Plugged, volume: Volume) -> None:
        """A disk appears in the guest."""
        ...

    async def unplug(self, vm: Vm, plugged: Plugged) -> None:
        """A disk vanishes from the guest."""
        ...

    async def aclose(self) -> None:
        """Leave nothing behind."""
        ...


class NoBlocks:
    """Nothing behind the bookkeeping."""

    async def allocate(self, volume: Volume) -> None:
        """Nothing to do."""

    async def free(self, volume: Volume) -> None:
        """Nothing to do."""

    async def resize(self, volume: Volume) -> None:
        """Nothing to do."""

    async def copy(self, source: Volume, target: Volume) -> None:
        """Nothing to do."""

    async def rename(self, volume: Volume, former_name: str) -> None:
        """Nothing to do."""

    async def plug(self, vm: Vm, plugged: Plugged, volume: Volume) -> None:
        """Nothing to do."""

    async def unplug(self, vm: Vm, plugged: Plugged) -> None:
        """Nothing to do."""

    async def aclose(self) -> None:
        """Nothing to do."""
