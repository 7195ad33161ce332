import ssl

import httpx
import pytest

from appkit.errors import Denied, Unavailable
from csi_node.kube_access import KubeAccess
from csi_node.own_node import OwnNode

ACCESS = KubeAccess("https://kube.test:6443", ssl.create_default_context(), "token-1")


class Api(httpx.AsyncBaseTransport):
    """An API server that knows one Node and checks the token."""

    def __init__(self, status: int = 200, *, down: bool = False) -> None:
        self.status = status
        self.down = down

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("connection refused")
        if request.headers.get("Authorization") != "Bearer token-1":
            return httpx.Response(401)
        if request.url.path != "/api/v1/nodes/worker-11":
            return httpx.Response(404, text="no such node")
        return httpx.Response(self.status, json={"metadata": {"name": "worker-11"}})


async def test_found() -> None:
    assert await OwnNode("worker-11", lambda: ACCESS, transport=Api()).get() == {"metadata": {"name": "worker-11"}}


async def test_no_such_node() -> None:
    with pytest.raises(Unavailable, match="Node worker-12 does not exist yet"):
        await OwnNode("worker-12", lambda: ACCESS, transport=Api()).get()


@pytest.mark.parametrize(("status", "token"), [(403, "token-1"), (200, "other")])
async def test_refused(status: int, token: str) -> None:
    access = KubeAccess(ACCESS.url, ACCESS.tls, token)
    with pytest.raises(Denied, match="needs `get` on `nodes`") as caught:
        await OwnNode("worker-11", lambda: access, transport=Api(status)).get()
    assert caught.value.privilege == "get nodes"
    assert "token" not in str(caught.value)


async def test_away_or_broken() -> None:
    with pytest.raises(Unavailable, match=r"https://kube.test:6443 does not answer: connection refused"):
        await OwnNode("worker-11", lambda: ACCESS, transport=Api(down=True)).get()
    with pytest.raises(Unavailable, match="answered 500"):
        await OwnNode("worker-11", lambda: ACCESS, transport=Api(500)).get()


async def test_answer_that_is_no_json() -> None:
    class Proxy(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, text="<html>please log in</html>")

    with pytest.raises(Unavailable, match="something that is no Node"):
        await OwnNode("worker-11", lambda: ACCESS, transport=Proxy()).get()
