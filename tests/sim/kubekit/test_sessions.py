"""The session over real sockets: the official client's ways in, and every way an answer can be missing."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry

from appkit.metrics import Metrics
from appkit.settings import SettingsError
from kubekit.errors import KubeDenied, KubeGone, KubeNotFound, KubeUnavailable, KubeUnknownOutcome, KubeUnreachable
from kubekit.metrics import KubeMetrics
from kubekit.sessions import MERGE_PATCH, KubeSession, KubeSettings, connect
from tests.kubesim import KubeSim, Rule, answer, cut_after, cut_before, delay
from tests.kubesim.__main__ import kubeconfig

NODES = "/api/v1/nodes"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


async def test_create_read_patch_delete(sim: KubeSim, session: KubeSession) -> None:
    created = await session.request("POST", NODES, body=NODE)
    assert await session.request("GET", f"{NODES}/n1") == created
    patch = {"metadata": {"labels": {"zone": "pve1"}}}
    patched = await session.request("PATCH", f"{NODES}/n1", body=patch, content_type=MERGE_PATCH)
    assert patched["metadata"]["labels"] == {"zone": "pve1"}
    listed = await session.request("GET", NODES, params={"labelSelector": "zone in (pve1,pve2)", "limit": 1})
    assert [each["metadata"]["name"] for each in listed["items"]] == ["n1"]
    body = {"preconditions": {"uid": created["metadata"]["uid"]}}
    assert (await session.request("DELETE", f"{NODES}/n1", body=body))["status"] == "Success"
    with pytest.raises(KubeNotFound, match='nodes "n1" not found'):
        await session.request("GET", f"{NODES}/n1")
    assert {each.user_agent.partition("/")[0] for each in sim.log} == {"pvecloud"}


async def test_a_kubeconfig_and_its_contexts(sim: KubeSim, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig(sim.url))
    session = await connect(KubeSettings(kubeconfig=path, context="kubesim"))
    assert (await session.request("GET", "/version"))["minor"] == "37"
    await session.aclose()
    moved = await connect(KubeSettings(kubeconfig=path, server="http://127.0.0.1:1"))
    with pytest.raises(KubeUnreachable):
        await moved.request("GET", "/version")
    await moved.aclose()


@pytest.mark.parametrize("text", ["", "{}", "not: [yaml", "clusters: 5"])
async def test_a_kubeconfig_that_cannot_be_used_is_a_settings_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        await connect(KubeSettings(kubeconfig=path))
    assert str(path) in refused.value.problems[0]


async def test_no_kubeconfig_and_no_such_context_and_no_pod(sim: KubeSim, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="none"):
        await connect(KubeSettings(kubeconfig=tmp_path / "none"))
    path = tmp_path / "config"
    path.write_text(kubeconfig(sim.url))
    with pytest.raises(SettingsError, match="other"):
        await connect(KubeSettings(kubeconfig=path, context="other"))
    with pytest.raises(SettingsError, match="service account of the Pod"):
        await connect(KubeSettings())


async def test_a_rotated_token_is_read_again_after_401(tmp_path: Path) -> None:
    seen: list[str] = []
    token = tmp_path / "token"
    token.write_text("first")

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response({}, status=200 if seen[-1] == f"Bearer {token.read_text()}" else 401)

    app = web.Application()
    app.router.add_get("/version", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = yaml.safe_load(kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    config["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    session = await connect(KubeSettings(kubeconfig=path))
    await session.request("GET", "/version")
    token.write_text("second")
    await session.request("GET", "/version")
    assert seen == ["Bearer first", "Bearer first", "Bearer second"]
    token.write_text("third")
    await session.request("GET", "/version")
    await session.aclose()
    await runner.cleanup()


async def test_nobody_listens(session: KubeSession, sim: KubeSim) -> None:
    await sim.aclose()
    with pytest.raises(KubeUnreachable, match="no connection"):
        await session.request("GET", NODES)


async def test_a_connection_cut_before_and_after_the_effect(session: KubeSession, sim: KubeSim) -> None:
    sim.faults.add(Rule(cut_before(), verb="create"))
    sim.faults.add(Rule(cut_after(), verb="create", nth=2))
    with pytest.raises(KubeUnknownOutcome):
        await session.request("POST", NODES, body=NODE)
    assert sim.items("nodes") == []
    with pytest.raises(KubeUnknownOutcome):
        await session.request("POST", NODES, body=NODE)
    assert len(sim.items("nodes")) == 1


async def test_an_answer_that_takes_too_long(session: KubeSession, sim: KubeSim) -> None:
    sim.faults.add(Rule(delay(0.3), times=0))
    with pytest.raises(KubeUnknownOutcome, match="within the time-out"):
        await session.request("GET", NODES, timeout_s=0.05)
    assert await session.request("GET", NODES, timeout_s=1)


async def test_statuses_become_errors_and_are_counted(sim: KubeSim) -> None:
    registry = CollectorRegistry()
    metrics = KubeMetrics(Metrics(registry))
    session = await connect(KubeSettings(server=sim.url), metrics=metrics)
    sim.faults.add(Rule(answer(403, "nodes is forbidden"), verb="list"))
    sim.faults.add(Rule(answer(503), verb="list", nth=2))
    with pytest.raises(KubeDenied, match="nodes is forbidden"):
        await session.request("GET", NODES)
    with pytest.raises(KubeUnavailable):
        await session.request("GET", NODES)
    await session.request("GET", NODES)
    await session.aclose()
    dead = await connect(KubeSettings(server="http://127.0.0.1:1"), metrics=metrics)
    with pytest.raises(KubeUnreachable):
        await dead.request("GET", NODES)
    await dead.aclose()
    for code in ("403", "503", "200", "none"):
        labels = {"verb": "list", "resource": "nodes", "code": code}
        assert registry.get_sample_value("rest_client_requests_total", labels) == 1
    labels = {"verb": "list", "resource": "nodes"}
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", labels) == 4


async def test_an_answer_of_something_else_than_an_api_server(sim: KubeSim, session: KubeSession) -> None:
    with pytest.raises(KubeUnavailable, match="is this an API server"):
        await session.request("GET", "/healthz")


async def test_a_watch_with_objects_of_any_size(sim: KubeSim, session: KubeSession) -> None:
    big: dict[str, Any] = {**NODE, "status": {"images": ["x" * 6_000_000, "é"]}}
    sim.apply(big)
    async with aclosing(session.watch(NODES)) as events:
        event = await anext(events)
        assert event["object"]["status"] == big["status"]
        sim.apply(NODE)
        assert (await anext(events))["type"] == "MODIFIED"


async def test_the_ends_of_a_watch(sim: KubeSim, session: KubeSession) -> None:
    version = sim.apply(NODE)["metadata"]["resourceVersion"]
    params = {"resourceVersion": version, "timeoutSeconds": 1}
    started = asyncio.get_running_loop().time()
    assert [event async for event in session.watch(NODES, params)] == []
    assert 0.9 < asyncio.get_running_loop().time() - started < 2

    async with aclosing(session.watch(NODES)) as events:
        await anext(events)
        sim.cut_watches()
        with pytest.raises(KubeUnknownOutcome, match="broke"):
            await anext(events)

    sim.apply({**NODE, "metadata": {"name": "n2"}})
    sim.expire()
    with pytest.raises(KubeGone):
        async with aclosing(session.watch(NODES, params)) as events:
            await anext(events)


async def test_a_json_patch_and_a_strategic_one(sim: KubeSim, session: KubeSession) -> None:
    sim.apply(NODE)
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    kind = "application/json-patch+json"
    patched = await session.request("PATCH", f"{NODES}/n1", body=operations, content_type=kind)
    assert json.dumps(patched["metadata"]["labels"]) == '{"a": "b"}'
    kind = "application/strategic-merge-patch+json"
    patched = await session.request("PATCH", f"{NODES}/n1", body={"spec": {"taints": []}}, content_type=kind)
    assert patched["spec"] == {"taints": []}
