"""Volumes: sizes, names and formats by storage type, missing ones, deletion."""

import json
import random

import pytest

from tests.pvesim.answers import Answers, Unordered
from tests.pvesim.direct import Direct
from tests.pvesim.world import World

pytestmark = pytest.mark.looptime
CONTENT = "/nodes/pve1/storage/{}/content"


async def _allocate(csi: Direct, storage: str = "local", filename: str = "vm-9999-a.raw", size: str = "1M") -> str:
    reply = await csi.post(CONTENT.format(storage), vmid=9999, filename=filename, size=size)
    assert reply.status == 200, reply.message
    volid: str = reply.data
    return volid


@pytest.mark.parametrize(
    ("storage", "filename", "size", "volid", "size_bytes"),
    [
        ("local", "vm-9999-a.raw", "1", "local:9999/vm-9999-a.raw", 1024),
        ("local", "any-name.qcow2", "1G", "local:9999/any-name.qcow2", 1 << 30),
        ("local-lvm", "vm-9999-a", "1025", "local-lvm:vm-9999-a", 4 << 20),
        ("local-lvm", "vm-9999-a.raw", "8M", "local-lvm:vm-9999-a.raw", 8 << 20),
        ("ceph", "vm-9999-a", "1G", "ceph:vm-9999-a", 1 << 30),
    ],
)
async def test_allocation_answers_the_volume_id(
    csi: Direct, storage: str, filename: str, size: str, volid: str, size_bytes: int
) -> None:
    assert await _allocate(csi, storage, filename, size) == volid
    info = await csi.get(f"{CONTENT.format(storage)}/{volid}")
    assert info.data["size"] == size_bytes
    assert set(info.data) == {"path", "size", "used", "format"}


@pytest.mark.parametrize(
    ("storage", "params", "text"),
    [
        ("local", {"filename": "vm-9999-a"}, "unable to parse volume filename 'vm-9999-a'"),
        ("local", {"filename": "vm-9999-a/b.raw"}, "unable to parse volume filename 'vm-9999-a/b.raw'"),
        ("local-lvm", {"filename": "pvc-foo"}, "illegal name 'pvc-foo' - should be 'vm-9999-*'"),
        ("ceph", {"filename": "vm-9998-a"}, "illegal name 'vm-9998-a' - should be 'vm-9999-*'"),
        ("nosuch", {"filename": "vm-9999-a"}, "storage 'nosuch' does not exist"),
    ],
)
async def test_names_are_refused_by_type(csi: Direct, storage: str, params: dict[str, str], text: str) -> None:
    reply = await csi.post(CONTENT.format(storage), vmid=9999, size="1M", **params)
    assert (reply.status, reply.reason, reply.message) == (500, text, f"{text}\n")


async def test_parameters_are_refused_with_a_reason_each(csi: Direct) -> None:
    reply = await csi.post(CONTENT.format("local"), filename="a.raw", size="1.5G", format="foo", bogus=1)
    assert (reply.status, reply.reason) == (400, "Parameter verification failed.")
    assert reply.errors == {
        "vmid": "property is missing and it is not optional",
        "size": "value does not match the regex pattern",
        "format": "value 'foo' does not have a value in the enumeration 'raw, qcow2, subvol, vmdk'",
        "bogus": "property is not defined in schema and the schema does not allow additional properties",
    }


async def test_a_second_allocation_of_a_name_fails_whatever_its_size(csi: Direct) -> None:
    await _allocate(csi)
    again = await csi.post(CONTENT.format("local"), vmid=9999, filename="vm-9999-a.raw", size="1M")
    assert again.reason == "disk image '/var/lib/vz/images/9999/vm-9999-a.raw' already exists"
    await _allocate(csi, "local-lvm", "vm-9999-a")
    again = await csi.post(CONTENT.format("local-lvm"), vmid=9999, filename="vm-9999-a", size="1M")
    assert 'already exists in volume group "pve"' in again.reason


async def test_shared_storage_is_the_same_everywhere_and_local_is_not(csi: Direct) -> None:
    shared, local = await _allocate(csi, "ceph", "vm-9999-a"), await _allocate(csi, "local-lvm", "vm-9999-a")
    assert (await csi.get(f"/nodes/pve2/storage/ceph/content/{shared}")).status == 200
    elsewhere = await csi.get(f"/nodes/pve2/storage/local-lvm/content/{local}")
    assert elsewhere.reason.startswith("can't get size of '/dev/pve/vm-9999-a'")


async def test_deleting_what_is_missing_succeeds_or_not_by_type(world: World, csi: Direct) -> None:
    assert (await csi.delete(f"{CONTENT.format('local')}/local:9999/no.raw", delay=5)).data is None
    assert (await csi.delete(f"{CONTENT.format('local-lvm')}/local-lvm:vm-9999-no", delay=5)).status == 200
    rbd = await csi.delete(f"{CONTENT.format('ceph')}/ceph:vm-9999-no", delay=5)
    assert rbd.status == 500
    task = await csi.finish(await csi.delete(f"{CONTENT.format('local')}/local:9999/no.raw"))
    assert task.log == [
        "disk image '/var/lib/vz/images/9999/no.raw' does not exist",
        "Removed volume 'local:9999/no.raw'",
        "TASK OK",
    ]


async def test_delay_answers_the_upid_when_the_task_still_runs(world: World, csi: Direct) -> None:
    volid = await _allocate(csi)
    world.storages.locked.add("local")
    reply = await csi.delete(f"{CONTENT.format('local')}/{volid}", delay=5)
    assert reply.data.startswith("UPID:pve1:")
    assert (
        await csi.finish(reply)
    ).exitstatus == "can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout"


async def test_a_file_in_use_is_unlinked_and_a_logical_volume_refuses(world: World, csi: Direct) -> None:
    file, volume = await _allocate(csi), await _allocate(csi, "local-lvm", "vm-9999-a")
    await csi.put("/nodes/pve1/qemu/111/config", scsi1=file, scsi2=volume)
    assert (await csi.delete(f"{CONTENT.format('local')}/{file}", delay=5)).status == 200
    assert world.vms[111].plugged["scsi1"].volid == file
    refused = await csi.delete(f"{CONTENT.format('local-lvm')}/{volume}", delay=5)
    assert refused.reason == "lvremove 'pve/vm-9999-a' error:   Logical volume pve/vm-9999-a in use."


def test_keys_come_in_random_but_reproducible_order() -> None:
    def body(seed: int) -> bytes:
        data = Unordered([{"a": 1, "b": 2, "c": 3}, {"d": 4}])
        return Answers(random.Random(seed)).ok(data, now=0).body  # noqa: S311

    orders = {body(seed) for seed in range(20)}
    assert len(orders) > 1
    assert body(1) == body(1)
    assert all(len(json.loads(order)["data"]) == 2 for order in orders)
