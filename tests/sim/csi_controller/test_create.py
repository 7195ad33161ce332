import asyncio

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from csikit.pb import csi_pb2
from tests.pvesim.faults import Rule, answer, cut_after, cut_before, delay
from tests.pvesim.worlds import three_hosts, three_hosts_dict
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, MIB, READY_S, REGION, Scene, capability, open_scene, topology


async def test_local_volume(scene: Scene) -> None:
    volume = await scene.create(zone="pve2", size_bytes=100 * MIB + 1)
    assert volume.volume_id == "cluster-1/pve2/local-lvm/vm-9999-pvc-1"
    assert volume.capacity_bytes == 104 * MIB
    assert [dict(each.segments) for each in volume.accessible_topology] == [dict(topology("pve2").segments)]
    assert dict(volume.volume_context) == {
        "storage": "local-lvm",
        "backup": "0",
        "iothread": "1",
        "replicate": "0",
    }
    assert scene.volids() == ["pve2/local-lvm:vm-9999-pvc-1"]


async def test_directory_storage_both_formats(scene: Scene) -> None:
    raw = await scene.create("a", "local", size_bytes=100 * MIB + 1)
    qcow2 = await scene.create("b", "local", parameters={"storage": "local", "storageFormat": "qcow2"})
    assert raw.volume_id == "cluster-1/pve1/local/9999/vm-9999-a.raw"
    assert raw.capacity_bytes == 101 * MIB
    assert qcow2.volume_id == "cluster-1/pve1/local/9999/vm-9999-b.qcow2"


async def test_shared_volume_has_no_zone(scene: Scene) -> None:
    volume = await scene.create(storage="ceph", zone="pve3")
    assert volume.volume_id == "cluster-1//ceph/vm-9999-pvc-1"
    assert [dict(each.segments) for each in volume.accessible_topology] == [dict(topology("").segments)]


async def test_shared_volume_on_some_hosts_names_them() -> None:
    raw = three_hosts_dict()
    raw["storages"]["ceph"]["nodes"] = "pve1,pve3"
    async with open_scene(three_hosts(storages=raw["storages"])) as scene:
        volume = await scene.create(storage="ceph", zone="pve3")
        zones = [each.segments["topology.kubernetes.io/zone"] for each in volume.accessible_topology]
        assert zones == ["pve1", "pve3"]
        with refused(StatusCode.RESOURCE_EXHAUSTED, "not available on host pve2"):
            await scene.create("other", "ceph", "pve2")


