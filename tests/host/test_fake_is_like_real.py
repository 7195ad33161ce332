"""The fake host is held to the real one: the same calls give the same commands, errors and mounts on both."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from appkit.errors import DriverError
from tests.fakes.fake_machine import FakeMachine
from tests.fakes.node_calls import Volume
from tests.host.machine import Machine

Either = Machine | FakeMachine
Play = Callable[[Either, Volume], Awaitable[None]]


async def _life(machine: Either, volume: Volume) -> None:
    await machine.stage(volume, "xfs", context={"ssd": "true"})
    await machine.publish(volume)
    await machine.publish(volume, "pod-2", readonly=True)
    await machine.expand(volume, machine.target(volume, "pod-2"), 320)
    await machine.unpublish(volume, "pod-2")
    await machine.unpublish(volume)
    await machine.unstage(volume)
    await machine.stage(volume, "xfs")


async def _ext4(machine: Either, volume: Volume) -> None:
    await machine.stage(volume, "ext4", flags=("nosuid",))
    await machine.unstage(volume)
    await machine.stage(volume, "ext4")
    await machine.stage(volume, "ext4")


async def _block(machine: Either, volume: Volume) -> None:
    await machine.stage(volume, block=True)
    await machine.publish(volume, block=True)
    await machine.expand(volume, machine.target(volume), 320)
    await machine.publish(volume, block=True, readonly=True)


async def _other_filesystem(machine: Either, volume: Volume) -> None:
    await machine.stage(volume, "ext4")
    await machine.unstage(volume)
    await machine.stage(volume, "xfs")


async def _read_only_first(machine: Either, volume: Volume) -> None:
    await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")


async def _reader_grows(machine: Either, volume: Volume) -> None:
    await machine.stage(volume)
    await machine.unstage(volume)
    await machine.stage(volume, mode="SINGLE_NODE_READER_ONLY")
    await machine.expand(volume, machine.staging(volume), 320)


async def _too_early(machine: Either, volume: Volume) -> None:
    await machine.publish(volume)


async def _too_small_for_xfs(machine: Either, volume: Volume) -> None:
    small = machine.volume("pvc-2", 64)
    machine.plug(small, "sdc")
    await machine.stage(small, "xfs")


async def _foreign(machine: Either, volume: Volume) -> None:
    other = machine.volume("pvc-2", 64)
    with other.file.open("r+b") as file:
        file.write(b"LUKS\xba\xbe\x00\x01")
    machine.plug(other, "sdc")
    await machine.stage(other)


async def _observe(machine: Either, play: Play) -> dict[str, object]:
    volume = machine.volume("pvc-1", 320)
    machine.plug(volume, "sdb")
    try:
        await play(machine, volume)
        error = ""
    except DriverError as raised:
        error = type(raised).__name__
    lines = machine.host.lines if isinstance(machine, FakeMachine) else machine.runner.lines
    return {
        "commands": [[word.replace(str(machine.root), "") for word in line] for line in lines],
        "error": error,
        "mounted": [str(path.relative_to(machine.root)) for path in machine.mounted()],
    }


@pytest.mark.parametrize(
    "play",
    [
        _life,
        _ext4,
        _block,
        _other_filesystem,
        _read_only_first,
        _reader_grows,
        _too_early,
        _too_small_for_xfs,
        _foreign,
    ],
)
async def test_same_on_both(machine: Machine, tmp_path: Path, play: Play) -> None:
    assert await _observe(FakeMachine(tmp_path / "fake"), play) == await _observe(machine, play)
