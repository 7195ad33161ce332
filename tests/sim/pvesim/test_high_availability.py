"""High availability: wishes taken up late, fencing and recovery with the recorded delays, rules, groups, errors."""

import asyncio
from typing import Any

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.release import RELEASES
from tests.pvesim.world import World
from tests.pvesim.worlds import ROOT_SECRET, ROOT_TOKEN, three_hosts_dict

pytestmark = pytest.mark.looptime
HA = "/cluster/ha"


class Managed:
    """Three hosts, VM 210 (shared disk) on pve1, managed; the caller talks to pve3."""

    def __init__(self, **more: Any) -> None:
        raw = three_hosts_dict(profile="as measured", **more)
        for vmid, node in ((210, "pve1"), (211, "pve2")):
            raw["vms"][vmid] = {
                "node": node,
                "config": {"name": f"ha{vmid}", "scsihw": "virtio-scsi-pci", "scsi0": f"ceph:vm-{vmid}-disk-0,size=1G"},
            }
        self.world = World.from_dict(raw)
        self.root = Direct(self.world, ROOT_TOKEN, ROOT_SECRET, node="pve3")

    async def manage(self, vmid: int = 210, **params: Any) -> None:
        assert (await self.root.post(f"{HA}/resources", sid=f"vm:{vmid}", **params)).status == 200
        await asyncio.sleep(15)

    async def where(self, vmid: int = 210) -> tuple[str, str, str]:
        """(host, status, hastate) as the cluster's list has it."""
        entries = (await self.root.get("/cluster/resources", type="vm")).data
        entry = next(entry for entry in entries if entry["vmid"] == vmid)
        return entry["node"], entry["status"], entry["hastate"]

    async def service(self, vmid: int = 210) -> dict[str, Any]:
        entries = (await self.root.get(f"{HA}/status/current")).data
        found: dict[str, Any] = next(entry for entry in entries if entry["id"] == f"service:vm:{vmid}")
        return found


async def test_a_wish_is_a_finished_task_and_comes_true_later() -> None:
    ha = Managed()
    await ha.manage()
    task = await ha.root.finish(await ha.root.post("/nodes/pve1/qemu/210/status/stop"))
    assert (task.type, task.exitstatus, task.log[0]) == ("hastop", "OK", "Requesting HA stop for VM 210")
    assert (await ha.root.get("/nodes/pve1/qemu/210/status/current")).data["status"] == "running"
    await asyncio.sleep(12)
    assert (await ha.root.get("/nodes/pve1/qemu/210/status/current")).data["status"] == "stopped"
    task = await ha.root.finish(await ha.root.post("/nodes/pve1/qemu/210/migrate", target="pve2"))
    assert (task.type, task.exitstatus) == ("hamigrate", "OK")
    assert ha.world.vms[210].node == "pve1"
    await asyncio.sleep(15)
    assert ha.world.vms[210].node == "pve2"


async def test_a_lost_host_is_fenced_after_a_minute_and_its_guest_runs_elsewhere_after_two() -> None:
    ha = Managed()
    await ha.manage()
    volid = "ceph:vm-9999-a"
    await ha.root.post("/nodes/pve1/storage/ceph/content", vmid=9999, filename="vm-9999-a", size="1G")
    await ha.root.put("/nodes/pve1/qemu/210/config", scsi1=volid)
    lost_at = ha.world.clock.monotonic()
    ha.world.broadcasts.darken("pve1", "cut")

    async def at(seconds: float) -> None:
        await asyncio.sleep(lost_at + seconds - ha.world.clock.monotonic())

    await at(8)
    assert await ha.where() == ("pve1", "running", "started")
    await at(69)
    assert await ha.where() == ("pve1", "running", "fence")
    assert (await ha.service())["state"] == "fence"
    # The host's own watchdog has reset it by now: nothing of it runs any more, managed or not.
    assert not ha.world.vms[210].running
    assert not ha.world.vms[111].running
    await at(139)
    assert await ha.where() == ("pve2", "running", "started")
    # With its disk, and hot-plug works there at once.
    assert set(ha.world.vms[210].plugged) == {"scsi0", "scsi1"}
    assert (await ha.root.put("/nodes/pve2/qemu/210/config", delete="scsi1")).status == 200
    # Who is not managed stays where it is, and dead.
    assert (ha.world.vms[111].node, ha.world.vms[111].running) == ("pve1", False)