@pytest.mark.parametrize(
    ("existing_bytes", "required_bytes", "limit_bytes", "code"),
    [
        (GIB, GIB, 0, None),
        (GIB, GIB // 2, 0, None),
        (GIB, 2 * GIB, 0, StatusCode.ALREADY_EXISTS),
        (GIB, GIB // 2, GIB - MIB, StatusCode.ALREADY_EXISTS),
    ],
)
async def test_an_existing_volume_is_compared(
    scene: Scene, existing_bytes: int, required_bytes: int, limit_bytes: int, code: StatusCode | None
) -> None:
    first = await scene.create(size_bytes=existing_bytes)
    size = csi_pb2.CapacityRange(required_bytes=required_bytes, limit_bytes=limit_bytes)
    if code is None:
        again = await scene.create(capacity_range=size)
        assert (again.volume_id, again.capacity_bytes) == (first.volume_id, existing_bytes)
    else:
        with refused(code, "vm-9999-pvc-1", str(existing_bytes)):
            await scene.create(capacity_range=size)
    assert len(scene.volids()) == 1


async def test_xfs_needs_300_mib(scene: Scene) -> None:
    volume = await scene.create(size_bytes=100 * MIB, volume_capabilities=[capability(fs_type="xfs")])
    assert volume.capacity_bytes == 300 * MIB
    small = csi_pb2.CapacityRange(required_bytes=100 * MIB, limit_bytes=200 * MIB)
    with refused(StatusCode.OUT_OF_RANGE, "209715200"):
        await scene.create("b", volume_capabilities=[capability(fs_type="xfs")], capacity_range=small)


async def test_a_long_name(scene: Scene) -> None:
    for storage in ("local-lvm", "local", "ceph"):
        volume = await scene.create("n" * 128, storage)
        assert await scene.create("n" * 128, storage) == volume
    assert len(scene.volids()) == 3


async def test_without_topology_a_repeat_finds_the_volume_wherever_it_is(scene: Scene) -> None:
    first = await scene.create(zone="pve3", size_bytes=GIB)
    again = await scene.create(zone="", size_bytes=GIB)
    assert again.volume_id == first.volume_id
    assert len(scene.volids()) == 1


async def test_a_zone_that_is_no_host_names_the_label(scene: Scene) -> None:
    words = ("zone 'worker-11' is not a Proxmox host", "pve1, pve2, pve3", "topology.kubernetes.io/zone")
    with scene.counted() as spent, refused(StatusCode.INVALID_ARGUMENT, *words):
        await scene.create(zone="worker-11")
    assert spent.foreground == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"parameters": {"storage": "nope"}}, ["'nope' is not visible", "/storage/nope"]),
        ({"parameters": {"storage": "local-lvm", "storageFormat": "qcow2"}}, ["qcow2", "lvmthin"]),
        ({"parameters": {"storage": "local-lvm", "replicate": "true"}}, ["replicate"]),
        ({"parameters": {"storage": "local-lvm", "sdd": "true"}}, ["sdd", "did you mean 'ssd'"]),
        ({"volume_capabilities": [capability(5)]}, ["ReadWriteMany"]),
    ],
)
async def test_bad_requests(scene: Scene, fields: dict[str, object], words: list[str]) -> None:
    with refused(StatusCode.INVALID_ARGUMENT, *words):
        await scene.create(**fields)  # type: ignore[arg-type]
    assert scene.volids() == []


async def test_a_full_storage_is_exhausted_once_nothing_was_left(scene: Scene) -> None:
    text = (
        "lvcreate 'pve/vm-9999-pvc-1' error:   Volume group pve has insufficient free space (0 extents): 256 required."
    )
    rule = scene.world.faults.add(Rule(answer(500, text), method="POST", path="*/content"))
    with refused(StatusCode.RESOURCE_EXHAUSTED, "insufficient free space"):
        await scene.create()
    assert rule.fired == 1
    assert (await scene.create()).volume_id


@pytest.mark.parametrize("action", [cut_after(), answer(596, "Connection timed out", "", after=True)])
async def test_a_lost_answer_is_looked_after(scene: Scene, action: object) -> None:
    scene.world.faults.add(Rule(action, method="POST", path="*/content"))  # type: ignore[arg-type]
    with scene.counted() as spent:
        volume = await scene.create()
    assert volume.capacity_bytes == GIB
    assert scene.volids() == ["pve1/local-lvm:vm-9999-pvc-1"]
    assert spent.foreground == 2


async def test_a_lost_request_is_unavailable_and_then_made(scene: Scene) -> None:
    scene.world.faults.add(Rule(cut_before(), method="POST", path="*/content"))
    with refused(StatusCode.UNAVAILABLE):
        await scene.create()
    await scene.create()
    assert len(scene.volids()) == 1


async def test_one_volume_is_made_by_one_call_at_a_time(scene: Scene) -> None:
    scene.world.faults.add(Rule(delay(0.1), method="POST", path="*/content"))
    results = await asyncio.gather(*(scene.create() for _ in range(5)), return_exceptions=True)
    codes = [each.code() for each in results if isinstance(each, AioRpcError)]
    assert codes == [StatusCode.ABORTED] * 4
    assert len(scene.volids()) == 1


