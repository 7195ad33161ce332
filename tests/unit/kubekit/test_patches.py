import asyncio
from typing import Any

import pytest

from kubekit.errors import KubeConflict, KubeNotFound, KubeUnknownOutcome
from kubekit.objects import Object, resource_path
from kubekit.patches import ATTEMPTS, patch_guarded
from tests.kubesim import Cluster, Rule, answer, cut_after, in_process

pytestmark = pytest.mark.looptime

PATH = resource_path("v1", "nodes", name="n1")
TAINTS = [{"key": "uninitialized", "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute"}]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": TAINTS}}])


def initialise(node: Object) -> dict[str, Any] | None:
    """The typical decision: labels, provider id and the taint list less one, unless that is done already."""
    taints = node["spec"].get("taints", [])
    left = [taint for taint in taints if taint["key"] != "uninitialized"]
    if left == taints:
        return None
    return {"metadata": {"labels": {"zone": "pve1"}}, "spec": {"providerID": "proxmox://r/1", "taints": left}}


async def test_one_read_and_one_guarded_patch(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    done = await patch_guarded(session, PATH, initialise)
    assert done is not None
    assert done["spec"] == {"taints": TAINTS[1:], "providerID": "proxmox://r/1"}
    assert [each.verb for each in cluster.log] == ["get", "patch"]
    guard = cluster.log[1].body["metadata"]
    assert guard["labels"] == {"zone": "pve1"}
    assert guard["resourceVersion"]
    assert guard["uid"] == done["metadata"]["uid"]


async def test_a_copy_at_hand_saves_the_read_and_nothing_to_do_costs_nothing(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    done = await patch_guarded(session, PATH, initialise, seen=cluster.get("nodes", "n1"))
    assert cluster.count() == 1
    assert await patch_guarded(session, PATH, initialise, seen=done) is None
    assert cluster.count() == 1


async def test_a_change_in_between_is_seen_and_kept(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    stale = cluster.get("nodes", "n1")
    assert stale is not None
    cluster.apply({**stale, "spec": {"taints": [*TAINTS, {"key": "new", "effect": "NoSchedule"}]}})
    done = await patch_guarded(session, PATH, initialise, seen=stale)
    assert done is not None
    assert [taint["key"] for taint in done["spec"]["taints"]] == ["other", "new"]
    assert [each.verb for each in cluster.log] == ["patch", "get", "patch"]


async def test_a_conflict_after_which_nothing_is_left_to_do(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    stale = cluster.get("nodes", "n1")
    assert stale is not None
    cluster.apply({**stale, "spec": {"taints": TAINTS[1:]}})
    done = await patch_guarded(session, PATH, initialise, seen=stale)
    assert done is not None
    assert done["spec"] == {"taints": TAINTS[1:]}
    assert cluster.count("patch") == 1


async def test_another_object_of_the_same_name_is_left_alone(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    stale = cluster.get("nodes", "n1")
    assert stale is not None
    cluster.delete("nodes", "n1")
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": TAINTS}})
    with pytest.raises(KubeNotFound, match="another object now"):
        await patch_guarded(session, PATH, initialise, seen=stale)
    successor = cluster.get("nodes", "n1")
    assert successor is not None
    assert successor["spec"] == {"taints": TAINTS}


async def test_an_object_that_never_rests(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    cluster.faults.add(Rule(answer(409, reason="Conflict"), verb="patch", times=0))
    with pytest.raises(KubeConflict):
        await patch_guarded(session, PATH, initialise)
    assert cluster.count("patch") == ATTEMPTS


async def test_a_lost_answer_is_told_and_the_next_look_shows_that_it_was_done(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    cluster.faults.add(Rule(cut_after(), verb="patch"))
    with pytest.raises(KubeUnknownOutcome):
        await patch_guarded(session, PATH, initialise)
    assert await patch_guarded(session, PATH, initialise) is None
    assert cluster.count("patch") == 1


async def test_the_status_sub_resource_is_read_whole_and_written_apart(cluster: Cluster) -> None:
    session, _ = in_process(cluster)
    addresses = [{"type": "Hostname", "address": "n1"}]
    done = await patch_guarded(session, PATH, lambda _: {"status": {"addresses": addresses}}, subresource="status")
    assert done is not None
    assert done["status"] == {"addresses": addresses}
    assert [(each.verb, each.resource) for each in cluster.log] == [("get", "nodes"), ("patch", "nodes/status")]


async def test_many_writers_of_one_list_lose_nothing(cluster: Cluster) -> None:
    session, _ = in_process(cluster)

    def add(key: str) -> Any:
        def decide(node: Object) -> dict[str, Any]:
            return {"spec": {"taints": [*node["spec"]["taints"], {"key": key, "effect": "NoSchedule"}]}}

        return decide

    stale = cluster.get("nodes", "n1")
    await asyncio.gather(*(patch_guarded(session, PATH, add(f"t{index}"), seen=stale) for index in range(3)))
    node = cluster.get("nodes", "n1")
    assert node is not None
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"uninitialized", "other", "t0", "t1", "t2"}
