"""The cluster: tasks, lagging lists, hosts that go dark, lost quorum, few workers, faults by rule, the request log."""

import asyncio

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.errors import Cut
from tests.pvesim.faults import Faults, Rule, answer, cut_after, cut_before, delay, task_fails
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts

pytestmark = pytest.mark.looptime
CONTENT = "/nodes/pve1/storage/local/content"


def _vm(reply_data: list[dict[str, object]], vmid: int) -> dict[str, object]:
    return next(entry for entry in reply_data if entry.get("vmid") == vmid)


async def test_a_task_is_readable_by_its_own_token_only(world: World, csi: Direct, ccm: Direct) -> None:
    reply = await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi9", size="1G")
    await csi.finish(reply)
    status = await csi.get(f"/nodes/pve1/tasks/{reply.data}/status")
    assert status.data["exitstatus"] == "disk 'scsi9' does not exist"
    assert status.data["status"] == "stopped"
    log = await csi.get(f"/nodes/pve1/tasks/{reply.data}/log")
    assert log.data == [{"n": 1, "t": "TASK ERROR: disk 'scsi9' does not exist"}]
    world.access.custom_roles["CCM"].discard("Sys.Audit")
    other = await ccm.get(f"/nodes/pve1/tasks/{reply.data}/status")
    assert other.reason == "Permission check failed (/nodes/pve1, Sys.Audit)"


async def test_an_unknown_task_is_told_apart_from_a_garbled_one(csi: Direct) -> None:
    upid = f"UPID:pve1:00000001:00000001:6B000000:imgdel:x:{CSI_TOKEN}:"
    assert (await csi.get(f"/nodes/pve1/tasks/{upid}/status")).errors == {"upid": "no such task"}
    assert (await csi.get(f"/nodes/pve1/tasks/{upid}/log")).data[0]["t"].startswith("unable to open file")
    assert (await csi.get("/nodes/pve1/tasks/garbage/status")).errors == {"upid": "unable to parse worker upid"}


async def test_the_list_lags_ten_seconds_behind(csi: Direct) -> None:
    world = three_hosts(profile="as measured")
    csi, root = Direct(world, CSI_TOKEN, CSI_SECRET), Direct(world, ROOT_TOKEN, ROOT_SECRET)
    await csi.get("/cluster/resources")
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=200, name="new"))
    assert set(_vm((await root.get("/cluster/resources")).data, 200)) == {"id", "type", "node", "vmid", "status"}
    await asyncio.sleep(10)
    assert _vm((await root.get("/cluster/resources")).data, 200)["name"] == "new"


async def test_a_dark_host_keeps_its_last_words_for_five_minutes(world: World, ccm: Direct) -> None:
    world.broadcasts.darken("pve2", "cut")
    await asyncio.sleep(10)
    resources = (await ccm.get("/cluster/resources")).data
    node = next(entry for entry in resources if entry["id"] == "node/pve2")
    assert node["status"] == "offline"
    assert _vm(resources, 121)["status"] == "running"
    await asyncio.sleep(300)
    assert _vm((await ccm.get("/cluster/resources")).data, 121) == {
        "id": "qemu/121", "type": "qemu", "node": "pve2", "vmid": 121, "status": "unknown",
    }  # fmt: skip


async def test_requests_for_a_dark_host_fail_with_595(world: World, csi: Direct) -> None:
    world.broadcasts.darken("pve2", "cut")
    first = await csi.get("/nodes/pve2/qemu/121/config")
    assert (first.status, first.reason, first.raw) == (595, "Connection timed out", b"")
    assert world.clock.monotonic() == pytest.approx(30)
    later = await csi.get("/nodes/pve2/qemu/121/config")
    assert (later.status, later.reason) == (595, "No route to host")
    world.broadcasts.darken("pve2", "no-pvedaemon")
    assert (await csi.get("/nodes/pve2/qemu/121/config")).status == 200
    refused = await csi.put("/nodes/pve2/qemu/121/config", delete="scsi5")
    assert (refused.status, refused.reason) == (595, "Connection refused")
    assert (await csi.get("/nodes/pve9/qemu")).reason.startswith("hostname lookup 'pve9' failed")


