import asyncio

import pytest
from grpc import StatusCode

from csikit import contract
from csikit.handles import parse_handle
from csikit.pb import csi_pb2
from tests.pvesim.faults import Rule, answer, cut_after, cut_before, delay, task_fails
from tests.pvesim.worlds import system_uuid, three_hosts, three_hosts_dict
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, Scene, capability, node_id, open_scene


async def test_the_disk_is_live_under_its_own_name(scene: Scene) -> None:
    volume = await scene.create(parameters={"storage": "local-lvm", "ssd": "true", "cache": "none", "diskIOPS": "4000"})
    context = await scene.publish(volume)
    handle = parse_handle(volume.volume_id)
    assert context == {"DevicePath": contract.device_path(contract.wwn_of(handle)), "lun": "1"}
    options = dict(part.split("=") for part in scene.vm().conf["scsi1"].split(",")[1:])
    assert options == {
        "backup": "0",
        "cache": "none",
        "discard": "on",
        "iops_rd": "4000",
        "iops_wr": "4000",
        "iothread": "1",
        "replicate": "0",
        "serial": contract.serial_of(handle),
        "size": "1G",
        "ssd": "1",
        "wwn": contract.wwn_of(handle),
    }
    assert scene.is_live(volume, 111)


async def test_names_that_begin_alike_are_different_volumes(scene: Scene) -> None:
    ten, one = await scene.create("pvc-10"), await scene.create("pvc-1")
    await scene.publish(ten)
    await scene.publish(one)
    await scene.unpublish(one)
    assert scene.is_live(ten, 111)
    assert not scene.is_live(one, 111)


async def test_read_only(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume, readonly=True)
    assert "ro=1" in scene.vm().conf["scsi1"]
    await scene.publish(volume, readonly=True)
    with refused(StatusCode.ALREADY_EXISTS, "read-only, not writable", "scsi1"):
        await scene.publish(volume)


