"""The service is killed before or after any one of the host commands of a call; kubelet calls again."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from csi_node.host.mounts import parse_mountinfo
from tests.fakes import disk_formats
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import MIB, Volume
from tests.fakes.runner import ProcessKilled

pytestmark = pytest.mark.looptime

Call = Callable[[FakeMachine, Volume], Awaitable[object]]


def calls_of_a_life(fs_type: str) -> list[tuple[str, Call]]:
    return [
        ("stage", lambda machine, volume: machine.stage(volume, fs_type)),
        ("publish", lambda machine, volume: machine.publish(volume)),
        ("publish read-only", lambda machine, volume: machine.publish(volume, "reader", readonly=True)),
        ("write", write),
        ("expand", lambda machine, volume: machine.expand(volume, machine.target(volume), 1024)),
        ("unpublish reader", lambda machine, volume: machine.unpublish(volume, "reader")),
        ("unpublish", lambda machine, volume: machine.unpublish(volume)),
        ("unstage", lambda machine, volume: machine.unstage(volume)),
        ("stage again", lambda machine, volume: machine.stage(volume, fs_type)),
    ]


async def write(machine: FakeMachine, volume: Volume) -> None:
    (machine.target(volume) / "hello").write_text("world")


def is_read_only(machine: FakeMachine, path: Path) -> bool:
    [mount] = [mount for mount in parse_mountinfo(machine.host.mountinfo()) if mount.path == path]
    return mount.read_only


async def live(machine: FakeMachine, fs_type: str, killed_in: str, lives: int, *, before: bool) -> bool:
    """A volume's life with one kill; answers whether there was one."""
    volume = machine.volume("pvc-1")
    disk = machine.plug(volume, "sdb")
    was_killed = False
    for name, call in calls_of_a_life(fs_type):
        if name == "expand":
            machine.grow(disk, 1024)
        if name == killed_in:
            machine.host.lives, machine.host.killed_before_the_last = lives, before
        try:
            await call(machine, volume)
        except ProcessKilled:
            was_killed = True
            machine.host.lives = 0
            machine.restart()
            await call(machine, volume)
        machine.host.lives = 0
        if name == "publish read-only":
            assert is_read_only(machine, machine.target(volume, "reader"))
            assert not is_read_only(machine, machine.target(volume))
    assert machine.mounted() == [machine.staging(volume)]
    assert (machine.staging(volume) / "hello").read_text() == "world"
    superblock = disk_formats.read_superblock(volume.file)
    assert superblock is not None
    assert (superblock.label, superblock.size_bytes, superblock.in_progress) == ("", 1024 * MIB, False)
    return was_killed


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
@pytest.mark.parametrize("killed_in", [name for name, _ in calls_of_a_life("") if name != "write"])
async def test_killed_at_every_command(tmp_path: Path, killed_in: str, fs_type: str, *, before: bool) -> None:
    lives = 1
    while await live(FakeMachine(tmp_path / str(lives)), fs_type, killed_in, lives, before=before):
        lives += 1
    assert lives > 1, "the call has commands"
