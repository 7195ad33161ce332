"""What others do to VMs, volumes and storages while the controller works: operators, backups, other tools."""

import asyncio

import pytest
from grpc import StatusCode

from tests.pvesim.direct import Direct
from tests.pvesim.faults import Rule, delay
from tests.pvesim.state import Volume
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, Scene, open_scene


@pytest.fixture
def admin(scene: Scene) -> Direct:
    """An operator with every right."""
    return Direct(scene.world, ROOT_TOKEN, ROOT_SECRET, node="pve1")


def _copy(scene: Scene, node: str) -> None:
    """A volume of the same name on another host: what a copy or an old attempt leaves behind."""
    scene.world.storages.volumes["local-lvm", node, "vm-9999-pvc-1"] = Volume(
        "local-lvm", node, "vm-9999-pvc-1", 9999, "raw", GIB, 0
    )


async def test_a_vm_that_moved_does_not_get_another_hosts_volume_of_that_name(scene: Scene) -> None:
    volume = await scene.create()
    _copy(scene, "pve2")
    scene.vm().node = "pve2"  # the inventory does not know it yet
    with refused(StatusCode.FAILED_PRECONDITION, "pve2", "pve1"):
        await scene.publish(volume)
    assert scene.attachments() == {}
    scene.vm().node = "pve1"
    await scene.app.clusters.get("cluster-1").inventory.refresh()
    await scene.publish(volume)
    assert scene.is_live(volume, 111)


async def test_a_disk_on_a_host_that_its_storage_was_withdrawn_from_is_still_in_use(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, 131)
    scene.world.storages.definitions["ceph"].nodes = ["pve1", "pve2"]
    inventory = scene.app.clusters.get("cluster-1").inventory
    inventory._definitions_at = float("-inf")
    await inventory.refresh()
    with refused(StatusCode.FAILED_PRECONDITION, "VM 131"):
        await scene.publish(volume, 111)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 131"):
        await scene.delete(volume)
    await scene.unpublish(volume, 131)
    await scene.publish(volume, 111)
    assert scene.attachments() == {111: ["ceph:vm-9999-pvc-1"]}


async def test_taken_away_by_hand_is_seen_at_once(scene: Scene, admin: Direct) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, 111)
    assert (await admin.put("/nodes/pve1/qemu/111/config", delete="scsi1")).status == 200
    await scene.publish(volume, 121)
    assert scene.is_live(volume, 121)
    assert (await admin.put("/nodes/pve2/qemu/121/config", delete="scsi1")).status == 200
    await scene.delete(volume)
    assert scene.volids() == []


async def test_attached_by_hand_is_grown_at_once(scene: Scene, admin: Direct) -> None:
    volume = await scene.create()
    with refused(StatusCode.FAILED_PRECONDITION, "attached to no VM"):
        await scene.expand(volume, 2 * GIB)
    assert (await admin.put("/nodes/pve1/qemu/112/config", scsi7="local-lvm:vm-9999-pvc-1")).status == 200
    assert (await scene.expand(volume, 2 * GIB)).capacity_bytes == 2 * GIB


async def test_the_slot_is_taken_between_reading_and_writing(scene: Scene, admin: Direct) -> None:
    volume = await scene.create()
    scene.world.faults.add(Rule(delay(0.3), method="POST", path="*/config"))
    publishing = asyncio.ensure_future(scene.publish(volume))
    await asyncio.sleep(0.1)
    assert (await admin.put("/nodes/pve1/qemu/111/config", scsi1="local-lvm:1")).status == 200
    assert (await publishing)["lun"] == "2"
    assert "vm-111-disk" in scene.vm().conf["scsi1"]
    assert scene.is_live(volume, 111)


async def test_a_waiting_change_of_somebody_else_stays_as_it_is(scene: Scene, admin: Direct) -> None:
    volume = await scene.create()
    assert (await admin.put("/nodes/pve1/qemu/111/config", memory=4096)).status == 200
    before = dict(scene.vm().pending)
    assert before
    await scene.publish(volume)
    await scene.unpublish(volume)
    assert scene.vm().pending == before


async def test_a_snapshot_that_keeps_the_volume(scene: Scene, admin: Direct) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    assert (await admin.finish(await admin.post("/nodes/pve1/qemu/111/snapshot", snapname="before"))).exitstatus == "OK"
    await scene.unpublish(volume)
    with refused(StatusCode.FAILED_PRECONDITION, "before/scsi1", "VM 111"):
        await scene.delete(volume)
    await admin.finish(await admin.delete("/nodes/pve1/qemu/111/snapshot/before"))
    with refused(StatusCode.FAILED_PRECONDITION, "(unused)"):
        await scene.delete(volume)
    key = next(key for key, value in scene.vm().conf.items() if key.startswith("unused") and "pvc-1" in value)
    assert (await admin.put("/nodes/pve1/qemu/111/config", delete=key)).status == 200
    await scene.delete(volume)
    assert scene.volids() == []


async def test_a_vm_that_was_destroyed_and_made_anew_under_its_id(scene: Scene) -> None:
    """Node and providerID still name the id, but the machine behind it is another one."""
    volume = await scene.create()
    scene.vm().conf["smbios1"] = "uuid=99999999-0000-4000-8000-000000000111"
    scene.vm().conf["name"] = "database"
    with refused(StatusCode.FAILED_PRECONDITION, "VM 111", "another machine"):
        await scene.publish(volume)
    assert scene.attachments() == {}
    await scene.unpublish(volume)


async def test_a_renamed_vm_is_the_same_machine(scene: Scene) -> None:
    volume = await scene.create()
    scene.vm().conf["name"] = "renamed"
    await scene.publish(volume)
    await scene.unpublish(volume)


async def test_a_local_directory_that_calls_itself_shared() -> None:
    storages = {
        "local": {"type": "dir", "path": "/var/lib/vz", "content": "images"},
        "local-lvm": {"type": "lvmthin", "vgname": "pve", "thinpool": "data", "content": "images"},
        "nas": {"type": "dir", "path": "/mnt/nas", "content": "images", "shared": 1, "nodes": ["pve1", "pve2"]},
    }
    async with open_scene(three_hosts(storages=storages)) as scene:
        volume = await scene.create(storage="nas", zone="pve1")
        assert volume.volume_id == "cluster-1//nas/9999/vm-9999-pvc-1.raw"
        await scene.publish(volume, 111)
        await scene.unpublish(volume, 111)
        await scene.publish(volume, 121)
        with refused(StatusCode.FAILED_PRECONDITION, "only on pve1, pve2", "pve3"):
            await scene.publish(volume, 131)
        await scene.unpublish(volume, 121)
        await scene.delete(volume)
        assert scene.volids() == []


async def test_names_alike_on_two_storages_are_two_volumes(scene: Scene) -> None:
    thin, ceph = await scene.create("pvc-1"), await scene.create("pvc-1", storage="ceph")
    await scene.publish(thin)
    await scene.publish(ceph)
    await scene.unpublish(thin)
    assert scene.attachments() == {111: ["ceph:vm-9999-pvc-1"]}
    await scene.delete(thin)
    assert scene.is_live(ceph, 111)


async def test_a_locked_vm_is_aborted_and_nothing_is_left(scene: Scene) -> None:
    volume = await scene.create()
    scene.vm().conf["lock"] = "backup"
    with refused(StatusCode.ABORTED, "backup"):
        await scene.publish(volume)
    del scene.vm().conf["lock"]
    assert scene.attachments() == {}
    await scene.publish(volume)
