"""Attach and detach while things go wrong: nothing is claimed that is not so, and nothing is left behind."""

import asyncio
from collections.abc import Awaitable
from math import ceil, log2
from typing import Any

import pytest

from appkit.errors import FailedPrecondition, Pending, ResourceExhausted, Unavailable
from pvekit.clusters import Region
from pvekit.errors import HotplugFailed, NoQuorum, Protected, VmLocked, VolumeNotFound
from pvekit.vm_config_writer import Attachment
from tests.pvesim.faults import Action, Rule, answer, cut_after, cut_before, task_fails
from tests.pvesim.world import World
from tests.sim.pvekit.scene import GIB, new_world, warm_region

pytestmark = pytest.mark.looptime

V = "ceph:vm-9999-pvc-1"


async def made(region: Region, count: int) -> list[str]:
    return [await region.storage.allocate("pve1", "ceph", 9999, f"vm-9999-pvc-{n}", GIB) for n in range(1, count + 1)]


def live(world: World, vmid: int, volid: str) -> list[str]:
    """Slots in which the guest really has the volume."""
    return [key for key, plugged in world.vms[vmid].plugged.items() if plugged.volid == volid]


def in_config(world: World, vmid: int, volid: str) -> list[str]:
    vm = world.vms[vmid]
    return [key for key, value in {**vm.conf, **vm.pending}.items() if value.partition(",")[0] == volid]


def writes(world: World, since: int) -> int:
    return sum(entry.path.endswith("/config") and entry.method == "POST" for entry in world.log.since(since))


async def settled(*bodies: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*bodies, return_exceptions=True))


async def test_24_at_once() -> None:
    world = new_world()
    async with warm_region(world) as region:
        volids = await made(region, 24)
        mark = len(world.log)
        got = await asyncio.gather(*(region.writers.attach(111, volid, {}) for volid in volids))
        assert len({each.slot for each in got}) == 24
        assert writes(world, mark) <= 3
        assert all(len(live(world, 111, volid)) == 1 for volid in volids)
        mark = len(world.log)
        assert await asyncio.gather(*(region.writers.detach(111, volid) for volid in volids)) == [True] * 24
        assert writes(world, mark) <= 3
        assert set(world.vms[111].plugged) == {"scsi0"}


async def test_one_missing_among_24() -> None:
    world = new_world()
    async with warm_region(world) as region:
        volids = await made(region, 24)
        await region.storage.delete("pve1", volids[7])
        mark = len(world.log)
        got = await settled(*(region.writers.attach(111, volid, {}) for volid in volids))
        assert isinstance(got[7], VolumeNotFound)
        assert sum(isinstance(each, Attachment) for each in got) == 23
        assert not world.vms[111].pending
        assert writes(world, mark) <= 2 + 2 * ceil(log2(24))


async def test_one_that_cannot_be_plugged_among_24() -> None:
    world = new_world()
    async with warm_region(world) as region:
        volids = await made(region, 24)
        text = "400 Parameter verification failed. scsi7: hotplug problem - adding blockdev 'drive-scsi7' failed "
        world.faults.add(Rule(task_fails(text, after=True), method="POST", path="*/qemu/111/config"))
        mark = len(world.log)
        got = await settled(*(region.writers.attach(111, volid, {}) for volid in volids))
        assert all(isinstance(each, Attachment) for each in got), "what was seen live counts, whatever the task said"
        assert writes(world, mark) == 1


ACTIONS = [cut_before(), cut_after(), answer(596, "Connection timed out"), answer(596, "Broken pipe", after=True)]


