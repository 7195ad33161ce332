"""Two controllers at once, each with its own memory: every sidecar elects a leader of its own, so this is normal.

The provisioner's leader may stand beside one process and the attacher's beside the other; and a leader that lost its
lease, or was killed, leaves tasks behind that go on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Channel

from csikit.pb import csi_pb2
from tests.pvesim.faults import Rule, cut_after
from tests.pvesim.profile import Profile
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, Calls, Scene, open_scene

SLOW = Profile(free_s=0.3, config_write_s=0.3, plug_s=0.2, unplug_poll_s=0.1, resize_s=0.3)


class Beside(Calls):
    """The controller that listens on a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def channel(self) -> Channel:
        """To its socket."""
        return self._channel


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Scene, Calls, Calls]]:
    """The scene, and both controllers, warm."""
    async with open_scene() as scene:
        first = Beside(scene.channel)
        await scene.start_app()
        yield scene, first, Beside(scene.channel)


async def test_each_verb_by_the_other_process() -> None:
    async with two() as (scene, first, second):
        volume = await first.create(storage="ceph")
        assert (await second.create(storage="ceph")).volume_id == volume.volume_id
        await second.publish(volume, 111)
        assert (await first.expand(volume, 2 * GIB)).capacity_bytes == 2 * GIB
        with refused(StatusCode.FAILED_PRECONDITION, "VM 111"):
            await first.delete(volume)
        with refused(StatusCode.FAILED_PRECONDITION, "VM 111"):
            await first.publish(volume, 121)
        await second.unpublish(volume, 111)
        # What the first one has in memory is old now, and no reason to refuse.
        await first.publish(volume, 121)
        await second.unpublish(volume, 121)
        await first.delete(volume)
        assert scene.volids() == []


@pytest.mark.parametrize("unpublish_after_s", [0.0, 0.1, 0.3, 0.6])
async def test_a_publish_under_way_elsewhere_is_not_overtaken(unpublish_after_s: float) -> None:
    """The first process has begun and nobody waits for it any more; the second is told to take it to another VM."""
    async with two() as (scene, first, second):
        volume = await first.create(storage="ceph")
        scene.world.profile = SLOW
        begun = asyncio.ensure_future(first.publish(volume, 111))
        async with asyncio.timeout(5):
            # A request that is still on its way is seen by nobody; a new leader waits longer for its Lease than that.
            while not any(task.type == "qmconfig" for task in scene.world.tasks.by_upid.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(unpublish_after_s)
        published = False
        for _ in range(20):
            try:
                await second.unpublish(volume, 111)
                await second.publish(volume, 121)
                published = True
            except AioRpcError:
                await asyncio.sleep(0.1)
            else:
                break
        assert published
        await asyncio.gather(begun, return_exceptions=True)
        await asyncio.sleep(1)
        assert scene.attachments() == {121: ["ceph:vm-9999-pvc-1"]}


async def test_both_create_publish_and_delete_the_same_at_once() -> None:
    async with two() as (scene, first, second):
        for _ in range(5):
            made = await asyncio.gather(*(each.create() for each in (first, second)), return_exceptions=True)
            volumes = [each for each in made if isinstance(each, csi_pb2.Volume)]
            assert volumes
            assert scene.volids() == ["pve1/local-lvm:vm-9999-pvc-1"]
            volume = volumes[0]
            await asyncio.gather(*(each.publish(volume) for each in (first, second)), return_exceptions=True)
            assert scene.attachments() == {111: ["local-lvm:vm-9999-pvc-1"]}
            assert scene.is_live(volume, 111)
            await asyncio.gather(*(each.unpublish(volume) for each in (first, second)), return_exceptions=True)
            await first.unpublish(volume)
            await asyncio.gather(*(each.delete(volume) for each in (first, second)), return_exceptions=True)
            await first.delete(volume)
            assert scene.volids() == []


async def test_both_attach_to_one_vm_and_lose_nothing() -> None:
    async with two() as (scene, first, second):
        volumes = [await first.create(f"pvc-{n}") for n in range(12)]
        scene.world.profile = Profile(config_write_s=0.02, plug_s=0.02)

        async def publish(number: int) -> None:
            for _ in range(10):
                try:
                    await (first, second)[number % 2].publish(volumes[number])
                except AioRpcError as error:
                    if error.code() not in (StatusCode.ABORTED, StatusCode.UNAVAILABLE):
                        raise
                else:
                    return
            raise AssertionError(f"volume {number} was never published")

        await asyncio.gather(*(publish(number) for number in range(12)))
        assert all(scene.is_live(volume, 111) for volume in volumes)
        assert len(scene.attachments()[111]) == 12


async def test_a_lost_answer_here_and_a_call_there() -> None:
    async with two() as (scene, first, second):
        volume = await first.create(storage="ceph")
        scene.world.profile = SLOW
        scene.world.faults.add(Rule(cut_after(), method="POST", path="*/qemu/111/config"))
        results = await asyncio.gather(first.publish(volume, 111), second.publish(volume, 111), return_exceptions=True)
        assert any(not isinstance(each, BaseException) for each in results)
        assert scene.is_live(volume, 111)
        assert scene.attachments() == {111: ["ceph:vm-9999-pvc-1"]}
