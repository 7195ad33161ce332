"""Locks that nobody lets go: the `lock` entry of a configuration, its lock file, a storage's lock (9.2, recorded)."""

import asyncio

import pytest

from tests.pvesim.requests import SimRequest
from tests.sim.pvesim.measured import Measured

pytestmark = pytest.mark.looptime
CONFIG = "/nodes/pve1/qemu/111/config"


@pytest.mark.parametrize("lock", ["backup", "migrate", "snapshot", "rollback", "snapshot-delete", "clone", "create"])
async def test_a_locked_configuration_takes_no_change(cluster: Measured, lock: str) -> None:
    volid = await cluster.volume("a")
    cluster.world.vms[111].conf["lock"] = lock
    text = f"VM is locked ({lock})"
    for send in (cluster.csi.put, cluster.csi.post):
        reply, took = await cluster.timed(send(CONFIG, scsi3=volid))
        assert (reply.status, reply.reason) == (500, text)
        assert took < 0.1
    resize = await cluster.csi.finish(await cluster.csi.put("/nodes/pve1/qemu/111/resize", disk="scsi0", size="+1G"))
    assert resize.exitstatus == text
    assert (await cluster.csi.get(CONFIG)).data["lock"] == lock
    # Stopping is allowed all the same, starting is not.
    assert (await cluster.root.finish(await cluster.root.post("/nodes/pve1/qemu/111/status/stop"))).exitstatus == "OK"
    start = await cluster.root.finish(await cluster.root.post("/nodes/pve1/qemu/111/status/start"))
    assert start.exitstatus == text


async def test_only_roots_ticket_takes_the_lock_away(cluster: Measured) -> None:
    cluster.world.vms[111].conf["lock"] = "snapshot-delete"
    refused = await cluster.root.put(CONFIG, delete="lock", skiplock=1)
    assert (refused.status, refused.errors) == (400, {"skiplock": "Only root may use this option."})
    cluster.world.access.users["root@pam"].password = "secret"
    ticket, csrf = cluster.world.authenticator.issue_ticket("root@pam", cluster.world.clock.time(), "nonce")
    headers = {"cookie": f"PVEAuthCookie={ticket}", "csrfpreventiontoken": csrf}
    target = f"/api2/json{CONFIG}?delete=lock&skiplock=1"
    answer = await cluster.world.handle(SimRequest("PUT", target, headers, b"", "pve1"))
    assert answer.status == 200
    assert "lock" not in cluster.world.vms[111].conf


async def test_a_held_lock_file_is_waited_for_ten_seconds(cluster: Measured) -> None:
    volid = await cluster.volume("a")
    await cluster.world.vms[111].config_lock.acquire()
    text = "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout"
    reply, took = await cluster.timed(cluster.csi.put(CONFIG, scsi3=volid))
    assert (reply.status, reply.reason) == (500, text)
    assert took == pytest.approx(10, abs=0.1)
    for send, path, params in (
        (cluster.csi.post, CONFIG, {"scsi3": volid}),
        (cluster.csi.put, "/nodes/pve1/qemu/111/resize", {"disk": "scsi0", "size": "+1G"}),
    ):
        begin = cluster.now()
        task = await cluster.csi.finish(await send(path, **params))
        assert (task.exitstatus, task.log[0]) == (text, "trying to acquire lock...")
        assert cluster.now() - begin == pytest.approx(10, abs=0.1)
    cluster.world.vms[111].config_lock.release()
    assert (await cluster.csi.put(CONFIG, scsi3=volid)).status == 200


async def test_a_held_storage_lock_is_waited_for_ten_seconds(cluster: Measured) -> None:
    volid = await cluster.volume("a")
    cluster.world.storages.locked |= {"local", "ceph"}
    text = "can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout"
    content = "/nodes/pve1/storage/local/content"
    made, took = await cluster.timed(cluster.csi.post(content, vmid=9999, filename="vm-9999-b.raw", size="1M"))
    assert (made.status, made.reason) == (500, text)
    assert took == pytest.approx(10, abs=0.1)
    freed = await cluster.csi.delete(f"{content}/{volid}", delay=25)
    assert (freed.status, freed.reason) == (500, text)
    shared = cluster.csi.post("/nodes/pve1/storage/ceph/content", vmid=9999, filename="vm-9999-b", size="1M")
    assert (await shared).reason == "cfs-lock 'storage-ceph' error: got lock request timeout"


async def test_a_killed_create_leaves_a_lock_that_no_token_can_undo(cluster: Measured) -> None:
    source = await cluster.volume("a")
    cluster.world.storages.get("local").options["bwlimit"] = "clone=1024"
    made = await cluster.root.post("/nodes/pve1/qemu", vmid=900, scsi0=f"local:0,import-from={source}")
    task = cluster.world.tasks.by_upid[made.data]
    await asyncio.sleep(5)
    assert any(line.startswith("transferred") for line in task.log)
    await cluster.world.tasks.kill(task, hard=True)
    assert task.exitstatus == "unexpected status"
    assert set((await cluster.csi.get("/nodes/pve1/qemu/900/config")).data) == {"lock", "digest"}
    # The half-made copy is there, and nothing refers to it.
    left = (await cluster.csi.get("/nodes/pve1/storage/local/content", vmid=900)).data
    assert [entry["volid"] for entry in left] == ["local:900/vm-900-disk-0.raw"]
    destroyed = await cluster.root.finish(await cluster.root.delete("/nodes/pve1/qemu/900"))
    assert destroyed.exitstatus == "VM is locked (create)"


async def test_an_interrupted_copy_leaves_nothing(cluster: Measured) -> None:
    source = await cluster.volume("a")
    cluster.world.storages.get("local").options["bwlimit"] = "clone=1024"
    await cluster.root.finish(await cluster.root.post("/nodes/pve1/qemu", vmid=900))
    reply = await cluster.root.post("/nodes/pve1/qemu/900/config", scsi0=f"local:0,import-from={source}")
    await asyncio.sleep(5)
    await cluster.root.delete(f"/nodes/pve1/tasks/{reply.data}")
    task = cluster.world.tasks.by_upid[reply.data]
    await task.done.wait()
    assert (task.exitstatus or "").startswith(
        f"cannot import from '{source}' - copy failed: command '/usr/bin/qemu-img"
    )
    assert (task.exitstatus or "").endswith("failed: received interrupt")
    assert (await cluster.csi.get("/nodes/pve1/storage/local/content", vmid=900)).data == []
    assert "scsi0" not in (await cluster.csi.get("/nodes/pve1/qemu/900/config")).data
