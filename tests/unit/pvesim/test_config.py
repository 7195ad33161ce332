"""Configuration writes: normalising, digest, locks, pending, hot-plug, leftovers, who owns what is detached."""

import asyncio
from typing import Any

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.world import World
from tests.pvesim.worlds import three_hosts, three_hosts_dict

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"
PENDING = "/nodes/pve1/qemu/111/pending"
GONE = "local:9999/vm-9999-gone.raw"


@pytest.fixture
async def volume(csi: Direct) -> str:
    return await make_volume(csi, "a")


async def make_volume(csi: Direct, name: str) -> str:
    reply = await csi.post("/nodes/pve1/storage/local/content", vmid=9999, filename=f"vm-9999-{name}.raw", size="1G")
    volid: str = reply.data
    return volid


async def pending(csi: Direct) -> dict[str, dict[str, Any]]:
    return {entry["key"]: entry for entry in (await csi.get(PENDING)).data}


async def test_a_drive_is_stored_sorted_with_its_size_and_plugged(world: World, csi: Direct, volume: str) -> None:
    assert (await csi.put(CONFIG, scsi3=f"file={volume},wwn=0x5056432d49443031,ssd=1,size=7G")).data is None
    assert (await csi.get(CONFIG)).data["scsi3"] == f"{volume},size=1G,ssd=1,wwn=0x5056432d49443031"
    assert world.vms[111].plugged["scsi3"].wwn == "0x5056432d49443031"


async def test_values_have_the_types_proxmox_gives_them(csi: Direct) -> None:
    data = (await csi.get(CONFIG)).data
    assert (data["cores"], data["memory"], data["agent"]) == (4, "8192", "1")


async def test_digest_is_of_the_whole_file_and_guards_it(csi: Direct, volume: str) -> None:
    digest = (await csi.get(CONFIG)).data["digest"]
    assert (await pending(csi))["digest"]["value"] == digest
    assert (await csi.put(CONFIG, scsi3=volume, digest=digest)).status == 200
    for send in (csi.put, csi.post):
        stale = await send(CONFIG, delete="scsi3", digest=digest)
        assert (stale.status, stale.reason) == (500, "checksum mismatch (file change by other user?)")


async def test_of_two_writers_without_digest_the_last_wins(csi: Direct) -> None:
    first, second = await make_volume(csi, "b"), await make_volume(csi, "c")
    replies = await asyncio.gather(csi.put(CONFIG, scsi3=first), csi.put(CONFIG, scsi3=second))
    assert [reply.status for reply in replies] == [200, 200]
    assert (await csi.get(CONFIG)).data["scsi3"].startswith(second)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"scsi3": GONE}, f"volume '{GONE}' does not exist"),
        ({"scsi3": "local-lvm:vm-9999-x"}, "no such logical volume pve/vm-9999-x"),
        ({"scsi3": "nosuch:x"}, "storage 'nosuch' does not exist"),
        ({"scsi3": "local:garbage"}, "unable to parse directory volume name 'garbage'"),
        ({}, "no options specified"),
    ],
)
async def test_what_cannot_be_attached_is_named(csi: Direct, params: dict[str, str], text: str) -> None:
    reply = await csi.put(CONFIG, **params)
    assert (reply.status, reply.reason) == (500, text)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("scsi31", "local:1", "property is not defined in schema and the schema does not allow additional properties"),
        (
            "scsi3",
            "local:1,wwn=5056",
            "invalid format - format error\nscsi3.wwn: value does not match the regex pattern\n",
        ),
        ("delete", "bogus", "unknown option 'bogus'"),
    ],
)
async def test_what_is_malformed_is_named(csi: Direct, key: str, value: str, why: str) -> None:
    reply = await csi.put(CONFIG, **{key: value})
    assert (reply.status, reply.errors) == (400, {key: why})


async def test_one_bad_drive_leaves_the_ones_before_it_pending(world: World, csi: Direct) -> None:
    good = [await make_volume(csi, f"g{n}") for n in range(6)]
    reply = await csi.put(CONFIG, scsi20=GONE, **{f"scsi{n + 1}": volid for n, volid in enumerate(good)})
    assert reply.reason == f"volume '{GONE}' does not exist"
    left = await pending(csi)
    waiting = [key for key in left if "pending" in left[key]]
    # The order is random, so anything from none to all of the good ones; none of them is live.
    assert 0 < len(waiting) < 6
    assert not set(waiting) & set(world.vms[111].plugged)
    assert (await csi.put(CONFIG, revert=",".join(waiting))).status == 200
    assert not [key for key, entry in (await pending(csi)).items() if "pending" in entry]


