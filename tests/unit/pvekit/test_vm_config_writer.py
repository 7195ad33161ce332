"""Attach and detach: how many requests they cost, and that nothing is claimed that was not seen."""

import asyncio
from math import ceil, log2
from typing import Any

import httpx
import pytest

from appkit.clock import SystemClock
from appkit.errors import Denied, FailedPrecondition, NotFound, ResourceExhausted, Unavailable
from pvekit.clusters import Clusters, Region
from pvekit.errors import HotplugFailed, Protected, TaskTimeout, VmLocked, VolumeNotFound
from pvekit.settings import CloudConfig
from pvekit.vm_config_writer import Attachment
from tests.unit.pvekit.conftest import new_metrics, settings_with
from tests.unit.pvekit.fake_pve import DIGEST_TEXT, FakePve, answer_of

pytestmark = pytest.mark.looptime

OPTIONS = {"backup": "0", "iothread": "1", "wwn": "0x5000000000000001"}


def volid(number: int) -> str:
    return f"local-lvm:vm-9999-pvc-{number}"


async def warmed(region: Region, pve: FakePve) -> Region:
    """Inside the test, since a fixture does not live in virtual time."""
    await region.inventory.refresh()
    pve.log.clear()
    return region


async def test_attach_costs_three_requests_and_shows_a_live_drive(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert (got.vmid, got.node, got.key, got.slot, got.already) == (111, "pve1", "scsi1", 1, False)
    assert got.drive.volid == volid(1)
    assert got.drive.options["wwn"] == OPTIONS["wwn"]
    assert pve.vms[111].current["scsi1"].startswith(volid(1))
    assert pve.count() == 3
    assert pve.count("poll") >= 1


async def test_attach_of_a_live_drive_costs_one_request_and_keeps_its_options(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi4"] = f"{volid(1)},size=1G,wwn=0x5056432d49443034"
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert (got.key, got.slot, got.already) == ("scsi4", 4, True)
    assert got.drive.options["wwn"] == "0x5056432d49443034"
    assert pve.count() == 1


async def test_detach_costs_three_requests_and_one_when_gone(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current |= {"scsi1": volid(1), "scsi2": volid(10)}
    assert await warm.writers.detach(111, volid(1)) is True
    assert "scsi1" not in pve.vms[111].current
    assert pve.vms[111].current["scsi2"] == volid(10)
    assert pve.count() == 3
    pve.log.clear()
    assert await warm.writers.detach(111, volid(1)) is False
    assert pve.count() == 1


async def test_every_write_carries_the_digest_that_was_read(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    before = pve.vms[111].digest
    await warm.writers.attach(111, volid(1), OPTIONS)
    assert pve.writes[0]["digest"] == before


async def test_24_at_once_are_one_write(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    got = await asyncio.gather(*(warm.writers.attach(111, volid(n), OPTIONS) for n in range(24)))
    assert len({each.slot for each in got}) == 24
    assert {each.drive.volid for each in got} == {volid(n) for n in range(24)}
    assert len(pve.writes) <= 3
    assert pve.count() <= 5


async def test_24_that_come_one_after_the_other_are_at_most_three_writes(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)

    async def late(number: int) -> Attachment:
        await asyncio.sleep(number * 0.002)
        return await warm.writers.attach(111, volid(number), OPTIONS)

    await asyncio.gather(*(late(number) for number in range(24)))
    assert len(pve.writes) <= 3


async def gathered(*bodies: Any) -> list[Any]:
    return list(await asyncio.gather(*bodies, return_exceptions=True))


async def test_one_missing_volume_among_24_fails_alone(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.missing.add(volid(7))
    got = await gathered(*(warm.writers.attach(111, volid(n), OPTIONS) for n in range(24)))
    assert isinstance(got[7], VolumeNotFound)
    assert volid(7) in str(got[7])
    assert all(isinstance(each, Attachment) for n, each in enumerate(got) if n != 7)
    assert not pve.vms[111].pending
    assert len(pve.writes) <= 2 + 1


@pytest.mark.parametrize("bad", [0, 7, 23])
async def test_one_unnamed_bad_volume_among_24_is_found_by_halves(region: Region, pve: FakePve, bad: int) -> None:
    warm = await warmed(region, pve)
    pve.unreadable.add(volid(bad))
    got = await gathered(*(warm.writers.attach(111, volid(n), OPTIONS) for n in range(24)))
    assert isinstance(got[bad], Unavailable)
    assert "something else went wrong" in str(got[bad])
    assert all(isinstance(each, Attachment) for n, each in enumerate(got) if n != bad)
    assert not pve.vms[111].pending
    assert len(pve.writes) <= 2 + 2 * ceil(log2(24))


async def test_a_volume_that_cannot_be_plugged_fails_alone_and_its_leftover_is_reverted(
    region: Region, pve: FakePve
) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].plug_refusals = {"scsi3": "adding blockdev 'drive-scsi3' failed : Could not open backing file"}
    got = await gathered(*(warm.writers.attach(111, volid(n), OPTIONS) for n in range(5)))
    failed = [each for each in got if isinstance(each, HotplugFailed)]
    assert len(failed) == 1
    assert failed[0].keys == ("scsi3",)
    assert sum(isinstance(each, Attachment) for each in got) == 4
    assert not pve.vms[111].pending
    assert "scsi3" not in pve.vms[111].current
    assert len(pve.writes) == 2


async def test_a_spoilt_slot_is_left_for_another(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].plug_refusals = {
        "scsi1": "VM 111 qmp command 'object-add' failed - attempt to add duplicate property 'throttle-drive-scsi1'"
    }
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert got.key == "scsi2"
    assert not pve.vms[111].pending
    assert (await warm.writers.attach(111, volid(2), OPTIONS)).key == "scsi3"


async def test_a_waiting_entry_is_no_success_and_is_sent_again(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].pending["scsi5"] = f"{volid(1)},size=1G"
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert (got.key, got.already) == ("scsi5", False)
    assert pve.count() == 3


async def test_a_waiting_replacement_of_a_foreign_drive_is_reverted(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = "local-lvm:vm-111-disk-1,size=8G"
    pve.vms[111].pending["scsi1"] = f"{volid(1)},size=1G"
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert got.key == "scsi2"
    assert pve.vms[111].current["scsi1"] == "local-lvm:vm-111-disk-1,size=8G"
    assert not pve.vms[111].pending


async def test_a_drive_whose_removal_waits_is_plugged_anew_elsewhere(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = volid(1)
    pve.vms[111].deletes.add("scsi1")
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert got.key == "scsi2"
    assert "scsi1" not in pve.vms[111].current
    assert [sorted(write) for write in pve.writes] == [["delete", "digest"], ["digest", "scsi2"]]


async def test_without_disk_hotplug_the_setting_is_named_and_nothing_stays_waiting(
    region: Region, pve: FakePve
) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["hotplug"] = "network,usb"
    with pytest.raises(FailedPrecondition, match="hotplug is 'network,usb'; add disk"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert not pve.vms[111].pending
    pve.vms[111].current["scsi1"] = volid(2)
    with pytest.raises(FailedPrecondition, match="hotplug"):
        await warm.writers.detach(111, volid(2))
    assert "scsi1" in pve.vms[111].current


async def test_a_removal_that_waits_without_disk_hotplug_is_taken_back(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current |= {"hotplug": "network", "scsi1": volid(1)}
    pve.vms[111].deletes.add("scsi1")
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    assert (got.key, got.already) == ("scsi1", False)
    assert not pve.vms[111].deletes


async def test_no_free_slot(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current |= {f"scsi{n}": f"local-lvm:vm-111-disk-{n}" for n in range(31)}
    with pytest.raises(ResourceExhausted, match="no free slot"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert pve.count() == 1


async def test_an_unplug_that_fails_once_is_tried_again_and_its_slot_rests(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = volid(1)
    pve.vms[111].stubborn["scsi1"] = 1
    assert await warm.writers.detach(111, volid(1)) is True
    assert len(pve.writes) == 2
    assert (await warm.writers.attach(111, volid(2), OPTIONS)).key == "scsi2"


async def test_a_resting_slot_is_used_again_after_a_restart_or_when_the_guest_answers(
    region: Region, pve: FakePve
) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = volid(1)
    pve.vms[111].stubborn["scsi1"] = 1
    await warm.writers.detach(111, volid(1))
    await warm.writers.attach(111, volid(2), OPTIONS)
    await asyncio.sleep(60)
    pve.vms[111].uptime_s = 30
    await warm.inventory.refresh()
    assert (await warm.writers.attach(111, volid(3), OPTIONS)).key == "scsi1"
    pve.vms[111].stubborn["scsi1"] = 1
    await warm.writers.detach(111, volid(3))
    assert await warm.writers.detach(111, volid(2)) is True
    assert (await warm.writers.attach(111, volid(4), OPTIONS)).key == "scsi1"


async def test_an_unplug_that_keeps_failing_is_unavailable_with_the_text(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = volid(1)
    pve.vms[111].stubborn["scsi1"] = 9
    with pytest.raises(HotplugFailed, match="still busy in guest"):
        await warm.writers.detach(111, volid(1))
    assert len(pve.writes) == 2
    assert "scsi1" in pve.vms[111].current


async def test_a_change_by_others_is_read_again(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)

    def change_once(method: str, path: str, params: dict[str, str]) -> httpx.Response | None:
        if method == "POST" and "description" not in pve.vms[111].current:
            pve.vms[111].current["description"] = "x"
            pve.vms[111].current["scsi1"] = "local-lvm:vm-111-disk-1"
        return None

    pve.rules.append(change_once)
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).key == "scsi2"
    assert pve.vms[111].current["scsi1"] == "local-lvm:vm-111-disk-1"


async def test_a_config_that_never_holds_still_is_pending(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.rules.append(lambda method, path, params: answer_of(500, DIGEST_TEXT) if method == "POST" else None)
    with pytest.raises(Exception, match="checksum mismatch"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert pve.count(method="POST") == 5


async def test_lock_timeouts_are_waited_out(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    left = [2]

    def held(method: str, path: str, params: dict[str, str]) -> httpx.Response | None:
        if method == "POST" and left[0]:
            left[0] -= 1
            return answer_of(500, "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout")
        return None

    pve.rules.append(held)
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).slot == 1
    assert len(pve.writes) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_is_settled_by_reading(region: Region, pve: FakePve, when: str) -> None:
    warm = await warmed(region, pve)
    left = [1]

    def cut(method: str, path: str, params: dict[str, str]) -> Exception | None:
        if method == "POST" and left[0]:
            left[0] = 0
            return httpx.ReadError("connection reset")
        return None

    (pve.rules if when == "before" else pve.after).append(cut)
    got = await warm.writers.attach(111, volid(1), OPTIONS)
    live = [key for key, value in pve.vms[111].current.items() if value.startswith(volid(1))]
    assert live == [got.key]


async def test_a_vm_that_moved_is_followed(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].node = "pve3"
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).node == "pve3"


async def test_a_vm_that_is_proved_absent(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    del pve.vms[111]
    with pytest.raises(NotFound, match="VM 111 of region r1 does not exist"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert await warm.writers.detach(111, volid(1)) is False


async def test_a_vm_on_a_dark_host_is_unavailable(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.nodes["pve1"] = False
    with pytest.raises(Unavailable, match="No route to host"):
        await warm.writers.detach(111, volid(1))


async def test_a_vm_that_the_token_may_not_see_is_denied(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].visible = False
    with pytest.raises(Denied) as caught:
        await warm.writers.detach(111, volid(1))
    assert (caught.value.privilege, caught.value.path) == ("VM.Audit", "/vms/111")
    await warm.inventory.refresh()
    with pytest.raises(Denied) as caught:
        await warm.writers.detach(111, volid(1))
    assert (caught.value.privilege, caught.value.path) == ("VM.Audit", "/vms/111")


async def test_a_locked_vm_is_pending_after_one_write(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["lock"] = "migrate"
    with pytest.raises(VmLocked, match="migrate") as caught:
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert caught.value.lock == "migrate"
    assert pve.count(method="POST") == 1


async def test_protection_is_named(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["scsi1"] = volid(1)
    text = "can't remove drive 'scsi1' - protection mode enabled"
    pve.rules.append(lambda method, path, params: answer_of(500, text) if "delete" in params else None)
    with pytest.raises(Protected):
        await warm.writers.detach(111, volid(1))


async def test_a_cancelled_caller_hurts_nobody(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    first = asyncio.create_task(warm.writers.attach(111, volid(1), OPTIONS))
    second = asyncio.create_task(warm.writers.attach(111, volid(2), OPTIONS))
    await asyncio.sleep(0.03)
    assert len(pve.writes) == 1
    first.cancel()
    assert (await second).drive.volid == volid(2)
    assert {pve.vms[111].current[key].partition(",")[0] for key in ("scsi1", "scsi2")} == {volid(1), volid(2)}


async def test_opposite_wishes_for_one_volume_are_done_in_order(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    attach = asyncio.create_task(warm.writers.attach(111, volid(1), OPTIONS))
    await asyncio.sleep(0)
    detach = asyncio.create_task(warm.writers.detach(111, volid(1)))
    assert (await attach).slot == 1
    assert await detach is True
    assert "scsi1" not in pve.vms[111].current


async def test_the_same_wish_twice_is_one_drive(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    one, two = await asyncio.gather(*(warm.writers.attach(111, volid(1), OPTIONS) for _ in range(2)))
    assert one.key == two.key
    assert len(pve.writes) == 1


async def test_a_slow_task_is_pending_and_the_next_call_waits_for_it(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.task_s = 34.0
    with pytest.raises(Exception, match="still runs"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).already
    assert len(pve.writes) == 1


async def test_a_task_that_only_looks_running_does_not_keep_the_caller_waiting(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)

    def running(method: str, path: str, params: dict[str, str]) -> httpx.Response | None:
        return httpx.Response(200, json={"data": {"status": "running"}}) if "/tasks/" in path else None

    pve.rules.append(running)
    began = asyncio.get_running_loop().time()
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).slot == 1
    assert asyncio.get_running_loop().time() - began < 10


async def test_two_vms_do_not_wait_for_each_other(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    await asyncio.gather(warm.writers.attach(111, volid(1), OPTIONS), warm.writers.attach(121, volid(2), OPTIONS))
    assert pve.vms[111].current["scsi1"].startswith(volid(1))
    assert pve.vms[121].current["scsi1"].startswith(volid(2))


async def test_after_closing_nothing_new_begins_and_what_runs_is_finished(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    running = asyncio.create_task(warm.writers.attach(111, volid(1), OPTIONS))
    await asyncio.sleep(0.03)
    await warm.writers.aclose()
    assert (await running).slot == 1
    with pytest.raises(Unavailable, match="shutting down"):
        await warm.writers.detach(111, volid(1))


async def test_a_volume_on_another_bus_is_left_alone(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current["virtio3"] = volid(1)
    with pytest.raises(FailedPrecondition, match="virtio3"):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert not pve.writes


async def test_who_comes_while_a_reading_is_on_its_way_is_not_answered_from_it(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.answer_s = 0.1
    pve.vms[111].current |= {"scsi4": volid(1), "scsi5": volid(2)}
    first = asyncio.create_task(warm.writers.attach(111, volid(1), OPTIONS))
    await asyncio.sleep(0.05)
    del pve.vms[111].current["scsi5"]
    late = await warm.writers.attach(111, volid(2), OPTIONS)
    assert not late.already
    assert pve.vms[111].current[late.key].startswith(volid(2))
    assert (await first).already


async def test_a_vm_that_moved_gets_no_volume_of_the_same_name_elsewhere(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].node = "pve2"
    with pytest.raises(FailedPrecondition, match="is on pve2 now, the volume is on pve1"):
        await warm.writers.attach(111, volid(1), OPTIONS, hosts=frozenset({"pve1"}))
    assert pve.writes == []
    pve.vms[111].current["scsi1"] = volid(1)
    with pytest.raises(FailedPrecondition, match="is on pve2 now"):
        await warm.writers.attach(111, volid(1), OPTIONS, hosts=frozenset({"pve1"}))
    assert (await warm.writers.attach(111, volid(1), OPTIONS)).already


async def test_nowhere_is_not_said_while_another_process_changes_the_vm(region: Region, pve: FakePve) -> None:
    """A controller that lost its lease, or was killed, leaves a task behind that still attaches."""
    warm = await warmed(region, pve)
    pve.task_s = 3.0
    other = Clusters.build(
        CloudConfig(clusters=(settings_with(),)),
        transport_for=lambda _: pve,
        clock=SystemClock(),
        metrics=new_metrics(),
    ).get("r1")
    await other.vms.submit("pve1", 111, {"scsi1": volid(1)}, digest=pve.vms[111].digest)
    await warm.writers.detach(111, volid(1))
    await asyncio.sleep(60)
    assert "scsi1" not in pve.vms[111].current


async def test_nowhere_is_not_said_while_it_goes_on_for_long(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.task_s = 40.0
    await warm.vms.submit("pve1", 111, {"scsi1": volid(1)}, digest=pve.vms[111].digest)
    with pytest.raises(TaskTimeout, match="still runs"):
        await warm.writers.detach(111, volid(1))
    await asyncio.sleep(60)
    pve.task_s = 0.1
    assert await warm.writers.detach(111, volid(1)) is True


async def test_the_disk_a_vm_boots_from_is_left_alone(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.vms[111].current |= {"scsi0": volid(1), "boot": "order=scsi0;net0"}
    with pytest.raises(FailedPrecondition, match="boots from"):
        await warm.writers.detach(111, volid(1))
    assert pve.writes == []


async def test_the_end_of_the_process_waits_for_changes_only_so_long(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.task_s = 20.0
    change = asyncio.ensure_future(warm.writers.attach(111, volid(1), OPTIONS))
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await warm.writers.aclose(5.0)
    assert asyncio.get_running_loop().time() - began == pytest.approx(5.0, abs=0.1)
    change.cancel()


async def test_a_change_without_a_known_end_keeps_its_volume_until_it_has_one(region: Region, pve: FakePve) -> None:
    """The caller was told "pending"; meanwhile nobody else may have the volume, and nobody has to ask again."""
    warm = await warmed(region, pve)
    assert await warm.drives.holders(volid(1)) == []
    pve.task_s = 60.0
    with pytest.raises(TaskTimeout):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert [(each.vmid, each.state) for each in await warm.drives.holders(volid(1))] == [(111, "pending")]
    assert await warm.drives.holders(volid(2)) == []
    await asyncio.sleep(60)
    found = await warm.drives.holders(volid(1), max_age_s=1e9)
    assert [(each.vmid, each.key, each.state) for each in found] == [(111, "scsi1", "live")]
    await warm.writers.aclose()


@pytest.mark.parametrize("was_done", [True, False])
async def test_a_lost_answer_of_a_host_that_fell_silent(region: Region, pve: FakePve, was_done: bool) -> None:
    warm = await warmed(region, pve)
    assert await warm.drives.holders(volid(1)) == []
    dark = False

    def falls(method: str, path: str, params: dict[str, str]) -> httpx.Response | Exception | None:
        nonlocal dark
        dark = dark or (method == "POST" and path.endswith("/qemu/111/config"))
        return is_silent(method, path, params)

    def is_silent(method: str, path: str, params: dict[str, str]) -> httpx.Response | Exception | None:
        return httpx.ReadError("cut") if dark and "/qemu/111/" in path else None

    pve.rules.append(is_silent if was_done else falls)
    pve.after.append(falls)
    with pytest.raises(Unavailable):
        await warm.writers.attach(111, volid(1), OPTIONS)
    assert [(each.vmid, each.state) for each in await warm.drives.holders(volid(1))] == [(111, "pending")]
    dark = False
    pve.rules.clear()
    pve.after.clear()
    await asyncio.sleep(30)
    found = await warm.drives.holders(volid(1), max_age_s=1e9)
    assert [each.state for each in found] == (["live"] if was_done else [])
    await warm.writers.aclose()


async def test_a_vm_that_is_gone_keeps_nothing(region: Region, pve: FakePve) -> None:
    warm = await warmed(region, pve)
    pve.task_s = 60.0
    with pytest.raises(TaskTimeout):
        await warm.writers.attach(111, volid(1), OPTIONS)
    del pve.vms[111]
    await asyncio.sleep(90)
    assert await warm.drives.holders(volid(1)) == []
    await warm.writers.aclose()
