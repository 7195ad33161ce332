"""A cluster without quorum: what still works, what says so and after how long (9.2, recorded)."""

import re

import pytest

from tests.sim.pvesim.measured import Measured

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"


async def test_reads_and_logins_work(cluster: Measured) -> None:
    cluster.world.quorate = False
    assert (await cluster.csi.get("/version")).status == 200
    assert (await cluster.csi.get(CONFIG)).status == 200
    status = (await cluster.ccm.get("/cluster/status")).data
    assert next(entry for entry in status if entry["type"] == "cluster")["quorate"] == 0


async def test_a_configuration_cannot_be_written_and_keeps_nothing(cluster: Measured) -> None:
    volid = await cluster.volume("a")
    before = (await cluster.csi.get(CONFIG)).data
    cluster.world.quorate = False
    for change in ({"scsi3": volid}, {"description": "x"}):
        reply = (
            await cluster.csi.put(CONFIG, **change) if "scsi3" in change else await cluster.root.put(CONFIG, **change)
        )
        assert reply.status == 500
        pattern = r"unable to open file '/etc/pve/nodes/pve1/qemu-server/111\.conf\.tmp\.\d+' - Permission denied"
        assert re.fullmatch(pattern, reply.reason)
    assert (await cluster.csi.get(CONFIG)).data == before
    # With POST the same text is the task's.
    task = await cluster.csi.finish(await cluster.csi.post(CONFIG, scsi3=volid))
    assert (task.exitstatus or "").endswith("Permission denied")


async def test_shared_storages_stop_after_ten_seconds_and_local_ones_do_not(cluster: Measured) -> None:
    cluster.world.quorate = False
    shared = cluster.csi.post("/nodes/pve1/storage/ceph/content", vmid=9999, filename="vm-9999-a", size="1G")
    reply, took = await cluster.timed(shared)
    assert (reply.status, reply.reason) == (500, "cfs-lock 'storage-ceph' error: no quorum!")
    assert took == pytest.approx(10, abs=0.1)
    assert await cluster.volume("a") == "local:9999/vm-9999-a.raw"


async def test_guests_neither_start_nor_come_to_be(cluster: Measured) -> None:
    cluster.world.quorate = False
    for path, params in (("/nodes/pve1/qemu/111/status/start", {}), ("/nodes/pve1/qemu", {"vmid": 200})):
        reply = await cluster.root.post(path, **params)
        assert (reply.status, reply.reason) == (500, "cluster not ready - no quorum?")


async def test_a_resize_grows_the_image_and_cannot_write_that_down(cluster: Measured) -> None:
    volid = await cluster.volume("a")
    await cluster.csi.put(CONFIG, scsi3=volid)
    cluster.world.quorate = False
    task = await cluster.csi.finish(await cluster.csi.put("/nodes/pve1/qemu/111/resize", disk="scsi3", size="2G"))
    assert (task.exitstatus or "").endswith("Permission denied")
    size = (await cluster.csi.get(f"/nodes/pve1/storage/local/content/{volid}")).data["size"]
    assert size == 2 << 30
    assert "size=64M" in (await cluster.csi.get(CONFIG)).data["scsi3"]
    # The next resize to the same size repairs it; that it is nothing to do does not say so.
    cluster.world.quorate = True
    await cluster.csi.finish(await cluster.csi.put("/nodes/pve1/qemu/111/resize", disk="scsi3", size="3G"))
    assert "size=3G" in (await cluster.csi.get(CONFIG)).data["scsi3"]
