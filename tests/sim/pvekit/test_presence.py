"""Proofs that a VM is nowhere: what they rest on, what they cost, and what they are not given for."""

import pytest

from appkit.errors import Denied
from pvekit.presence import Absent, Present, Unknown
from tests.pvesim.faults import Rule, answer
from tests.pvesim.world import World
from tests.pvesim.worlds import CSI_PRIVILEGES, three_hosts
from tests.sim.pvekit.scene import new_world, warm_region

pytestmark = pytest.mark.looptime


def paths(world: World, since: int) -> list[str]:
    return [entry.path for entry in world.log.since(since, "foreground")]


async def test_a_vm_that_was_never_seen() -> None:
    world = new_world()
    async with warm_region(world) as region:
        mark = len(world.log)
        found = await region.locator.find(999)
        assert isinstance(found, Absent)
        assert found.proof == (
            "nextid calls id 999 free in region cluster-1; 3 of 3 hosts online, counted since the token lacks "
            "Sys.Audit on /; no host was ever seen to have it"
        )
        assert paths(world, mark) == ["/cluster/resources", "/cluster/nextid", "/cluster/status", "/nodes"]
        mark = len(world.log)
        assert isinstance(await region.locator.find(998), Absent)
        assert paths(world, mark) == ["/cluster/resources", "/cluster/nextid", "/nodes"]


async def test_with_sys_audit_the_cluster_itself_tells_of_its_quorum() -> None:
    world = new_world(roles={"CSI": [*CSI_PRIVILEGES, "Sys.Audit"], "CCM": []})
    async with warm_region(world) as region:
        found = await region.locator.find(999)
        assert isinstance(found, Absent)
        assert "cluster lab says that it is quorate" in found.proof
        world.quorate = False
        found = await region.locator.find(999)
        assert isinstance(found, Unknown)
        assert "cluster lab says that it is not quorate" in found.reason


async def test_the_last_host_is_asked() -> None:
    world = new_world()
    async with warm_region(world) as region:
        del world.vms[111]
        mark = len(world.log)
        found = await region.locator.find(111, fresh=True)
        assert isinstance(found, Absent)
        assert found.proof.endswith("its last host pve1 does not have it")
        assert paths(world, mark)[-1] == "/nodes/pve1/qemu/111/config"


async def test_a_host_that_still_has_it_contradicts() -> None:
    world = new_world()
    async with warm_region(world) as region:
        del world.vms[111]
        world.faults.add(Rule(answer(200, "OK", '{"data": {"digest": "x"}}'), path="/nodes/pve1/qemu/111/config"))
        found = await region.locator.find(111, fresh=True)
        assert isinstance(found, Unknown)
        assert found.reason == "nextid calls id 111 free in region cluster-1, but its last host pve1 has it"


async def test_a_dark_host_takes_no_proof_away_and_is_not_waited_for() -> None:
    world = new_world()
    async with warm_region(world) as region:
        world.broadcasts.darken("pve2", "cut")
        await world.clock.sleep(20)
        assert isinstance(await region.locator.find(121, fresh=True), Present)
        del world.vms[121]
        mark, began = len(world.log), world.clock.monotonic()
        found = await region.locator.find(121, fresh=True)
        assert isinstance(found, Absent)
        assert "2 of 3 hosts online" in found.proof
        assert found.proof.endswith("its last host pve2 is not online")
        assert not any("pve2" in path for path in paths(world, mark))
        assert world.clock.monotonic() - began < 2


async def test_a_last_host_that_fell_silent_just_now() -> None:
    world = new_world()
    async with warm_region(world) as region:
        del world.vms[121]
        world.faults.add(Rule(answer(595, "No route to host", ""), path="/nodes/pve2/*"))
        found = await region.locator.find(121, fresh=True)
        assert isinstance(found, Absent)
        assert found.proof.endswith("its last host pve2 does not answer")


async def test_most_hosts_dark_is_no_proof() -> None:
    world = new_world()
    async with warm_region(world) as region:
        for host in ("pve2", "pve3"):
            world.broadcasts.darken(host, "cut")
        await world.clock.sleep(20)
        found = await region.locator.find(999)
        assert isinstance(found, Unknown)
        assert "no quorum, and so no proof: 1 of 3 hosts online" in found.reason


async def test_a_token_with_rights_on_single_vms_loses_them_with_the_vm() -> None:
    world = three_hosts(
        acl=[
            {"path": "/vms/111", kind: who, "role": "CSI"}
            for kind, who in (("user", "kubernetes-csi@pve"), ("token", "kubernetes-csi@pve!csi"))
        ]
    )
    async with warm_region(world) as region:
        with pytest.raises(Denied, match=r"grant VM\.Audit on /vms/121"):
            await region.locator.find(121)
        del world.vms[111]
        world.access.acl.clear()
        found = await region.locator.find(111, fresh=True)
        assert isinstance(found, Absent)
        assert found.proof.endswith("its last host pve1 may not be asked")


async def test_a_single_host_is_a_cluster_of_its_own() -> None:
    world = World.from_dict(
        {
            "region": "cluster-1",
            "nodes": {"pve1": {"ip": "192.0.2.1"}},
            "roles": {"CSI": [*CSI_PRIVILEGES, "Sys.Audit"]},
            "tokens": {"kubernetes-csi@pve!csi": {"secret": "11111111-2222-3333-4444-555555555555", "privsep": False}},
            "acl": [{"user": "kubernetes-csi@pve", "role": "CSI"}],
        }
    )
    async with warm_region(world) as region:
        found = await region.locator.find(999)
        assert isinstance(found, Absent)
        assert "host pve1 is a cluster of its own" in found.proof
