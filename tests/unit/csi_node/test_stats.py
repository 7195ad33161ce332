from pathlib import Path

import pytest

from appkit.errors import NotFound
from csi_node.host.kernel import DeadMount
from csikit.pb import csi_pb2
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import MIB

pytestmark = pytest.mark.looptime


async def test_filesystem(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume)
    (target / "file").write_bytes(bytes(1000))
    usage, inodes = await machine.stats(volume, target)
    assert (usage.unit, usage.total, usage.used) == (csi_pb2.VolumeUsage.BYTES, 512 * MIB, 1000)
    assert usage.available == usage.total - usage.used
    assert inodes.unit == csi_pb2.VolumeUsage.INODES
    assert inodes.available == inodes.total - inodes.used


async def test_block(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    target = await machine.publish(volume, block=True)
    [usage] = await machine.stats(volume, target)
    assert (usage.total, usage.used) == (512 * MIB, 0)
    machine.unplug(disk)
    with pytest.raises(NotFound, match="has gone"):
        await machine.stats(volume, target)


async def test_not_there(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    target = machine.target(volume)
    target.mkdir(parents=True)
    for path in (Path("some/path"), target, machine.root / "nothing"):
        with pytest.raises(NotFound):
            await machine.stats(volume, path)


async def test_dead_disk_is_an_error_not_a_number(machine: FakeMachine) -> None:
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume)
    machine.unplug(disk)
    with pytest.raises(DeadMount):
        await machine.stats(volume, machine.staging(volume))
