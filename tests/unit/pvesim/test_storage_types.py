"""Each storage type's own rules: names, formats, sizes, sharing, snapshots, space. Only dir and lvm were recorded."""

from typing import Any

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.pluginlvm import LvmThinPlugin
from tests.pvesim.plugins import ALWAYS_SHARED, PLUGINS, supported_content, unrecorded_types
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_SECRET, CSI_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts_dict

pytestmark = pytest.mark.looptime
STORAGES: dict[str, dict[str, Any]] = {
    "dir1": {"type": "dir", "path": "/srv/dir1", "content": "images"},
    "nfs1": {"type": "nfs", "server": "192.0.2.9", "export": "/export", "content": "images"},
    "cifs1": {"type": "cifs", "server": "192.0.2.9", "share": "vm", "content": "images"},
    "cephfs1": {"type": "cephfs", "content": "images,iso,snippets"},
    "btrfs1": {"type": "btrfs", "path": "/srv/btrfs", "content": "images"},
    "lvm1": {"type": "lvm", "vgname": "vg1", "size": "10G"},
    "chain1": {"type": "lvm", "vgname": "vg2", "shared": 1, "snapshot-as-volume-chain": 1},
    "thin1": {"type": "lvmthin", "vgname": "pve", "thinpool": "data"},
    "zfs1": {"type": "zfspool", "pool": "rpool/data", "size": "10G"},
    "sparse1": {"type": "zfspool", "pool": "rpool/sparse", "size": "10G", "sparse": 1},
    "zfsiscsi1": {"type": "zfs", "pool": "tank", "portal": "192.0.2.8", "target": "iqn.example:a"},
    "rbd1": {"type": "rbd", "pool": "vms", "krbd": 1},
    "iscsi1": {"type": "iscsi", "portal": "192.0.2.8", "target": "iqn.example:b", "content": "images"},
}
NOT_MOUNTED = "directory is expected to be a mount point but is not mounted"
LUN = "0.0.1.scsi-36001405aaaabbbbccccddddeeeeffff00"


@pytest.fixture
def world() -> World:
    raw = three_hosts_dict()
    raw["storages"] |= STORAGES
    raw["volumes"] = [{"storage": "iscsi1", "name": LUN, "size": "1G"}]
    return World.from_dict(raw)


@pytest.fixture
def csi(world: World) -> Direct:
    return Direct(world, CSI_TOKEN, CSI_SECRET)


@pytest.fixture
def root(world: World) -> Direct:
    return Direct(world, ROOT_TOKEN, ROOT_SECRET)


async def allocate(csi: Direct, storage: str, filename: str, size: str = "1025", **more: str) -> Any:
    path = f"/nodes/pve1/storage/{storage}/content"
    return await csi.post(path, vmid=9999, filename=filename, size=size, **more)


@pytest.mark.parametrize(
    ("storage", "filename", "path", "fmt", "size_bytes"),
    [
        ("dir1", "any.qcow2", "/srv/dir1/images/9999/any.qcow2", "qcow2", 1025 << 10),
        ("nfs1", "vm-9999-a.raw", "/mnt/pve/nfs1/images/9999/vm-9999-a.raw", "raw", 1025 << 10),
        ("cifs1", "vm-9999-a.vmdk", "/mnt/pve/cifs1/images/9999/vm-9999-a.vmdk", "vmdk", 1025 << 10),
        ("btrfs1", "vm-9999-a.raw", "/srv/btrfs/images/9999/vm-9999-a/disk.raw", "raw", 1025 << 10),
        ("lvm1", "vm-9999-a", "/dev/vg1/vm-9999-a", "raw", 4 << 20),
        ("chain1", "vm-9999-a.qcow2", "/dev/vg2/vm-9999-a.qcow2", "qcow2", 4 << 20),
        ("thin1", "vm-9999-a", "/dev/pve/vm-9999-a", "raw", 4 << 20),
        ("zfs1", "vm-9999-a", "/dev/zvol/rpool/data/vm-9999-a", "raw", 2 << 20),
        ("rbd1", "vm-9999-a", "/dev/rbd-pve/00000000-0000-4000-8000-00000000ceff/vms/vm-9999-a", "raw", 2 << 20),
    ],
)
async def test_where_a_volume_lies_and_how_big_it_gets(
    csi: Direct, storage: str, filename: str, path: str, fmt: str, size_bytes: int
) -> None:
    made = await allocate(csi, storage, filename)
    assert made.status == 200, made.message
    info = (await csi.get(f"/nodes/pve1/storage/{storage}/content/{made.data}")).data
    assert (info["path"], info["format"], info["size"]) == (path, fmt, size_bytes)


