"""A World behind httpx: no sockets, same loop, virtual time if the loop's is.

Must not interpret requests; it only carries them, and turns what the world drops into httpx's errors.
"""

import asyncio

import httpx

from tests.pvesim.errors import Cut
from tests.pvesim.requests import SimRequest, SimResponse
from tests.pvesim.state import Node
from tests.pvesim.world import World


class SimTransport(httpx.AsyncBaseTransport):
    """Requests to a host named like a node (or its IP) go to that node, others to the first. Time-outs are honoured."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request."""
        node = self._node_of(request.url.host)
        if node is not None and node.dark in ("cut", "no-pveproxy"):
            raise httpx.ConnectError(f"connection to {request.url.host} failed", request=request)
        body = await request.aread()
        headers = {name.lower(): value for name, value in request.headers.items()}
        sim_request = SimRequest(
            request.method, request.url.raw_path.decode("ascii"), headers, body, node.name if node else ""
        )
        try:
            response = await self._with_read_timeout(request, sim_request)
        except Cut as error:
            raise httpx.RemoteProtocolError(f"server disconnected {error}", request=request) from error
        return httpx.Response(
            response.status,
            headers=dict(response.headers),
            content=response.body,
            extensions={"reason_phrase": response.reason.encode("utf-8", "replace")},
            request=request,
        )

    def _node_of(self, host: str) -> Node | None:
        return next((node for node in self._world.nodes if host in (node.name, node.ip)), None)

    async def _with_read_timeout(self, request: httpx.Request, sim_request: SimRequest) -> SimResponse:
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        try:
            async with asyncio.timeout(limits.get("read")):
                return await self._world.handle(sim_request)
        except TimeoutError as error:
            raise httpx.ReadTimeout("read timed out", request=request) from error
