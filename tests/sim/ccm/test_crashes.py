"""The service ends between any two of its writes; the next one brings the Node to the same end."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kubesim import Rule, cut_after, cut_before
from tests.pvesim.worlds import three_hosts
from tests.sim.ccm.bench import bench, new_node


def state(node: dict[str, Any]) -> dict[str, Any]:
    """What counts of a Node: everything but its versions and times."""
    metadata = {key: node["metadata"].get(key) for key in ("name", "labels", "annotations")}
    return {"metadata": metadata, "spec": node["spec"], "status": node["status"]}


@pytest.mark.parametrize("cut", [cut_before, cut_after])
@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("patch", "/api/v1/nodes/worker-11"),
        ("patch", "/api/v1/nodes/worker-11/status"),
        ("create", "/api/v1/namespaces/default/events"),
    ],
)
async def test_a_crash_at_any_write_leads_to_the_same_end(tmp_path: Path, verb: str, path: str, cut: Any) -> None:
    async with bench(tmp_path, [three_hosts()], [new_node(111), new_node(121)]) as at:
        async with at.service():
            await at.until_done("worker-21", "worker-11")
        wanted = state(at.node("worker-11"))
        at.kube.delete("nodes", "worker-11")
        at.kube.apply(new_node(111))
        # From this write on nothing gets through any more, then the process is gone.
        at.kube.faults.add(Rule(verb=verb, path=path, action=cut()))
        at.kube.faults.add(Rule(verb=verb, path=path, nth=2, times=0, action=cut_before()))
        before = at.kube.count(verb)
        async with at.crashing_service():
            await at.until(
                lambda: (
                    at.kube.count(verb) > before
                    and any(entry.path == path and entry.verb == verb for entry in at.kube.log[-10:])
                )
            )
        at.kube.faults.clear()
        async with at.service():
            await at.until(lambda: state(at.node("worker-11")) == wanted)
        assert state(at.node("worker-11")) == wanted


async def test_addresses_that_a_dead_process_owed_are_written_although_the_taint_is_gone(tmp_path: Path) -> None:
    world = three_hosts()
    async with bench(tmp_path, [world], [new_node(111)]) as at:
        at.kube.faults.add(Rule(verb="patch", path="*/status", times=0, action=cut_before()))
        async with at.crashing_service():
            await at.until(lambda: at.kube.count("patch", "nodes/status"))
        assert not at.tainted("worker-11")
        assert at.addresses("worker-11") == [("Hostname", "worker-11")]
        at.kube.faults.clear()
        mark = world.count()
        async with at.service():
            await at.until_done("worker-11")
        assert at.addresses("worker-11") == [("InternalIP", "10.0.0.111"), ("Hostname", "worker-11")]
        assert world.count("foreground", since=mark) == 0


async def test_a_lost_answer_to_the_patch_is_no_second_patch(tmp_path: Path) -> None:
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at:
        at.kube.faults.add(Rule(verb="patch", path="/api/v1/nodes/worker-11", action=cut_after()))
        async with at.service():
            await at.until_done("worker-11")
        assert at.kube.count("patch", "nodes") == 1
        assert at.addresses("worker-11") == [("InternalIP", "10.0.0.111"), ("Hostname", "worker-11")]


async def test_a_standby_costs_proxmox_nothing_and_takes_over_when_the_leader_stops(tmp_path: Path) -> None:
    times = {"leader_elect_lease_duration": 4.0, "leader_elect_renew_deadline": 2.0, "leader_elect_retry_period": 0.2}
    async with bench(tmp_path, [three_hosts()], [new_node(111)]) as at, AsyncExitStack() as second:
        async with at.service(**times):
            await at.until_done("worker-11")
            standby = await second.enter_async_context(at.service(**times))
            await at.until(lambda: standby.health.ready()[0])
            assert standby.clusters.get("cluster-1").inventory.snapshot.generation == 0
        # The leader is gone and has released its Lease.
        at.kube.apply(new_node(121))
        await at.until_done("worker-21", timeout_s=2)
        assert standby.clusters.get("cluster-1").inventory.snapshot.generation > 0
