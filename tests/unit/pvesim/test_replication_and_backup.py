"""Replication jobs and vzdump, from the sources: what they take along, and what they leave out in silence."""

import asyncio

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.world import World
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts_dict

pytestmark = pytest.mark.looptime
VM = "/nodes/pve1/qemu/210"


@pytest.fixture
def world() -> World:
    raw = three_hosts_dict(profile="as measured")
    raw["storages"]["zfs"] = {"type": "zfspool", "pool": "rpool/data", "content": "images"}
    raw["vms"][210] = {"node": "pve1", "running": False, "config": {"name": "r", "scsi0": "zfs:vm-210-disk-0,size=4G"}}
    return World.from_dict(raw)


@pytest.fixture
def root(world: World) -> Direct:
    return Direct(world, ROOT_TOKEN, ROOT_SECRET)


async def run(root: Direct) -> dict[str, object]:
    assert (await root.post("/nodes/pve1/replication/210-0/schedule_now")).status == 200
    await asyncio.sleep(30)
    state: dict[str, object] = (await root.get("/nodes/pve1/replication/210-0/status")).data
    return state


async def test_a_job_keeps_own_zfs_disks_on_a_second_host(world: World, root: Direct) -> None:
    assert (await root.post("/cluster/replication", id="210-0", type="local", target="pve2")).status == 200
    state = await run(root)
    assert (state["fail_count"], state["target"]) == (0, "pve2")
    assert world.storages.find_volume("zfs:vm-210-disk-0", "pve2") is not None
    # With its disks there, the VM moves without copying and finds them.
    begin = world.clock.monotonic()
    moved = await root.finish(await root.post(f"{VM}/migrate", target="pve2"))
    assert moved.exitstatus == "OK"
    assert world.clock.monotonic() - begin < 3
    started = await root.finish(await root.post("/nodes/pve2/qemu/210/status/start"))
    assert started.exitstatus == "OK"


async def test_a_storage_that_cannot_forbids_the_job_and_foreign_disks_are_passed_over(root: Direct) -> None:
    await root.put(f"{VM}/config", scsi1="local-lvm:1")
    refused = await root.post("/cluster/replication", id="210-0", type="local", target="pve2")
    assert refused.reason == "missing replicate feature on volume 'local-lvm:vm-210-disk-0'"
    await root.put(f"{VM}/config", scsi1="local-lvm:vm-210-disk-0,replicate=0")
    foreign = await root.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    await root.put(f"{VM}/config", scsi2=foreign.data)
    assert (await root.post("/cluster/replication", id="210-0", type="local", target="pve2")).status == 200
    await run(root)
    seen = await root.get(f"/nodes/pve2/storage/local/content/{foreign.data}")
    assert seen.status == 500


async def test_a_dark_target_is_a_failure_that_is_counted(world: World, root: Direct) -> None:
    await root.post("/cluster/replication", id="210-0", type="local", target="pve2")
    world.broadcasts.darken("pve2", "cut")
    state = await run(root)
    assert state["fail_count"] == 1
    assert str(state["error"]).endswith("failed: exit code 255")
    assert (await root.delete("/cluster/replication/210-0")).status == 200
    assert (await root.get("/cluster/replication")).data == []


async def test_own_local_disks_travel_and_foreign_ones_hold_a_vm_back(world: World, root: Direct) -> None:
    task = await root.finish(await root.post(f"{VM}/migrate", target="pve2"))
    assert task.exitstatus == "OK"
    assert world.storages.find_volume("zfs:vm-210-disk-0", "pve1") is None
    foreign = await root.post("/nodes/pve2/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    await root.put("/nodes/pve2/qemu/210/config", scsi1=foreign.data)
    task = await root.finish(await root.post("/nodes/pve2/qemu/210/migrate", target="pve3"))
    assert task.exitstatus == "migration aborted"


async def test_a_backup_leaves_out_what_says_so_and_locks_the_vm_meanwhile(world: World, root: Direct) -> None:
    foreign = await root.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    await root.put(f"{VM}/config", scsi1=f"{foreign.data},backup=0")
    reply = await root.post("/nodes/pve1/vzdump", vmid="210", storage="local", mode="snapshot")
    await asyncio.sleep(1)
    assert (await root.put(f"{VM}/config", description="x")).reason == "VM is locked (backup)"
    task = await root.finish(reply)
    assert task.exitstatus == "OK"
    assert "INFO: exclude disk 'scsi1' 'local:9999/vm-9999-a.raw' (backup=no)" in task.log
    assert any(line.startswith("INFO: include disk 'scsi0'") for line in task.log)
    assert (await root.put(f"{VM}/config", description="x")).status == 200
    listed = (await root.get("/nodes/pve1/storage/local/content", content="backup")).data
    assert listed[0]["volid"].startswith("local:backup/vzdump-qemu-210-")
    wrong = await root.post("/nodes/pve1/vzdump", vmid="210", storage="ceph")
    assert "wrong content type" in wrong.errors["storage"]
    world.vms[210].conf["lock"] = "migrate"
    task = await root.finish(await root.post("/nodes/pve1/vzdump", vmid="210", storage="local"))
    assert task.exitstatus == "job errors"
