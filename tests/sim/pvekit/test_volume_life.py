"""A volume's life on each kind of storage, what it costs, and what each missing right is called."""

from collections.abc import Awaitable, Callable

import pytest

from appkit.errors import Denied, NotFound
from pvekit.errors import PveDenied, SizeRefused, VolumeExists, VolumeNotFound
from pvekit.presence import Absent
from tests.pvesim.worlds import three_hosts_dict
from tests.sim.pvekit.scene import GIB, new_world, warm_region

pytestmark = pytest.mark.looptime

KINDS = [("local", "vm-9999-pvc-1.raw"), ("local-lvm", "vm-9999-pvc-1"), ("ceph", "vm-9999-pvc-1")]
OPTIONS = {"backup": "0", "iothread": "1", "wwn": "0x5000000000000001", "serial": "0123456789abcdef0123"}


@pytest.mark.parametrize(("storage", "name"), KINDS)
async def test_from_allocation_to_deletion(storage: str, name: str) -> None:
    world = new_world()
    async with warm_region(world) as region:
        mark = len(world.log)
        volid = await region.storage.allocate("pve1", storage, 9999, name, GIB)
        assert volid.startswith(f"{storage}:")
        assert world.count("foreground", since=mark) == 1
        info = await region.storage.info("pve1", volid)
        assert (info.size_bytes, info.format) == (GIB, "raw")
        with pytest.raises(VolumeExists):
            await region.storage.allocate("pve1", storage, 9999, name, GIB)

        mark = len(world.log)
        attached = await region.writers.attach(111, volid, OPTIONS)
        assert world.count("foreground", since=mark) == 3
        assert (attached.key, attached.drive.options["serial"]) == ("scsi1", OPTIONS["serial"])
        assert world.vms[111].plugged["scsi1"].volid == volid
        mark = len(world.log)
        assert (await region.writers.attach(111, volid, OPTIONS)).already
        assert world.count("foreground", since=mark) == 1
        assert [(each.vmid, each.state) for each in await region.drives.holders(volid)] == [(111, "live")]

        await region.vms.resize("pve1", 111, "scsi1", 2 * GIB)
        assert (await region.storage.info("pve1", volid)).size_bytes == 2 * GIB
        with pytest.raises(SizeRefused):
            await region.vms.resize("pve1", 111, "scsi1", GIB)

        mark = len(world.log)
        assert await region.writers.detach(111, volid)
        assert world.count("foreground", since=mark) == 3
        assert "scsi1" not in world.vms[111].plugged
        mark = len(world.log)
        assert not await region.writers.detach(111, volid)
        assert world.count("foreground", since=mark) == 1

        mark = len(world.log)
        await region.storage.delete("pve1", volid)
        assert world.count("foreground", since=mark) == 1
        with pytest.raises(VolumeNotFound):
            await region.storage.info("pve1", volid)
        assert await region.drives.holders(volid) == []


async def test_lists_and_definitions() -> None:
    world = new_world()
    async with warm_region(world) as region:
        await region.storage.allocate("pve2", "local", 9999, "vm-9999-a.raw", GIB)
        listed = await region.storage.list("pve2", "local", 9999)
        assert [(entry.volid, entry.owner_vmid) for entry in listed] == [("local:9999/vm-9999-a.raw", 9999)]
        assert await region.storage.list("pve1", "local", 9999) == []
        assert {each.id: each.shared for each in region.inventory.definitions()} == {
            "local": False,
            "local-lvm": False,
            "ceph": True,
        }
        ceph = region.inventory.storage_on("pve3", "ceph")
        assert ceph is not None
        assert ceph.avail_bytes == ceph.total_bytes == 1 << 40