async def test_without_quorum_reads_work_and_writes_name_it(world: World, csi: Direct) -> None:
    await csi.put("/nodes/pve1/qemu/111/config", scsi3="local:1")
    world.quorate = False
    assert (await csi.get("/nodes/pve1/qemu/111/config")).status == 200
    assert (await csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M")).status == 200
    shared = await csi.post("/nodes/pve1/storage/ceph/content", vmid=9999, filename="vm-9999-a", size="1M")
    assert shared.reason == "cfs-lock 'storage-ceph' error: no quorum!"
    written = await csi.put("/nodes/pve1/qemu/111/config", delete="scsi3")
    assert written.reason.endswith("Permission denied")
    # A resize grows the image and cannot write that down.
    task = await csi.finish(await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi3", size="2G"))
    assert task.failed
    assert world.storages.find_volume("local:111/vm-111-disk-0.raw", "pve1").size_bytes == 2 << 30  # type: ignore[union-attr]


async def test_three_workers_a_host_queue_the_rest() -> None:
    world = three_hosts(profile="as measured")
    csi = Direct(world, CSI_TOKEN, CSI_SECRET)
    volid = (await csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M")).data
    begin = world.clock.monotonic()
    await asyncio.gather(*(csi.get(f"{CONTENT}/{volid}") for _ in range(9)))
    # Nine looks at an image of 20 ms each, three at a time, after 10 ms that every answer takes.
    assert world.clock.monotonic() - begin == pytest.approx(0.07)


async def test_allocations_on_one_storage_wait_for_each_other() -> None:
    world = three_hosts(profile="as measured")
    csi = Direct(world, CSI_TOKEN, CSI_SECRET)
    names = [f"vm-9999-{n}.raw" for n in range(6)]
    await asyncio.gather(*(csi.post(CONTENT, vmid=9999, filename=name, size="1M") for name in names))
    assert world.clock.monotonic() == pytest.approx(6 * 0.035)


async def test_a_storage_lock_held_for_long_is_named_after_ten_seconds(world: World, csi: Direct) -> None:
    world.storages.locked |= {"local", "ceph"}
    local = await csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M")
    assert local.reason == "can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout"
    shared = await csi.post("/nodes/pve1/storage/ceph/content", vmid=9999, filename="vm-9999-a", size="1M")
    assert shared.reason == "cfs-lock 'storage-ceph' error: got lock request timeout"
    assert world.clock.monotonic() == pytest.approx(20)


async def test_of_parallel_allocations_of_one_name_one_wins(csi: Direct) -> None:
    replies = await asyncio.gather(
        *(csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M") for _ in range(5))
    )
    assert sorted(reply.status for reply in replies) == [200, 500, 500, 500, 500]


async def test_faults_count_the_requests_they_speak_of(world: World, csi: Direct) -> None:
    world.faults.add(Rule(answer(596, "Connection timed out"), method="POST", path="/nodes/*/content", nth=2, times=1))
    statuses = [(await csi.post(CONTENT, vmid=9999, filename=f"vm-9999-{n}.raw", size="1M")).status for n in range(3)]
    assert statuses == [200, 596, 200]
    assert len((await csi.get(CONTENT, vmid=9999)).data) == 2


async def test_an_answer_can_be_lost_after_the_effect(world: World, csi: Direct) -> None:
    world.faults.add(Rule(answer(596, "Broken pipe", after=True), path="re:/nodes/.*/content"))
    assert (await csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M")).status == 596
    world.faults.add(Rule(cut_after(), path=CONTENT))
    with pytest.raises(Cut):
        await csi.post(CONTENT, vmid=9999, filename="vm-9999-b.raw", size="1M")
    world.faults.add(Rule(cut_before(), path=CONTENT))
    with pytest.raises(Cut):
        await csi.post(CONTENT, vmid=9999, filename="vm-9999-c.raw", size="1M")
    names = {entry["volid"] for entry in (await csi.get(CONTENT, vmid=9999)).data}
    assert names == {"local:9999/vm-9999-a.raw", "local:9999/vm-9999-b.raw"}


async def test_a_task_can_be_made_to_fail_and_a_request_to_wait(world: World, csi: Direct) -> None:
    world.faults.add(Rule(task_fails("got no space"), path="*/resize"))
    task = await csi.finish(await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi0", size="+1G"))
    assert task.exitstatus == "got no space"
    world.faults.add(Rule(delay(7), method="GET", path="/version"))
    await csi.get("/version")
    assert world.clock.monotonic() == pytest.approx(7)


def test_a_fault_rule_from_plain_data_knows_its_words() -> None:
    rule = Faults.parse({"method": "GET", "action": {"kind": "delay", "seconds": 2}})
    assert rule.matches("GET", "/anything", {})
    with pytest.raises(TypeError):
        Faults.parse({"action": {"kind": "delay"}, "nonsense": 1})


async def test_the_log_tells_foreground_polls_and_background_apart(world: World, csi: Direct) -> None:
    background = Direct(world, CSI_TOKEN, CSI_SECRET, user_agent="pvecloud/1 (background)")
    mark = len(world.log)
    reply = await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi0", size="+1G")
    await csi.get(f"/nodes/pve1/tasks/{reply.data}/status")
    await background.get("/cluster/resources")
    assert [world.count(kind, since=mark) for kind in ("foreground", "poll", "background")] == [1, 1, 1]
    entry = world.log.since(mark)[0]
    assert (entry.method, entry.path, entry.status, entry.auth_id) == (
        "PUT",
        "/nodes/pve1/qemu/111/resize",
        200,
        CSI_TOKEN,
    )
    assert CSI_SECRET not in repr(list(world.log))


async def test_a_client_that_goes_away_does_not_stop_the_work(csi: Direct) -> None:
    world = three_hosts(profile="as measured")
    csi = Direct(world, CSI_TOKEN, CSI_SECRET)
    request = asyncio.create_task(csi.post(CONTENT, vmid=9999, filename="vm-9999-a.raw", size="1M"))
    await asyncio.sleep(0.05)
    request.cancel()
    await asyncio.sleep(1)
    assert world.storages.find_volume("local:9999/vm-9999-a.raw", "pve1") is not None