@pytest.mark.parametrize("action", ACTIONS, ids=["cut before", "cut after", "596 before", "596 after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_lost_answer_at_every_request(nth: int, action: Action) -> None:
    """Attach, then detach, each called again until it succeeds; one drive in between, none at the end."""
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        for attach in (True, False):
            world.faults.clear()
            world.faults.add(Rule(action, path="/nodes/*", nth=nth))
            for _ in range(3):
                try:
                    if attach:
                        got = await region.writers.attach(111, volid, {})
                        assert live(world, 111, volid) == [got.key]
                    else:
                        await region.writers.detach(111, volid)
                    break
                except Unavailable:
                    continue
            else:
                pytest.fail("never succeeded")
            assert len(live(world, 111, volid)) == int(attach)
            assert len(in_config(world, 111, volid)) == int(attach)


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_process_that_dies_at_every_request_and_starts_anew(nth: int) -> None:
    """A second set of objects, knowing nothing, ends with the same one drive."""
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        world.faults.add(Rule(cut_after(), path="/nodes/*/qemu/*", nth=nth, times=0))
        doomed = asyncio.create_task(region.writers.attach(111, volid, {}))
        await asyncio.sleep(2.0)
        doomed.cancel()
        world.faults.clear()
        async with warm_region(world) as other:
            got = await other.writers.attach(111, volid, {})
            assert live(world, 111, volid) == [got.key] == in_config(world, 111, volid)


async def test_another_writer_takes_the_slot_between_read_and_write() -> None:
    world = new_world()
    async with warm_region(world) as region, warm_region(world) as other:
        one, two = await made(region, 2)
        got = await asyncio.gather(region.writers.attach(111, one, {}), other.writers.attach(111, two, {}))
        assert {each.key for each in got} == {"scsi1", "scsi2"}
        assert (live(world, 111, one), live(world, 111, two)) == ([got[0].key], [got[1].key])


async def test_a_guest_that_does_not_let_go() -> None:
    """virtio-scsi-single, guest paused: the first unplug fails, the second succeeds, the slot is not filled again."""
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf["scsihw"] = "virtio-scsi-single"
        one, two = await made(region, 2)
        assert (await region.writers.attach(111, one, {})).key == "scsi1"
        world.vms[111].paused = True
        assert await region.writers.detach(111, one)
        assert in_config(world, 111, one) == []
        got = await region.writers.attach(111, two, {})
        assert got.key == "scsi2"
        world.vms[111].paused = False
        world.vms[111].paused = False


async def test_a_slot_rests_though_the_end_of_its_removal_is_not_heard() -> None:
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf["scsihw"] = "virtio-scsi-single"
        one, two = await made(region, 2)
        await region.writers.attach(111, one, {})
        world.vms[111].pending_delete["scsi1"] = False
        world.vms[111].plugged.pop("scsi1")
        world.faults.add(Rule(cut_after(), method="POST", path="*/config"))
        assert await region.writers.detach(111, one)
        assert (await region.writers.attach(111, two, {})).key == "scsi2"


async def test_a_host_that_could_not_be_asked_is_asked_before_the_first_change() -> None:
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf["scsihw"] = "virtio-scsi-single"
        one, two = await made(region, 2)
        await region.writers.attach(111, one, {})
        world.vms[111].paused = True
        assert await region.writers.detach(111, one)
    async with warm_region(world) as region:
        region.writers.recall_later("pve1")
        assert (await region.writers.attach(111, two, {})).key == "scsi2"
        mark = len(world.log)
        assert await region.writers.detach(111, two)
        assert not any(
            entry.path == "/nodes/pve1/tasks" and "errors" in entry.params for entry in world.log.since(mark)
        )
        world.vms[111].paused = False


async def test_every_slot_of_a_removal_that_waited_rests() -> None:
    """Two disks of a paused guest: the end of the first removal is not heard of, the second one blames one of them."""
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf["scsihw"] = "virtio-scsi-single"
        volids = await made(region, 3)
        await asyncio.gather(*(region.writers.attach(111, volid, {}) for volid in volids[:2]))
        world.vms[111].paused = True
        detaching = asyncio.gather(*(region.writers.detach(111, volid) for volid in volids[:2]), return_exceptions=True)
        await asyncio.sleep(5)
        world.quorate = False
        assert {type(error) for error in await detaching} == {NoQuorum}
        world.quorate = True
        await asyncio.gather(*(region.writers.detach(111, volid) for volid in volids[:2]))
        assert (await region.writers.attach(111, volids[2], {})).key == "scsi3"
        world.vms[111].paused = False


async def test_a_slot_rests_in_the_next_process_too() -> None:
    """The guest of a VM that is paused still means to eject the controller; the task list is all that tells."""
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf["scsihw"] = "virtio-scsi-single"
        one, two = await made(region, 2)
        await region.writers.attach(111, one, {})
        world.vms[111].paused = True
        assert await region.writers.detach(111, one)
    async with warm_region(world) as region:
        await region.writers.recall("pve1")
        assert (await region.writers.attach(111, two, {})).key == "scsi2"
        world.vms[111].paused = False
        world.vms[111].paused = False


async def test_a_disk_that_was_plugged_but_could_not_be_written_down_is_taken_away() -> None:
    """The quorum is lost between plug and config: the guest has a disk of which the config only says that it waits."""
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        attaching = asyncio.create_task(region.writers.attach(111, volid, {}))
        await asyncio.sleep(0.1)
        assert world.vms[111].pending
        world.quorate = False
        with pytest.raises(NoQuorum):
            await attaching
        assert [plugged.key for plugged in world.vms[111].plugged.values() if plugged.volid == volid] == ["scsi1"]
        world.quorate = True
        assert await region.writers.detach(111, volid)
        assert not any(plugged.volid == volid for plugged in world.vms[111].plugged.values())
        assert (in_config(world, 111, volid), world.vms[111].pending) == ([], {})


async def test_without_disk_hotplug() -> None:
    world = new_world()
    async with warm_region(world) as region:
        one, two = await made(region, 2)
        await region.writers.attach(111, two, {})
        world.vms[111].conf["hotplug"] = "network,usb"
        with pytest.raises(FailedPrecondition, match="hotplug"):
            await region.writers.attach(111, one, {})
        assert in_config(world, 111, one) == []
        with pytest.raises(FailedPrecondition, match="hotplug"):
            await region.writers.detach(111, two)
        assert live(world, 111, two) == ["scsi1"]
        world.vms[111].conf["hotplug"] = "disk"
        assert await region.writers.detach(111, two)


async def test_a_stopped_vm_takes_changes_at_once() -> None:
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        vm = world.vms[111]
        vm.power, vm.plugged = "stopped", {}
        assert (await region.writers.attach(111, volid, {})).key == "scsi1"
        assert vm.conf["scsi1"].startswith(volid)
        assert await region.writers.detach(111, volid)


async def test_foreign_drives_are_never_touched() -> None:
    world = new_world()
    async with warm_region(world) as region:
        one, ten = [*await made(region, 1), await region.storage.allocate("pve1", "ceph", 9999, "vm-9999-pvc-10", GIB)]
        foreign = await region.storage.allocate("pve1", "ceph", 111, "vm-111-disk-5", GIB)
        for volid in (ten, foreign):
            await region.writers.attach(111, volid, {})
        before = dict(world.vms[111].conf)
        assert await region.writers.detach(111, one) is False
        assert dict(world.vms[111].conf) == before
        await region.writers.attach(111, one, {})
        await region.writers.detach(111, one)
        assert {key: value for key, value in world.vms[111].conf.items() if key.startswith("scsi")} == {
            key: value for key, value in before.items() if key.startswith("scsi")
        }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("VM is locked (migrate)", VmLocked),
        ("can't remove drive 'scsi1' - protection mode enabled", Protected),
        ("unable to open file '/etc/pve/nodes/pve1/qemu-server/111.conf.tmp.1' - Permission denied", NoQuorum),
    ],
)
async def test_refusals_keep_their_meaning_as_answer_and_as_task(text: str, kind: type[Exception]) -> None:
    for action in (answer(500, text), task_fails(text)):
        world = new_world()
        async with warm_region(world) as region:
            [volid] = await made(region, 1)
            await region.writers.attach(111, volid, {})
            world.faults.add(Rule(action, method="POST", path="*/config", times=0))
            with pytest.raises(kind):
                await region.writers.detach(111, volid)
            assert live(world, 111, volid) == ["scsi1"]


