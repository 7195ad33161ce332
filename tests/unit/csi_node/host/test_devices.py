import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from appkit.clock import SystemClock
from appkit.errors import FailedPrecondition, Unavailable
from csi_node.host.devices import Devices, Waker, no_waker
from csi_node.host.kernel import DeviceNumber
from csi_node.host.sysfs import Sysfs
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import MIB

pytestmark = pytest.mark.looptime


def devices_of(machine: FakeMachine, waker: Waker = no_waker) -> Devices:
    return Devices(
        Sysfs(machine.root / "sys", machine.host),
        machine.host,
        dev_root=machine.root / "dev",
        clock=SystemClock(),
        timeout_s=30.0,
        waker=waker,
    )


async def test_found_by_name_whatever_the_case(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    device = await devices_of(machine).wait_for(volume.wwn.upper().replace("0X", "0x"))
    assert (device.disk.name, device.disk.size_bytes, device.disk.number) == ("sdb", 512 * MIB, DeviceNumber(8, 16))
    assert device.node == machine.root / "dev" / "sdb"


async def test_waits_and_scans_the_bus(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    scan = machine.root / "sys/class/scsi_host/host0/scan"
    scan.parent.mkdir(parents=True)
    scan.write_text("")
    waiting = asyncio.create_task(devices_of(machine).wait_for(volume.wwn))
    await asyncio.sleep(3)
    assert scan.read_text() == ""
    await asyncio.sleep(2)
    assert scan.read_text() == "- - -\n"
    machine.plug(volume, "sdb")
    started = asyncio.get_running_loop().time()
    await waiting
    assert asyncio.get_running_loop().time() - started < 0.5


async def test_gives_up_and_says_what_is_there(machine: FakeMachine) -> None:
    other = machine.volume("pvc-2")
    machine.plug(other, "sdb")
    started = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable) as caught:
        await devices_of(machine).wait_for("0x5000000000000001")
    assert 30 <= asyncio.get_running_loop().time() - started < 31
    assert str(caught.value) == (
        f"no disk with WWN 0x5000000000000001; disks with a WWN on this node: sdb (8:16, WWN {other.wwn}, "
        f"{512 * MIB} bytes) (waited 30 s)"
    )


async def test_woken_by_an_event(machine: FakeMachine) -> None:
    events: list[asyncio.Event] = []

    @asynccontextmanager
    async def waker() -> AsyncIterator[asyncio.Event]:
        events.append(asyncio.Event())
        yield events[-1]

    volume = machine.volume("pvc-1")
    waiting = asyncio.create_task(devices_of(machine, waker).wait_for(volume.wwn))
    await asyncio.sleep(1.1)
    machine.plug(volume, "sdb")
    started = asyncio.get_running_loop().time()
    events[0].set()
    await waiting
    assert asyncio.get_running_loop().time() - started < 0.01


async def test_two_disks_of_one_name(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    machine.plug(volume, "sdc")
    with pytest.raises(FailedPrecondition, match=r"2 disks carry WWN .*sdb \(.*sdc \("):
        await devices_of(machine).wait_for(volume.wwn)


async def test_disk_without_node_or_size_is_not_there_yet(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    devices = devices_of(machine)
    size = machine.root / "sys/block/sdb/size"
    size.write_text("0\n")
    assert await devices.find(volume.wwn) is None
    size.write_text("2048\n")
    (machine.root / "dev/sdb").unlink()
    with pytest.raises(Unavailable, match=r"disk sdb .* is there, but .*/dev/sdb is not its device node"):
        await devices.wait_for(volume.wwn)


async def test_check_after_a_swap(machine: FakeMachine) -> None:
    one, two = machine.volume("pvc-1"), machine.volume("pvc-2")
    devices = devices_of(machine)
    disk = machine.plug(one, "sdb")
    device = await devices.wait_for(one.wwn)
    await devices.check(device)
    machine.unplug(disk)
    with pytest.raises(Unavailable, match="and now is nothing"):
        await devices.check(device)
    machine.plug(two, "sdb")
    with pytest.raises(Unavailable, match="swapped or unplugged"):
        await devices.check(device)


async def test_sysfs_skips_what_is_no_disk_of_ours(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    block = machine.root / "sys/block"
    (block / "loop0").mkdir()
    (block / "loop0" / "dev").write_text("7:0\n")
    (block / ".tmp-x" / "device").mkdir(parents=True)
    for name, wwid in (("sdc", "t10.ATA     QEMU HARDDISK"), ("sdd", "")):
        (block / name / "device").mkdir(parents=True)
        (block / name / "device" / "wwid").write_text(f"{wwid}\n")
        (block / name / "dev").write_text("8:99\n")
        (block / name / "size").write_text("2048\n")
    (block / "sda" / "sda1").mkdir(parents=True)
    (block / "sda" / "sda1" / "dev").write_text("8:1\n")
    sysfs = Sysfs(machine.root / "sys", machine.host)
    assert [disk.name for disk in sysfs.disks()] == ["sdb"]
    assert sysfs.exists(DeviceNumber(7, 0))
    assert sysfs.exists(DeviceNumber(8, 1))
    assert not sysfs.exists(DeviceNumber(8, 2))
    assert Sysfs(machine.root / "none", machine.host).disks() == []