async def test_a_lun_over_iscsi_is_a_volume_as_qemu_opens_it(csi: Direct) -> None:
    made = await allocate(csi, "zfsiscsi1", "vm-9999-a")
    info = (await csi.get(f"/nodes/pve1/storage/zfsiscsi1/content/{made.data}")).data
    assert info["path"].startswith("iscsi://192.0.2.8/iqn.example:a/")


@pytest.mark.parametrize(
    ("storage", "filename", "text"),
    [
        ("btrfs1", "vm-9999-a", "unable to parse volume filename 'vm-9999-a'"),
        ("lvm1", "vm-9999-a.qcow2", f"unsupported format 'qcow2' at {LvmThinPlugin.module}."),
        ("zfs1", "pvc-a", "illegal name 'pvc-a' - should be 'vm-9999-*'"),
        ("zfsiscsi1", "vm-9998-a", "illegal name 'vm-9998-a' - should be 'vm-9999-*'"),
        ("rbd1", "pvc-a", "illegal name 'pvc-a' - should be 'vm-9999-*'"),
        ("iscsi1", "vm-9999-a", "can't allocate space in iscsi storage"),
    ],
)
async def test_what_a_type_refuses_to_allocate(csi: Direct, storage: str, filename: str, text: str) -> None:
    reply = await allocate(csi, storage, filename)
    assert (reply.status, reply.reason) == (500, text)


@pytest.mark.parametrize(
    ("storage", "name", "missing"),
    [
        ("dir1", "9999/vm-9999-a.raw", None),
        ("btrfs1", "9999/vm-9999-a.raw", None),
        ("thin1", "vm-9999-a", None),
        ("zfs1", "vm-9999-a", None),
        ("lvm1", "vm-9999-a", "lvremove 'vg1/vm-9999-a' error:   Failed to find logical volume \"vg1/vm-9999-a\""),
        ("zfsiscsi1", "vm-9999-a", "Could not find lu_name for zvol vm-9999-a"),
        (
            "rbd1",
            "vm-9999-a",
            "rbd snap ls 'vm-9999-a' error: rbd: error opening image vm-9999-a: (2) No such file or directory",
        ),
        ("iscsi1", LUN, "can't free space in iscsi storage"),
    ],
)
async def test_deleting_what_is_not_there(csi: Direct, storage: str, name: str, missing: str | None) -> None:
    reply = await csi.delete(f"/nodes/pve1/storage/{storage}/content/{storage}:{name}", delay=5)
    assert (reply.status, reply.reason) == ((200, "OK") if missing is None else (500, missing))


@pytest.mark.parametrize("storage", ["lvm1", "thin1", "zfs1", "rbd1"])
async def test_an_open_block_device_is_not_deleted(csi: Direct, storage: str) -> None:
    volid = (await allocate(csi, storage, "vm-9999-a")).data
    await csi.put("/nodes/pve1/qemu/111/config", scsi3=volid)
    refused = await csi.delete(f"/nodes/pve1/storage/{storage}/content/{volid}", delay=5)
    assert refused.status == 500
    await csi.put("/nodes/pve1/qemu/111/config", delete="scsi3")
    assert (await csi.delete(f"/nodes/pve1/storage/{storage}/content/{volid}", delay=5)).status == 200


async def test_shared_types_are_seen_by_every_host(csi: Direct) -> None:
    assert {"nfs", "cifs", "cephfs", "rbd", "zfs", "iscsi"} == ALWAYS_SHARED
    for storage, name, everywhere in (
        ("nfs1", "a.raw", True),
        ("rbd1", "vm-9999-a", True),
        ("zfs1", "vm-9999-a", False),
    ):
        volid = (await allocate(csi, storage, name)).data
        seen = await csi.get(f"/nodes/pve2/storage/{storage}/content/{volid}")
        assert (seen.status == 200) is everywhere


async def test_thick_volumes_take_their_size_and_thin_ones_do_not(csi: Direct, root: Direct) -> None:
    for storage, thick in (("lvm1", True), ("zfs1", True), ("sparse1", False), ("thin1", False), ("rbd1", False)):
        assert (await allocate(csi, storage, "vm-9999-a", "8G")).status == 200
        used = (await root.get(f"/nodes/pve1/storage/{storage}/status")).data["used"]
        assert (used >= 8 << 30) is thick
    full = await allocate(csi, "zfs1", "vm-9999-b", "8G")
    assert full.reason == "zfs error: cannot create 'rpool/data/vm-9999-b': out of space"
    assert (await allocate(csi, "sparse1", "vm-9999-b", "8G")).status == 200
    full = await allocate(csi, "lvm1", "vm-9999-b", "8G")
    assert full.reason.startswith("not enough free space (")


