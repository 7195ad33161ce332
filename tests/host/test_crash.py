"""The service as a process, killed at some moment of a first stage: the next stage ends right, on sound data."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from csikit.pb import csi_pb2_grpc
from tests.fakes.node_calls import Volume
from tests.host.machine import Machine

READY_S = 20.0


@asynccontextmanager
async def serving(machine: Machine) -> AsyncIterator[tuple[Any, asyncio.subprocess.Process]]:
    """The service in a process of its own; killed at the end if it still runs."""
    flags = {
        "node-id": "worker-11",
        "csi-address": f"unix://{machine.root}/csi.sock",
        "kubelet-dir": f"{machine.root}/kubelet",
        "dev-root": f"{machine.root}/dev",
        "sys-root": f"{machine.root}/sys",
        "device-timeout": "2",
    }
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    (machine.root / "csi.sock").unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "csi_node", *arguments)
    try:
        await asyncio.wait_for(_listening(machine.root / "csi.sock"), READY_S)
        async with grpc.aio.insecure_channel(f"unix:{machine.root}/csi.sock") as channel:
            await asyncio.wait_for(channel.channel_ready(), READY_S)
            yield csi_pb2_grpc.NodeStub(channel), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listening(socket: Path) -> None:
    """Dialling earlier would cost gRPC's first back-off of a second."""
    while not socket.is_socket():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.01)


async def stage_until_done(machine: Machine, volume: Volume, fs_type: str) -> None:
    """As kubelet does: again and again."""
    async with asyncio.timeout(READY_S), serving(machine) as (node, process):
        while True:
            try:
                await node.NodeStageVolume(machine.stage_request(volume, fs_type))
                break
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED):
                    raise
                await asyncio.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


def check_sound(machine: Machine, fs_type: str) -> None:
    device = machine.root / "dev" / "sdb"
    command: list[str | Path] = ["e2fsck", "-fn", device] if fs_type == "ext4" else ["xfs_repair", "-n", device]
    subprocess.run(command, check=True, capture_output=True)


def write_and_read(path: Path) -> None:
    (path / "hello").write_text("world")
    assert (path / "hello").read_text() == "world"


@pytest.mark.parametrize("delay_s", [0.005, 0.02, 0.04, 0.08, 0.16])
@pytest.mark.parametrize(("fs_type", "size"), [("ext4", 2048), ("xfs", 2048)])
async def test_killed_during_the_first_stage(machine: Machine, fs_type: str, size: int, delay_s: float) -> None:
    volume = machine.volume("pvc-1", size)
    machine.plug(volume, "sdb")
    async with serving(machine) as (node, process):
        call = asyncio.ensure_future(node.NodeStageVolume(machine.stage_request(volume, fs_type)))
        await asyncio.sleep(delay_s)
        process.kill()
        await asyncio.gather(call, return_exceptions=True)
    await stage_until_done(machine, volume, fs_type)
    assert machine.mounted() == [machine.staging(volume)]
    write_and_read(machine.staging(volume))
    await machine.unstage(volume)
    check_sound(machine, fs_type)
    await machine.stage(volume, fs_type)
    assert (machine.staging(volume) / "hello").read_text() == "world"
