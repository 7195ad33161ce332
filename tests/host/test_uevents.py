"""Kernel events reach the waiting service."""

import asyncio
from pathlib import Path

from csi_node.host.uevents import kernel_waker
from tests.fakes.node_calls import MIB
from tests.host.loops import Loop
from tests.host.machine import Machine


async def test_woken_by_the_kernel(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    loop = Loop(volume.file)
    try:
        async with kernel_waker() as event:
            event.clear()
            _trigger(loop)
            async with asyncio.timeout(5):
                await event.wait()
    finally:
        loop.close()
    assert volume.file.stat().st_size == 64 * MIB


def _trigger(loop: Loop) -> None:
    Path(f"/sys/block/loop{loop.number}/uevent").write_text("change")
