"""The controller as a process of its own, with the flags that a chart gives it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import yaml

from csikit.pb import csi_pb2, csi_pb2_grpc
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN
from tests.sim.csi_controller.scene import REGION, Calls, Scene

START_S = 20.0
STOP_S = 20.0
# `python -m csi_controller`, without the packages of the test environment for which httpx imports its command line.
_AS_IN_THE_IMAGE = """
import sys
sys.modules.update(dict.fromkeys(("click", "rich")))
from csi_controller.__main__ import main
sys.exit(main())
"""


class ControllerProcess(Calls):
    """A running one; calls go to it."""

    def __init__(self, process: asyncio.subprocess.Process, channel: grpc.aio.Channel) -> None:
        self.process = process
        self._channel = channel

    @property
    def channel(self) -> grpc.aio.Channel:
        """To its socket."""
        return self._channel

    def resident_bytes(self) -> int:
        """Memory in RAM now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    async def stop(self) -> int:
        """SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_S):
            return await self.process.wait()


def write_cloud_config(scene: Scene) -> Path:
    """The peers' file, for the scene's cluster."""
    (scene.folder / "secret").write_text(CSI_SECRET + "\n")
    cluster = {
        "region": REGION,
        "urls": list(scene.server.urls),
        "ca_file": str(scene.server.ca_file),
        "token_id": CSI_TOKEN,
        "token_secret_file": str(scene.folder / "secret"),
    }
    path = scene.folder / "cloud.yaml"
    path.write_text(yaml.safe_dump({"clusters": [cluster]}))
    return path


@asynccontextmanager
async def controller_process(scene: Scene, *flags: str) -> AsyncIterator[ControllerProcess]:
    """Start it and wait until Probe says ready; killed at the end if it still runs."""
    socket = scene.folder / "process.sock"
    kube = [f"--kube-server={scene.kube.url}"] if scene.kube is not None else []
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _AS_IN_THE_IMAGE, f"--csi-address=unix://{socket}",
        f"--cloud-config={write_cloud_config(scene)}", *kube, *flags,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    channel = grpc.aio.insecure_channel(
        f"unix:{socket}",
        options=[("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20)],
    )
    running = ControllerProcess(process, channel)
    try:
        async with asyncio.timeout(START_S):
            while not await _is_ready(channel):
                assert process.returncode is None, (await process.communicate())[1]
                await asyncio.sleep(0.01)
        yield running
    finally:
        await channel.close()
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _is_ready(channel: grpc.aio.Channel) -> bool:
    probe = csi_pb2_grpc.IdentityStub(channel).Probe
    try:
        return (await probe(csi_pb2.ProbeRequest(), wait_for_ready=True, timeout=5)).ready.value
    except grpc.aio.AioRpcError:
        return False
