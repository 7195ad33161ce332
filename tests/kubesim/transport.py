"""The in-process door: kubekit's sessions on the fake cluster without sockets, hence also on virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from kubekit.errors import KubeUnknownOutcome, KubeUnreachable
from kubekit.sessions import KubeSession
from kubekit.transport import Answer, Call
from tests.kubesim.api import Cut, Request
from tests.kubesim.cluster import Cluster


class SimTransport:
    """A `kubekit.transport.Transport`. While `reachable` is False nothing can be sent."""

    def __init__(self, cluster: Cluster, *, user_agent: str = "in-process") -> None:
        self._cluster = cluster
        self._user_agent = user_agent
        self.reachable = True

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        if not self.reachable:
            raise KubeUnreachable("no connection", method=call.method, path=call.path)
        # Through JSON, so that neither side can change what the other holds.
        body = json.loads(json.dumps(call.body))
        request = Request(call.method, call.path, call.query, body, call.content_type)
        try:
            async with asyncio.timeout(call.total_s):
                answer = await self._cluster.exchange(request, user_agent=self._user_agent)
        except (Cut, TimeoutError) as error:
            raise KubeUnknownOutcome("no answer", method=call.method, path=call.path) from error
        if answer is not None:
            yield _Whole(*answer)
            return
        async with aclosing(self._cluster.stream(request)) as lines:
            yield _Stream(lines, call)

    async def aclose(self) -> None:
        self.reachable = False


class _Whole:
    def __init__(self, status: int, value: Any) -> None:
        self.status = status
        self._data = json.dumps(value).encode()

    async def read(self) -> bytes:
        return self._data

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._data


class _Stream:
    status = 200

    def __init__(self, lines: AsyncIterator[bytes], call: Call) -> None:
        self._lines = lines
        self._call = call

    async def read(self) -> bytes:
        return b"".join([line async for line in self._lines])

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._call.silence_s):
                    line = await anext(self._lines, None)
            except (Cut, TimeoutError) as error:
                text = "the connection broke" if isinstance(error, Cut) else "no answer within the time-out"
                raise KubeUnknownOutcome(text, method=self._call.method, path=self._call.path) from error
            if line is None:
                return
            yield line


def in_process(cluster: Cluster, **arguments: Any) -> tuple[KubeSession, SimTransport]:
    """A session on `cluster` without sockets, and its transport; arguments are the session's own."""
    transport = SimTransport(cluster)
    return KubeSession(transport, **arguments), transport
