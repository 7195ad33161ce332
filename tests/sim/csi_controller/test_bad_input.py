"""Every field of every request with values that nobody should send: refused with words, never a crash, never an act."""

from collections.abc import Mapping
from typing import Any

import grpc
from grpc import StatusCode

from csikit.pb import csi_pb2
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, Scene, capability, node_id, topology

_REFUSED = {
    StatusCode.INVALID_ARGUMENT,
    StatusCode.NOT_FOUND,
    StatusCode.OUT_OF_RANGE,
    StatusCode.FAILED_PRECONDITION,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.UNAVAILABLE,
}
IDS = [
    "",
    "/",
    "///",
    "////////",
    "x",
    "cluster-1",
    "cluster-1/pve1/local-lvm",
    "cluster-1/pve1/local-lvm/",
    "cluster-1/pve1//vm-9999-pvc-1",
    "/pve1/local-lvm/vm-9999-pvc-1",
    "cluster-9/pve1/local-lvm/vm-9999-pvc-1",
    "cluster-1/pve9/local-lvm/vm-9999-pvc-1",
    "cluster-1/pve1/nowhere/vm-9999-pvc-1",
    "cluster-1/../local-lvm/vm-9999-pvc-1",
    "cluster-1/pve1/local-lvm/../../vm-111-disk-0",
    "cluster-1/pve1/local/9999/../111/vm-111-disk-0.raw",
    "cluster-1/pve1/local-lvm/vm-9999-pvc-1,media=cdrom",
    "cluster-1/pve1/local-lvm/vm-9999-pvc-1\n",
    "cluster-1/pve1/local-lvm/vm-9999-pvc-1?x=1#y",
    "cluster-1/pve1/local-lvm/vm-9999-pvc-%2e%2e",
    "cluster-1/pve1/local-lvm/vm-9999-größe",
    "cluster-1/pve1/local-lvm/vm-9999-\u202e\u0000",
    "cluster-1/pve1/local-lvm/vm-9999-" + "x" * 5000,
    "projects/p/zones/z/disks/d",
    "vol-0123456789abcdef0",
    "cluster-1/pve1/local-lvm/none",
    "cluster-1/pve1/local-lvm/vm-111-disk-0",
    "cluster-1/pve1/local-lvm/base-9999-disk-0",
    "cluster-1/pve1/local/9999/vm-111-disk-0.raw",
    "cluster-1/pve1/local/111/vm-9999-pvc-1.raw",
]
NODES = ["", "/", "/111", "worker-11/", "worker-11/abc", "worker-11/0", "worker-11/1e3", "worker-11/111/1", "../111",
         "worker 11", "größe/111", "worker-11/" + "1" * 400, "x" * 5000, "worker-11/١١١"]  # fmt: skip
SIZES = [(-1, 0), (0, -1), (-1, -1), (2 * GIB, GIB), (1, 1), (2**63 - 1, 0), (2**62, 0), (0, 1), (GIB + 1, GIB + 2)]
PARAMETERS: list[Mapping[str, str]] = [
    {},
    {"storage": ""},
    {"storage": "nowhere"},
    {"storage": "../local"},
    {"storage": "local-lvm/../local"},
    {"storage": "local-lvm,local"},
    {"storage": "local-lvm\n"},
    {"storage": "local-lvm", "unknown": "1"},
    {"storage": "local-lvm", "SSD": "true"},
    {"storage": "local-lvm", "ssd": "maybe"},
    {"storage": "local-lvm", "cache": "none,file=/etc/passwd"},
    {"storage": "local-lvm", "aio": "native "},
    {"storage": "local-lvm", "diskIOPS": "-1"},
    {"storage": "local-lvm", "diskIOPS": "1e9"},
    {"storage": "local-lvm", "diskMBps": "９"},
    {"storage": "local-lvm", "storageFormat": "vmdk"},
    {"storage": "local-lvm", "storageFormat": "qcow2"},
    {"storage": "local-lvm", "replicate": "true"},
    {"storage": "local-lvm", "x" * 300: "y" * 3000},
]
TOPOLOGIES = [("", ""), ("pve9", "cluster-1"), ("pve1", "cluster-9"), ("pve1", ""), ("../pve1", "cluster-1"),
              ("worker-11", "cluster-1"), ("pve1\n", "cluster-1"), ("größe", "größe")]  # fmt: skip
NAMES = ["pvc-" + "x" * 124, "ünïcödé-名前", "a/b/../c", "..", ".", "-", "pvc 1", "pvc,1=2", "'; rm -rf /", "%00",
         "\u0000", "\n", "vm-9999-pvc-1", "x" * 5000, "pvc-1.raw", "PVC-1", "🙂" * 32]  # fmt: skip


async def _code_of(call: Any) -> StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return StatusCode.OK


