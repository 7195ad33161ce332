"""What differs by release (only 9.2 was recorded), and a host that leaves the cluster."""

import pytest

from tests.pvesim.direct import Direct
from tests.pvesim.release import RELEASES
from tests.pvesim.world import World
from tests.pvesim.worlds import CCM_SECRET, CCM_TOKEN, ROOT_SECRET, ROOT_TOKEN, three_hosts, three_hosts_dict

pytestmark = pytest.mark.looptime
AGENT = "/nodes/pve1/qemu/111/agent/network-get-interfaces"


def callers(world: World) -> tuple[Direct, Direct]:
    return Direct(world, CCM_TOKEN, CCM_SECRET), Direct(world, ROOT_TOKEN, ROOT_SECRET)


@pytest.mark.parametrize("name", sorted(RELEASES))
async def test_each_release_names_itself(name: str) -> None:
    world = World.from_dict(three_hosts_dict(release=name))
    _, root = callers(world)
    version = (await root.get("/version")).data
    assert (version["release"], version["version"].startswith(f"{name}.")) == (name, True)
    summary = (await root.get("/nodes/pve1/qemu/111/status/current")).data
    assert ("memhost" in summary, "pressurecpusome" in summary) == (name != "8.4", name != "8.4")
    assert (await root.get("/cluster/resources")).status == 200


async def test_release_8_asks_for_vm_monitor_where_9_asks_for_the_guest_agent() -> None:
    eight = World.from_dict(three_hosts_dict(release="8.4"))
    ccm, root = callers(eight)
    refused = await ccm.get(AGENT)
    assert (refused.status, refused.reason) == (403, "Permission check failed (/vms/111, VM.Monitor)")
    unknown = await root.post("/access/roles", roleid="R9", privs="VM.GuestAgent.Audit")
    assert unknown.errors == {"privs": "invalid format - invalid privilege 'VM.GuestAgent.Audit'\n"}
    eight.access.custom_roles["CCM"].add("VM.Monitor")
    assert (await ccm.get(AGENT)).status == 200
    _, root = callers(three_hosts())
    unknown = await root.post("/access/roles", roleid="R8", privs="VM.Monitor")
    assert unknown.errors == {"privs": "invalid format - invalid privilege 'VM.Monitor'\n"}


async def test_chains_of_volumes_came_with_9() -> None:
    params = {"storage": "lvm1", "type": "lvm", "vgname": "vg1", "snapshot-as-volume-chain": 1}
    for name, status in (("8.4", 400), ("9.0", 200)):
        _, root = callers(World.from_dict(three_hosts_dict(release=name)))
        assert (await root.post("/storage", **params)).status == status


async def test_a_host_that_left_is_unknown_and_its_guests_ids_stay_taken() -> None:
    world = three_hosts()
    _, root = callers(world)
    assert (await root.delete("/cluster/config/nodes/pve3")).status == 403
    ticket = Direct.by_ticket(world, "root@pam")
    assert (await ticket.delete("/cluster/config/nodes/pve9")).status == 500
    assert (await ticket.delete("/cluster/config/nodes/pve3")).status == 200
    assert {node["node"] for node in (await root.get("/nodes")).data} == {"pve1", "pve2"}
    assert (await root.get("/nodes/pve3/qemu/131/config")).reason.startswith("hostname lookup 'pve3' failed")
    entries = (await root.get("/cluster/resources", type="vm")).data
    gone = next(entry for entry in entries if entry["vmid"] == 131)
    assert gone == {"id": "qemu/131", "type": "qemu", "node": "pve3", "vmid": 131, "status": "unknown"}
    assert (await root.get("/cluster/nextid", vmid=131)).status == 400
