"""Informer, queue, patch and events together, as a controller uses them, through faults."""

import asyncio
from typing import Any

from appkit.background import Background
from appkit.backoff import Backoff
from kubekit.events import EventRecorder
from kubekit.informer import Informer
from kubekit.nodes import UNINITIALIZED_TAINT, has_taint, without_taint
from kubekit.objects import Object, resource_path
from kubekit.patches import patch_guarded
from kubekit.sessions import KubeSession
from kubekit.workqueue import WorkQueue
from tests.kubesim import KubeSim, Rule, answer, cut_after, cut_before
from tests.sim.kubekit.waiting import until

NODES = resource_path("v1", "nodes")
COUNT = 60


def node(index: int) -> dict[str, Any]:
    taint = {"key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"w-{index}"}, "spec": {"taints": [taint]}}


def initialise(node: Object) -> dict[str, Any] | None:
    if not has_taint(node, UNINITIALIZED_TAINT):
        return None
    return {
        "spec": {"taints": without_taint(node, UNINITIALIZED_TAINT), "providerID": f"x://{node['metadata']['name']}"}
    }


async def test_every_node_is_initialised_exactly_once_through_lost_answers_and_conflicts(
    sim: KubeSim, session: KubeSession
) -> None:
    for index in range(COUNT):
        sim.apply(node(index))
    sim.faults.add(Rule(cut_after(), verb="patch", path=f"{NODES}/*", nth=3, times=5))
    sim.faults.add(Rule(cut_before(), verb="patch", path=f"{NODES}/*", nth=10, times=5))
    sim.faults.add(Rule(answer(409, reason="Conflict"), verb="patch", path=f"{NODES}/*", nth=20, times=10))
    sim.faults.add(Rule(answer(503), verb="watch", nth=2, times=2))
    informer = Informer(session, NODES, backoff=Backoff(0.01, 2, 0.05))
    recorder = EventRecorder(session, "test")
    done: list[str] = []

    async def sync(key: str) -> None:
        seen = informer.get(key)
        path = resource_path("v1", "nodes", name=key)
        if seen is not None and has_taint(seen, UNINITIALIZED_TAINT):
            after = await patch_guarded(session, path, initialise, seen=seen)
            if after is not None:
                done.append(key)
                recorder.event(after, "Normal", "Synced", "Node synced successfully")

    queue = WorkQueue(sync, name="Nodes", workers=4, backoff=Backoff(0.02, 2, 0.2))
    informer.on_change(queue.add)
    async with Background() as background:
        background.start("nodes", informer.run())
        background.start("queue", queue.run())
        background.start("events", recorder.run())
        await until(lambda: len(sim.log) > COUNT)
        sim.cut_watches()
        await until(lambda: not any(has_taint(each, UNINITIALIZED_TAINT) for each in sim.items("nodes")))
        await until(lambda: not any(has_taint(each, UNINITIALIZED_TAINT) for each in informer.list()))
        await recorder.flush(5)
        await asyncio.sleep(0.05)
    assert {each["spec"]["providerID"] for each in sim.items("nodes")} == {f"x://w-{index}" for index in range(COUNT)}
    assert len(done) == len(set(done))
    assert {event["involvedObject"]["name"] for event in sim.items("events")} == set(done)
