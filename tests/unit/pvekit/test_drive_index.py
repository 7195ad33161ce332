"""Who holds a volume: never a short list, and read in the background's name."""

import asyncio

import httpx
import pytest

from appkit.errors import Denied, Unavailable
from pvekit.clusters import Clusters, Region
from pvekit.drive_index import Holder
from tests.unit.pvekit.fake_pve import FakePve, FakeVm, answer_of

pytestmark = pytest.mark.looptime

VOLID = "ceph:vm-9999-pvc-1"


async def test_every_kind_of_reference_is_found(region: Region, pve: FakePve) -> None:
    pve.vms[111].current |= {"scsi1": f"{VOLID},size=1G", "scsi2": "ceph:vm-9999-pvc-10"}
    pve.vms[121].pending["scsi3"] = VOLID
    pve.vms[131].current["unused0"] = VOLID
    pve.vms[131].snapshots["before"] = {"scsi4": f"{VOLID},size=1G", "memory": "512"}
    assert await region.drives.holders(VOLID) == [
        Holder(111, "pve1", "scsi1", "live"),
        Holder(121, "pve1", "scsi3", "pending"),
        Holder(131, "pve2", "before/scsi4", "snapshot"),
        Holder(131, "pve2", "unused0", "unused"),
    ]
    assert pve.count("foreground") == 0


async def test_nobody(region: Region, pve: FakePve) -> None:
    assert await region.drives.holders(VOLID) == []
    assert region.drives.complete


async def test_a_live_drive_that_waits_to_be_removed_is_live(region: Region, pve: FakePve) -> None:
    pve.vms[111].current["scsi1"] = VOLID
    pve.vms[111].deletes.add("scsi1")
    assert [holder.state for holder in await region.drives.holders(VOLID)] == ["live"]


async def test_what_is_young_enough_is_not_read_again(region: Region, pve: FakePve) -> None:
    await region.drives.holders(VOLID)
    pve.log.clear()
    await region.drives.holders(VOLID, max_age_s=60)
    assert not pve.log
    await asyncio.sleep(61)
    pve.vms[111].current["scsi1"] = VOLID
    assert len(await region.drives.holders(VOLID, max_age_s=60)) == 1


async def test_callers_at_the_same_time_share_the_reading(region: Region, pve: FakePve) -> None:
    await asyncio.gather(*(region.drives.holders(VOLID) for _ in range(20)))
    assert sum(path.endswith("/pending") for _, _, path in pve.log) == 3


async def test_local_storage_only_asks_the_hosts_that_have_it(region: Region, pve: FakePve) -> None:
    pve.vms[111].current["scsi1"] = "local:9999/x.raw"
    pve.vms[131].current["scsi1"] = "local:9999/x.raw"
    pve.nodes["pve2"] = False
    found = await region.drives.holders("local:9999/x.raw", nodes=frozenset({"pve1"}))
    assert [holder.vmid for holder in found] == [111]


async def test_a_config_that_cannot_be_read_is_no_empty_answer(region: Region, pve: FakePve) -> None:
    pve.rules.append(lambda method, path, params: httpx.ReadError("cut") if "/131/pending" in path else None)
    with pytest.raises(Unavailable, match=rf"whether VM 131 on pve2 uses {VOLID} cannot be known: .*cut"):
        await region.drives.holders(VOLID)


async def test_a_dark_host_that_was_never_read(region: Region, pve: FakePve) -> None:
    pve.nodes["pve2"] = False
    with pytest.raises(Unavailable, match=r"VM 131 .* host pve2 is offline"):
        await region.drives.holders(VOLID)
    assert not any("/131/" in path for _, _, path in pve.log)


async def test_a_dark_host_that_was_read_while_it_was_up(region: Region, pve: FakePve) -> None:
    pve.vms[131].current["scsi1"] = VOLID
    await region.drives.holders(VOLID)
    pve.nodes["pve2"] = False
    await asyncio.sleep(600)
    assert [holder.vmid for holder in await region.drives.holders(VOLID)] == [131]


async def test_a_token_that_cannot_see_every_vm(region: Region, pve: FakePve) -> None:
    for rights, path in (
        ({}, "/vms"),
        ({"/vms": {"VM.Audit": 0}}, "/vms"),
        ({"/": {"VM.Audit": 1}, "/vms": {"VM.Config.Disk": 1}}, "/vms"),
        ({"/": {"VM.Audit": 1}, "/vms": {"VM.Audit": 1}, "/vms/121": {"VM.Config.Disk": 1}}, "/vms/121"),
    ):
        pve.rights = rights
        await asyncio.sleep(61)
        with pytest.raises(Denied, match=f"VM.Audit on {path}, with propagation") as caught:
            await region.drives.holders(VOLID)
        assert (caught.value.privilege, caught.value.path) == ("VM.Audit", path)


async def test_a_right_on_the_root_is_enough(region: Region, pve: FakePve) -> None:
    pve.rights = {"/": {"VM.Audit": 1}}
    assert await region.drives.holders(VOLID) == []


async def test_a_denied_config_names_the_right(region: Region, pve: FakePve) -> None:
    text = "Permission check failed (/vms/121, VM.Audit)"
    pve.rules.append(lambda method, path, params: answer_of(403, text) if "/121/" in path else None)
    with pytest.raises(Denied) as caught:
        await region.drives.holders(VOLID)
    assert (caught.value.privilege, caught.value.path) == ("VM.Audit", "/vms/121")


async def test_a_vm_that_left_the_list_is_forgotten_only_when_it_is_proved_absent(region: Region, pve: FakePve) -> None:
    pve.vms[131].current["scsi1"] = VOLID
    await region.drives.holders(VOLID)
    pve.vms[131].visible = False
    await region.inventory.refresh()
    with pytest.raises(Denied, match="VM 131 exists"):
        await region.drives.holders(VOLID)
    del pve.vms[131]
    assert await region.drives.holders(VOLID) == []