async def test_a_host_that_is_back_within_a_minute_is_left_alone() -> None:
    ha = Managed()
    await ha.manage()
    ha.world.broadcasts.darken("pve1", "cut")
    await asyncio.sleep(50)
    ha.world.broadcasts.darken("pve1", "")
    await asyncio.sleep(200)
    assert await ha.where() == ("pve1", "running", "started")


async def test_a_guest_whose_disk_stayed_behind_fails_everywhere_and_is_an_error() -> None:
    ha = Managed()
    await ha.manage(max_restart=1, max_relocate=1)
    await ha.root.post("/nodes/pve1/storage/local/content", vmid=9999, filename="vm-9999-a.raw", size="1G")
    await ha.root.put("/nodes/pve1/qemu/210/config", scsi1="local:9999/vm-9999-a.raw")
    ha.world.broadcasts.darken("pve1", "cut")
    await asyncio.sleep(300)
    assert (await ha.service())["state"] == "error"
    starts = [task for task in ha.world.tasks.by_upid.values() if task.type == "qmstart"]
    assert [task.exitstatus for task in starts] == ["volume 'local:9999/vm-9999-a.raw' does not exist"] * 4
    # Two tries on each of two hosts; "disabled" is the way out.
    assert {task.node for task in starts} == {"pve2", "pve3"}
    await ha.root.put(f"{HA}/resources/vm:210", state="disabled")
    await asyncio.sleep(15)
    assert (await ha.service())["state"] == "disabled"


async def test_node_affinity_chooses_the_host_and_fails_back() -> None:
    ha = Managed()
    await ha.root.post(f"{HA}/rules", rule="r1", type="node-affinity", resources="vm:210", nodes="pve3:2,pve1:1")
    await ha.manage()
    await asyncio.sleep(20)
    assert (await ha.where())[0] == "pve3"
    ha.world.broadcasts.darken("pve3", "cut")
    ha.root = Direct(ha.world, ROOT_TOKEN, ROOT_SECRET, node="pve2")
    await asyncio.sleep(150)
    assert (await ha.where())[0] == "pve1"
    ha.world.broadcasts.darken("pve3", "")
    await asyncio.sleep(60)
    assert await ha.where() == ("pve3", "running", "started")


async def test_a_strict_rule_leaves_a_guest_without_a_host() -> None:
    ha = Managed()
    await ha.root.post(f"{HA}/rules", rule="r1", type="node-affinity", resources="vm:210", nodes="pve1", strict=1)
    await ha.manage()
    refused = await ha.root.post(f"{HA}/resources/vm:210/migrate", node="pve2")
    assert refused.status == 500
    ha.world.broadcasts.darken("pve1", "cut")
    await asyncio.sleep(400)
    assert (await ha.service())["state"] == "recovery"
    ha.world.broadcasts.darken("pve1", "")
    await asyncio.sleep(60)
    assert await ha.where() == ("pve1", "running", "started")


async def test_guests_that_shall_be_apart_are_recovered_apart() -> None:
    ha = Managed()
    await ha.manage(210)
    await ha.manage(211)
    await ha.root.post(
        f"{HA}/rules", rule="apart", type="resource-affinity", resources="vm:210,vm:211", affinity="negative"
    )
    ha.world.broadcasts.darken("pve1", "cut")
    await asyncio.sleep(150)
    assert (ha.world.vms[210].node, ha.world.vms[211].node) == ("pve3", "pve2")


async def test_release_8_has_groups_and_no_rules() -> None:
    ha = Managed(release="8.4")
    assert ha.world.release is RELEASES["8.4"]
    assert (await ha.root.get(f"{HA}/rules")).status == 501
    assert (await ha.root.post(f"{HA}/groups", group="g1", nodes="pve2:2,pve1", restricted=1)).status == 200
    await ha.manage(group="g1")
    await asyncio.sleep(20)
    assert (await ha.where())[0] == "pve2"
    assert (
        await ha.root.delete(f"{HA}/groups/g1")
    ).reason == "delete group failed: ha group is used by service 'vm:210'"
    nine = Managed()
    assert (await nine.root.get(f"{HA}/groups")).reason == "cannot index groups: ha groups have been migrated to rules"


async def test_without_quorum_nothing_is_decided() -> None:
    ha = Managed()
    await ha.manage()
    ha.world.quorate = False
    ha.world.broadcasts.darken("pve1", "cut")
    await asyncio.sleep(300)
    assert ha.world.vms[210].node == "pve1"
    ha.world.quorate = True
    await asyncio.sleep(120)
    assert ha.world.vms[210].node != "pve1"
