import asyncio
from pathlib import Path

import pytest

from appkit.errors import Denied, FailedPrecondition, NotFound, OutOfRange, Unavailable
from csi_node.expansion import Expand
from csi_node.requests import parse_expand
from csikit.pb import csi_pb2
from tests.fakes import disk_formats
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import MIB

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
async def test_grows_disk_and_filesystem(machine: FakeMachine, fs_type: str) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, fs_type)
    target = await machine.publish(volume)
    machine.grow(disk, 1024)
    for _ in range(2):
        assert await machine.expand(volume, target, 1024) == 1024 * MIB
    superblock = disk_formats.read_superblock(volume.file)
    assert superblock is not None
    assert superblock.size_bytes == 1024 * MIB


async def test_waits_for_the_guest_to_see_the_new_size_and_asks_the_disk_again(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.grow(disk, 1024, seen=False)
    expanding = asyncio.create_task(machine.expand(volume, machine.staging(volume), 1024))
    await asyncio.sleep(5)
    assert (machine.root / "sys/block/sdb/device/rescan").read_text() == "1\n"
    assert "resize2fs" not in machine.host.programs()
    machine.show_size(disk)
    assert await expanding == 1024 * MIB


async def test_gives_up_with_both_sizes(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    with pytest.raises(Unavailable, match=rf"{512 * MIB} bytes\) is smaller than the {1024 * MIB} bytes .*waited 30 s"):
        await machine.expand(volume, machine.staging(volume), 1024)
    assert "resize2fs" not in machine.host.programs()


async def test_reader_grows_through_the_staging_path(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, "xfs")
    target = await machine.publish(volume, readonly=True)
    machine.grow(disk, 1024)
    await machine.expand(volume, target, 1024)
    assert machine.host.lines[-1] == ["xfs_growfs", "-d", str(machine.staging(volume))]


async def test_kernel_that_does_not_let_us(machine: FakeMachine) -> None:
    machine.host.can_grow_mounted_ext4 = False
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.grow(disk, 1024)
    with pytest.raises(Denied, match="lacks CAP_SYS_RESOURCE"):
        await machine.expand(volume, machine.staging(volume), 1024)


async def test_block_volume(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    target = await machine.publish(volume, block=True)
    machine.grow(disk, 1024)
    assert await machine.expand(volume, target, 1024) == 1024 * MIB
    machine.unplug(disk)
    with pytest.raises(FailedPrecondition, match="has gone"):
        await machine.expand(volume, target, 1024)


async def test_paths_without_a_volume(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    for path in (Path("some/path"), machine.root / "nothing", machine.root):
        with pytest.raises(NotFound, match="nothing is mounted there"):
            await machine.expand(volume, path, 1024)


async def test_limit(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    request = csi_pb2.NodeExpandVolumeRequest(
        volume_id=volume.handle,
        volume_path=str(machine.staging(volume)),
        capacity_range=csi_pb2.CapacityRange(required_bytes=MIB, limit_bytes=2 * MIB),
    )
    with pytest.raises(OutOfRange, match="larger than the limit"):
        await machine.node.NodeExpandVolume(request, None)  # type: ignore[arg-type]
    request.ClearField("capacity_range")
    assert parse_expand(request) == Expand(volume.handle, machine.staging(volume), None, 0, 0)
    reply = await machine.node.NodeExpandVolume(request, None)  # type: ignore[arg-type]
    assert reply.capacity_bytes == 512 * MIB


async def test_disk_that_goes_away_meanwhile(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    expanding = asyncio.create_task(machine.expand(volume, machine.staging(volume), 1024))
    await asyncio.sleep(1)
    machine.unplug(disk)
    with pytest.raises(Unavailable, match="went away"):
        await expanding
    with pytest.raises(FailedPrecondition, match="stage the volume again"):
        await machine.expand(volume, machine.staging(volume), 1024)


async def test_reader_does_not_grow_what_else_is_at_the_staging_path(machine: FakeMachine) -> None:
    volume, other = machine.volume("pvc-1"), machine.volume("pvc-2")
    machine.plug(volume, "sdb")
    machine.plug(other, "sdc")
    await machine.stage(volume, "xfs")
    await machine.stage(other, "xfs")
    target = await machine.publish(volume, readonly=True)
    machine.host.programs()
    request = csi_pb2.NodeExpandVolumeRequest(
        volume_id=volume.handle, volume_path=str(target), staging_target_path=str(machine.staging(other))
    )
    with pytest.raises(FailedPrecondition, match="is mounted read-only"):
        await machine.node.NodeExpandVolume(request, None)  # type: ignore[arg-type]
    assert machine.host.programs() == []


async def test_above_the_limit_nothing_is_grown(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.grow(disk, 1024)
    request = csi_pb2.NodeExpandVolumeRequest(
        volume_id=volume.handle,
        volume_path=str(machine.staging(volume)),
        capacity_range=csi_pb2.CapacityRange(required_bytes=600 * MIB, limit_bytes=700 * MIB),
    )
    with pytest.raises(OutOfRange, match="larger than the limit"):
        await machine.node.NodeExpandVolume(request, None)  # type: ignore[arg-type]
    assert "resize2fs" not in machine.host.programs()
