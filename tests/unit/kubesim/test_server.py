"""The control paths, by which tests in other processes act on the server."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.kubesim import KubeSim

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    sim = KubeSim()
    async with aiohttp.ClientSession(await sim.start()) as http:
        yield http
    await sim.aclose()


async def call(http: aiohttp.ClientSession, method: str, path: str, value: Any = None) -> tuple[int, Any]:
    async with http.request(method, path, json=value) as answer:
        return answer.status, await answer.json()


async def test_objects_state_and_log(http: aiohttp.ClientSession) -> None:
    status, applied = await call(http, "POST", "/__sim__/objects", [NODE])
    assert (status, applied[0]["metadata"]["name"]) == (200, "n1")
    assert await call(http, "GET", "/__sim__/state") == (200, applied)
    await call(http, "GET", "/api/v1/nodes/n1")
    await call(http, "GET", "/api/v1/nodes/n2")
    _, log = await call(http, "GET", "/__sim__/log")
    assert [(each["verb"], each["resource"], each["status"]) for each in log] == [
        ("get", "nodes", 200),
        ("get", "nodes", 404),
    ]
    assert len((await call(http, "GET", "/__sim__/log?since=1"))[1]) == 1
    assert (await call(http, "GET", "/__sim__/nothing"))[0] == 404


async def test_faults(http: aiohttp.ClientSession) -> None:
    rule = {"verb": "list", "times": 0, "action": {"kind": "answer", "status": 503, "message": "away"}}
    await call(http, "POST", "/__sim__/faults", rule)
    assert (await call(http, "GET", "/api/v1/nodes"))[0] == 503
    await call(http, "DELETE", "/__sim__/faults")
    assert (await call(http, "GET", "/api/v1/nodes"))[0] == 200


async def test_watches(http: aiohttp.ClientSession) -> None:
    await call(http, "POST", "/__sim__/objects", [NODE])
    async with http.get("/api/v1/nodes?watch=true") as watch:
        assert b'"ADDED"' in await watch.content.readline()
        await call(http, "POST", "/__sim__/watches", "end")
        assert await watch.content.read() == b""
    async with http.get("/api/v1/nodes?watch=true") as watch:
        await watch.content.readline()
        await call(http, "POST", "/__sim__/watches", "cut")
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()


async def test_a_body_that_is_not_json(http: aiohttp.ClientSession) -> None:
    async with http.post("/api/v1/nodes", data=b"{") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")
