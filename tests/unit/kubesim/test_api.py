"""The semantics that clients rely on, asked of the API without HTTP."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.kubesim.api import Cut, Request, WatchControl
from tests.kubesim.cluster import Cluster

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MERGE = "application/merge-patch+json"


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"addresses": []},
    }


def ask(cluster: Cluster, method: str, path: str, body: Any = None, content_type: str = MERGE, **params: str) -> Any:
    status, answer = cluster.api.answer(Request(method, path, params, body, content_type))
    return status, answer


@pytest.fixture
def cluster() -> Cluster:
    return Cluster([node("n1", zone="a"), node("n2", zone="b")])


def test_create_read_delete(cluster: Cluster) -> None:
    status, created = ask(cluster, "POST", LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert (status, created["kind"], created["metadata"]["namespace"]) == (201, "Lease", "kube-system")
    assert ask(cluster, "GET", f"{LEASES}/l") == (200, created)
    status, again = ask(cluster, "POST", LEASES, {"metadata": {"name": "l"}})
    assert (status, again["reason"]) == (409, "AlreadyExists")
    assert ask(cluster, "DELETE", f"{LEASES}/l")[0] == 200
    status, gone = ask(cluster, "GET", f"{LEASES}/l")
    assert (status, gone["message"]) == (404, 'leases.coordination.k8s.io "l" not found')


def test_generated_names(cluster: Cluster) -> None:
    _, one = ask(cluster, "POST", LEASES, {"metadata": {"generateName": "l-"}})
    _, two = ask(cluster, "POST", LEASES, {"metadata": {"generateName": "l-"}})
    assert one["metadata"]["name"].startswith("l-")
    assert one["metadata"]["name"] != two["metadata"]["name"]


def test_every_write_has_a_newer_version_and_an_empty_one_has_none(cluster: Cluster) -> None:
    _, before = ask(cluster, "GET", f"{NODES}/n1")
    _, after = ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"labels": {"x": "1"}}})
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"labels": {"x": "1"}}}) == (200, after)


def test_generation_follows_the_spec_alone(cluster: Cluster) -> None:
    _, labelled = ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"labels": {"x": "1"}}})
    _, changed = ask(cluster, "PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}})
    assert (labelled["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_stale_version_is_a_conflict(cluster: Cluster, method: str) -> None:
    _, read = ask(cluster, "GET", f"{NODES}/n1")
    ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"labels": {"x": "1"}}})
    status, answer = ask(cluster, method, f"{NODES}/n1", {**read, "spec": {"unschedulable": True}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert "please apply your changes to the latest version" in answer["message"]


def test_another_uid_is_a_conflict(cluster: Cluster) -> None:
    status, answer = ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"uid": "other"}, "spec": {"podCIDR": "x"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    status, answer = ask(cluster, "DELETE", f"{NODES}/n1", {"preconditions": {"uid": "other"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert cluster.get("nodes", "n1") is not None


def test_the_status_is_written_through_its_sub_resource_alone(cluster: Cluster) -> None:
    patch = {"spec": {"providerID": "p"}, "status": {"addresses": [{"type": "Hostname", "address": "n1"}]}}
    _, main = ask(cluster, "PATCH", f"{NODES}/n1", patch)
    assert (main["spec"], main["status"]) == ({"providerID": "p"}, {"addresses": []})
    patch["spec"]["providerID"] = "ignored"  # type: ignore[index]
    _, status = ask(cluster, "PATCH", f"{NODES}/n1/status", patch)
    assert (status["spec"], status["status"]) == ({"providerID": "p"}, patch["status"])
    assert ask(cluster, "PATCH", f"{LEASES}/l/status", {})[0] == 404


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"spec": {"providerID": "proxmox://r/2"}}, "may not change providerID"),
        ({"spec": {"taints": [{"key": "a", "effect": "e"}, {"key": "a", "effect": "e"}]}}, "Duplicate value"),
        ({"metadata": {"labels": {"x": "no spaces"}}}, "not a valid label value"),
        ({"metadata": {"labels": {"x": "a" * 64}}}, "not a valid label value"),
        ({"metadata": {"labels": {"a/b/c": "x"}}}, "not a qualified name"),
        ({"metadata": {"name": "other"}}, "immutable"),
    ],
)
def test_invalid_changes(cluster: Cluster, patch: dict[str, Any], text: str) -> None:
    ask(cluster, "PATCH", f"{NODES}/n1", {"spec": {"providerID": "proxmox://r/1"}})
    status, answer = ask(cluster, "PATCH", f"{NODES}/n1", patch)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert text in answer["message"]


def test_a_lease_cannot_be_overwritten_unseen(cluster: Cluster) -> None:
    ask(cluster, "POST", LEASES, {"metadata": {"name": "l"}})
    assert ask(cluster, "PUT", f"{LEASES}/l", {"metadata": {"name": "l"}})[0] == 422


def test_finalizers_hold_an_object(cluster: Cluster) -> None:
    ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"finalizers": ["x/y"]}})
    _, marked = ask(cluster, "DELETE", f"{NODES}/n1")
    assert marked["metadata"]["deletionTimestamp"]
    assert ask(cluster, "GET", f"{NODES}/n1")[0] == 200
    ask(cluster, "PATCH", f"{NODES}/n1", {"metadata": {"finalizers": None}})
    assert ask(cluster, "GET", f"{NODES}/n1")[0] == 404


def test_lists_are_selected_paged_and_without_kinds(cluster: Cluster) -> None:
    cluster.apply(node("n3", zone="a"))
    _, page = ask(cluster, "GET", NODES, labelSelector="zone=a", limit="1")
    assert (page["kind"], [each["metadata"]["name"] for each in page["items"]]) == ("NodeList", ["n1"])
    assert "kind" not in page["items"][0]
    cluster.delete("nodes", "n3")  # the page shows the moment of the first one
    _, rest = ask(cluster, "GET", NODES, **{"limit": "1", "continue": page["metadata"]["continue"]})
    assert [each["metadata"]["name"] for each in rest["items"]] == ["n3"]
    assert "continue" not in rest["metadata"]


def test_a_page_from_before_the_compaction_is_gone(cluster: Cluster) -> None:
    _, page = ask(cluster, "GET", NODES, limit="1")
    cluster.expire()
    status, answer = ask(cluster, "GET", NODES, **{"limit": "1", "continue": page["metadata"]["continue"]})
    assert (status, answer["reason"]) == (410, "Expired")


def test_other_paths_and_methods(cluster: Cluster) -> None:
    assert ask(cluster, "GET", "/readyz") == (200, "ok")
    assert ask(cluster, "GET", "/version")[1]["minor"] == "37"
    assert ask(cluster, "GET", "/nothing")[0] == 404
    assert ask(cluster, "PUT", NODES)[0] == 405
    assert ask(cluster, "POST", NODES, [1])[0] == 400
    assert ask(cluster, "PATCH", f"{NODES}/n1", {}, content_type="text/plain")[0] == 415


async def watch(cluster: Cluster, seen: list[tuple[str, str]], control: WatchControl, **params: str) -> None:
    request = Request("GET", NODES, {"watch": "true", **params})
    async with aclosing(cluster.api.watch(request, control)) as lines:
        async for line in lines:
            event = json.loads(line)
            seen.append((event["type"], event["object"]["metadata"].get("name", event["object"].get("reason"))))


@pytest.mark.looptime
class TestWatch:
    async def test_from_a_version_nothing_is_missed_and_nothing_comes_twice(self, cluster: Cluster) -> None:
        version = str(cluster.store.version)
        cluster.apply(node("n3"))
        seen: list[tuple[str, str]] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(cluster, seen, WatchControl(), resourceVersion=version, timeoutSeconds="10"))
            await asyncio.sleep(1)
            cluster.apply(node("n3", x="y"))
            cluster.delete("nodes", "n1")
        assert seen == [("ADDED", "n3"), ("MODIFIED", "n3"), ("DELETED", "n1")]

    async def test_without_a_version_it_begins_with_what_is_there(self, cluster: Cluster) -> None:
        seen: list[tuple[str, str]] = []
        await watch(cluster, seen, WatchControl(), timeoutSeconds="1")
        assert seen == [("ADDED", "n1"), ("ADDED", "n2")]

    async def test_a_selector_turns_changes_into_comings_and_goings(self, cluster: Cluster) -> None:
        seen: list[tuple[str, str]] = []
        params = {"labelSelector": "zone=a", "resourceVersion": str(cluster.store.version), "timeoutSeconds": "10"}
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(cluster, seen, WatchControl(), **params))
            await asyncio.sleep(1)
            cluster.apply(node("n1", zone="b"))
            cluster.apply(node("n2", zone="a"))
            cluster.apply(node("n2", zone="a", other="x"))
            cluster.apply(node("n3", zone="c"))
        assert seen == [("DELETED", "n1"), ("ADDED", "n2"), ("MODIFIED", "n2")]

    async def test_silence_is_broken_by_bookmarks(self, cluster: Cluster) -> None:
        seen: list[tuple[str, str]] = []
        params = {"resourceVersion": str(cluster.store.version), "timeoutSeconds": "150"}
        await watch(cluster, seen, WatchControl(), allowWatchBookmarks="true", **params)
        assert [kind for kind, _ in seen] == ["BOOKMARK"] * 3  # at 60 s, at 120 s, and before it ends

    async def test_a_forgotten_version_is_an_error_event(self, cluster: Cluster) -> None:
        version = str(cluster.store.version)
        cluster.expire()
        seen: list[tuple[str, str]] = []
        await watch(cluster, seen, WatchControl(), resourceVersion=version)
        assert seen == [("ERROR", "Expired")]

    async def test_it_can_be_ended_and_cut(self, cluster: Cluster) -> None:
        control, seen = WatchControl(), list[tuple[str, str]]()
        loop = asyncio.get_running_loop()
        loop.call_later(5, control.end)
        await watch(cluster, seen, control, resourceVersion=str(cluster.store.version))
        assert loop.time() == pytest.approx(5)
        control = WatchControl()
        loop.call_later(5, control.cut)
        with pytest.raises(Cut):
            await watch(cluster, seen, control, resourceVersion=str(cluster.store.version))


def test_a_seed_repeats_the_uids() -> None:
    one, other = (Cluster([node("n1")], seed=3).get("nodes", "n1") for _ in range(2))
    assert one is not None
    assert other is not None
    assert one["metadata"]["uid"] == other["metadata"]["uid"]
