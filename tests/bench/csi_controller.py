"""The CSI controller's figures, in-process for requests and times, as a process of its own for memory and start."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from time import perf_counter

from csikit.pb import csi_pb2
from tests.bench.figure import Figure
from tests.pvesim.faults import Rule, delay
from tests.pvesim.profile import Profile
from tests.pvesim.worlds import three_hosts
from tests.sim.csi_controller.process import controller_process
from tests.sim.csi_controller.scene import GIB, Scene, open_scene

# A task of 150 ms, as in the measurement that the goals for times come from.
TASKS_OF_150_MS = Profile(plug_s=0.15, unplug_poll_s=0.15)


async def figures() -> list[Figure]:
    """All of them; a few seconds."""
    return [*await _requests(), *await _bursts(), *await _times(), *await _process()]


async def _requests() -> list[Figure]:
    found: list[Figure] = []

    async def count(what: str, call: Awaitable[object], goal: int) -> None:
        with scene.counted() as spent:
            await call
        found.append(Figure(f"csi controller: {what}", spent.foreground, "requests", goal))

    async with open_scene() as scene:
        await count("create", scene.create(), 1)
        await count("create again", scene.create(), 2)
        volume = csi_pb2.Volume(volume_id="cluster-1/pve1/local-lvm/vm-9999-pvc-1")
        await count("publish", scene.publish(volume), 3)
        await count("publish again", scene.publish(volume), 1)
        await count("expand", scene.expand(volume, 2 * GIB), 3)
        await count("expand again", scene.expand(volume, 2 * GIB), 1)
        await count("unpublish", scene.unpublish(volume), 3)
        await count("unpublish again", scene.unpublish(volume), 1)
        await count("delete", scene.delete(volume), 2)
        await count("delete again", scene.delete(volume), 2)
    return found


async def _bursts() -> list[Figure]:
    async with open_scene() as scene:
        volumes = [await scene.create(f"pvc-{n}") for n in range(24)]
        # The first write of each burst takes as long as a real one, and meanwhile the rest comes.
        for nth in (1, 3):
            scene.world.faults.add(Rule(delay(0.2), method="POST", path="*/config", nth=nth))
        with scene.counted() as attaching:
            await asyncio.gather(*(scene.publish(volume) for volume in volumes))
        with scene.counted() as detaching:
            await asyncio.gather(*(scene.unpublish(volume) for volume in volumes))
    return [
        Figure("csi controller: 24 publishes to one VM at once", attaching.config_writes, "config writes", 3),
        Figure("csi controller: 24 unpublishes from one VM at once", detaching.config_writes, "config writes", 3),
    ]


async def _times() -> list[Figure]:
    async with _slow_scene() as scene:
        volume = await scene.create("warm")
        await scene.publish(volume)
        await scene.unpublish(volume)
        started = perf_counter()
        volume = await scene.create()
        attaching = perf_counter()
        await scene.publish(volume)
        attached = perf_counter()
        await scene.unpublish(volume)
        await scene.delete(volume)
        ended = perf_counter()
    return [
        Figure("csi controller: publish, its task taking 150 ms", 1000 * (attached - attaching), "ms", 250),
        Figure("csi controller: create, publish, unpublish, delete", 1000 * (ended - started), "ms", 700),
    ]


@asynccontextmanager
async def _slow_scene() -> AsyncIterator[Scene]:
    world = three_hosts()
    async with open_scene(world) as scene:
        world.profile = TASKS_OF_150_MS
        yield scene


async def _process() -> list[Figure]:
    async with open_scene(start=False) as scene:
        started = perf_counter()
        async with controller_process(scene) as process:
            first_answer_s = perf_counter() - started
            idle_bytes = process.resident_bytes()
            for _ in range(10):
                volume = await process.create("pvc-1")
                await process.publish(volume)
                await process.expand(volume, 2 * GIB)
                await process.unpublish(volume)
                await process.delete(volume)
            busy_bytes = process.resident_bytes()
    return [
        Figure("csi controller: from exec to the first answer", first_answer_s, "s", 1),
        Figure("csi controller: memory, idle", idle_bytes / 1e6, "MB", 60),
        Figure("csi controller: memory after 50 calls", busy_bytes / 1e6, "MB", 65),
    ]
