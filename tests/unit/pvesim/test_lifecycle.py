"""VMs come and go: create, destroy, snapshots and their leftovers, clones, moves, migration; world files."""

import asyncio

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.world import World
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts

pytestmark = pytest.mark.looptime
VM = "/nodes/pve1/qemu/200"


async def _volume(csi: Direct, filename: str, storage: str = "local") -> str:
    reply = await csi.post(f"/nodes/pve1/storage/{storage}/content", vmid=9999, filename=filename, size="64M")
    volid: str = reply.data
    return volid


@pytest.fixture
async def vm(root: Direct) -> int:
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=200, name="t", scsi0="local:1,format=qcow2"))
    return 200


async def test_a_created_vm_has_its_disk_and_boots_from_it(world: World, vm: int) -> None:
    conf = world.vms[vm].conf
    assert conf["scsi0"] == "local:200/vm-200-disk-0.qcow2,size=1G"
    assert conf["boot"] == "order=scsi0"
    assert {"smbios1", "vmgenid", "meta"} <= set(conf)


async def test_creation_that_fails_leaves_nothing(world: World, root: Direct) -> None:
    task = await root.finish(await root.post("/nodes/pve1/qemu", vmid=201, scsi0="local:1", scsi1="local:9999/no.raw"))
    assert task.exitstatus == "unable to create VM 201 - volume 'local:9999/no.raw' does not exist"
    assert 201 not in world.vms
    assert not [v for v in world.storages.volumes.values() if v.owner == 201]
    taken = await root.post("/nodes/pve1/qemu", vmid=121)
    assert taken.reason == "unable to create VM 121 - VM 121 already exists on node 'pve2'"


async def test_destroying_frees_own_disks_and_keeps_foreign_ones(
    world: World, root: Direct, csi: Direct, vm: int
) -> None:
    foreign = await _volume(csi, "vm-9999-a.qcow2")
    await csi.put(f"{VM}/config", scsi1=foreign)
    await root.finish(await root.delete(VM))
    assert world.storages.find_volume("local:200/vm-200-disk-0.qcow2", "pve1") is None
    assert world.storages.find_volume(foreign, "pve1") is not None
    running = await root.delete("/nodes/pve1/qemu/111")
    assert running.reason == "VM 111 is running - destroy failed"


async def test_one_raw_file_makes_a_vm_unsnapshottable(root: Direct, csi: Direct, vm: int) -> None:
    assert (await csi.get(f"{VM}/feature", feature="snapshot")).data == {"hasFeature": 1, "nodes": ["pve1"]}
    await csi.put(f"{VM}/config", scsi1=await _volume(csi, "vm-9999-a.raw"))
    assert (await csi.get(f"{VM}/feature", feature="snapshot")).data["hasFeature"] == 0
    task = await root.finish(await root.post(f"{VM}/snapshot", snapname="s1"))
    assert task.exitstatus == "snapshot feature is not available"


async def test_a_deleted_snapshot_leaves_foreign_volumes_as_unused(
    world: World, root: Direct, csi: Direct, vm: int
) -> None:
    volid = await _volume(csi, "vm-9999-a.qcow2")
    await csi.put(f"{VM}/config", scsi1=volid)
    await root.finish(await root.post(f"{VM}/snapshot", snapname="s1"))
    names = [entry["name"] for entry in (await csi.get(f"{VM}/snapshot")).data]
    assert names == ["s1", "current"]
    await csi.put(f"{VM}/config", delete="scsi1")
    assert (await root.finish(await root.delete(f"{VM}/snapshot/s1"))).exitstatus == "OK"
    assert world.vms[vm].conf["unused1"] == volid


async def test_a_rollback_without_its_volume_leaves_a_lock(world: World, root: Direct, csi: Direct, vm: int) -> None:
    volid = await _volume(csi, "vm-9999-a.qcow2")
    await csi.put(f"{VM}/config", scsi1=volid)
    await root.finish(await root.post(f"{VM}/snapshot", snapname="s1"))
    await csi.delete(f"/nodes/pve1/storage/local/content/{volid}", delay=5)
    task = await root.finish(await root.post(f"{VM}/snapshot/s1/rollback"))
    assert "qemu-img snapshot -a s1" in (task.exitstatus or "")
    assert (await csi.put(f"{VM}/config", delete="scsi1")).reason == "VM is locked (rollback)"


async def test_a_full_clone_owns_copies_of_everything(world: World, root: Direct, csi: Direct, vm: int) -> None:
    await csi.put(f"{VM}/config", scsi1=await _volume(csi, "vm-9999-a.qcow2"))
    await root.finish(await root.post(f"{VM}/clone", newid=300, full=1))
    assert world.vms[300].conf["scsi1"].startswith("local:300/vm-300-disk-1.qcow2")


