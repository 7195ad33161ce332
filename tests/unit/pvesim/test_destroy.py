"""What goes with a VM, and what a storage that cannot be activated saves."""

import pytest

from tests.pvesim.access import AclKey
from tests.pvesim.direct import Direct
from tests.pvesim.world import World

pytestmark = pytest.mark.looptime


async def _stop(root: Direct, vmid: int) -> None:
    await root.finish(await root.post(f"/nodes/pve1/qemu/{vmid}/status/stop"))


async def test_acl_entries_on_a_destroyed_vms_path_go_with_it(world: World, root: Direct) -> None:
    mine, other = (AclKey(f"/vms/{vmid}", "user", "someone@pve", "PVEVMUser") for vmid in (111, 112))
    world.access.acl |= {mine: True, other: True}
    await _stop(root, 111)

    await root.finish(await root.delete("/nodes/pve1/qemu/111"))

    assert mine not in world.access.acl
    assert other in world.access.acl


async def test_a_storage_that_cannot_be_activated_saves_unreferenced_disks_everywhere(
    world: World, root: Direct
) -> None:
    stray = world.storages.put(world.storages.get("local"), "pve1", "111/vm-111-stray.raw", 1 << 20, "raw")
    world.storages.get("ceph").unmounted = True
    await _stop(root, 111)

    task = await root.finish(await root.delete("/nodes/pve1/qemu/111", destroy__unreferenced__disks=1))

    assert task.failed
    assert world.storages.find_volume(stray.volid, "pve1") is not None
    assert 111 in world.vms