async def test_one_drive_that_qemu_cannot_open_fails_alone_and_stays_pending(world: World, csi: Direct) -> None:
    good, bad = await make_volume(csi, "good"), await make_volume(csi, "bad")
    world.storages.volumes["local", "pve1", "9999/vm-9999-bad.raw"].damage = "no-backing"
    reply = await csi.put(CONFIG, scsi1=good, scsi2=bad)
    assert reply.status == 400
    assert list(reply.errors) == ["scsi2"]
    assert reply.errors["scsi2"].startswith("hotplug problem - adding blockdev 'drive-scsi2' failed")
    assert "scsi1" in world.vms[111].plugged
    assert "pending" in (await pending(csi))["scsi2"]


async def test_a_serial_that_qemu_refuses_is_a_success_without_a_disk(world: World, csi: Direct, volume: str) -> None:
    assert (await csi.put(CONFIG, scsi3=f"{volume},serial={'d' * 37}")).status == 200
    assert "scsi3" in (await csi.get(CONFIG, current=1)).data
    assert "scsi3" not in world.vms[111].plugged
    # What was prepared for the disk stays in QEMU: the slot is of no use until the VM is stopped.
    assert (await csi.put(CONFIG, delete="scsi3")).status == 200
    again = await csi.put(CONFIG, scsi3=f"{volume},serial=short")
    assert "duplicate property 'throttle-drive-scsi3'" in again.errors["scsi3"]


async def test_limits_that_exclude_each_other_are_refused(csi: Direct, volume: str) -> None:
    reply = await csi.put(CONFIG, scsi3=f"{volume},iops=200,iops_rd=100")
    assert reply.errors == {"scsi3": "unable to parse drive options"}


async def test_detaching_keeps_own_volumes_as_unused_and_lets_foreign_ones_go(
    world: World, csi: Direct, volume: str
) -> None:
    await csi.put(CONFIG, scsi3=volume, scsi4="local:1")
    own = world.vms[111].conf["scsi4"].split(",")[0]
    await csi.put(CONFIG, delete="scsi3,scsi4")
    assert "scsi3" not in world.vms[111].conf
    assert world.vms[111].conf["unused0"] == own
    await csi.put(CONFIG, delete="unused0")
    assert world.storages.find_volume(own, "pve1") is None
    assert world.storages.find_volume(volume, "pve1") is not None


async def test_a_volume_that_is_used_again_is_no_longer_unused(world: World, csi: Direct) -> None:
    await csi.put(CONFIG, scsi4="local:1")
    own = world.vms[111].conf["scsi4"].split(",")[0]
    await csi.put(CONFIG, delete="scsi4")
    await csi.put(CONFIG, scsi9=own)
    assert "unused0" not in world.vms[111].conf


async def test_what_is_not_hotpluggable_waits_in_pending(world: World, csi: Direct, volume: str) -> None:
    assert (await csi.put(CONFIG, sata1=volume)).status == 200
    assert (await pending(csi))["sata1"] == {"key": "sata1", "pending": f"{volume},size=1G"}
    assert "sata1" in (await csi.get(CONFIG)).data
    assert "sata1" not in (await csi.get(CONFIG, current=1)).data
    assert "sata1" not in world.vms[111].plugged


async def test_without_disk_hotplug_a_detach_is_only_marked(
    world: World, csi: Direct, root: Direct, volume: str
) -> None:
    await csi.put(CONFIG, scsi3=volume)
    await root.put(CONFIG, hotplug="network,usb")
    assert (await csi.put(CONFIG, delete="scsi3")).status == 200
    assert (await pending(csi))["scsi3"]["delete"] == 1
    assert "scsi3" not in (await csi.get(CONFIG)).data
    assert "scsi3" in world.vms[111].plugged
    # Switching it back on, or another write, does not apply what waits; a stop and start does.
    await root.put(CONFIG, hotplug="disk,network,usb")
    assert (await pending(csi))["scsi3"]["delete"] == 1
    await root.finish(await root.post("/nodes/pve1/qemu/111/status/stop"))
    await root.finish(await root.post("/nodes/pve1/qemu/111/status/start"))
    assert "scsi3" not in await pending(csi)


async def test_the_boot_disk_cannot_be_unplugged_and_leaves_a_mark(csi: Direct) -> None:
    reply = await csi.put(CONFIG, delete="scsi0")
    assert (reply.status, reply.errors) == (400, {"scsi0": "hotplug problem - can't unplug bootdisk 'scsi0'\n"})
    assert (await pending(csi))["scsi0"]["delete"] == 1


async def test_post_forks_and_waits_only_as_long_as_asked(world: World, csi: Direct, volume: str) -> None:
    assert (await csi.post(CONFIG, scsi3=volume, background_delay=5)).data is None
    failed = await csi.post(CONFIG, scsi4=GONE, background_delay=5)
    assert (failed.status, failed.reason) == (500, f"failed to update VM 111: volume '{GONE}' does not exist")
    reply = await csi.post(CONFIG, delete="scsi3")
    task = await csi.finish(reply)
    assert task.log == ["update VM 111: -delete scsi3", "TASK OK"]


