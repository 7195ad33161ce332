"""The command as a chart starts it: flags, files, signals, exit status, and nothing secret in its lines."""

import asyncio
import sys

import grpc
import pytest

from tests.pvesim.faults import Rule, answer, cut_after, cut_before, delay
from tests.pvesim.worlds import CSI_SECRET
from tests.sim.csi_controller.process import controller_process, write_cloud_config
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


async def test_a_call_that_does_not_end_is_left_behind_when_the_time_is_over() -> None:
    async with open_scene(start=False) as scene:
        (scene.folder / "settings.yaml").write_text("drain_s: 1\n")
        async with controller_process(scene, f"--config={scene.folder / 'settings.yaml'}", "-v=5") as process:
            volume = await process.create()
            scene.world.faults.add(Rule(delay(30), method="POST", path="*/config"))
            publishing = asyncio.ensure_future(process.publish(volume))
            await asyncio.sleep(0.3)
            began = asyncio.get_running_loop().time()
            assert await process.stop() == 0
            assert asyncio.get_running_loop().time() - began < 5
            with pytest.raises(grpc.aio.AioRpcError):
                await publishing
            log = (await process.process.communicate())[1].decode()
        assert "left behind" in log
        assert "Traceback" not in log
        assert CSI_SECRET not in log


async def test_no_trouble_brings_the_secret_into_a_line_or_an_answer() -> None:
    troubles = [
        answer(401, "Authentication failed!", ""),
        answer(500, f"boo: {CSI_SECRET}"),
        answer(200, "OK", f'{{"data": "{CSI_SECRET}"}}'),
        answer(302, "Found", ""),
        cut_before(),
        cut_after(),
    ]
    async with open_scene(start=False) as scene:
        (scene.folder / "settings.yaml").write_text("drain_s: 1\n")
        async with controller_process(scene, f"--config={scene.folder / 'settings.yaml'}", "-v=5") as process:
            volume = await process.create()
            for trouble in troubles:
                scene.world.faults.clear()
                scene.world.faults.add(Rule(trouble, path="re:.*/(pending|content.*|status)", times=0))
                for answered in await asyncio.gather(
                    asyncio.wait_for(process.publish(volume), 1),
                    asyncio.wait_for(process.create("b"), 1),
                    return_exceptions=True,
                ):
                    assert CSI_SECRET not in str(answered)
            await process.stop()
            log = (await process.process.communicate())[1].decode()
        assert "boo" in log
        assert CSI_SECRET not in log
        assert "PVEAPIToken" not in log


async def test_wrong_settings_end_with_2_and_a_list() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "csi_controller", "--cloud-config=/nonexistent/cloud.yaml",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    log = (await process.communicate())[1].decode()
    assert process.returncode == 2
    assert "/nonexistent/cloud.yaml" in log
    assert "Traceback" not in log


async def test_a_start_that_fails_says_why_and_nothing_else() -> None:
    async with open_scene(start=False) as scene:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "csi_controller", f"--cloud-config={write_cloud_config(scene)}",
            f"--csi-address=unix://{scene.folder}/no/such/folder/csi.sock",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        log = (await process.communicate())[1].decode()
    assert process.returncode == 1
    assert "no/such/folder" in log
    for noise in ("ended unexpectedly", "Unclosed", "never awaited"):
        assert noise not in log
