"""A token that lacks one of the five privileges: what needs it fails and names it, and the rest works."""

from collections.abc import Awaitable, Callable

import pytest
from grpc import StatusCode

from csikit.pb import csi_pb2
from tests.pvesim.worlds import CSI_PRIVILEGES, CSI_TOKEN, three_hosts
from tests.sim.csi_controller.conftest import refused
from tests.sim.csi_controller.scene import GIB, READY_S, Scene, capability, open_scene, topology

Call = Callable[[Scene], Awaitable[object]]


def _volume(name: str) -> csi_pb2.Volume:
    return csi_pb2.Volume(volume_id=f"cluster-1/pve1/local-lvm/vm-9999-{name}")


async def _create(scene: Scene) -> None:
    await scene.create("new")


async def _delete(scene: Scene) -> None:
    await scene.delete(_volume("idle"))


async def _publish(scene: Scene) -> None:
    await scene.publish(_volume("idle"))
    assert scene.is_live(_volume("idle"), 111)


async def _unpublish(scene: Scene) -> None:
    await scene.unpublish(_volume("used"))


async def _expand(scene: Scene) -> None:
    await scene.expand(_volume("used"), 2 * GIB)


async def _validate(scene: Scene) -> None:
    request = csi_pb2.ValidateVolumeCapabilitiesRequest(
        volume_id=_volume("idle").volume_id, volume_capabilities=[capability()]
    )
    await scene.controller.ValidateVolumeCapabilities(request)


async def _capacity(scene: Scene) -> None:
    request = csi_pb2.GetCapacityRequest(parameters={"storage": "local-lvm"}, accessible_topology=topology("pve1"))
    assert (await scene.controller.GetCapacity(request)).available_capacity > GIB


CALLS: dict[str, Call] = {
    "create": _create,
    "publish": _publish,
    "expand": _expand,
    "unpublish": _unpublish,
    "validate": _validate,
    "capacity": _capacity,
}
# Privilege: the calls that need it, with the path that the text must name.
NEEDS: dict[str, dict[str, str]] = {
    "VM.Audit": {"publish": "/vms", "unpublish": "/vms", "expand": "/vms", "delete": "/vms"},
    "VM.Config.Disk": {"publish": "/vms/111", "unpublish": "/vms/111", "expand": "/vms/111"},
    "Datastore.Allocate": {"delete": "/storage/local-lvm"},
    "Datastore.AllocateSpace": {"create": "/storage/local-lvm"},
    "Datastore.Audit": {"capacity": "/storage/local-lvm"},
}


@pytest.mark.parametrize("privilege", list(NEEDS))
async def test_a_missing_privilege_is_named_by_what_needs_it(privilege: str) -> None:
    async with open_scene() as scene:
        await scene.create("idle")
        await scene.publish(await scene.create("used"))
        before = scene.volids(), scene.attachments()
        await scene.stop_app()
        scene.world.access.custom_roles["CSI"] = set(CSI_PRIVILEGES) - {privilege}
        await scene.start_app(wait=False)
        await scene.app.wait_ready(READY_S)
        needs = NEEDS[privilege]
        for name, path in needs.items():
            with refused(StatusCode.PERMISSION_DENIED, privilege, path):
                await (CALLS | {"delete": _delete})[name](scene)
        assert (scene.volids(), scene.attachments()) == before
        for name, call in CALLS.items():
            if name not in needs:
                await call(scene)
        if "delete" not in needs:
            # Last, and of the volume that nothing has any more.
            if "unpublish" not in needs:
                await scene.unpublish(_volume("idle"))
            await _delete(scene)


async def test_rights_that_are_taken_while_it_runs(scene: Scene) -> None:
    volume = await scene.create()
    await scene.publish(volume)
    scene.world.access.custom_roles["CSI"] = set()
    for call in (scene.publish(volume), scene.unpublish(volume), scene.expand(volume, 2 * GIB), scene.create("b")):
        with refused(StatusCode.PERMISSION_DENIED):
            await call
    await scene.app.clusters.get("cluster-1").inventory.refresh()
    for call in (scene.publish(volume), scene.unpublish(volume), scene.expand(volume, 2 * GIB)):
        with refused(StatusCode.PERMISSION_DENIED, "VM.Audit"):
            await call
    assert scene.is_live(volume, 111)


async def test_a_token_that_is_refused_is_no_absence(scene: Scene) -> None:
    volume = await scene.create()
    scene.world.access.tokens.clear()
    with refused(StatusCode.PERMISSION_DENIED, "token"):
        await scene.delete(volume)
    with refused(StatusCode.PERMISSION_DENIED, "token"):
        await scene.create("b")


def _acl(*entries: tuple[str, str, bool]) -> list[dict[str, object]]:
    """The token's own, beside a user who may everything."""
    own = [{"path": path, "token": CSI_TOKEN, "role": role, "propagate": inherit} for path, role, inherit in entries]
    return [{"user": CSI_TOKEN.partition("!")[0], "role": "CSI"}, *own]


VMS, STORE = ["VM.Audit", "VM.Config.Disk"], ["Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit"]


async def test_rights_on_no_more_than_the_paths_that_are_needed() -> None:
    world = three_hosts(
        roles={"CSI": CSI_PRIVILEGES, "VMS": VMS, "STORE": STORE, "CCM": ["VM.Audit"]},
        acl=_acl(("/vms", "VMS", True), ("/storage/local-lvm", "STORE", True)),
    )
    async with open_scene(world) as scene:
        volume = await scene.create()
        await scene.publish(volume)
        await scene.expand(volume, 2 * GIB)
        await scene.unpublish(volume)
        await scene.delete(volume)
        with refused(StatusCode.INVALID_ARGUMENT, "Datastore.Audit", "/storage/ceph"):
            await scene.create(storage="ceph")


@pytest.mark.parametrize(
    "on_vms",
    [
        [("/vms/111", "VMS", True), ("/vms/112", "VMS", True)],
        [("/vms", "VMS", False), ("/vms/111", "VMS", True)],
        [("/vms", "VMS", True), ("/vms/121", "NoAccess", True)],
    ],
    ids=["some", "not-below", "one-hidden"],
)
async def test_whoever_does_not_see_every_vm_does_not_know_who_has_a_volume(
    on_vms: list[tuple[str, str, bool]],
) -> None:
    world = three_hosts(
        roles={"CSI": CSI_PRIVILEGES, "VMS": VMS, "STORE": STORE, "CCM": ["VM.Audit"]},
        acl=_acl(*on_vms, ("/storage", "STORE", True)),
    )
    async with open_scene(world, start=False) as scene:
        await scene.start_app(wait=False)
        await scene.app.wait_ready(READY_S)
        volume = await scene.create(storage="ceph")
        for call in (scene.publish(volume), scene.delete(volume), scene.expand(volume, 2 * GIB)):
            with refused(StatusCode.PERMISSION_DENIED, "VM.Audit", "/vms"):
                await call
        assert scene.volids() == ["/ceph:vm-9999-pvc-1"]
        assert scene.attachments() == {}