async def test_capacity_comes_from_memory(scene: Scene) -> None:
    def capacity(storage: str, zone: str | None) -> csi_pb2.GetCapacityRequest:
        place = topology(zone) if zone is not None else None
        parameters = {"storage": storage} if storage else {}
        return csi_pb2.GetCapacityRequest(parameters=parameters, accessible_topology=place)

    with scene.counted() as spent:
        local = await scene.controller.GetCapacity(capacity("local-lvm", "pve1"))
        everywhere = await scene.controller.GetCapacity(capacity("local-lvm", None))
        shared = await scene.controller.GetCapacity(capacity("ceph", None))
        in_zone = await scene.controller.GetCapacity(capacity("ceph", "pve2"))
        of_all = await scene.controller.GetCapacity(capacity("", None))
    assert spent.foreground == 0
    assert local.available_capacity > GIB
    assert everywhere.available_capacity == 3 * local.available_capacity
    assert everywhere.maximum_volume_size.value == local.available_capacity
    assert shared.available_capacity == in_zone.available_capacity
    assert of_all.available_capacity > everywhere.available_capacity
    with refused(StatusCode.INVALID_ARGUMENT, "zone 'x' is not a Proxmox host"):
        await scene.controller.GetCapacity(capacity("local-lvm", "x"))
    with refused(StatusCode.INVALID_ARGUMENT, "'nope'"):
        await scene.controller.GetCapacity(capacity("nope", "pve1"))
    with refused(StatusCode.INVALID_ARGUMENT, "r9", REGION):
        await scene.controller.GetCapacity(
            csi_pb2.GetCapacityRequest(parameters={"storage": "ceph"}, accessible_topology=topology("", "r9"))
        )


async def test_validate(scene: Scene) -> None:
    volume = await scene.create()
    good, bad = [capability()], [capability(5)]
    ask = csi_pb2.ValidateVolumeCapabilitiesRequest
    with scene.counted() as spent:
        reply = await scene.controller.ValidateVolumeCapabilities(
            ask(volume_id=volume.volume_id, volume_capabilities=good, volume_context=volume.volume_context)
        )
    assert spent.foreground == 1
    assert list(reply.confirmed.volume_capabilities) == good
    reply = await scene.controller.ValidateVolumeCapabilities(ask(volume_id=volume.volume_id, volume_capabilities=bad))
    assert not reply.HasField("confirmed")
    assert "ReadWriteMany" in reply.message
    for missing in (
        "nothing-like-that",
        "cluster-1/pve1/local-lvm/vm-9999-gone",
        "cluster-1/pve1/local/9999/vm-9999-g.raw",
    ):
        with refused(StatusCode.NOT_FOUND):
            await scene.controller.ValidateVolumeCapabilities(ask(volume_id=missing, volume_capabilities=good))


async def test_what_is_advertised(scene: Scene) -> None:
    kinds = csi_pb2.ControllerServiceCapability.RPC.Type
    reply = await scene.controller.ControllerGetCapabilities(csi_pb2.ControllerGetCapabilitiesRequest())
    assert {kinds.Name(each.rpc.type) for each in reply.capabilities} == {
        "CREATE_DELETE_VOLUME",
        "PUBLISH_UNPUBLISH_VOLUME",
        "PUBLISH_READONLY",
        "GET_CAPACITY",
        "EXPAND_VOLUME",
        "SINGLE_NODE_MULTI_WRITER",
    }
    with refused(StatusCode.UNIMPLEMENTED):
        await scene.controller.ListVolumes(csi_pb2.ListVolumesRequest())
    info = await scene.identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest())
    assert info.name == "csi.proxmox.sinextra.dev"


async def test_not_ready_before_the_inventory_is_loaded() -> None:
    async with open_scene(start=False) as scene:
        rule = scene.world.faults.add(Rule(answer(595, "Connection refused", ""), path="/cluster/resources", times=0))
        await scene.start_app(wait=False)
        assert not (await scene.identity.Probe(csi_pb2.ProbeRequest())).ready.value
        with refused(StatusCode.UNAVAILABLE, "not loaded"):
            await scene.create()
        with refused(StatusCode.UNAVAILABLE, "not loaded"):
            await scene.delete("cluster-1/pve1/local-lvm/vm-9999-x")
        scene.world.faults.rules.remove(rule)
        await scene.app.clusters.get(REGION).inventory.refresh()
        await scene.app.wait_ready(READY_S)
        assert (await scene.identity.Probe(csi_pb2.ProbeRequest())).ready.value