async def test_a_thin_snapshot_can_be_cloned_and_a_qcow2_one_cannot(
    world: World, root: Direct, csi: Direct, vm: int
) -> None:
    await root.finish(await root.post(f"{VM}/snapshot", snapname="s1"))
    refused = await root.post(f"{VM}/clone", newid=300, full=0, snapname="s1")
    assert refused.reason.startswith("Linked clone feature is not supported for a snapshot of 'local:200/")
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=201, scsi0="local-lvm:1"))
    await root.finish(await root.post("/nodes/pve1/qemu/201/snapshot", snapname="s1"))
    task = await root.finish(await root.post("/nodes/pve1/qemu/201/clone", newid=301, full=0, snapname="s1"))
    assert task.exitstatus == "OK"
    assert world.vms[301].conf["scsi0"] == "local-lvm:vm-301-disk-0,size=1G"


async def test_moving_a_foreign_disk_renames_it_to_the_vm(world: World, root: Direct, csi: Direct, vm: int) -> None:
    source = await _volume(csi, "vm-9999-a.raw")
    await csi.put(f"{VM}/config", scsi1=source)
    assert (await root.finish(await root.post(f"{VM}/move_disk", disk="scsi1", storage="local-lvm"))).exitstatus == "OK"
    assert world.vms[vm].conf["scsi1"].startswith("local-lvm:vm-200-disk-0")
    assert source in world.vms[vm].conf.values()


async def test_local_foreign_volumes_block_migration_and_shared_ones_travel(
    world: World, root: Direct, csi: Direct
) -> None:
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=210, scsi1=await _volume(csi, "vm-9999-s", "ceph")))
    vm = "/nodes/pve1/qemu/210"
    await csi.put(f"{vm}/config", scsi2=await _volume(csi, "vm-9999-a.raw"))
    task = await root.finish(await root.post(f"{vm}/migrate", target="pve2"))
    assert task.exitstatus == "migration aborted"
    assert "owned by other VM (owner = VM 9999)" in "\n".join(task.log)
    await csi.put(f"{vm}/config", delete="scsi2")
    assert (await root.finish(await root.post(f"{vm}/migrate", target="pve2"))).exitstatus == "OK"
    assert world.vms[210].node == "pve2"
    running = await root.post("/nodes/pve1/qemu/111/migrate", target="pve2")
    assert running.reason == "can't migrate running VM without --online"


async def test_a_clone_goes_through_three_phases() -> None:
    world = three_hosts(profile="as measured")
    root = Direct(world, ROOT_TOKEN, ROOT_SECRET)
    disks = {"scsi0": "local:4", "scsi1": "local:4"}
    options = {"description": "template", "net0": "virtio,bridge=vmbr0"}
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=900, **options, **disks))
    world.storages.get("local").options["bwlimit"] = "clone=1048576"
    reply = await root.post("/nodes/pve1/qemu/900/clone", newid=901, full=1)
    await asyncio.sleep(2)
    # Nothing but a lock and a fixed remark while the first disk is copied, then all of it, still locked.
    config = (await root.get("/nodes/pve1/qemu/901/config")).data
    assert {key: value for key, value in config.items() if key != "digest"} == {
        "lock": "clone", "description": " qmclone temporary file",
    }  # fmt: skip
    await asyncio.sleep(4)
    config = (await root.get("/nodes/pve1/qemu/901/config")).data
    assert (config["lock"], config["description"]) == ("clone", "template")
    task = await root.finish(reply)
    assert task.exitstatus == "OK"
    config = (await root.get("/nodes/pve1/qemu/901/config")).data
    assert "lock" not in config
    assert config["net0"] != world.vms[900].conf["net0"]


async def test_a_clone_for_another_host_needs_shared_disks(root: Direct) -> None:
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=900, scsi0="local:1"))
    local = await root.post("/nodes/pve1/qemu/900/clone", newid=901, full=1, target="pve2")
    assert local.reason == "can't clone VM to node 'pve2' (VM uses local storage)"
    worse = await root.post("/nodes/pve1/qemu/900/clone", newid=901, full=1, target="pve2", storage="local-lvm")
    assert worse.reason == "can't clone to non-shared storage 'local-lvm'"
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=902, scsi0="ceph:1"))
    assert (await root.post("/nodes/pve1/qemu/902/clone", newid=901, full=1, target="pve2")).status == 200
    await root.world.tasks.settle()
    assert root.world.vms[901].node == "pve2"


async def test_the_guest_agent_tells_what_the_world_file_says(ccm: Direct, world: World) -> None:
    reply = await ccm.get("/nodes/pve1/qemu/111/agent/network-get-interfaces")
    assert reply.data["result"][1]["ip-addresses"][0]["ip-address"] == "10.0.0.111"
    world.vms[111].agent.running = False
    assert (
        await ccm.get("/nodes/pve1/qemu/111/agent/network-get-interfaces")
    ).reason == "QEMU guest agent is not running"


def test_an_unknown_key_of_a_world_file_is_named() -> None:
    with pytest.raises(ValueError, match="bogus"):
        World.from_dict({"nodes": {"pve1": {}}, "bogus": 1})
    with pytest.raises(ValueError, match="floppy"):
        World.from_dict({"nodes": {"pve1": {}}, "storages": {"x1": {"type": "floppy"}}})
