"""Events on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from appkit.background import Background
from appkit.logs import register_secret
from appkit.metrics import Metrics
from kubekit.events import QUEUE_LENGTH, EventRecorder
from kubekit.metrics import KubeMetrics
from tests.kubesim import Cluster, Rule, answer, cut_after, cut_before, delay, in_process

pytestmark = pytest.mark.looptime

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "5"}}


class Rig:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.registry = CollectorRegistry()
        session, _ = in_process(cluster, metrics=KubeMetrics(Metrics(self.registry)))
        self.recorder = EventRecorder(session, "cloud-node-controller")

    def events(self) -> list[dict[str, Any]]:
        return self.cluster.items("events")

    def dropped(self, reason: str) -> float:
        return self.registry.get_sample_value("kube_events_dropped_total", {"reason": reason}) or 0


@asynccontextmanager
async def running() -> AsyncIterator[Rig]:
    rig = Rig(Cluster())
    async with Background() as background:
        background.start("events", rig.recorder.run())
        yield rig


async def test_an_event_of_a_cluster_scoped_object() -> None:
    async with running() as rig:
        rig.recorder.event(NODE, "Normal", "Synced", "Node synced successfully")
        await rig.recorder.flush(5)
        (event,) = rig.events()
        assert event["metadata"]["namespace"] == "default"
        assert event["metadata"]["name"].startswith("n1.")
        assert event["involvedObject"] == {
            "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "resourceVersion": "5"
        }  # fmt: skip
        assert (event["type"], event["reason"], event["message"]) == ("Normal", "Synced", "Node synced successfully")
        assert (event["count"], event["source"]) == (1, {"component": "cloud-node-controller"})
        assert event["firstTimestamp"] == event["lastTimestamp"]


async def test_a_namespaced_object_by_reference() -> None:
    async with running() as rig:
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "c", "namespace": "apps", "uid": "u"}
        rig.recorder.event(reference, "Warning", "Full", "no space")
        await rig.recorder.flush(5)
        assert rig.events()[0]["metadata"]["namespace"] == "apps"


async def test_a_repeated_event_is_counted_up_although_the_object_changes() -> None:
    async with running() as rig:
        for version in range(5):
            node = {**NODE, "metadata": {**NODE["metadata"], "resourceVersion": str(version)}}  # type: ignore[dict-item]
            rig.recorder.event(node, "Warning", "Unreachable", "no answer")
            await asyncio.sleep(30)
        (event,) = rig.events()
        assert event["count"] == 5
        assert (rig.cluster.count("create"), rig.cluster.count("patch")) == (1, 4)


async def test_other_objects_reasons_and_messages_are_other_events() -> None:
    async with running() as rig:
        other = {**NODE, "metadata": {"name": "n1", "uid": "u2"}}
        rig.recorder.event(NODE, "Warning", "A", "x")
        rig.recorder.event(other, "Warning", "A", "x")
        rig.recorder.event(NODE, "Warning", "B", "x")
        rig.recorder.event(NODE, "Warning", "A", "y")
        await rig.recorder.flush(5)
        assert len(rig.events()) == 4


async def test_many_similar_ones_are_combined() -> None:
    async with running() as rig:
        for index in range(15):
            rig.recorder.event(NODE, "Warning", "Failed", f"attempt {index}")
        await rig.recorder.flush(5)
        messages = [event["message"] for event in rig.events()]
        assert min(messages) == "(combined from similar events): attempt 14"
        assert len(messages) == 10
        assert next(event["count"] for event in rig.events() if "combined" in event["message"]) == 6


async def test_an_object_that_causes_too_many_is_cut_off_for_a_while() -> None:
    async with running() as rig:
        for _ in range(40):
            rig.recorder.event(NODE, "Warning", "Failed", "again")
        await rig.recorder.flush(5)
        assert rig.cluster.count("create") + rig.cluster.count("patch") == 25
        assert rig.dropped("too many for one object") == 15
        await asyncio.sleep(301)
        rig.recorder.event(NODE, "Warning", "Failed", "again")
        rig.recorder.event({**NODE, "metadata": {"name": "n2", "uid": "u2"}}, "Normal", "Fine", "other object")
        await rig.recorder.flush(5)
        assert rig.cluster.count("create") + rig.cluster.count("patch") == 27


async def test_an_event_that_was_deleted_begins_anew() -> None:
    async with running() as rig:
        rig.recorder.event(NODE, "Normal", "A", "x")
        await rig.recorder.flush(5)
        rig.cluster.delete("events", rig.events()[0]["metadata"]["name"], namespace="default")
        rig.recorder.event(NODE, "Normal", "A", "x")
        await rig.recorder.flush(5)
        assert [event["count"] for event in rig.events()] == [1]


async def test_a_lost_answer_does_not_make_two() -> None:
    async with running() as rig:
        rig.cluster.faults.add(Rule(cut_after(), verb="create"))
        rig.recorder.event(NODE, "Normal", "A", "x")
        await rig.recorder.flush(20)
        assert len(rig.events()) == 1
        assert rig.cluster.count("create") == 2


async def test_the_api_server_away_for_a_while() -> None:
    async with running() as rig:
        rig.cluster.faults.add(Rule(cut_before(), times=3))
        rig.recorder.event(NODE, "Normal", "A", "x")
        await rig.recorder.flush(60)
        assert len(rig.events()) == 1


async def test_what_is_refused_is_dropped_and_the_next_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as rig:
        rig.cluster.faults.add(Rule(answer(403, "events is forbidden")))
        rig.recorder.event(NODE, "Normal", "A", "x")
        rig.recorder.event(NODE, "Normal", "B", "x")
        await rig.recorder.flush(5)
        assert [event["reason"] for event in rig.events()] == ["B"]
        assert rig.dropped("refused") == 1
        assert "events is forbidden" in caplog.text


async def test_reporting_never_waits_and_the_surplus_is_dropped() -> None:
    async with running() as rig:
        rig.cluster.faults.add(Rule(delay(3600), times=0))
        for index in range(QUEUE_LENGTH + 50):
            rig.recorder.event(NODE, "Normal", "A", str(index))
        assert rig.dropped("queue full") == 50
        await rig.recorder.flush(3)
        assert asyncio.get_running_loop().time() == pytest.approx(3)


async def test_no_secret_and_no_novel_in_a_message() -> None:
    register_secret("planted-in-an-event")
    async with running() as rig:
        rig.recorder.event(NODE, "Normal", "A", "planted-in-an-event " + "x" * 5000)
        await rig.recorder.flush(5)
        message = rig.events()[0]["message"]
        assert message.startswith("[redacted] xxx")
        assert len(message) == 1024