async def test_volume_ids(scene: Scene) -> None:
    before = {vmid: dict(vm.conf) for vmid, vm in scene.world.vms.items()}
    volumes = sorted(scene.world.storages.volumes)
    for volume_id in IDS:
        volume = csi_pb2.Volume(volume_id=volume_id)
        validate = csi_pb2.ValidateVolumeCapabilitiesRequest(volume_id=volume_id, volume_capabilities=[capability()])
        assert await _code_of(scene.publish(volume)) in _REFUSED, volume_id
        for call in (
            scene.unpublish(volume),
            scene.unpublish(volume, node=""),
            scene.expand(volume, 2 * GIB),
            scene.controller.ValidateVolumeCapabilities(validate),
            scene.delete(volume),
        ):
            assert await _code_of(call) in _REFUSED | {StatusCode.OK}, volume_id
        assert {vmid: dict(vm.conf) for vmid, vm in scene.world.vms.items()} == before, volume_id
        assert not any(vm.pending or vm.pending_delete for vm in scene.world.vms.values()), volume_id
        assert sorted(scene.world.storages.volumes) == volumes, volume_id


async def test_node_ids(scene: Scene) -> None:
    volume = await scene.create()
    for node in NODES:
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=volume.volume_id, node_id=node, volume_capability=capability()
        )
        assert await _code_of(scene.controller.ControllerPublishVolume(request)) in _REFUSED, node
        if node:
            assert await _code_of(scene.unpublish(volume, node=node)) in _REFUSED | {StatusCode.OK}, node
    assert scene.attachments() == {}


async def test_sizes(scene: Scene) -> None:
    volume = await scene.create("grown", size_bytes=GIB)
    await scene.publish(volume)
    for required, limit in SIZES:
        size = csi_pb2.CapacityRange(required_bytes=required, limit_bytes=limit)
        code = await _code_of(scene.create("sized", capacity_range=size))
        assert code in _REFUSED | {StatusCode.OK}, (required, limit)
        if code is StatusCode.OK:
            await scene.delete("cluster-1/pve1/local-lvm/vm-9999-sized")
        if required >= 2**60:
            continue  # a thin pool takes it
        request = csi_pb2.ControllerExpandVolumeRequest(volume_id=volume.volume_id, capacity_range=size)
        assert await _code_of(scene.controller.ControllerExpandVolume(request)) in _REFUSED | {StatusCode.OK}
    assert "size=1G" in scene.vm().conf["scsi1"]
    assert scene.volids() == ["pve1/local-lvm:vm-9999-grown"]


async def test_parameters(scene: Scene) -> None:
    for parameters in PARAMETERS:
        assert await _code_of(scene.create(parameters=parameters)) is StatusCode.INVALID_ARGUMENT, parameters
    assert scene.volids() == []


async def test_topologies(scene: Scene) -> None:
    for zone, region in TOPOLOGIES:
        wanted = csi_pb2.TopologyRequirement(requisite=[topology(zone, region)])
        code = await _code_of(scene.create(accessibility_requirements=wanted))
        assert code in _REFUSED or (zone, region) == ("pve1", ""), (zone, region)
        capacity = csi_pb2.GetCapacityRequest(accessible_topology=topology(zone, region))
        assert await _code_of(scene.controller.GetCapacity(capacity)) in _REFUSED | {StatusCode.OK}, (zone, region)


async def test_names(scene: Scene) -> None:
    """Any name makes a volume of its own, which is found again, attached, and deleted."""
    made = {}
    for name in NAMES:
        volume = await scene.create(name)
        assert (await scene.create(name)).volume_id == volume.volume_id
        made[name] = volume
    assert len(set(scene.volids())) == len(NAMES)
    for volume in made.values():
        await scene.publish(volume)
    assert len(scene.attachments()[111]) == len(NAMES)
    for volume in made.values():
        await scene.unpublish(volume)
        await scene.delete(volume)
    assert scene.volids() == []


async def test_capabilities(scene: Scene) -> None:
    volume = await scene.create()
    mode = csi_pb2.VolumeCapability.AccessMode
    bad = [
        csi_pb2.VolumeCapability(),
        csi_pb2.VolumeCapability(access_mode=mode(mode=mode.SINGLE_NODE_WRITER)),
        capability(mode.UNKNOWN),
        capability(mode.MULTI_NODE_MULTI_WRITER),
        capability(77),
        capability(fs_type="../mkfs"),
        capability(fs_type="ext4 -F"),
    ]
    for each in bad:
        request = csi_pb2.ControllerPublishVolumeRequest(
            volume_id=volume.volume_id, node_id=node_id(111), volume_capability=each
        )
        with refused(StatusCode.INVALID_ARGUMENT):
            await scene.controller.ControllerPublishVolume(request)
        with refused(StatusCode.INVALID_ARGUMENT):
            await scene.create("b", volume_capabilities=[each])
    with refused(StatusCode.INVALID_ARGUMENT):
        await scene.create("b", volume_capabilities=[])
    assert scene.attachments() == {}


async def test_a_stored_context_cannot_smuggle_options(scene: Scene) -> None:
    volume = await scene.create()
    volume.volume_context.update({"cache": "none,media=cdrom", "ssd": "1,x=y", "iops_rd": "5,file=/x", "aio": "\n"})
    await scene.publish(volume)
    assert "media" not in scene.vm().conf["scsi1"]
    assert "/x" not in scene.vm().conf["scsi1"]
    assert scene.is_live(volume, 111)
