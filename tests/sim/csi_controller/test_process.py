"""The command as a chart starts it: flags, files, signals, exit status, and nothing secret in its lines."""

import asyncio
import sys

from tests.pvesim.faults import Rule, delay
from tests.pvesim.worlds import CSI_SECRET
from tests.sim.csi_controller.process import controller_process
from tests.sim.csi_controller.scene import GIB, open_scene


async def test_a_life_and_a_clean_end() -> None:
    async with open_scene(start=False) as scene, controller_process(scene, "-v=5", "--logtostderr=true") as process:
        volume = await process.create()
        await process.publish(volume)
        assert scene.is_live(volume, 111)
        await process.expand(volume, 2 * GIB)
        await process.unpublish(volume)
        await process.delete(volume)
        assert await process.stop() == 0
        assert not (scene.folder / "process.sock").exists()
        log = (await process.process.communicate())[1].decode()
        assert "CreateVolume" in log
        assert "proxmox request" in log
        assert CSI_SECRET not in log


async def test_a_call_under_way_is_finished_on_sigterm() -> None:
    async with open_scene(start=False) as scene, controller_process(scene) as process:
        volume = await process.create()
        scene.world.faults.add(Rule(delay(0.5), method="POST", path="*/config"))
        publishing = asyncio.ensure_future(process.publish(volume))
        await asyncio.sleep(0.2)
        assert await process.stop() == 0
        assert (await publishing)["lun"] == "1"
        assert scene.is_live(volume, 111)


async def test_wrong_settings_end_with_2_and_a_list() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "csi_controller", "--cloud-config=/nonexistent/cloud.yaml",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    log = (await process.communicate())[1].decode()
    assert process.returncode == 2
    assert "/nonexistent/cloud.yaml" in log
    assert "Traceback" not in log
