"""The HTTP door of the fake API server, its request log, its faults, and its control paths under /__sim__/."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from appkit.clock import Clock, SystemClock
from tests.kubesim.api import Api, Request
from tests.kubesim.faults import Action, Faults, Rule
from tests.kubesim.problems import status_object
from tests.kubesim.resources import Resource, parse_path
from tests.kubesim.store import Object, Store


@dataclass
class Entry:
    """One request of the log; `status` is 0 when it got no answer. A watch is entered when it begins."""

    at: float
    verb: str
    path: str
    resource: str
    params: dict[str, str]
    body: Any
    user_agent: str
    status: int = 0


class KubeSim:
    """A fake API server: `start()` listens, `aclose()` ends it; in between tests act on it through its methods.

    `state`: objects that exist at the start. `bookmark_s`: how often a silent watch is sent a bookmark.
    """

    def __init__(
        self,
        state: Iterable[Mapping[str, Any]] = (),
        *,
        seed: int = 0,
        bookmark_s: float = 60,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.store = Store(seed=seed, clock=self._clock)
        self.api = Api(self.store, bookmark_s=bookmark_s)
        self.faults = Faults()
        self.log: list[Entry] = []
        self.url = ""
        self._runner: web.AppRunner | None = None
        self._watches: dict[asyncio.Task[Any], web.Request] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        for obj in state:
            self.store.apply(dict(obj))

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen; the URL for a client. Port 0 picks a free one. After `aclose` it may be started again."""
        app = web.Application(client_max_size=8 * 1024**2)
        app.router.add_route("*", "/__sim__/{what:.*}", self._control)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # No waiting for open watches: whoever stops the server means it.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"
        return self.url

    async def aclose(self) -> None:
        """End all watches and stop listening; the objects stay."""
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # What a test does to the cluster

    def apply(self, obj: Mapping[str, Any]) -> Object:
        """Create or replace an object as it stands, status included."""
        return self.store.apply(dict(obj))

    def get(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> Object | None:
        """The stored object, or None. Not to be changed."""
        return self.store.find(Resource(group, plural), (namespace, name))

    def list(self, plural: str, *, namespace: str | None = None, group: str = "") -> list[Object]:
        """All stored objects of a resource."""
        return self.store.items(Resource(group, plural), namespace)

    def delete(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> None:
        """Delete an object."""
        self.store.delete(Resource(group, plural), (namespace, name))

    # What a test does to the server

    def cut_watches(self) -> int:
        """Break the connection of every running watch; how many there were."""
        for request in self._watches.values():
            _cut(request)
        return len(self._watches)

    def end_watches(self) -> int:
        """End every running watch properly, as after its time-out; how many there were."""
        self._ending.update(self._watches)
        for task in self._watches:
            task.cancel()
        return len(self._watches)

    def expire(self) -> None:
        """Forget the history and end the watches: whoever comes back with an old version gets 410."""
        self.api.forget_history()
        self.end_watches()

    def count(self, verb: str = "*", resource: str = "*", *, since: int = 0) -> int:
        """Requests in the log from entry number `since` on."""
        return sum(verb in ("*", each.verb) and resource in ("*", each.resource) for each in self.log[since:])

    # The door

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        body, readable = await _body(http)
        request = Request(http.method, http.path, dict(http.query), body, http.content_type)
        target = parse_path(http.path)
        entry = Entry(
            at=self._clock.monotonic(),
            verb=request.verb,
            path=http.path,
            resource=f"{target.resource.label}{'/' * bool(target.subresource)}{target.subresource}" if target else "",
            params=dict(http.query),
            body=body,
            user_agent=http.headers.get("User-Agent", ""),
        )
        self.log.append(entry)
        action = self.faults.action_for(request.verb, http.path)
        if action is not None and action.kind == "delay":
            await self._clock.sleep(action.seconds)
        if action is not None and action.kind == "cut_before":
            return _cut(http)
        if action is not None and action.kind == "answer":
            return _json(entry, action.status, status_object(action.status, action.message, reason=action.reason))
        if not readable:
            return _json(entry, 400, status_object(400, "the body is not JSON"))
        if request.verb == "watch" and target is not None:
            return await self._watch(http, request, entry)
        status, answer = self.api.answer(request)
        if action is not None and action.kind == "cut_after":
            return _cut(http)
        return _json(entry, status, answer)

    async def _watch(self, http: web.Request, request: Request, entry: Entry) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        entry.status = 200
        task = asyncio.current_task()
        assert task is not None
        self._watches[task] = http
        try:
            await response.prepare(http)
            async for line in self.api.watch(request):
                await response.write(line)
        except asyncio.CancelledError:
            if task not in self._ending:
                raise
            task.uncancel()
        except ConnectionError:
            pass  # the client went away
        finally:
            del self._watches[task]
            self._ending.discard(task)
        return response

    async def _control(self, http: web.Request) -> web.Response:
        """GET log, state; POST faults (rules), watches (`"cut"`, `"end"` or `"expire"`), objects (to apply)."""
        what = (http.method, http.match_info["what"])
        value = json.loads(await http.read() or b"null")
        answer: Any = {}
        match what:
            case ("GET", "log"):
                answer = [asdict(each) for each in self.log]
            case ("GET", "state"):
                answer = [item for resource in self.store.resources() for item in self.store.items(resource, None)]
            case ("POST", "faults"):
                self.faults.clear()
                for rule in value:
                    self.faults.add(Rule(**{**rule, "action": Action(**rule["action"])}))
            case ("POST", "watches"):
                {"cut": self.cut_watches, "end": self.end_watches, "expire": self.expire}[value]()
            case ("POST", "objects"):
                answer = [self.apply(obj) for obj in value]
            case _:
                return web.json_response({"error": "no such control path"}, status=404)
        return web.json_response(answer)


async def _body(http: web.Request) -> tuple[Any, bool]:
    """The decoded body (None when empty) and whether it could be read."""
    data = await http.read()
    try:
        return (json.loads(data) if data else None), True
    except ValueError:
        return None, False


def _json(entry: Entry, status: int, value: Any) -> web.Response:
    entry.status = status
    if isinstance(value, str):
        return web.Response(status=status, text=value)
    return web.json_response(value, status=status)


def _cut(http: web.Request) -> web.StreamResponse:
    if http.transport is not None:
        http.transport.abort()
    return web.Response(status=500)