async def test_a_held_config_lock_times_out_after_ten_seconds(world: World, csi: Direct, volume: str) -> None:
    await world.vms[111].config_lock.acquire()
    reply = await csi.put(CONFIG, scsi3=volume)
    assert reply.reason == "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout"
    assert world.clock.monotonic() == pytest.approx(10, abs=0.01)
    task = await csi.finish(await csi.post(CONFIG, scsi3=volume))
    assert task.log[0] == "trying to acquire lock..."


async def test_a_lock_line_refuses_at_once(world: World, csi: Direct, volume: str) -> None:
    world.vms[111].conf["lock"] = "backup"
    assert (await csi.put(CONFIG, scsi3=volume)).reason == "VM is locked (backup)"
    task = await csi.finish(await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi0", size="+1G"))
    assert task.exitstatus == "VM is locked (backup)"


async def test_a_vm_elsewhere_and_a_missing_one_look_the_same(csi: Direct) -> None:
    for vmid in (121, 999):
        reply = await csi.get(f"/nodes/pve1/qemu/{vmid}/config")
        assert reply.reason == f"Configuration file 'nodes/pve1/qemu-server/{vmid}.conf' does not exist"


async def test_resize_reports_only_in_its_task(world: World, csi: Direct, volume: str) -> None:
    await csi.put(CONFIG, scsi3=volume)

    async def resize(disk: str, size: str) -> str | None:
        return (await csi.finish(await csi.put("/nodes/pve1/qemu/111/resize", disk=disk, size=size))).exitstatus

    assert await resize("scsi3", "+1G") == "OK"
    assert (await csi.get(CONFIG)).data["scsi3"] == f"{volume},size=2G"
    assert await resize("scsi3", "2G") == "OK"
    assert await resize("scsi3", "1G") == "shrinking disks is not supported"
    assert await resize("scsi9", "1G") == "disk 'scsi9' does not exist"


async def test_a_paused_guest_keeps_its_controller_and_eats_the_next_disk(csi: Direct, volume: str) -> None:
    world = three_hosts(profile="as measured")
    vm = world.vms[111]
    vm.conf["scsihw"] = "virtio-scsi-single"
    csi = type(csi)(world, "kubernetes-csi@pve!csi", "11111111-2222-3333-4444-555555555555")
    first, second = await make_volume(csi, "a"), await make_volume(csi, "b")
    await csi.put(CONFIG, scsi3=first)
    vm.paused = True
    before = world.clock.monotonic()
    reply = await csi.put(CONFIG, delete="scsi3")
    assert reply.errors == {
        "scsi3": "hotplug problem - error on hot-unplugging device 'virtioscsi3' - still busy in guest?\n"
    }
    assert world.clock.monotonic() - before > 17
    # The disk itself is gone, the entry waits; a retry succeeds at once.
    assert "scsi3" not in vm.plugged
    assert "scsi3" in vm.pending_delete
    assert (await csi.put(CONFIG, delete="scsi3")).status == 200
    # The trap: a new disk in that slot vanishes when the guest wakes up, and the configuration does not say so.
    assert (await csi.put(CONFIG, scsi3=second)).status == 200
    root = type(csi)(world, "root@pam!full", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
    await root.finish(await root.post("/nodes/pve1/qemu/111/status/resume"))
    assert "scsi3" in vm.conf
    assert "scsi3" not in vm.plugged


async def test_many_stuck_disks_outlast_the_proxy_and_the_work_goes_on(csi: Direct) -> None:
    world = three_hosts(profile="as measured")
    vm = world.vms[111]
    vm.conf["scsihw"] = "virtio-scsi-single"
    csi = type(csi)(world, "kubernetes-csi@pve!csi", "11111111-2222-3333-4444-555555555555")
    for number in (1, 2, 3):
        await csi.put(CONFIG, **{f"scsi{number}": await make_volume(csi, f"v{number}")})
    vm.paused = True
    reply = await csi.put(CONFIG, delete="scsi1,scsi2,scsi3")
    assert (reply.status, reply.reason, reply.raw) == (596, "Connection timed out", b"")
    await asyncio.sleep(60)
    assert set(vm.plugged) == {"scsi0"}


async def test_protection_forbids_detaching_and_allows_attaching(world: World, csi: Direct, volume: str) -> None:
    world.vms[111].conf["protection"] = "1"
    assert (await csi.put(CONFIG, scsi3=volume)).status == 200
    assert (await csi.put(CONFIG, delete="scsi3")).reason == "can't remove drive 'scsi3' - protection mode enabled"


async def test_a_stopped_vm_takes_everything_at_once(csi: Direct) -> None:
    raw = three_hosts_dict()
    raw["vms"][111]["running"] = False
    world = World.from_dict(raw)
    csi = type(csi)(world, "kubernetes-csi@pve!csi", "11111111-2222-3333-4444-555555555555")
    volume = await make_volume(csi, "a")
    await csi.put(CONFIG, sata1=volume)
    assert "pending" not in (await pending(csi))["sata1"]
