"""The controller dies before or after each of its Proxmox requests, is started anew, and is asked again.

For every RPC the points are enumerated, not drawn: k counts all requests of the call except the index's background
ones, so task polls are points too. Dying before request k means that it never left; after, that Proxmox VE did it and
nobody heard. The end must be the same as without the crash: one disk, attached once or nowhere, and no success without
a live disk. Once with tasks that end at once, and once with tasks that go on while the new controller starts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import httpx
import pytest
from grpc.aio import AioRpcError

from appkit.clock import SystemClock
from csikit.pb import csi_pb2
from pvekit.settings import ClusterSettings
from pvekit.tls import ssl_context
from tests.pvesim.profile import INSTANT, Profile
from tests.sim.csi_controller.scene import GIB, MIB, Scene, open_scene

Side = Literal["before", "after"]
Call = Callable[[Scene], Awaitable[object]]


class Wire(httpx.AsyncBaseTransport):
    """The network of one controller. Armed, it dies at the k-th request that somebody waits for, for good."""

    def __init__(self, settings: ClusterSettings, dead: asyncio.Event) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=ssl_context(settings))
        self._countdown: int | None = None
        self._side: Side = "before"
        self.dead = dead
        self.seen = 0

    def arm(self, point: int | None, side: Side) -> None:
        """Die `side` request number `point` from now; None only counts."""
        self._countdown, self._side, self.seen = point, side, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request, or not."""
        if "(background)" not in request.headers["user-agent"] and not self.dead.is_set():
            self.seen += 1
            if self._countdown == self.seen:
                if self._side == "after":
                    await (await self._inner.handle_async_request(request)).aread()
                self.dead.set()
        if self.dead.is_set():
            # Whatever the dying process still tries reaches nobody, and what it says is not listened to.
            raise httpx.ConnectError("this controller is dead", request=request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the real connections."""
        await self._inner.aclose()


class MortalClock(SystemClock):
    """Time flies once the process is dead: whatever still waits in it has waited long enough."""

    def __init__(self, dead: asyncio.Event) -> None:
        self._dead = dead
        self._skipped_s = 0.0

    def monotonic(self) -> float:
        """Seconds, those skipped included."""
        return super().monotonic() + self._skipped_s

    async def sleep(self, seconds: float) -> None:
        """Wait, or skip what is left."""
        until = self.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._dead.wait()
        await asyncio.sleep(0)
        self._skipped_s += max(0.0, until - self.monotonic())


class Controllers:
    """Starts controllers one after the other, each with a wire of its own."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.wire: Wire

    async def start(self) -> None:
        """A new one."""

        def wire_of(settings: ClusterSettings) -> httpx.AsyncBaseTransport:
            self.wire = Wire(settings, dead)
            return self.wire

        dead = asyncio.Event()
        await self._scene.start_app(wire_of, clock=MortalClock(dead))

    async def crash(self, call: Awaitable[object]) -> bool:
        """Make the call with an armed wire; True when the process died in it. Then a new one runs."""
        try:
            await call
        except AioRpcError:
            assert self.wire.dead.is_set()
        died = self.wire.dead.is_set()
        if died:
            await self._scene.stop_app()
            await self.start()
        return died


# Long enough to be still running when the next controller is up.
SLOW = Profile(free_s=0.15, config_write_s=0.1, plug_s=0.05, unplug_poll_s=0.03, resize_s=0.15)


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[Scene, Controllers]]:
    """A scene whose controller can be killed."""
    async with open_scene(start=False) as scene:
        controllers = Controllers(scene)
        await controllers.start()
        yield scene, controllers


async def _nothing(scene: Scene) -> None:
    return None


async def _created(scene: Scene) -> None:
    await scene.create()


async def _published(scene: Scene) -> None:
    await scene.publish(await scene.create())


async def _create(scene: Scene) -> None:
    volume = await scene.create()
    assert volume.capacity_bytes == GIB


async def _publish(scene: Scene) -> None:
    await scene.publish(_volume())
    assert scene.is_live(_volume(), 111)


async def _expand(scene: Scene) -> None:
    reply = await scene.expand(_volume(), 2 * GIB)
    assert reply.capacity_bytes == 2 * GIB
    assert "size=2G" in scene.vm().conf["scsi1"]


async def _unpublish(scene: Scene) -> None:
    await scene.unpublish(_volume())
    assert scene.attachments() == {}


async def _delete(scene: Scene) -> None:
    await scene.delete(_volume())
    assert scene.volids() == []


def _volume(storage: str = "local-lvm") -> csi_pb2.Volume:
    return csi_pb2.Volume(volume_id=f"cluster-1/pve1/{storage}/vm-9999-pvc-1")


CALLS: dict[str, tuple[Call, Call, int]] = {
    # What must be there before, the call, and how many volumes there are afterwards.
    "create": (_nothing, _create, 1),
    "publish": (_created, _publish, 1),
    "expand": (_published, _expand, 1),
    "unpublish": (_published, _unpublish, 1),
    "delete": (_created, _delete, 0),
}


@pytest.mark.parametrize("profile", [INSTANT, SLOW], ids=["instant", "slow"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", list(CALLS))
async def test_every_point_of_every_call(name: str, side: Side, profile: Profile) -> None:
    prepare, call, volumes = CALLS[name]
    points = 0
    while True:
        async with stage() as (scene, controllers):
            await prepare(scene)
            scene.world.profile = profile
            controllers.wire.arm(points + 1, side)
            if not await controllers.crash(call(scene)):
                break
            points += 1
            scene.world.profile = INSTANT
            await call(scene)
            await call(scene)
            assert len(scene.volids()) == volumes, f"after point {points}"
            assert len(scene.attachments()) == (name in {"publish", "expand"})
            assert scene.vm().pending == {}
            assert scene.vm().pending_delete == {}
    assert points >= {"create": 1, "publish": 3, "expand": 3, "unpublish": 3, "delete": 1}[name]


@pytest.mark.parametrize("profile", [INSTANT, SLOW], ids=["instant", "slow"])
async def test_a_publish_that_died_does_not_let_another_vm_have_the_disk(profile: Profile) -> None:
    """The caller forgets the first node and asks for a second one: at no point may both have the disk."""
    points = 0
    while True:
        async with stage() as (scene, controllers):
            volume = await scene.create(storage="ceph")
            scene.world.profile = profile
            controllers.wire.arm(points + 1, "after")
            if not await controllers.crash(scene.publish(volume, 111)):
                break
            points += 1
            scene.world.profile = INSTANT
            # Refused as long as the first VM has it or may get it.
            for _ in range(3):
                try:
                    await scene.publish(volume, 121)
                except AioRpcError:
                    await scene.unpublish(volume, 111)
                else:
                    break
            assert scene.attachments() == {121: ["ceph:vm-9999-pvc-1"]}
    assert points >= 3


async def test_a_larger_size_after_a_crash_is_another_content() -> None:
    async with stage() as (scene, controllers):
        controllers.wire.arm(1, "after")
        assert await controllers.crash(scene.create(size_bytes=GIB))
        volume = await scene.create(size_bytes=GIB - MIB)
        assert volume.capacity_bytes == GIB
        assert len(scene.volids()) == 1
