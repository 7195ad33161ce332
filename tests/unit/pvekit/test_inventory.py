"""The poller, what it says of its age and trust, and the proofs of the locator."""

import asyncio

import httpx
import pytest

from appkit.background import BackgroundFailed
from appkit.errors import Denied, NotFound, Unavailable
from pvekit.clusters import Clusters, Region
from pvekit.inventory import Trust
from pvekit.models import VmRef
from pvekit.presence import Absent, Present, Unknown
from tests.unit.pvekit.fake_pve import FakePve, FakeVm, answer_of

pytestmark = pytest.mark.looptime


async def test_polls_in_the_background_ten_seconds_apart(region: Region, pve: FakePve) -> None:
    region.inventory.start()
    await region.inventory.wait_ready(5)
    first = region.inventory.snapshot
    assert (first.generation, first.trust) == (1, Trust.FULL)
    await asyncio.sleep(60)
    assert region.inventory.snapshot.generation == pytest.approx(7, abs=1)
    assert region.inventory.age_s() <= 10.1
    assert pve.count("foreground") == 0
    polled = [path for _, _, path in pve.log]
    assert polled.count("/cluster/resources") <= 7
    assert polled.count("/storage") <= 2
    await region.inventory.aclose()


async def test_who_waits_for_a_refresh_shares_it_but_never_an_older_one(region: Region, pve: FakePve) -> None:
    first = asyncio.create_task(region.inventory.refresh())
    await asyncio.sleep(0.005)
    pve.vms[200] = FakeVm("pve3")
    later = await asyncio.gather(*(region.inventory.refresh() for _ in range(5)))
    assert all(200 in snapshot.vms for snapshot in later)
    assert (await first).generation <= 2
    assert sum(path == "/cluster/resources" for _, _, path in pve.log) == 2


async def test_what_is_not_read_yet_is_told(region: Region, pve: FakePve) -> None:
    assert region.inventory.snapshot.trust is Trust.NONE
    assert region.inventory.age_s() == float("inf")
    pve.rules.append(lambda method, path, params: answer_of(595, "Connection refused"))
    region.inventory.start()
    with pytest.raises(Unavailable, match=r"region r1 was not read within 5 s: .*Connection refused"):
        await region.inventory.wait_ready(5)
    assert "Connection refused" in str(region.inventory.trouble)
    pve.rules.clear()
    await region.inventory.wait_ready(15)
    assert region.inventory.trouble is None
    await region.inventory.aclose()


async def test_a_failed_poll_keeps_the_last_reading_and_its_age_grows(region: Region, pve: FakePve) -> None:
    await region.inventory.refresh()
    pve.rules.append(lambda method, path, params: httpx.ReadError("cut"))
    await asyncio.sleep(50)
    with pytest.raises(Unavailable):
        await region.inventory.refresh()
    assert region.inventory.vm(111) is not None
    assert region.inventory.age_s() > 49


async def test_an_offline_host_makes_the_reading_partial(region: Region, pve: FakePve) -> None:
    await region.inventory.refresh()
    assert region.inventory.silent_s("pve2") == 0
    pve.nodes["pve2"] = False
    await asyncio.sleep(30)
    await region.inventory.refresh()
    assert region.inventory.snapshot.trust is Trust.PARTIAL
    assert region.inventory.silent_s("pve2") == pytest.approx(30, abs=1)
    assert region.inventory.silent_s("pve9") == float("inf")
    assert [node.name for node in region.inventory.nodes() if node.online] == ["pve1", "pve3"]


async def test_containers_are_no_vms(region: Region, pve: FakePve) -> None:
    pve.vms[300] = FakeVm("pve1", type="lxc")
    await region.inventory.refresh()
    assert [vm.vmid for vm in region.inventory.vms()] == [111, 121, 131]
    assert isinstance(await region.locator.find(300), Absent)


DEFINITIONS: list[dict[str, object]] = [
    {"storage": "local-lvm", "type": "lvmthin", "content": "images"},
    {"storage": "ceph", "type": "rbd", "content": "images"},
    {"storage": "only2", "type": "dir", "nodes": "pve2", "content": "images"},
    {"storage": "off", "type": "dir", "disable": 1},
]


async def test_storages_of_the_resource_list(region: Region, pve: FakePve) -> None:
    pve.definitions = DEFINITIONS
    pve.storages = [
        {"type": "storage", "node": "pve1", "storage": "local-lvm", "status": "available", "plugintype": "lvmthin",
         "shared": 0, "maxdisk": 1000, "disk": "400", "content": "images,rootdir"},
        {"type": "storage", "node": "pve2", "storage": "local-lvm", "status": "unknown", "plugintype": "lvmthin"},
    ]  # fmt: skip
    await region.inventory.refresh()
    here, there = region.inventory.storage_on("pve1", "local-lvm"), region.inventory.storage_on("pve2", "local-lvm")
    assert here is not None
    assert (here.avail_bytes, here.total_bytes, here.shared, here.content) == (600, 1000, False, ("images", "rootdir"))
    assert there is not None
    assert (there.avail_bytes, there.status) == (None, "unknown")


