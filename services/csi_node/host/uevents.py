"""Wake-ups when the kernel adds or changes a block device, through udev's library (pyudev).

Only a hint to look again: what is true is read from sysfs. The kernel's own events are used, not those that udevd
sends on, because a container sees the former in every network namespace and the latter only in the host's.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyudev  # type: ignore[import-untyped]

from appkit.logs import get_logger

_log = get_logger(__name__)


@asynccontextmanager
async def kernel_waker() -> AsyncIterator[asyncio.Event]:
    """A `devices.Waker` for the real sysfs. Where no monitor can be had, it never wakes and polling has to do."""
    event = asyncio.Event()
    try:
        monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
        monitor.filter_by("block")
        monitor.start()
    except (ImportError, OSError) as error:
        _log.warning("no kernel events (%s), polling for disks instead", error)
        yield event
        return
    loop = asyncio.get_running_loop()

    def drain() -> None:
        while monitor.poll(timeout=0) is not None:
            pass
        event.set()

    loop.add_reader(monitor.fileno(), drain)
    try:
        yield event
    finally:
        loop.remove_reader(monitor.fileno())
