"""A host that goes dark: what requests for it meet, and what the lists say, with the delays of the recorded 9.2."""

import asyncio

import pytest

from tests.sim.pvesim.measured import Measured

pytestmark = pytest.mark.looptime


async def test_a_host_that_is_cut_off_first_times_out_and_then_has_no_route(cluster: Measured) -> None:
    cluster.world.broadcasts.darken("pve2", "cut")
    first, took = await cluster.timed(cluster.csi.get("/nodes/pve2/qemu/121/config"))
    assert (first.status, first.reason, first.raw) == (595, "Connection timed out", b"")
    assert took == pytest.approx(30)
    later, took = await cluster.timed(cluster.csi.put("/nodes/pve2/qemu/121/config", delete="scsi1"))
    assert (later.status, later.reason, later.raw) == (595, "No route to host", b"")
    assert took == pytest.approx(3)


async def test_a_host_without_its_daemons_refuses_at_once(cluster: Measured) -> None:
    cluster.world.broadcasts.darken("pve2", "no-pveproxy")
    for request in (
        cluster.csi.get("/nodes/pve2/qemu/121/config"),
        cluster.csi.put("/nodes/pve2/qemu/121/config", delete="scsi1"),
        cluster.csi.post("/nodes/pve2/storage/ceph/content", vmid=9999, filename="vm-9999-a", size="1G"),
    ):
        reply, took = await cluster.timed(request)
        assert (reply.status, reply.reason, reply.raw) == (595, "Connection refused", b"")
        assert took < 0.1
    cluster.world.broadcasts.darken("pve2", "no-pvedaemon")
    # What the proxy answers by itself goes on; what needs the privileged daemon does not.
    assert (await cluster.csi.get("/nodes/pve2/qemu/121/config")).status == 200
    assert (await cluster.csi.put("/nodes/pve2/qemu/121/config", delete="scsi1")).status == 595
    # Neither is a host that is off: the cluster still counts it.
    assert (await cluster.resource("node/pve2"))["status"] == "online"


async def test_the_lists_lag_ten_seconds(cluster: Measured) -> None:
    # The lists show what was last said at a full period of ten seconds.
    await cluster.ccm.get("/cluster/resources")
    begin = cluster.now()
    await cluster.root.finish(await cluster.root.post("/nodes/pve1/qemu/111/status/stop"))
    assert (await cluster.csi.get("/nodes/pve1/qemu/111/status/current")).data["status"] == "stopped"
    assert (await cluster.resource("qemu/111"))["status"] == "running"
    await asyncio.sleep(10 - (cluster.now() - begin))
    assert (await cluster.resource("qemu/111"))["status"] == "stopped"


async def test_a_dark_host_is_offline_after_8_s_and_its_guests_stay_running_for_5_minutes(cluster: Measured) -> None:
    before = await cluster.resource("qemu/121")
    dark_at = cluster.now()
    cluster.world.broadcasts.darken("pve2", "cut")

    async def at(seconds: float) -> None:
        await asyncio.sleep(dark_at + seconds - cluster.now())

    await at(7)
    assert (await cluster.resource("node/pve2"))["status"] == "online"
    await at(8)
    assert (await cluster.resource("node/pve2"))["status"] == "offline"
    status = {entry["name"]: entry for entry in (await cluster.ccm.get("/cluster/status")).data}
    assert (status["pve2"]["online"], status["lab"]["quorate"]) == (0, 1)
    for seconds in (9, 60, 180, 295):
        await at(seconds)
        # The very last values that were heard, uptime and all.
        assert await cluster.resource("qemu/121") == before
        assert (await cluster.resource("storage/pve2/local"))["status"] == "available"
    await at(297)
    assert await cluster.resource("qemu/121") == {
        "id": "qemu/121", "type": "qemu", "node": "pve2", "vmid": 121, "status": "unknown",
    }  # fmt: skip
    assert (await cluster.resource("storage/pve2/local"))["status"] == "unknown"
    # The other hosts' entries are as fresh as ever, and the VM's id is taken whatever the lists say.
    assert (await cluster.resource("qemu/111"))["status"] == "running"
    taken = await cluster.csi.get("/cluster/nextid", vmid=121)
    assert (taken.status, taken.errors) == (400, {"vmid": "VM 121 already exists"})


async def test_a_host_that_comes_back_is_heard_with_the_next_broadcast(cluster: Measured) -> None:
    cluster.world.broadcasts.darken("pve2", "cut")
    await asyncio.sleep(400)
    cluster.world.broadcasts.darken("pve2", "")
    assert (await cluster.csi.get("/nodes/pve2/qemu/121/config")).status == 200
    await asyncio.sleep(10)
    assert (await cluster.resource("qemu/121"))["status"] == "running"
    assert (await cluster.resource("node/pve2"))["status"] == "online"


async def test_an_unknown_host_is_another_error(cluster: Measured) -> None:
    reply = await cluster.csi.get("/nodes/pve9/qemu/121/config")
    assert reply.status == 500
    assert reply.reason.startswith("hostname lookup 'pve9' failed - failed to get address info for: pve9: ")