DENIALS = [
    ("VM.Audit", "attach", "VM.Audit", "/vms/111"),
    ("VM.Audit", "holders", "VM.Audit", "/vms"),
    ("VM.Config.Disk", "attach", "VM.Config.Disk", "/vms/111"),
    ("VM.Config.Disk", "detach", "VM.Config.Disk", "/vms/111"),
    ("VM.Config.Disk", "resize", "VM.Config.Disk", "/vms/111"),
    ("Datastore.Allocate", "delete", "Datastore.Allocate", "/storage/local-lvm"),
    ("Datastore.AllocateSpace", "allocate", "Datastore.AllocateSpace", "/storage/local-lvm"),
]


@pytest.mark.parametrize(("without", "what", "privilege", "path"), DENIALS)
async def test_a_missing_right_is_named_with_its_path(without: str, what: str, privilege: str, path: str) -> None:
    volid = "local-lvm:vm-9999-there"
    vms = three_hosts_dict()["vms"]
    vms[111]["config"]["scsi5"] = f"{volid},size=1G"
    world = new_world(without=without, vms=vms)
    async with warm_region(world) as region:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "attach": lambda: region.writers.attach(111, "local-lvm:vm-9999-other", {}),
            "detach": lambda: region.writers.detach(111, volid),
            "resize": lambda: region.vms.resize("pve1", 111, "scsi5", 2 * GIB),
            "delete": lambda: region.storage.delete("pve1", volid),
            "allocate": lambda: region.storage.allocate("pve1", "local-lvm", 9999, "vm-9999-new", GIB),
            "holders": lambda: region.drives.holders(volid),
        }
        with pytest.raises(Denied) as caught:
            await calls[what]()
        assert privilege in caught.value.privilege.split("|")
        assert caught.value.path == path
        assert privilege in str(caught.value)


async def test_without_datastore_audit_everything_but_sizes_works() -> None:
    world = new_world(without="Datastore.Audit")
    async with warm_region(world) as region:
        state = region.inventory.storage_on("pve1", "local-lvm")
        assert state is not None
        assert (state.type, state.shared, state.avail_bytes) == ("lvmthin", False, None)
        volid = await region.storage.allocate("pve1", "local-lvm", 9999, "vm-9999-pvc-1", GIB)
        await region.writers.attach(111, volid, OPTIONS)
        assert len(await region.drives.holders(volid)) == 1
        assert await region.writers.detach(111, volid)
        await region.storage.delete("pve1", volid)


async def test_a_bad_token_is_denied() -> None:
    world = new_world(tokens={"kubernetes-csi@pve!csi": {"secret": "99999999-0000-0000-0000-000000000000"}})
    with pytest.raises(PveDenied, match="refused the API token"):
        async with warm_region(world):
            pass
    await world.aclose()


async def test_where_a_vm_is_and_that_it_is_nowhere() -> None:
    world = new_world()
    async with warm_region(world) as region:
        assert isinstance(await region.locator.find(999), Absent)
        world.vms[111].node = "pve3"
        assert (await region.locator.get(111, fresh=True)).node == "pve3"
        del world.vms[111]
        with pytest.raises(NotFound):
            await region.locator.get(111, fresh=True)
        assert await region.writers.detach(111, "ceph:vm-9999-x") is False


async def test_rights_on_one_vm_alone_are_enough_for_that_vm() -> None:
    acl = [
        {"user": "kubernetes-csi@pve", "role": "CSI"},
        {"token": "kubernetes-csi@pve!csi", "role": "CSI", "path": "/vms/111"},
        {"token": "kubernetes-csi@pve!csi", "role": "CSI", "path": "/vms/9999"},
        {"token": "kubernetes-csi@pve!csi", "role": "CSI", "path": "/storage"},
    ]
    world = new_world(acl=acl)
    async with warm_region(world) as region:
        volid = await region.storage.allocate("pve1", "ceph", 9999, "vm-9999-pvc-1", GIB)
        assert (await region.writers.attach(111, volid, {})).key == "scsi1"
        with pytest.raises(Denied, match=r"VM\.Audit on /vms/112"):
            await region.writers.attach(112, volid, {})
        with pytest.raises(Denied, match=r"VM\.Audit on /vms, with propagation"):
            await region.drives.holders(volid)