async def test_a_vm_that_moved_is_found_where_it_is(region: Region, pve: FakePve) -> None:
    pve.vms[131].current["scsi1"] = VOLID
    await region.inventory.refresh()
    pve.vms[131].node = "pve3"
    assert [holder.node for holder in await region.drives.holders(VOLID)] == ["pve3"]


async def test_a_deleted_snapshot_is_not_missed_between_two_reads(region: Region, pve: FakePve) -> None:
    """Deleting a snapshot moves its volume to unusedN: a list read after the config would show it nowhere."""
    pve.vms[131].snapshots["s"] = {"scsi1": VOLID}

    def drop(method: str, path: str, params: dict[str, str]) -> httpx.Response | None:
        if path == "/nodes/pve2/qemu/131/snapshot" and pve.vms[131].snapshots:
            pve.vms[131].snapshots.clear()
            pve.vms[131].current["unused0"] = VOLID
        return None

    pve.rules.append(drop)
    assert [holder.state for holder in await region.drives.holders(VOLID)] == ["unused"]


async def test_the_background_fills_fast_and_then_reads_each_vm_once_a_minute(clusters: Clusters, pve: FakePve) -> None:
    pve.vms = {number: FakeVm("pve1") for number in range(100, 140)}
    clusters.start()
    region = clusters.get("r1")
    await asyncio.sleep(3)
    assert region.drives.complete
    pve.log.clear()
    await asyncio.sleep(180)
    reads = sum(path.endswith("/pending") for _, _, path in pve.log)
    assert 80 <= reads <= 130
    assert region.drives.age_s() < 110
    assert pve.count("foreground") == 0
    await clusters.aclose()


async def test_the_background_leaves_dark_hosts_alone(clusters: Clusters, pve: FakePve) -> None:
    pve.nodes["pve2"] = False
    clusters.start()
    await asyncio.sleep(90)
    assert not any("/131/" in path for _, _, path in pve.log)
    assert not clusters.get("r1").drives.complete
    await clusters.aclose()


async def test_what_the_writer_reads_is_noted(region: Region, pve: FakePve) -> None:
    await region.drives.holders(VOLID)
    await region.writers.attach(111, VOLID, {})
    pve.log.clear()
    assert [holder.key for holder in await region.drives.holders(VOLID)] == ["scsi1"]
    assert pve.count("background", "GET") == 0


async def test_a_vm_that_others_know_of_must_be_listed_or_proved_absent(region: Region, pve: FakePve) -> None:
    # NoAccess on its path: left out of the list, and nothing in the token's own rights says so.
    pve.vms[121].current["scsi1"] = VOLID
    pve.vms[121].visible = False
    assert await region.drives.holders(VOLID) == []
    region.drives.expect(lambda: [111, 121])
    with pytest.raises(Denied, match="/vms/121"):
        await region.drives.holders(VOLID, max_age_s=10)
    region.drives.expect(lambda: [111, 999])
    assert await region.drives.holders(VOLID, max_age_s=10) == []
    before = len(pve.log)
    assert await region.drives.holders(VOLID, max_age_s=10) == []
    assert len(pve.log) == before, "proved a moment ago"


async def test_of_two_readings_that_overlap_the_later_begun_counts(region: Region, pve: FakePve) -> None:
    """The older one may show an older state, however late it arrives: a disk attached meanwhile is not lost."""
    await region.inventory.refresh()
    pve.answer_s = 5.0
    old = asyncio.ensure_future(region.drives.read("pve1", 111))
    await asyncio.sleep(0.1)
    pve.answer_s = 0.0
    pve.vms[111].current["scsi1"] = VOLID
    await region.drives.read("pve1", 111)
    await old
    assert [holder.vmid for holder in await region.drives.holders(VOLID)] == [111]


async def test_a_right_that_was_granted_counts_at_once(region: Region, pve: FakePve) -> None:
    pve.rights = {"/": {}}
    with pytest.raises(Denied, match=r"VM\.Audit"):
        await region.drives.holders(VOLID)
    pve.rights = {"/": {"VM.Audit": 1}}
    assert await region.drives.holders(VOLID) == []


async def test_a_volume_in_a_cd_rom_drive_is_referred_to(region: Region, pve: FakePve) -> None:
    pve.vms[111].current |= {"ide2": f"{VOLID},media=cdrom", "ide0": "none,media=cdrom"}
    assert [holder.key for holder in await region.drives.holders(VOLID)] == ["ide2"]


async def test_reread_sees_what_others_did_meanwhile(region: Region, pve: FakePve) -> None:
    pve.vms[111].current["scsi1"] = VOLID
    assert len(await region.drives.holders(VOLID)) == 1
    del pve.vms[111].current["scsi1"]
    assert len(await region.drives.holders(VOLID)) == 1
    await region.drives.reread([111, 404])
    assert await region.drives.holders(VOLID) == []
    assert pve.count() == 0


async def test_a_snapshot_taken_since_the_last_look_is_found_before_a_deletion(region: Region, pve: FakePve) -> None:
    await region.drives.holders(VOLID)
    pve.vms[111].current["scsi1"] = VOLID
    pve.vms[111].snapshots["before"] = {"scsi1": VOLID}
    await region.drives.read("pve1", 111)
    del pve.vms[111].current["scsi1"]
    await region.drives.read("pve1", 111)  # as the writer does, who lists no snapshots
    assert [holder.state for holder in await region.drives.holders(VOLID, with_snapshots=True)] == ["snapshot"]
