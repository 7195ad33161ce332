"""The HTTP door of the fake cluster, and its control paths under /__sim__/ for tests in other processes."""

import json
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from aiohttp import web

from tests.kubesim.api import Cut, Request
from tests.kubesim.cluster import Cluster
from tests.kubesim.faults import Action, Rule
from tests.kubesim.problems import status_object


class KubeSim(Cluster):
    """A fake cluster that listens: `start()` begins that, `aclose()` ends it; the objects stay in between."""

    url = ""
    _runner: web.AppRunner | None = None

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen; the URL for a client. Port 0 picks a free one."""
        app = web.Application(client_max_size=8 * 1024**2)
        app.router.add_route("*", "/__sim__/{what:.*}", self._control)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # No waiting for open connections: whoever stops the server means it.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"
        return self.url

    async def aclose(self) -> None:
        """End all watches and stop listening."""
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        data = await http.read()
        try:
            body = json.loads(data) if data else None
        except ValueError:
            return web.json_response(status_object(400, "the body is not JSON"), status=400)
        request = Request(http.method, http.path, dict(http.query), body, http.content_type)
        try:
            answer = await self.exchange(request, user_agent=http.headers.get("User-Agent", ""))
            if answer is None:
                return await self._stream(http, request)
        except Cut:
            return _abort(http)
        status, value = answer
        if isinstance(value, str):
            return web.Response(status=status, text=value)
        return web.json_response(value, status=status)

    async def _stream(self, http: web.Request, request: Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(http)
        try:
            async with aclosing(self.stream(request)) as lines:
                async for line in lines:
                    await response.write(line)
        except ConnectionError:
            pass  # the client went away
        return response

    async def _control(self, http: web.Request) -> web.Response:
        """GET log (`?since=N`), state; POST faults (a rule), watches (`"cut"`, `"end"`, `"expire"`), objects (a list).

        DELETE faults forgets the rules.
        """
        value = json.loads(await http.read() or b"null")
        answer: Any = {}
        match http.method, http.match_info["what"]:
            case ("GET", "log"):
                answer = [asdict(each) for each in self.log[int(http.query.get("since", "0")) :]]
            case ("GET", "state"):
                answer = [item for resource in self.store.resources() for item in self.store.items(resource, None)]
            case ("POST", "faults"):
                self.faults.add(Rule(**{**value, "action": Action(**value["action"])}))
            case ("DELETE", "faults"):
                self.faults.clear()
            case ("POST", "watches"):
                {"cut": self.cut_watches, "end": self.end_watches, "expire": self.expire}[value]()
            case ("POST", "objects"):
                answer = [self.apply(obj) for obj in value]
            case _:
                return web.json_response({"error": "no such control path"}, status=404)
        return web.json_response(answer)


def _abort(http: web.Request) -> web.StreamResponse:
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=500)