async def test_a_config_lock_that_is_held_for_a_while() -> None:
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        async with world.vms[111].config_lock:
            waiting = asyncio.create_task(region.writers.attach(111, volid, {}))
            await asyncio.sleep(15)
            assert not waiting.done()
        assert (await waiting).key == "scsi1"
        assert in_config(world, 111, volid) == ["scsi1"]


async def test_a_config_lock_that_is_held_for_long_is_pending() -> None:
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        async with world.vms[111].config_lock:
            with pytest.raises(Pending):
                await region.writers.attach(111, volid, {})
        assert (await region.writers.attach(111, volid, {})).key == "scsi1"


async def test_a_dark_host_is_unavailable_and_others_go_on() -> None:
    world = new_world()
    async with warm_region(world) as region:
        one, two = await made(region, 2)
        world.broadcasts.darken("pve3", "cut")
        with pytest.raises(Unavailable):
            await region.writers.attach(131, one, {})
        assert (await region.writers.attach(111, two, {})).key == "scsi1"


async def test_a_vm_that_moves_while_it_is_written() -> None:
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        world.vms[111].node = "pve2"
        got = await region.writers.attach(111, volid, {})
        assert (got.node, live(world, 111, volid)) == ("pve2", [got.key])


async def test_no_free_slot() -> None:
    world = new_world()
    async with warm_region(world) as region:
        world.vms[111].conf |= {f"scsi{n}": f"local-lvm:vm-111-disk-{n},size=1G" for n in range(1, 31)}
        [volid] = await made(region, 1)
        with pytest.raises(ResourceExhausted):
            await region.writers.attach(111, volid, {})


async def test_an_unplug_that_never_works_is_told_with_its_text() -> None:
    world = new_world()
    async with warm_region(world) as region:
        [volid] = await made(region, 1)
        await region.writers.attach(111, volid, {})
        text = "400 Parameter verification failed. scsi1: hotplug problem - still busy in guest?"
        world.faults.add(Rule(task_fails(text), method="POST", path="*/config", times=0))
        with pytest.raises(HotplugFailed, match="still busy in guest"):
            await region.writers.detach(111, volid)
