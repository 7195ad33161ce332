"""The informer over real sockets: what the network and the server do to a watch."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from appkit.background import Background
from appkit.backoff import Backoff
from kubekit.informer import Informer
from kubekit.sessions import KubeSession
from tests.kubesim import KubeSim, Rule, answer
from tests.sim.kubekit.waiting import until

NODES = "/api/v1/nodes"


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
async def informer(sim: KubeSim, session: KubeSession) -> AsyncIterator[Informer]:
    for name in ("n1", "n2"):
        sim.apply(node(name))
    informer = Informer(session, NODES, backoff=Backoff(0.01, 2, 0.1))
    async with Background() as background:
        background.start("nodes", informer.run())
        await informer.wait_synced(5)
        await until(lambda: sim.count("watch"))
        yield informer


def current(informer: Informer, sim: KubeSim) -> bool:
    versions = {each["metadata"]["resourceVersion"] for each in sim.items("nodes")}
    return {each["metadata"]["resourceVersion"] for each in informer.list()} == versions


async def test_410_makes_a_new_list_and_tells_every_change(informer: Informer, sim: KubeSim) -> None:
    changes: list[str] = []
    informer.on_change(changes.append)
    del changes[:]
    sim.faults.add(Rule(answer(503), verb="watch", times=3))
    sim.cut_watches()
    sim.delete("nodes", "n1")
    sim.apply(node("n3"))
    sim.expire()
    await until(lambda: current(informer, sim))
    assert sorted(changes) == ["n1", "n3"]
    assert sim.count("list") >= 2


async def test_a_watch_cut_in_the_middle_is_taken_up_where_it_stopped(informer: Informer, sim: KubeSim) -> None:
    for round_ in range(5):
        cut = len(sim.log)
        sim.apply(node("n1", before=str(round_)))
        sim.cut_watches()
        sim.apply(node("n1", after=str(round_)))
        await until(lambda: current(informer, sim))
        await until(partial(sim.count, "watch", since=cut))
    assert sim.count("list") == 1


async def test_a_server_that_restarts(informer: Informer, sim: KubeSim) -> None:
    port = int(sim.url.rpartition(":")[2])
    await sim.aclose()
    sim.apply(node("n4"))
    sim.delete("nodes", "n2")
    await sim.start(port=port)
    await until(lambda: current(informer, sim))


async def test_a_thousand_nodes_in_two_pages_and_a_burst_of_changes(sim: KubeSim, session: KubeSession) -> None:
    for index in range(1000):
        sim.apply(node(f"w-{index}"))
    changes: list[str] = []
    informer = Informer(session, NODES)
    informer.on_change(changes.append)
    async with Background() as background:
        background.start("nodes", informer.run())
        await informer.wait_synced(10)
        assert (len(informer.list()), sim.count("list")) == (1000, 2)
        for index in range(1000):
            sim.apply(node(f"w-{index}", x="y"))
        await until(lambda: len(changes) == 2000)
        assert current(informer, sim)