async def test_a_peers_attachment_keeps_its_slot_derived_name(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    vm = scene.vm()
    vm.conf["scsi1"] = "local-lvm:vm-9999-pvc-1,backup=0,iothread=1,size=1G,wwn=0x5056432d49443031"
    with scene.counted() as spent:
        context = await scene.publish(volume)
    assert context == {"DevicePath": "/dev/disk/by-id/wwn-0x5056432d49443031", "lun": "1"}
    assert spent.config_writes == 0


async def test_an_attachment_without_a_name_is_nobodys(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    scene.vm().conf["scsi1"] = "local-lvm:vm-9999-pvc-1,size=1G"
    with refused(StatusCode.FAILED_PRECONDITION, "without a WWN", "scsi1"):
        await scene.publish(volume)


async def test_moves_to_a_second_vm_of_the_host(scene: Scene) -> None:
    volume = await scene.create()
    first = await scene.publish(volume, 111)
    await scene.unpublish(volume, 111)
    second = await scene.publish(volume, 112)
    assert second["DevicePath"] == first["DevicePath"]
    assert scene.attachments() == {112: ["local-lvm:vm-9999-pvc-1"]}


async def test_local_storage_does_not_follow_to_another_host(scene: Scene) -> None:
    volume = await scene.create(zone="pve1")
    words = ("lives on pve1", "VM 121 (worker-21) runs on pve2", "local storage cannot follow")
    with scene.counted() as spent, refused(StatusCode.FAILED_PRECONDITION, *words):
        await scene.publish(volume, 121)
    assert spent.foreground == 0


async def test_shared_storage_follows(scene: Scene) -> None:
    volume = await scene.create(storage="ceph", zone="pve1")
    await scene.publish(volume, 111)
    await scene.unpublish(volume, 111)
    await scene.publish(volume, 131)
    assert scene.attachments() == {131: ["ceph:vm-9999-pvc-1"]}
    await scene.unpublish(volume, 131)
    await scene.delete(volume)
    assert scene.volids() == []


async def test_attached_elsewhere_is_refused_and_named(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, 111)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 111 (worker-11) on pve1", "scsi1", "detached there first"):
        await scene.publish(volume, 121)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 111"):
        await scene.delete(volume)
    assert scene.attachments() == {111: ["ceph:vm-9999-pvc-1"]}
    await scene.unpublish(volume, 121)
    assert scene.is_live(volume, 111)


async def test_a_restored_vm_that_has_the_disk_too_is_noticed(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, 111)
    scene.vm(121).conf["scsi3"] = scene.vm(111).conf["scsi1"]
    await scene.app.clusters.get("cluster-1").drives.holders("ceph:vm-9999-pvc-1", max_age_s=0.0)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 121", "scsi3"):
        await scene.publish(volume, 111)


@pytest.mark.parametrize("volume_id", ["gone", "cluster-1/pve1/local-lvm/vm-9999-gone", "cluster-1//ceph/vm-9999-gone"])
async def test_an_unknown_volume_is_not_found(scene: Scene, volume_id: str) -> None:
    with refused(StatusCode.NOT_FOUND):
        await scene.publish(csi_pb2.Volume(volume_id=volume_id))
    assert scene.attachments() == {}
    assert not scene.vm().pending


async def test_an_unknown_node_is_not_found(scene: Scene) -> None:
    volume = await scene.create()
    with refused(StatusCode.NOT_FOUND, "no Node 'worker-99'"):
        await scene.publish(volume, node="worker-99")
    with refused(StatusCode.NOT_FOUND, "VM 999", "free"):
        await scene.publish(volume, node="worker-99/999")


async def test_a_node_of_another_region_is_refused() -> None:
    async with open_scene(nodes={"elsewhere": "proxmox://other/111"}) as scene:
        volume = await scene.create()
        with refused(StatusCode.FAILED_PRECONDITION, "region 'other'", "region 'cluster-1'"):
            await scene.publish(volume, node="elsewhere/111")


async def test_a_node_that_became_another_vm_is_refused(scene: Scene) -> None:
    volume = await scene.create()
    with refused(StatusCode.FAILED_PRECONDITION, "registered as VM 112", "names VM 111"):
        await scene.publish(volume, node="worker-11/112")


async def test_two_at_once_never_both(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    results = await asyncio.gather(
        scene.publish(volume, 111), scene.publish(volume, 121), scene.publish(volume, 131), return_exceptions=True
    )
    assert sum(isinstance(each, Exception) for each in results) == 2
    assert len(scene.attachments()) == 1


async def test_a_caller_who_gave_up_keeps_the_volume_until_the_end(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    scene.world.faults.add(Rule(delay(0.2), method="POST", path="*/qemu/111/config"))
    with refused(StatusCode.DEADLINE_EXCEEDED):
        await scene.controller.ControllerPublishVolume(
            csi_pb2.ControllerPublishVolumeRequest(
                volume_id=volume.volume_id, node_id=node_id(111), volume_capability=capability()
            ),
            timeout=0.1,
        )
    with refused(StatusCode.ABORTED, "ControllerPublishVolume"):
        await scene.publish(volume, 121)
    await asyncio.sleep(0.3)
    with refused(StatusCode.FAILED_PRECONDITION, "VM 111"):
        await scene.publish(volume, 121)
    assert scene.attachments() == {111: ["ceph:vm-9999-pvc-1"]}


async def test_no_success_from_a_failed_hot_plug(scene: Scene) -> None:
    volume = await scene.create()
    text = "400 Parameter verification failed.  scsi1: hotplug problem - adding drive failed"
    scene.world.faults.add(Rule(task_fails(text), method="POST", path="*/config", times=0))
    with pytest.raises(Exception, match="hotplug problem"):
        await scene.publish(volume)
    assert scene.attachments() == {}
    scene.world.faults.clear()


async def test_unpublish_without_a_node_frees_every_vm(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, 121)
    await scene.unpublish(volume, node="")
    assert scene.attachments() == {}
    await scene.unpublish(volume, node="")


async def test_unpublish_from_a_vm_that_is_proved_gone(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume, 112)
    del scene.world.vms[112]
    await scene.unpublish(volume, 112)
    with scene.counted() as spent:
        await scene.unpublish("cluster-1/pve1/local-lvm/vm-9999-pvc-1", 112)
    assert spent.foreground <= 4


async def test_unpublish_of_a_volume_that_is_gone_still_detaches(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    scene.world.storages.volumes.clear()
    await scene.unpublish(volume)
    assert scene.attachments() == {}


async def test_unpublish_waits_for_the_guest(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    scene.vm().conf["hotplug"] = "network,usb"
    with refused(StatusCode.FAILED_PRECONDITION, "hotplug"):
        await scene.unpublish(volume)
    assert scene.attachments() == {111: ["local-lvm:vm-9999-pvc-1"]}


async def test_unpublish_when_the_node_is_only_a_name(scene: Scene) -> None:
    volume = await scene.create(storage="ceph")
    await scene.publish(volume, node="worker-11")
    await scene.unpublish(volume, node="worker-11")
    assert scene.attachments() == {}
    await scene.publish(volume, 111)
    with refused(StatusCode.FAILED_PRECONDITION, "cannot be told apart", "VM 111"):
        await scene.unpublish(volume, node="vanished")
    await scene.unpublish(volume, 111)
    await scene.unpublish(volume, node="vanished")


@pytest.mark.parametrize("action", [cut_before(), cut_after(), answer(596, "Connection timed out", "", after=True)])
async def test_lost_answers(scene: Scene, action: object) -> None:
    volume = await scene.create()
    rule = scene.world.faults.add(Rule(action, method="POST", path="*/config"))  # type: ignore[arg-type]
    await scene.publish(volume)
    assert scene.is_live(volume, 111)
    assert rule.fired == 1
    rule = scene.world.faults.add(Rule(action, method="POST", path="*/config"))  # type: ignore[arg-type]
    await scene.unpublish(volume)
    assert scene.attachments() == {}
    assert rule.fired == 1


async def test_no_free_slot(scene: Scene) -> None:
    for slot in range(1, 31):
        scene.vm().conf[f"scsi{slot}"] = f"local-lvm:vm-111-disk-{slot},size=1G"
    volume = await scene.create()
    with refused(StatusCode.RESOURCE_EXHAUSTED, "slot"):
        await scene.publish(volume)


async def test_no_kubernetes_the_name_must_fit() -> None:
    async with open_scene(with_kube=False) as scene:
        volume = await scene.create()
        await scene.publish(volume, node="worker-11")
        await scene.unpublish(volume, node="worker-11.example.org/111")
        with refused(StatusCode.FAILED_PRECONDITION, "VM 112", "named worker-12", "providerID"):
            await scene.publish(volume, node="worker-11/112")
        with refused(StatusCode.UNAVAILABLE, "no visible VM has its name"):
            await scene.publish(volume, node="nobody")


async def test_capmox_nodes_are_found_by_uuid() -> None:
    raw = three_hosts_dict()
    raw["vms"][111]["config"]["name"] = "quite-different"
    nodes = {"capmox-1": f"proxmox://{system_uuid(111).upper()}"}
    async with open_scene(three_hosts(vms=raw["vms"]), nodes=nodes) as scene:
        volume = await scene.create()
        with scene.counted() as first:
            await scene.publish(volume, node="capmox-1")
        await scene.unpublish(volume, node="capmox-1")
        with scene.counted() as second:
            await scene.publish(volume, node="capmox-1")
        assert scene.is_live(volume, 111)
        assert second.foreground == 3 < first.foreground


async def test_expand(scene: Scene) -> None:
    volume = await scene.create()
    with refused(StatusCode.FAILED_PRECONDITION, "attached to no VM", "online expansion"):
        await scene.expand(volume, 2 * GIB)
    assert (await scene.expand(volume, GIB)).capacity_bytes == GIB
    await scene.publish(volume)
    reply = await scene.expand(volume, 2 * GIB + 1)
    assert (reply.capacity_bytes, reply.node_expansion_required) == (2 * GIB + 4 * 1024 * 1024, True)
    assert not (await scene.expand(volume, GIB, volume_capability=capability(block=True))).node_expansion_required
    with refused(StatusCode.OUT_OF_RANGE):
        await scene.controller.ControllerExpandVolume(
            csi_pb2.ControllerExpandVolumeRequest(
                volume_id=volume.volume_id,
                capacity_range=csi_pb2.CapacityRange(required_bytes=GIB, limit_bytes=GIB),
            )
        )
    for missing in ("gone", "cluster-1/pve1/local-lvm/vm-9999-gone"):
        with refused(StatusCode.NOT_FOUND):
            await scene.expand(missing, GIB)


async def test_many_expansions_in_one_vm(scene: Scene) -> None:
    volumes = [await scene.create(f"pvc-{n}") for n in range(6)]
    await asyncio.gather(*(scene.publish(volume) for volume in volumes))
    replies = await asyncio.gather(*(scene.expand(volume, 2 * GIB) for volume in volumes))
    assert {reply.capacity_bytes for reply in replies} == {2 * GIB}


@pytest.mark.parametrize("action", [cut_before(), cut_after(), answer(596, "Connection timed out", "", after=True)])
async def test_a_lost_answer_to_resize(scene: Scene, action: object) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    scene.world.faults.add(Rule(action, method="PUT", path="*/resize"))  # type: ignore[arg-type]
    with refused(StatusCode.UNAVAILABLE):
        await scene.expand(volume, 2 * GIB)
    assert (await scene.expand(volume, 2 * GIB)).capacity_bytes == 2 * GIB


async def test_an_expansion_without_quorum_is_finished_afterwards(scene: Scene) -> None:
    """The image grew, the config does not say so: to that size Proxmox VE does nothing, to less it refuses."""
    volume = await scene.create()
    await scene.publish(volume)
    scene.world.quorate = False
    with refused(StatusCode.UNAVAILABLE, "Permission denied"):
        await scene.expand(volume, 3 * GIB)
    scene.world.quorate = True
    assert (await scene.expand(volume, 2 * GIB)).capacity_bytes == 3 * GIB
    assert (await scene.expand(volume, 3 * GIB)).capacity_bytes == 3 * GIB
    assert (await scene.expand(volume, 4 * GIB)).capacity_bytes == 4 * GIB
    assert "size=4G" in scene.vm().conf["scsi1"]
