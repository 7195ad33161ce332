"""Bind mounts on a real kernel: directories and devices, writable and not, twice and at two places."""

from pathlib import Path

import pytest

from appkit.errors import AlreadyExists, FailedPrecondition
from tests.fakes.node_calls import MIB
from tests.host.machine import Machine


def _mount_options() -> dict[Path, list[str]]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {Path(fields[4]): fields[5].split(",") for fields in (line.split(" ") for line in lines)}


async def test_read_only_for_one_pod_and_writable_for_another(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume, flags=("noexec", "nodev"))
    writable = await machine.publish(volume, "pod-1")
    readable = await machine.publish(volume, "pod-2", readonly=True)
    (writable / "hello").write_text("world")
    assert (readable / "hello").read_text() == "world"
    with pytest.raises(OSError, match="Read-only"):
        (readable / "more").write_text("")
    options = _mount_options()
    assert {"ro", "noexec", "nodev"} <= set(options[readable])
    assert {"rw", "noexec", "nodev"} <= set(options[writable])


async def test_publish_is_idempotent_and_refuses_another_way(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    await machine.publish(volume)
    await machine.publish(volume)
    assert len(machine.mounted()) == 2
    with pytest.raises(AlreadyExists, match="already published writable, and read-only was asked for"):
        await machine.publish(volume, readonly=True)
    await machine.unpublish(volume)
    await machine.unpublish(volume)


async def test_publish_before_stage_is_refused(machine: Machine) -> None:
    """Nothing mounted at the staging path: a bind of the bare directory would put the Pod's data on the node's disk."""
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    machine.staging(volume).mkdir(parents=True)
    with pytest.raises(FailedPrecondition, match="is not staged"):
        await machine.publish(volume)
    assert machine.mounted() == []


async def test_one_pod_only(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume, mode="SINGLE_NODE_SINGLE_WRITER")
    await machine.publish(volume, "pod-1", mode="SINGLE_NODE_SINGLE_WRITER")
    await machine.publish(volume, "pod-1", mode="SINGLE_NODE_SINGLE_WRITER")
    with pytest.raises(FailedPrecondition, match="for one Pod at a time"):
        await machine.publish(volume, "pod-2", mode="SINGLE_NODE_SINGLE_WRITER")


async def test_unpublish_never_deletes_files(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    target = machine.target(volume)
    target.mkdir(parents=True)
    (target / "precious").write_text("data")
    with pytest.raises(FailedPrecondition, match="files were written there"):
        await machine.unpublish(volume)
    assert (target / "precious").read_text() == "data"


async def test_busy_target_is_not_taken_away(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    machine.plug(volume, "sdb")
    await machine.stage(volume)
    target = await machine.publish(volume)
    with (target / "open").open("w"), pytest.raises(FailedPrecondition, match="still in use"):
        await machine.unpublish(volume)
    await machine.unpublish(volume)


async def test_block_volume(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    disk = machine.plug(volume, "sdb")
    await machine.stage(volume, block=True)
    assert machine.runner.programs() == []
    target = await machine.publish(volume, block=True)
    await machine.publish(volume, block=True)
    assert machine.mounted() == [target]
    with target.open("r+b", buffering=0) as device:
        device.write(b"raw data".ljust(512, b"\0"))
    assert [usage.total for usage in await machine.stats(volume, target)] == [64 * MIB]
    machine.grow(disk, 128)
    assert await machine.expand(volume, target, 128) == 128 * MIB
    await machine.unpublish(volume)
    assert not target.exists()
    await machine.unstage(volume)
    machine.unplug(disk)

    machine.plug(volume, "sdc")
    await machine.stage(volume, block=True)
    target = await machine.publish(volume, block=True)
    with target.open("rb") as device:
        assert device.read(8) == b"raw data"


async def test_block_target_of_a_vanished_disk_is_bound_anew(machine: Machine) -> None:
    volume = machine.volume("pvc-1", 64)
    disk = machine.plug(volume, "sdb")
    target = await machine.publish(volume, block=True)
    machine.unplug(disk)
    again = machine.plug(volume, "sdc")
    await machine.publish(volume, block=True)
    assert target.stat().st_rdev == again.loop.device
    assert machine.mounted() == [target]
