"""The informer against the fake API server without sockets, on virtual time."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from appkit.background import Background
from appkit.errors import Unavailable
from kubekit.informer import Informer
from tests.kubesim import Cluster, Rule, answer, cut_after, in_process

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


class Rig:
    def __init__(self, cluster: Cluster, **params: str) -> None:
        self.cluster = cluster
        session, self.transport = in_process(cluster)
        self.informer = Informer(session, NODES, params=params)
        self.changes: list[str] = []
        self.informer.on_change(self.changes.append)

    def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.informer.list())

    def current(self) -> bool:
        """Whether the copy is what the server has."""
        stored = {each["metadata"]["name"]: each["metadata"] for each in self.cluster.items("nodes")}
        return {each["metadata"]["name"]: each["metadata"] for each in self.informer.list()} == stored


@asynccontextmanager
async def running(cluster: Cluster, **params: str) -> AsyncIterator[Rig]:
    rig = Rig(cluster, **params)
    async with Background() as background:
        background.start("nodes", rig.informer.run())
        await rig.informer.wait_synced(5)
        yield rig


async def test_it_begins_with_the_list_and_follows_changes() -> None:
    async with running(Cluster([node("n1"), node("n2")])) as rig:
        assert rig.changes == ["n1", "n2"]
        rig.cluster.apply(node("n3"))
        rig.cluster.apply(node("n1", x="y"))
        rig.cluster.delete("nodes", "n2")
        await asyncio.sleep(1)
        assert rig.changes == ["n1", "n2", "n3", "n1", "n2"]
        assert rig.current()
        found = rig.informer.get("n1")
        assert found is not None
        assert (found["kind"], found["apiVersion"]) == ("Node", "v1")
        assert rig.informer.get("n2") is None
        assert rig.cluster.count("list") == 1


async def test_pages_make_one_copy() -> None:
    async with running(Cluster([node(f"n{index}") for index in range(1201)])) as rig:
        assert len(rig.informer.list()) == 1201
        assert rig.cluster.count("list") == 3


async def test_selectors_are_passed_on() -> None:
    async with running(Cluster([node("n1", a="1"), node("n2")]), labelSelector="a=1") as rig:
        rig.cluster.apply(node("n2", a="1"))
        rig.cluster.apply(node("n1"))
        await asyncio.sleep(1)
        assert rig.names() == ["n2"]
        assert rig.changes == ["n1", "n2", "n1"]


async def test_after_410_a_new_list_is_compared_and_no_change_is_lost() -> None:
    async with running(Cluster([node("n1"), node("n2"), node("n3")])) as rig:
        del rig.changes[:]
        rig.transport.reachable = False
        rig.cluster.cut_watches()
        await asyncio.sleep(2)
        rig.cluster.delete("nodes", "n1")
        rig.cluster.apply(node("n2", x="y"))
        rig.cluster.apply(node("n4"))
        rig.cluster.delete("nodes", "n3")
        rig.cluster.apply(node("n3"))  # another object of the same name
        rig.cluster.expire()
        rig.transport.reachable = True
        await asyncio.sleep(40)
        assert sorted(rig.changes) == ["n1", "n2", "n3", "n4"]
        assert rig.current()
        assert rig.cluster.count("list") == 2


async def test_a_cut_watch_is_taken_up_where_it_stopped_without_a_list() -> None:
    async with running(Cluster([node("n1")])) as rig:
        for round_ in range(3):
            rig.cluster.cut_watches()
            rig.cluster.apply(node("n1", round=str(round_)))
            await asyncio.sleep(20)
            assert rig.current()
        assert rig.changes == ["n1"] * 4
        assert (rig.cluster.count("list"), rig.cluster.count("watch")) == (1, 4)


async def test_a_watch_that_the_server_ends_is_followed_by_the_next() -> None:
    async with running(Cluster([node("n1")])) as rig:
        await asyncio.sleep(1000)
        assert rig.cluster.count("list") == 1
        assert rig.cluster.count("watch") == 4
        rig.cluster.apply(node("n1", x="y"))
        await asyncio.sleep(1)
        assert rig.current()


async def test_bookmarks_carry_it_over_a_compaction() -> None:
    cluster = Cluster([node("n1")])
    async with running(cluster) as rig:
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
        cluster.api.forget_history()
        await asyncio.sleep(61)
        cluster.end_watches()
        await asyncio.sleep(5)
        assert cluster.count("list", "nodes") == 1
        assert rig.informer.age_s() < 70


async def test_silence_makes_a_new_list() -> None:
    cluster = Cluster([node("n1")], bookmark_s=1e6)
    async with running(cluster) as rig:
        await asyncio.sleep(129)
        assert cluster.count("list") == 1
        assert rig.informer.age_s() == pytest.approx(129, abs=1)
        await asyncio.sleep(10)
        assert cluster.count("list") == 2
        assert rig.informer.age_s() < 10


async def test_errors_are_repeated_with_back_off_until_it_works() -> None:
    cluster = Cluster([node("n1")])
    cluster.faults.add(Rule(answer(500), verb="list", times=3))
    cluster.faults.add(Rule(cut_after(), verb="list", nth=4, times=2))
    rig = Rig(cluster)
    async with Background() as background:
        background.start("nodes", rig.informer.run())
        with pytest.raises(Unavailable, match="no list of nodes"):
            await rig.informer.wait_synced(1)
        assert rig.informer.age_s() == float("inf")
        await rig.informer.wait_synced(60)
        assert rig.current()
        moments = [each.at for each in cluster.log if each.verb == "list"]
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        assert len(gaps) == 5
        assert gaps == sorted(gaps)


async def test_a_server_that_refuses_every_watch_is_not_stormed() -> None:
    cluster = Cluster([node("n1")])
    cluster.faults.add(Rule(answer(403), verb="watch", times=0))
    async with running(cluster):
        await asyncio.sleep(600)
        assert cluster.count("list") < 30


async def test_a_handler_that_comes_late_hears_of_everything_there_is() -> None:
    async with running(Cluster([node("n1"), node("n2")])) as rig:
        late: list[str] = []
        rig.informer.on_change(late.append)
        assert late == ["n1", "n2"]


async def test_field_ownership_is_left_out_of_the_copy() -> None:
    owned = node("n1")
    owned["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    async with running(Cluster([owned])) as rig:
        owned["metadata"]["labels"] = {"x": "y"}
        rig.cluster.apply(owned)
        await asyncio.sleep(1)
        found = rig.informer.get("n1")
        assert found is not None
        assert found["metadata"]["labels"] == {"x": "y"}
        assert "managedFields" not in found["metadata"]
