"""From a World Wide Name to the device node of exactly that disk, waiting a bounded time for it to appear.

The controller has plugged the disk before the node is called, but the guest's kernel needs a moment (0.1 to 0.6 s
recorded, 2 s with one controller per disk, 12 s for 24 disks at once). A missed event is made good by a bus scan.
Whoever is about to write to the device calls `check` once more just before.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from appkit.clock import Clock
from appkit.errors import FailedPrecondition, Unavailable
from appkit.logs import get_logger
from csi_node.host.kernel import DeviceNumber, Kernel
from csi_node.host.sysfs import ScsiDisk, Sysfs

POLL_S = 0.25
"""How often to look when nothing wakes us."""

SCAN_AFTER_S = 4.0
"""A disk that is not there by itself after this long is looked for by a scan of the SCSI hosts, and again each time."""

_log = get_logger(__name__)

Waker = Callable[[], AbstractAsyncContextManager[asyncio.Event]]
"""Opens a source of wake-ups for the duration of one wait: the event is set when any block device came or changed."""


@dataclass(frozen=True)
class Device:
    """A disk and its device node, whose number was compared with the disk's."""

    disk: ScsiDisk
    node: Path


class Devices:
    """Finds disks. `timeout_s` bounds each wait."""

    def __init__(
        self, sysfs: Sysfs, kernel: Kernel, *, dev_root: Path, clock: Clock, timeout_s: float, waker: Waker
    ) -> None:
        self._sysfs = sysfs
        self._kernel = kernel
        self._dev_root = dev_root
        self._clock = clock
        self._timeout_s = timeout_s
        self._waker = waker

    async def wait_for(self, wwn: str) -> Device:
        """The disk with this World Wide Name, as soon as it is there.

        Raises Unavailable after the time-out, naming what was looked for and what is there, and FailedPrecondition
        when two disks carry the name.
        """
        async with self._waker() as wake:
            return await self._until(lambda: self._find(wwn), wake, lambda: self._missing(wwn))

    async def find(self, wwn: str) -> Device | None:
        """The disk with this World Wide Name if it is there now. Raises FailedPrecondition when two are."""
        return await self._find(wwn)

    async def find_number(self, number: DeviceNumber) -> Device | None:
        """The disk with this device number if it is there now."""
        disk = self._sysfs.disk_of(number)
        return None if disk is None else await self._open(disk)

    async def check(self, device: Device) -> None:
        """Make sure that the node still is this disk. Raises Unavailable when it was swapped or has gone."""
        now = self._sysfs.disk(device.disk.name)
        number = await self._kernel.block_device_number(device.node)
        if now is None or now.wwn != device.disk.wwn or now.number != device.disk.number or number != now.number:
            found = f"{now}, {device.node} is {number}" if now else "nothing"
            raise Unavailable(f"{device.node} was {device.disk}, and now is {found}: the disk was swapped or unplugged")

    @asynccontextmanager
    async def pinned(self, device: Device) -> AsyncIterator[None]:
        """For the length of the body, `device.node` is this disk or nothing. Raises Unavailable when it is not now.

        Tools are given the name of a disk and open it a moment after the last look at it; without this, another disk
        could have come under that name meanwhile.
        """
        async with self._kernel.pinned(device.node, device.disk.number):
            await self.check(device)
            yield

    async def wait_size(self, device: Device, size_bytes: int) -> Device:
        """The same disk, once the kernel shows at least `size_bytes` of it; asks the disk again while it waits.

        Raises Unavailable after the time-out with both sizes.
        """

        asked = False

        async def grown() -> Device | None:
            nonlocal asked
            now = self._sysfs.disk(device.disk.name)
            if now is None or now.wwn != device.disk.wwn:
                raise Unavailable(f"{device.disk} went away while it was waited for to grow")
            if now.size_bytes >= size_bytes and (asked or size_bytes > 0):
                return Device(now, device.node)
            asked = True
            await self._sysfs.rescan(now)
            return await grown() if size_bytes == 0 else None

        def too_small() -> str:
            now = self._sysfs.disk(device.disk.name)
            return f"{now or device.disk} is smaller than the {size_bytes} bytes that the volume should have"

        async with self._waker() as wake:
            return await self._until(grown, wake, too_small, scan=False)

    async def _find(self, wwn: str) -> Device | None:
        wanted = wwn.lower()
        found = [disk for disk in self._sysfs.disks() if disk.wwn == wanted]
        if len(found) > 1:
            raise FailedPrecondition(
                f"{len(found)} disks carry WWN {wanted}: {', '.join(map(str, found))}; detach the wrong one"
            )
        return await self._open(found[0]) if found else None

    async def _open(self, disk: ScsiDisk) -> Device | None:
        """The disk with its node, or None while devtmpfs does not show it (or shows the former owner of the name)."""
        if disk.size_bytes == 0:
            return None
        if disk.state == "offline":
            _log.warning("disk is offline, setting it running", extra={"disk": disk.name, "wwn": disk.wwn})
            await self._sysfs.set_running(disk)
        node = self._dev_root / disk.name
        if await self._kernel.block_device_number(node) != disk.number:
            return None
        return Device(disk, node)

    def _missing(self, wwn: str) -> str:
        disks = self._sysfs.disks()
        present = ", ".join(map(str, disks)) or "none"
        for disk in disks:
            if disk.wwn == wwn.lower():
                return f"disk {disk} is there, but {self._dev_root / disk.name} is not its device node"
        return f"no disk with WWN {wwn.lower()}; disks with a WWN on this node: {present}"

    async def _until(
        self,
        look: Callable[[], Awaitable[Device | None]],
        wake: asyncio.Event,
        why: Callable[[], str],
        *,
        scan: bool = True,
    ) -> Device:
        """Look, be woken or wait a little, look again; Unavailable with `why()` when the time is over."""
        started = self._clock.monotonic()
        next_scan = SCAN_AFTER_S
        while True:
            wake.clear()
            device = await look()
            if device is not None:
                return device
            waited = self._clock.monotonic() - started
            if waited >= self._timeout_s:
                raise Unavailable(f"{why()} (waited {waited:.0f} s)")
            if scan and waited >= next_scan:
                next_scan += SCAN_AFTER_S
                await self._sysfs.scan_hosts()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await wake.wait()


@asynccontextmanager
async def no_waker() -> AsyncIterator[asyncio.Event]:
    """Never wakes: for a sysfs that is not the kernel's, where only polling helps."""
    yield asyncio.Event()