async def test_without_datastore_audit_the_definitions_stand_in(region: Region, pve: FakePve) -> None:
    pve.definitions = DEFINITIONS
    pve.nodes["pve3"] = False
    await region.inventory.refresh()
    state = region.inventory.storage_on("pve1", "ceph")
    assert state is not None
    assert (state.type, state.shared, state.avail_bytes, state.status) == ("rbd", True, None, "available")
    dark = region.inventory.storage_on("pve3", "ceph")
    assert dark is not None
    assert dark.status == "unknown"
    assert region.inventory.storage_on("pve1", "only2") is None
    assert region.inventory.storage_on("pve1", "off") is None
    assert region.inventory.storage_on("pve9", "ceph") is None
    assert [state.storage for state in region.inventory.storages("pve2")] == ["ceph", "local-lvm", "only2"]
    assert [definition.id for definition in region.inventory.definitions()] == ["ceph", "local-lvm", "off", "only2"]
    assert region.inventory.definition("nosuch") is None


async def test_definitions_that_fail_later_are_kept(region: Region, pve: FakePve) -> None:
    pve.definitions = DEFINITIONS
    await region.inventory.refresh()
    pve.rules.append(lambda method, path, params: answer_of(500, "odd") if path == "/storage" else None)
    await asyncio.sleep(61)
    await region.inventory.refresh()
    assert region.inventory.definition("ceph") is not None


async def test_find_of_a_listed_vm_costs_nothing(region: Region, pve: FakePve) -> None:
    await region.inventory.refresh()
    pve.log.clear()
    assert await region.locator.find(111) == Present(VmRef("r1", "pve1", 111, "worker-11"))
    assert not pve.log
    pve.vms[111].node = "pve3"
    found = await region.locator.find(111, fresh=True)
    assert isinstance(found, Present)
    assert found.value.node == "pve3"


async def test_absence_is_proved_by_nextid_and_a_majority(region: Region, pve: FakePve) -> None:
    found = await region.locator.find(999)
    assert isinstance(found, Absent)
    assert "nextid calls id 999 free" in found.proof
    assert "3 of 3 hosts online" in found.proof
    with pytest.raises(NotFound, match=r"no VM 999 in region r1"):
        await region.locator.get(999)
    pve.nodes["pve3"] = False
    assert isinstance(await region.locator.find(999), Absent)


async def test_no_majority_no_proof(region: Region, pve: FakePve) -> None:
    pve.nodes |= {"pve2": False, "pve3": False}
    found = await region.locator.find(999)
    assert isinstance(found, Unknown)
    assert "1 of 3 hosts" in found.reason
    with pytest.raises(Unavailable, match="cannot be known"):
        await region.locator.get(999)


async def test_a_hidden_vm_is_denied(region: Region, pve: FakePve) -> None:
    pve.vms[111].visible = False
    with pytest.raises(Denied, match=r"grant VM\.Audit on /vms/111") as caught:
        await region.locator.find(111)
    assert (caught.value.privilege, caught.value.path) == ("VM.Audit", "/vms/111")


async def test_a_region_that_does_not_answer_is_unknown(region: Region, pve: FakePve) -> None:
    pve.rules.append(lambda method, path, params: httpx.ConnectError("refused"))
    assert isinstance(await region.locator.find(111), Unknown)


async def test_regions_and_names(clusters: Clusters, pve: FakePve) -> None:
    with pytest.raises(NotFound, match="region 'r9' is not configured; known: r1"):
        clusters.get("r9")
    clusters.start()
    await clusters.get("r1").inventory.wait_ready(5)
    assert clusters.find_by_name("worker-21") == [VmRef("r1", "pve2", 131, "worker-21")]
    assert clusters.find_by_name("worker") == []
    await clusters.aclose()


async def test_a_poller_that_died_of_a_bug_is_noticed(clusters: Clusters, pve: FakePve) -> None:
    def bug(method: str, path: str, params: dict[str, str]) -> httpx.Response | Exception | None:
        return ZeroDivisionError("a bug of ours")

    pve.rules.append(bug)
    clusters.start()
    with pytest.raises(BackgroundFailed, match="r1"):
        await clusters.watch()
    await clusters.aclose()
