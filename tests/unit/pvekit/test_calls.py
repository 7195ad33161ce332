"""What Cluster, Vms and Storage send, and what they make of the answers."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from appkit.clock import SystemClock
from pvekit.cluster import Cluster
from pvekit.errors import ParameterError, SizeRefused, VolumeExists
from pvekit.models import StorageDefinition, VmStatus
from pvekit.storage import Storage
from pvekit.tasks import Tasks
from pvekit.vms import Vms
from tests.unit.pvekit.conftest import client_on, new_metrics
from tests.unit.pvekit.fake_pve import answer_of

UPID = "UPID:pve1:0000027B:0001C857:6B0DCE1A:imgdel:9999@local:csi@pve!csi:"
Given = Mapping[str, httpx.Response]


class Said(httpx.AsyncBaseTransport):
    """Answers by "METHOD path"; remembers what was asked, with parameters; every task has ended with `end`."""

    def __init__(self, answers: Given, end: str = "OK") -> None:
        self.answers, self.end = answers, end
        self.asked: list[str] = []
        self.now = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = (await request.aread()).decode()
        path = request.url.raw_path.decode().removeprefix("/api2/json")
        if "/tasks/" in path:
            return httpx.Response(200, json={"data": {"status": "stopped", "exitstatus": self.end}})
        self.asked.append(f"{request.method} {path} {body}".strip())
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return self.answers[f"{request.method} {path.partition('?')[0]}"]


def data(value: object) -> httpx.Response:
    return httpx.Response(200, json={"data": value})


def storage_on(said: Said) -> Storage:
    client = client_on(said)
    return Storage(client, Tasks(client, SystemClock()), new_metrics(), lock_key=lambda node, storage: storage)


def vms_on(said: Said) -> Vms:
    client = client_on(said)
    return Vms(client, Tasks(client, SystemClock()), new_metrics())


CONTENT = "/nodes/pve1/storage/local/content"


async def test_allocate_sends_kib_and_gives_the_volid() -> None:
    said = Said({f"POST {CONTENT}": data("local:9999/vm-9999-x.raw")})
    assert (
        await storage_on(said).allocate("pve1", "local", 9999, "vm-9999-x.raw", 1025, "raw")
        == "local:9999/vm-9999-x.raw"
    )
    assert said.asked == [f"POST {CONTENT} filename=vm-9999-x.raw&size=2&vmid=9999&format=raw"]


@pytest.mark.looptime
async def test_one_allocation_at_a_time_on_one_storage() -> None:
    said = Said({f"POST {CONTENT}": data("local:9999/x.raw")})
    storage = storage_on(said)
    await asyncio.gather(*(storage.allocate("pve1", "local", 9999, f"x{n}.raw", 1 << 30) for n in range(8)))
    assert (len(said.asked), said.most) == (8, 1)


async def test_allocate_of_a_name_that_is_taken() -> None:
    text = "disk image '/var/lib/vz/images/9999/x.raw' already exists"
    with pytest.raises(VolumeExists):
        await storage_on(Said({f"POST {CONTENT}": answer_of(500, text)})).allocate("pve1", "local", 9999, "x.raw", 1)


VOLUME = f"{CONTENT}/local%3A9999%2Fvm-9999-x.raw"


async def test_info_of_one_volume() -> None:
    said = Said({f"GET {VOLUME}": data({"path": "/x", "size": "1073741824", "used": 4096, "format": "raw"})})
    info = await storage_on(said).info("pve1", "local:9999/vm-9999-x.raw")
    assert (info.size_bytes, info.used_bytes, info.format, info.path) == (1 << 30, 4096, "raw", "/x")


@pytest.mark.looptime
@pytest.mark.parametrize("answer", [None, UPID])
async def test_delete_waits_for_the_end(answer: str | None) -> None:
    said = Said({f"DELETE {VOLUME}": data(answer)})
    await storage_on(said).delete("pve1", "local:9999/vm-9999-x.raw")
    assert said.asked == [f"DELETE {VOLUME}?delay=5"]


@pytest.mark.looptime
async def test_delete_that_fails_in_its_task() -> None:
    said = Said({f"DELETE {VOLUME}": data(UPID)}, end="lvremove 'pve/x' error:   Logical volume pve/x in use.")
    with pytest.raises(Exception, match="in use"):
        await storage_on(said).delete("pve1", "local:9999/vm-9999-x.raw")


async def test_a_volid_without_a_volume_is_no_path() -> None:
    with pytest.raises(ValueError, match="empty"):
        await storage_on(Said({})).info("", "local:9999/x.raw")


async def test_list_survives_loose_entries() -> None:
    entries = [
        {"volid": "lvm1:vm-9999-x", "size": "5", "format": "raw", "vmid": "9999", "ctime": "1796066931"},
        {"size": 1},
    ]
    said = Said({f"GET {CONTENT}": data(entries)})
    listed = await storage_on(said).list("pve1", "local", 9999)
    assert [(entry.volid, entry.size_bytes, entry.owner_vmid, entry.created_at) for entry in listed] == [
        ("lvm1:vm-9999-x", 5, 9999, 1796066931.0)
    ]
    assert said.asked == [f"GET {CONTENT}?content=images&vmid=9999"]


async def test_definitions() -> None:
    entries = [
        {"storage": "only2", "type": "dir", "nodes": "pve2, pve3", "content": "images,iso", "disable": 0},
        {"storage": "ceph", "type": "rbd", "content": "images"},
        {"storage": "share", "type": "dir", "shared": "1"},
        {"storage": "off", "type": "lvmthin", "disable": 1},
        {"type": "dir"},
    ]
    found = {each.id: each for each in await storage_on(Said({"GET /storage": data(entries)})).definitions()}
    assert found["only2"].nodes == frozenset({"pve2", "pve3"})
    assert found["only2"].on("pve2")
    assert not found["only2"].on("pve1")
    assert [name for name, each in found.items() if each.shared] == ["ceph", "share"]
    assert not found["off"].on("pve1")
    assert StorageDefinition.parse({}) is None


QEMU = "/nodes/pve1/qemu/100"


@pytest.mark.looptime
async def test_write_sends_everything_in_one_post_and_follows_the_task() -> None:
    said = Said({f"POST {QEMU}/config": data(UPID)})
    await vms_on(said).write(
        "pve1", 100, {"scsi1": "local:9999/x.raw"}, delete=["scsi2", "scsi3"], revert=["scsi4"], digest="abc"
    )
    drive = "scsi1=local%3A9999%2Fx.raw"
    assert said.asked == [f"POST {QEMU}/config {drive}&delete=scsi2%2Cscsi3&revert=scsi4&digest=abc"]


@pytest.mark.looptime
async def test_resize_is_in_bytes_and_its_refusal_is_the_tasks() -> None:
    said = Said({f"PUT {QEMU}/resize": data(UPID)}, end="shrinking disks is not supported")
    with pytest.raises(SizeRefused):
        await vms_on(said).resize("pve1", 100, "scsi1", 1 << 30, "abc")
    assert said.asked == [f"PUT {QEMU}/resize disk=scsi1&size=1073741824&digest=abc"]


async def test_config_and_status_and_snapshots() -> None:
    said = Said(
        {
            f"GET {QEMU}/config": data({"name": "w1", "memory": "512"}),
            f"GET {QEMU}/status/current": data({"status": "running", "qmpstatus": "paused", "ha": {"managed": 1}}),
            f"GET {QEMU}/snapshot": data([{"name": "s1", "snaptime": 1}, {"name": "current", "digest": "abc"}]),
        }
    )
    vms = vms_on(said)
    assert await vms.config("pve1", 100, current=True) == {"name": "w1", "memory": "512"}
    assert said.asked == [f"GET {QEMU}/config?current=1"]
    assert await vms.status("pve1", 100) == VmStatus("running", "paused", None, None, 0, ha_managed=True)
    listed = await vms.snapshots("pve1", 100)
    assert (listed.digest, [each["name"] for each in listed.snapshots]) == ("abc", ["s1"])


async def test_version_and_permissions() -> None:
    said = Said(
        {
            "GET /version": data({"version": "9.2.11", "release": "9.2"}),
            "GET /access/permissions": data({"/vms": {"VM.Audit": 1, "VM.Config.Disk": "0"}}),
        }
    )
    cluster = Cluster(client_on(said))
    assert await cluster.version() == (9, 2)
    assert await cluster.permissions() == {"/vms": {"VM.Audit": True, "VM.Config.Disk": False}}


async def test_nextid() -> None:
    used = answer_of(400, "Parameter verification failed.", {"vmid": "VM 200 already exists"})
    odd = answer_of(400, "Parameter verification failed.", {"vmid": "invalid format"})
    assert await Cluster(client_on(Said({"GET /cluster/nextid": data("200")}))).nextid_free(200)
    assert not await Cluster(client_on(Said({"GET /cluster/nextid": used}))).nextid_free(200)
    with pytest.raises(ParameterError):
        await Cluster(client_on(Said({"GET /cluster/nextid": odd}))).nextid_free(99)