@pytest.mark.parametrize(
    ("storage", "filename", "able"),
    [
        ("dir1", "a.raw", False),
        ("dir1", "a.qcow2", True),
        ("btrfs1", "a.raw", True),
        ("lvm1", "vm-9999-a", False),
        ("chain1", "vm-9999-a", False),
        ("chain1", "vm-9999-a.qcow2", True),
        ("thin1", "vm-9999-a", True),
        ("zfs1", "vm-9999-a", True),
        ("zfsiscsi1", "vm-9999-a", True),
        ("rbd1", "vm-9999-a", True),
    ],
)
async def test_what_can_be_snapshotted(csi: Direct, root: Direct, storage: str, filename: str, able: bool) -> None:
    volid = (await allocate(csi, storage, filename)).data
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=900, scsi0=volid))
    task = await root.finish(await root.post("/nodes/pve1/qemu/900/snapshot", snapname="s1"))
    assert task.exitstatus == ("OK" if able else "snapshot feature is not available")


async def test_zfs_goes_back_to_its_newest_snapshot_only(csi: Direct, root: Direct) -> None:
    volid = (await allocate(csi, "zfs1", "vm-9999-a")).data
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=900, scsi0=volid))
    for name in ("s1", "s2"):
        await root.finish(await root.post("/nodes/pve1/qemu/900/snapshot", snapname=name))
    old = await root.finish(await root.post("/nodes/pve1/qemu/900/snapshot/s1/rollback"))
    assert old.exitstatus == "can't rollback, 's1' is not most recent snapshot on 'vm-9999-a'"
    new = await root.finish(await root.post("/nodes/pve1/qemu/900/snapshot/s2/rollback"))
    assert new.exitstatus == "OK"


@pytest.mark.parametrize(
    ("storage", "linked"),
    [
        ("zfs1", "zfs1:base-900-disk-0/vm-901-disk-0"),
        ("rbd1", "rbd1:base-900-disk-0/vm-901-disk-0"),
        ("nfs1", "nfs1:900/base-900-disk-0.raw/901/vm-901-disk-0.qcow2"),
    ],
)
async def test_linked_clones_are_named_after_their_base(root: Direct, storage: str, linked: str) -> None:
    await root.finish(await root.post("/nodes/pve1/qemu", vmid=900, scsi0=f"{storage}:1"))
    await root.finish(await root.post("/nodes/pve1/qemu/900/template"))
    task = await root.finish(await root.post("/nodes/pve1/qemu/900/clone", newid=901))
    assert task.exitstatus == "OK"
    config = (await root.get("/nodes/pve1/qemu/901/config")).data
    assert config["scsi0"].startswith(linked)
    base = await root.delete(f"/nodes/pve1/storage/{storage}/content/{linked.split('/vm-')[0].split('/901')[0]}")
    assert "is still in use by linked cloned" in base.reason


async def test_luns_are_attached_but_never_changed(world: World, csi: Direct, root: Direct) -> None:
    volid = f"iscsi1:{LUN}"
    assert (await csi.put("/nodes/pve1/qemu/111/config", scsi3=volid)).status == 200
    task = await csi.finish(await csi.put("/nodes/pve1/qemu/111/resize", disk="scsi3", size="+1G"))
    assert task.exitstatus == "volume resize is not possible on iscsi device"
    await csi.put("/nodes/pve1/qemu/111/config", delete="scsi3")
    # Nobody's volume: it is not kept as unused.
    assert not [key for key in world.vms[111].conf if key.startswith("unused")]


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        (
            "dir1",
            f"unable to activate storage 'dir1' - {NOT_MOUNTED}: '/srv/dir1'",
        ),
        ("nfs1", "storage 'nfs1' is not online"),
        ("zfs1", "could not activate storage 'zfs1', zpool rpool is not available"),
        ("rbd1", "rbd error: rbd: couldn't connect to the cluster!"),
    ],
)
async def test_a_storage_that_is_not_there_says_so_by_type(world: World, csi: Direct, storage: str, text: str) -> None:
    world.storages.definitions[storage].unmounted = True
    names = {"dir1": "a.raw", "nfs1": "a.raw"}
    assert (await allocate(csi, storage, names.get(storage, "vm-9999-a"))).reason == text


def test_content_that_a_type_cannot_hold_is_dropped() -> None:
    assert supported_content("cephfs", ["images", "iso", "snippets"]) == ["iso", "snippets"]
    assert supported_content("rbd", ["images", "iso"]) == ["images"]


def test_what_was_not_recorded_is_marked_in_the_table() -> None:
    marked = unrecorded_types()
    assert "dir" not in marked
    assert {kind for kind, what in marked.items() if what == "all"} == set(PLUGINS) - {"dir", "lvm", "lvmthin"}
