"""An unplug that the guest refuses, and the trap in the slot it leaves behind (9.2, recorded live)."""

import asyncio

import pytest

from tests.sim.pvesim.measured import Measured

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"


def busy(device: str) -> str:
    return f"hotplug problem - error on hot-unplugging device '{device}' - still busy in guest?\n"


@pytest.fixture
async def single(cluster: Measured) -> Measured:
    cluster.world.vms[111].conf["scsihw"] = "virtio-scsi-single"
    return cluster


@pytest.mark.parametrize("asleep", ["paused", "guest_dead"])
async def test_a_controller_of_its_own_needs_the_guest(single: Measured, asleep: str) -> None:
    vm = single.world.vms[111]
    volid = await single.volume("a")
    await single.csi.put(CONFIG, scsi1=volid)
    setattr(vm, asleep, True)
    reply, took = await single.timed(single.csi.put(CONFIG, delete="scsi1"))
    assert (reply.status, reply.errors) == (400, {"scsi1": busy("virtioscsi1")})
    assert took == pytest.approx(17, abs=0.3)
    # The disk has left the guest, the entry stays and waits.
    assert "scsi1" not in vm.plugged
    assert (await single.pending())["scsi1"]["delete"] == 1
    assert "scsi1" not in (await single.csi.get(CONFIG)).data
    assert "scsi1" in (await single.csi.get(CONFIG, current=1)).data
    # A retry succeeds at once, since there is no disk to take out any more.
    again, took = await single.timed(single.csi.put(CONFIG, delete="scsi1"))
    assert (again.status, again.data) == (200, None)
    assert took < 0.1
    assert "scsi1" not in await single.pending()


async def test_the_slot_of_a_refused_unplug_swallows_the_next_disk(single: Measured) -> None:
    vm = single.world.vms[111]
    first, second = await single.volume("a"), await single.volume("b")
    await single.csi.put(CONFIG, scsi1=first)
    await single.root.finish(await single.root.post("/nodes/pve1/qemu/111/status/suspend"))
    assert (await single.csi.put(CONFIG, delete="scsi1")).status == 400
    assert (await single.csi.put(CONFIG, delete="scsi1")).status == 200
    assert (await single.csi.put(CONFIG, scsi1=second)).status == 200
    assert vm.plugged["scsi1"].volid == second
    await single.root.finish(await single.root.post("/nodes/pve1/qemu/111/status/resume"))
    # The guest finished what it was asked for before; nobody told the configuration.
    assert "scsi1" not in vm.plugged
    assert (await single.csi.get(CONFIG, current=1)).data["scsi1"].startswith(second)
    assert "pending" not in (await single.pending())["scsi1"]
    # Another slot is safe, and so is this one once the guest has been seen awake.
    await single.csi.put(CONFIG, delete="scsi1")
    assert (await single.csi.put(CONFIG, scsi1=second)).status == 200
    assert vm.plugged["scsi1"].volid == second


async def test_a_virtio_disk_needs_the_guest_too_and_gives_up_after_six_seconds(cluster: Measured) -> None:
    volid = await cluster.volume("a")
    await cluster.csi.put(CONFIG, virtio3=volid)
    cluster.world.vms[111].paused = True
    reply, took = await cluster.timed(cluster.csi.put(CONFIG, delete="virtio3"))
    assert (reply.status, reply.errors) == (400, {"virtio3": busy("virtio3")})
    assert took == pytest.approx(6, abs=0.3)


async def test_a_shared_controller_needs_no_guest(cluster: Measured) -> None:
    await cluster.csi.put(CONFIG, scsi1=await cluster.volume("a"))
    cluster.world.vms[111].paused = True
    reply, took = await cluster.timed(cluster.csi.put(CONFIG, delete="scsi1"))
    assert reply.status == 200
    assert took == pytest.approx(1.1, abs=0.1)


async def test_three_refusals_in_one_call_are_a_596_and_go_on(single: Measured) -> None:
    slots = ("scsi1", "scsi2", "scsi3")
    for slot in slots:
        await single.csi.put(CONFIG, **{slot: await single.volume(slot)})
    single.world.vms[111].paused = True
    reply, took = await single.timed(single.csi.put(CONFIG, delete=",".join(slots)))
    assert (reply.status, reply.reason, reply.raw) == (596, "Connection timed out", b"")
    assert took == pytest.approx(30)
    await asyncio.sleep(25)
    assert sorted(key for key, entry in (await single.pending()).items() if entry.get("delete")) == list(slots)
